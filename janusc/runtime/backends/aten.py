"""The exact backend: a block is the very torch calls of the program, emitted inline."""

from __future__ import annotations

from dataclasses import dataclass

from janusc.lowering.ir import Graph
from janusc.runtime.backends.base import BACKENDS
from janusc.runtime.blocks import Block


@dataclass(frozen=True)
class Aten:
    """Bit-equal to eager, needs no compiler, ready at once."""

    name: str = "aten"

    def compile(self, graph: Graph, block: Block) -> None:
        """Nothing to compile: the nodes are emitted inline."""
        return None


ATEN = BACKENDS.register("aten", Aten())
# The choice by measurement begins with the backend that is always there.
AUTO = BACKENDS.register("auto", ATEN)
