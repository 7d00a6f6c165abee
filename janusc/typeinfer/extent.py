"""How much code profiled calls run through: the lines of each function, and the loops that lines are in."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gast
import torch

from janusc.frontend import parse
from janusc.frontend.nodes import weight
from janusc.frontend.parse import ParsedFunction
from janusc.source import count_lines, lines_of

_SEQUENTIAL = torch.nn.Sequential.forward.__code__
Place = tuple[tuple[str, int], ...]
"""The loops around a call, by their sites, each with the number of its pass."""

MOST_PLACES = 500
"""Of the calls of one function: more are not told apart."""


@dataclass(frozen=True)
class ForLoop:
    """A ``for``: its site, that of its items, what a pass weighs, and the loops around it in the function.

    ``fixed`` is whether the program itself says how often it runs, as in ``range(3)``; ``parts`` whether it runs over
    the parts of a ``Sequential``.
    """

    site: str
    items: str
    weight: int
    lines: int
    fixed: bool
    parts: bool
    around: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Extent:
    """The lines of a function, and its loops."""

    lines: int
    loops: tuple[ForLoop, ...]


class Extents:
    """The extents of the functions that were called, and where they were called; safe to use from several threads."""

    def __init__(self) -> None:
        self._places: dict[Extent, set[Place]] = {}

    def note(self, extent: Extent, place: Place) -> None:
        """A function was called there."""
        places = self._places.setdefault(extent, set())
        if len(places) < MOST_PLACES:
            places.add(place)

    def items(self) -> list[tuple[Extent, list[Place]]]:
        """Each function, with the places that it was called at."""
        return [(extent, list(places)) for extent, places in list(self._places.items())]


def measure(parsed: ParsedFunction) -> Extent:
    """The extent of a function; torch's own has no lines that count."""
    return Extent(
        0 if is_sequential(parsed.code) else count_lines(parsed.code), tuple(_loops(parsed, parsed.tree.body, ()))
    )


def _loops(parsed: ParsedFunction, nodes: list[Any], around: tuple[str, ...]) -> Iterator[ForLoop]:
    for node in nodes:
        inside = around
        if isinstance(node, gast.For):
            inside = (*around, parse.site(parsed, node))
            yield _loop(parsed, node, around)
        if not isinstance(node, (gast.FunctionDef, gast.AsyncFunctionDef, gast.ClassDef, gast.expr)):
            yield from _loops(parsed, list(gast.iter_child_nodes(node)), inside)


def _loop(parsed: ParsedFunction, node: Any, around: tuple[str, ...]) -> ForLoop:
    return ForLoop(
        site=parse.site(parsed, node),
        items=parse.site(parsed, node, "Item"),
        weight=weight(node.body),
        lines=0 if is_sequential(parsed.code) else _lines_in(parsed.code, node.body),
        fixed=_is_fixed(node.iter),
        parts=is_sequential(parsed.code),
        around=around,
    )


def is_sequential(code: types.CodeType) -> bool:
    """Whether this is the forward of torch's ``Sequential``."""
    return code is _SEQUENTIAL


def _lines_in(code: types.CodeType, body: list[Any]) -> int:
    first, last = body[0].lineno, body[-1].end_lineno or body[-1].lineno
    return sum(line is not None and first <= line <= last for line in lines_of(code))


def _is_fixed(iterable: Any) -> bool:
    """Whether it is a display, or a range of numbers that stand there."""
    if isinstance(iterable, gast.Call) and isinstance(iterable.func, gast.Name) and iterable.func.id == "range":
        return all(isinstance(argument, gast.Constant) for argument in iterable.args)
    return isinstance(iterable, (gast.Tuple, gast.List))
