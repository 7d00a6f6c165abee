"""Kernels from torch's own kernel compiler: equal to eager within the rounding of reordered sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from janusc import torch_private
from janusc.lowering.ir import Graph, Value
from janusc.runtime.backends.base import BACKENDS
from janusc.runtime.blocks import Block
from janusc.runtime.kernels.extent import extents
from janusc.runtime.kernels.joint import split_block
from janusc.runtime.kernels.site import Compiler, Site


@dataclass(frozen=True)
class Inductor:
    """Compiles a block at the first call with inputs of a class, and runs its kernel from then on."""

    name: str = "inductor"
    compiler: Compiler = torch_private.compile_kernels

    def blocks(self, graph: Graph, uses: dict[Value, int]) -> tuple[Block, ...]:
        """Runs of tensor operations with what stands between them, and the backward passes from them."""
        return extents(graph, uses)

    def compile(self, block: Graph, objects: Mapping[str, Any]) -> Site:
        """A place that makes its kernel when it sees inputs."""
        return Site(split_block(block, objects), self.compiler)


INDUCTOR = BACKENDS.register("inductor", Inductor())
