"""Real small programs, each run eagerly and compiled by several tests.

A program is a function that makes a fresh world: it returns the function under test, the calls to make (tuples of
arguments, `Call` objects, or callables that are given the function), and, where closure, arguments and globals of the
function don't lead to it, more state to look at. The calls first confirm what an optimistic compiler would assume, then
break it. Random numbers are seeded before a program is made.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from janusc.testing import Call, World

__all__ = ["PROGRAMS", "Call", "Program", "program"]


@dataclass(frozen=True)
class Program:
    """One registered program.

    ``graph``: some call must run in a graph. ``max_graphs``: no more graphs than this over all calls. ``decorates``:
    the maker takes the decorator and applies it itself, for instance inside a class body.
    """

    name: str
    make: Callable[..., Any]
    graph: bool
    max_graphs: int | None
    decorates: bool

    def world(self, decorate: Callable[[Any], Any]) -> World:
        """A fresh world with the decorator applied."""
        function, steps, *more = self.make(decorate) if self.decorates else self.make()
        observed = {f"state {i}": state for i, state in enumerate(more)}
        if self.decorates:
            return World(function, steps, observed)
        return World(decorate(function), steps, {"function": function, **observed})


PROGRAMS: dict[str, Program] = {}


def program(
    graph: bool = True, max_graphs: int | None = None, decorates: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a maker under ``family.name``."""

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{make.__module__.rpartition('.')[2]}.{make.__name__}"
        if name in PROGRAMS:
            raise KeyError(f"{name} is registered already")
        PROGRAMS[name] = Program(name, make, graph, max_graphs, decorates)
        return make

    return register


for _family in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_family}")
