"""The worlds of one lowering: the activations and iterations that the call at hand leads to; see ``examples``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from janusc.lowering.ir import Value

_MOST_WORLDS = 400
NO_EXAMPLE: Any = object()
OUTSIDE = 0
"""Stands for the call at hand itself, which all worlds are inside of."""


class Worlds:
    """The worlds of one lowering: the active ones, and the examples of values."""

    def __init__(self) -> None:
        self.count = 0
        self.active: frozenset[int] = frozenset()
        self.parents: dict[int, int] = {}
        self.examples: dict[Value, dict[int, Any]] = {}
        self.settled: dict[Value, tuple[Any, Any]] = {}  # what was asserted of a value, and the region it was in
        self.tested: dict[Value, tuple[Value, type]] = {}  # tests for the class of a value, by their outcome
        self.claims: dict[
            Value, tuple[type, Any]
        ] = {}  # the class that a value was tested for, and the region it is in

    def spawn(self, parent: int | None = None) -> int | None:
        """A new world, seen from inside another one; None where there are enough of them."""
        if self.count >= _MOST_WORLDS:
            return None
        self.count += 1
        if parent is not None:
            self.parents[self.count] = parent
        return self.count

    def note(self, value: Value, examples: Mapping[int, Any]) -> None:
        """The examples of a new value."""
        if examples:
            self.examples[value] = dict(examples)

    def example(self, value: Value, world: int) -> Any:
        """The example of a value in a world or one that it is inside of."""
        found = self.examples.get(value)
        if found is None:
            return NO_EXAMPLE
        at: int | None = world
        while at is not None:
            if at in found:
                return found[at]
            at = self.parents.get(at)
        return found.get(OUTSIDE, NO_EXAMPLE)
