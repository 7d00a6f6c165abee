"""How far a kernel may reach: blocks with what stands between tensor operations without adding to them.

What is made of shapes and literals alone is the same at each call of one class of inputs: it is done once, when the
block is traced. So are asserts on it. Tensors that are written in place, after their contents were kept, get what the
kernel has computed for them. A region of autocast is in a kernel as a whole, with what is written in it. A block is
split where the history of one output would lead through another.
"""

from __future__ import annotations

from dataclasses import replace

from janusc.lowering.effects import IDENTITY_OPERATORS, is_scalar
from janusc.lowering.ir import Graph, Node, Value, walk
from janusc.runtime.blocks import Block, block_of, is_tensor_op
from janusc.runtime.kernels.history import AUTOCAST, has_derivative, is_autocast, is_without_gradients, may_have_history
from janusc.types import TensorType

_BETWEEN = frozenset(
    {"attribute", "operator", "builtin", "build", "unpack", "torch", "method", "torch.random", "method.random"}
)
_WRITES = frozenset({"torch.write", "method.write", "operator.write"})
_ASSERTS = frozenset({"true", "false", "equals", "length", "plain_write"})
_RANDOM = frozenset({"torch.random", "method.random"})
_BY_CONTENTS = frozenset({"multinomial", "poisson", "rrelu"})
_ACTS = frozenset({*_WRITES, "save", "assert"})
_LEAST = 2


def _computes(node: Node, graph: Graph) -> bool:
    """Whether a node computes tensors, under autocast or not."""
    return is_tensor_op(node) or is_autocast(node, graph)


def _draws_by_contents(node: Node) -> bool:
    """Whether what a node draws depends on tensors that may be made before it: a kernel's draws come in front of it."""
    if node.op.name not in _RANDOM:
        return False
    name = node.target.rpartition(".")[2]
    return name in _BY_CONTENTS or name == "bernoulli" and len(node.args) == 1 and not node.kwargs


def _is_admitted(node: Node, graph: Graph) -> bool:
    """Whether a node may stand in a kernel, as far as can be said before it is traced."""
    name = node.op.name
    if name == "context":
        (region,) = node.regions
        inside = all(_is_admitted(inner, region) for inner in region.nodes)
        if is_autocast(node, graph):
            return inside
        return inside and is_without_gradients(node, graph) and not any(n.op.name in _ACTS for n in walk(region))
    if name in _BETWEEN:
        if _draws_by_contents(node):
            return False
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
        while stop < len(nodes) and _is_admitted(nodes[stop], graph):
            stop += 1
        first = next((i for i in range(start, stop) if _begins(nodes[i])), stop)
        ends = stop < len(nodes) and nodes[stop].op.name == "backward"
        begin, first = first, _behind_detached(graph, first, stop, uses) if ends else first
        found = _plain(graph, begin, _end(graph, begin, first, uses), uses)
        last = stop if ends else _end(graph, first, stop, uses)
        found += [_with_backward(graph, block, uses) for block in _plain(graph, first, last, uses)]
        blocks += [part for block in found for part in _parts(graph, block, uses)]
        start = stop + 1
    return tuple(blocks)


def _end(graph: Graph, first: int, stop: int, uses: dict[Value, int]) -> int:
    """Where a block ends that has no backward pass: behind the last node that computes.

    What detaches a tensor that is used later, too, would give a kernel two outputs in one memory: it stays outside.
    """
    for last in range(stop, first, -1):
        node = graph.nodes[last - 1]
        if _computes(node, graph) and not (_is_detach(node) and uses.get(node.inputs[0], -1) >= last):
            return last
    return first


def _plain(graph: Graph, first: int, last: int, uses: dict[Value, int]) -> list[Block]:
    """The block of these nodes, if there is enough in it."""
    inside = list(walk(Graph((), graph.nodes[first:last], ())))
    if sum(map(is_tensor_op, inside)) < _LEAST:
        return []
    acts = any(node.op.name == "save" for node in inside)
    return [replace(block_of(graph, first, last, uses), acts=acts)]


def _parts(graph: Graph, block: Block, uses: dict[Value, int]) -> list[Block]:
    """A block whose history goes on, split behind each output that others are computed from.

    Such an output has a place of its own in the history: what is asked of it there, by hooks or as a gradient, is about
    all that is computed from it, and one node for the whole block would know only of what came from outside.
    """
    nodes = graph.nodes
    if nodes[block.stop - 1].op.name == "backward":
        return [block]
    for index in range(block.start, block.stop):
        made = [v for v in nodes[index].outputs if v in block.outputs]
        others = tuple(v for v in block.outputs if v not in made)
        behind = Graph((), nodes[index + 1 : block.stop], others)
        if made and has_derivative(nodes[index]) and may_have_history(behind, made):
            begin = next((i for i in range(index + 1, block.stop) if _begins(nodes[i])), block.stop)
            spans = [(block.start, index + 1), (begin, _end(graph, begin, block.stop, uses))]
            return [p for span in spans for part in _plain(graph, *span, uses) for p in _parts(graph, part, uses)]
    return [block]


def _behind_detached(graph: Graph, first: int, stop: int, uses: dict[Value, int]) -> int:
    """Where a block begins whose backward pass is not to follow what is detached in it and used later as it is.

    That keeps its history, which a kernel would have to make, and to leave usable: it is made by a block of its own.
    """
    nodes = graph.nodes
    made = {v for node in nodes[first:stop] for v in node.outputs if uses.get(v, -1) > stop}
    begin, followed = first, _followed(graph, first, stop)
    for index in range(first, stop):
        node = nodes[index]
        if _is_detach(node) and node.args[0] in made - followed:
            begin = index + 1
    return next((i for i in range(begin, stop) if _begins(nodes[i])), stop) if begin > first else first


def _begins(node: Node) -> bool:
    """Whether a block may begin with a node: one that computes, draws, or makes a region of autocast."""
    return is_tensor_op(node) or node.op.name in _RANDOM or node.op.name == "torch" and node.target == AUTOCAST


def _is_detach(node: Node) -> bool:
    return node.op.name == "method" and node.target == "detach"


def _followed(graph: Graph, first: int, stop: int) -> set[Value]:
    """The values that the backward pass at the end of these nodes may lead through."""
    (loss, *_), makers = graph.nodes[stop].args, {v: n for n in graph.nodes[first:stop] for v in n.outputs}
    found: set[Value] = set()
    waiting = [loss] if isinstance(loss, Value) else []
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            node = makers.get(value)
            if node is not None and not _is_detach(node):
                waiting.extend(node.inputs)
    return found


def _with_backward(graph: Graph, block: Block, uses: dict[Value, int]) -> Block:
    """The block with the backward pass from its own loss, where that comes next."""
    after = graph.nodes[block.stop] if block.stop < len(graph.nodes) else None
    if after is None or after.op.name != "backward" or after.kwargs or after.args[0] not in block.outputs:
        return block
    return replace(block_of(graph, block.start, block.stop + 1, uses), acts=True)
