"""What a backend is, and the table of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from janusc import options
from janusc.lowering.ir import Graph, Value
from janusc.registry import Registry
from janusc.runtime.blocks import Block
from janusc.runtime.transaction import UndoLog


class Place(Protocol):
    """A place in emitted code that may have kernels."""

    def wait(self) -> None:
        """Wait for what is on its way to make it faster."""

    def report(self) -> list[str]:
        """What a user may know of it, in lines."""


class StepPlace(Place, Protocol):
    """A statement ``optimizer.step()``."""

    def __call__(self, optimizer: Any) -> bool:
        """Make a step; False, with nothing done, where torch has to make it."""


class Site(Place, Protocol):
    """A block in emitted code; ``stop`` is called after its nodes were run one by one, where it ``measures``."""

    @property
    def awake(self) -> bool:
        """Whether it is of use to call it."""

    @property
    def measures(self) -> bool: ...

    @property
    def running(self) -> object: ...

    def stop(self, outputs: Sequence[Any]) -> None: ...

    def __call__(self, undo: UndoLog | None, *inputs: Any) -> Sequence[Any] | None:
        """Its outputs; None, with nothing done, to have its nodes run one by one. A backward pass needs the log."""


class Backend(Protocol):
    """A way to execute blocks."""

    @property
    def name(self) -> str:
        """What the user asks for it by."""

    def blocks(self, graph: Graph, uses: dict[Value, int]) -> tuple[Block, ...]:
        """The blocks of a graph, of which the index of the last node that reads a value is known."""

    def compile(self, block: Graph, objects: Mapping[str, Any], bare: frozenset[int]) -> Site | None:
        """What a closed block is called by; None to have its nodes emitted inline alone.

        Of the outputs with these indices nobody can see the history.
        """

    def step(self) -> StepPlace | None:
        """What makes the steps of a statement ``optimizer.step()``; None for what has the bits of torch's own."""


BACKENDS: Registry[str, Backend] = options.BACKENDS
