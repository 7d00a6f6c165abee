"""The exact backend: a block is the very torch calls of the program, emitted inline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from janusc.lowering.ir import Graph, Node, Value
from janusc.runtime.backends.base import BACKENDS
from janusc.runtime.blocks import Block, partition

# what a new tensor is made by, none of which keeps its result for the backward pass
_MAKES_NEW = frozenset(
    {
        "torch.nn.functional.linear",
        "torch.conv1d",
        "torch.conv2d",
        "torch.conv3d",
        "torch.addmm",
        "torch.mm",
        "torch.bmm",
    }
)


@dataclass(frozen=True)
class Aten:
    """Bit-equal to eager, needs no compiler, ready at once."""

    name: str = "aten"

    def blocks(self, graph: Graph, uses: dict[Value, int]) -> tuple[Block, ...]:
        """Runs of tensor operations, to be announced."""
        return partition(graph, uses)

    def compile(self, block: Graph, objects: Mapping[str, Any], bare: frozenset[int]) -> None:
        """Nothing to compile: the nodes are emitted inline."""
        return None

    def step(self) -> None:
        """Steps have the bits of torch's own."""
        return None


def reuse_buffers(graph: Graph, uses: Mapping[Value, int]) -> tuple[Node, ...]:
    """The nodes of a graph, with a relu put into its operand where that was just made and is read by nothing else.

    Saves the allocation of a result, at the same bits; eager can't do it, since it does not know that the operand dies.
    """
    makers: set[Value] = set()
    counts = Counter(v for node in graph.nodes for v in node.inputs)
    nodes = []
    for index, node in enumerate(graph.nodes):
        if node.op.name == "torch" and node.target == "torch.relu" and not node.kwargs and len(node.args) == 1:
            operand = node.args[0]
            if isinstance(operand, Value) and operand in makers and counts[operand] == 1 and uses.get(operand) == index:
                node = replace(node, target="torch.relu_")
        if node.op.name == "torch" and node.target in _MAKES_NEW:
            makers.update(node.outputs)
        nodes.append(node)
    return tuple(nodes)


ATEN = BACKENDS.register("aten", Aten())
