"""Blocks: the straight-line runs of pure tensor ops in a graph.

Comes in: a graph. Goes out: its blocks, in order, each with the values that enter and leave it. Everything between two
blocks (host values, writes, asserts, control flow) stays emitted Python.
"""

from __future__ import annotations

from dataclasses import dataclass

from janusc.lowering.ir import Graph, Node, Value, values_of
from janusc.types import TensorType

_COMPUTING = frozenset({"torch", "method", "operator"})
# What one node alone is not worth.
_LEAST = 2


@dataclass(frozen=True)
class Block:
    """The nodes ``start`` to ``stop`` (exclusive) of a graph; it ``acts`` if they do more than give outputs."""

    start: int
    stop: int
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    acts: bool = False


def is_tensor_op(node: Node) -> bool:
    """Whether a node computes nothing but tensors and has no effect."""
    return (
        node.op.name in _COMPUTING and bool(node.outputs) and all(isinstance(v.type, TensorType) for v in node.outputs)
    )


def last_uses(graph: Graph) -> dict[Value, int]:
    """The index of the last node that reads a value; one beyond the last node for what the graph hands out."""
    uses: dict[Value, int] = {}
    for index, node in enumerate(graph.nodes):
        uses.update(dict.fromkeys(node.inputs, index))
    uses.update(dict.fromkeys(values_of(graph.outputs), len(graph.nodes)))
    return uses


def partition(graph: Graph, uses: dict[Value, int] | None = None) -> tuple[Block, ...]:
    """The blocks of a graph, regions aside."""
    uses = last_uses(graph) if uses is None else uses
    blocks = []
    start = 0
    while start < len(graph.nodes):
        stop = start
        while stop < len(graph.nodes) and is_tensor_op(graph.nodes[stop]):
            stop += 1
        if stop - start >= _LEAST:
            blocks.append(block_of(graph, start, stop, uses))
        start = stop + 1
    return tuple(blocks)


def closed(graph: Graph, block: Block) -> Graph:
    """A block as a graph of its own."""
    return Graph(block.inputs, graph.nodes[block.start : block.stop], block.outputs)


def block_of(graph: Graph, start: int, stop: int, uses: dict[Value, int]) -> Block:
    """The nodes of a graph from ``start`` to ``stop`` as a block."""
    inputs: dict[Value, None] = {}
    inside: dict[Value, None] = {}
    for node in graph.nodes[start:stop]:
        inputs.update((v, None) for v in node.inputs if v not in inside)
        inside.update(dict.fromkeys(node.outputs))
    return Block(start, stop, tuple(inputs), tuple(v for v in inside if uses.get(v, -1) >= stop))
