"""What a backend is, and the table of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from janusc.lowering.ir import Graph
from janusc.registry import Registry
from janusc.runtime.blocks import Block


class Backend(Protocol):
    """A way to execute blocks."""

    @property
    def name(self) -> str:
        """What the user asks for it by."""

    def compile(self, graph: Graph, block: Block) -> Callable[..., tuple[Any, ...]] | None:
        """A function from the block's inputs to the tuple of its outputs; None to have its nodes emitted inline."""


BACKENDS: Registry[str, Backend] = Registry("backends")
