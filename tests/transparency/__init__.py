"""Programs that start harmlessly and then change something under the compiler.

They follow the conventions of `corpus` and run in the same way; here each family is one kind of change.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import torch
from corpus import Call, Program

__all__ = ["PROGRAMS", "Call", "calls", "change", "ones", "patched", "program"]

PROGRAMS: dict[str, Program] = {}


def program(graph: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a maker under ``family.name``; ``graph``: some call must run in a graph."""

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{make.__module__.rpartition('.')[2]}.{make.__name__}"
        if name in PROGRAMS:
            raise KeyError(f"{name} is registered already")
        PROGRAMS[name] = Program(name, make, graph, None, False)
        return make

    return register


def ones(count: int, *shape: int) -> list[tuple[torch.Tensor]]:
    """The arguments of some calls: one tensor of ones for each."""
    return [(torch.ones(shape or (3,)),) for _ in range(count)]


def change(action: Callable[[], Any]) -> Callable[[Any], Any]:
    """A call after something was done."""

    def step(f: Any) -> Any:
        action()
        return f(torch.ones(3))

    return step


def calls(*actions: Callable[[], Any]) -> list[Any]:
    """Four calls, then for each action one right after it and another one."""
    return [*ones(4), *(step for action in actions for step in (change(action), *ones(1)))]


def patched(holder: Any, name: str, replacement: Any) -> Callable[[Any], Any]:
    """A call during which an attribute of a module or class is another one."""

    def step(f: Any) -> Any:
        original = getattr(holder, name)
        setattr(holder, name, replacement)
        try:
            return f(torch.ones(3))
        finally:
            setattr(holder, name, original)

    return step


for _family in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_family}")
