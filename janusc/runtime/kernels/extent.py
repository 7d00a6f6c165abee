"""How far a kernel may reach: blocks with what stands between tensor operations without adding to them.

What is made of shapes and literals alone is the same at each call of one class of inputs: it is done once, when the
block is traced. So are asserts on it. Tensors that are written in place, after their contents were kept, get what the
kernel has computed for them.
"""

from __future__ import annotations

from dataclasses import replace

from janusc.lowering.effects import IDENTITY_OPERATORS, is_scalar
from janusc.lowering.ir import Graph, Node, Value
from janusc.runtime.blocks import Block, block_of, is_tensor_op
from janusc.types import TensorType

_BETWEEN = frozenset({"attribute", "operator", "builtin", "build", "unpack", "torch", "method", "torch.random"})
_WRITES = frozenset({"torch.write", "method.write", "operator.write"})
_ASSERTS = frozenset({"true", "false", "equals", "length", "plain_write"})
_LEAST = 2


def _is_admitted(node: Node) -> bool:
    """Whether a node may stand in a kernel, as far as can be said before it is traced."""
    name = node.op.name
    if name in _BETWEEN:
        return node.target not in IDENTITY_OPERATORS  # two inputs may be one tensor
    if name == "assert":
        return node.target in _ASSERTS
    if name == "save":
        return node.target == "tensor"
    return name in _WRITES and all(isinstance(v.type, TensorType) or is_scalar(v) for v in node.inputs)


def extents(graph: Graph, uses: dict[Value, int]) -> tuple[Block, ...]:
    """The blocks of a graph that a kernel may stand for, each with the backward pass that follows it."""
    blocks = []
    start, nodes = 0, graph.nodes
    while start < len(nodes):
        stop = start
        while stop < len(nodes) and _is_admitted(nodes[stop]):
            stop += 1
        first = next((i for i in range(start, stop) if is_tensor_op(nodes[i])), stop)
        ends = stop < len(nodes) and nodes[stop].op.name == "backward"
        last = stop if ends else next((i for i in range(stop, first, -1) if is_tensor_op(nodes[i - 1])), first)
        if sum(map(is_tensor_op, nodes[first:last])) >= _LEAST:
            block = block_of(graph, first, last, uses)
            block = replace(block, acts=any(node.op.name == "save" for node in nodes[first:last]))
            blocks.append(_with_backward(graph, block, uses))
        start = stop + 1
    return tuple(blocks)


def _with_backward(graph: Graph, block: Block, uses: dict[Value, int]) -> Block:
    """The block with the backward pass from its own loss, where that comes next."""
    after = graph.nodes[block.stop] if block.stop < len(graph.nodes) else None
    if after is None or after.op.name != "backward" or after.kwargs or after.args[0] not in block.outputs:
        return block
    return replace(block_of(graph, block.start, block.stop + 1, uses), acts=True)
