"""A backward pass right behind its loss, and gradients dropped before the loss is computed.

So a forward and a backward pass stand together, and can be one kernel, whatever order the program has them in. Both
can be taken back: what fails behind them, though the program has it before them, finds the gradients as they were.

Before::

    %4: tensor = torch torch.sum(%0)
    %5: tensor = torch torch.isfinite(%4)
    assert true(%5)
    zero_grad(%1, True)
    backward(%4, (%0))
    return (%4)

After::

    zero_grad(%1, True)
    %4: tensor = torch torch.sum(%0)
    backward(%4, (%0))
    %5: tensor = torch torch.isfinite(%4)
    assert true(%5)
    return (%4)

What is detached is detached where it is made, for the same reason: what is computed with it stands apart from how it
was made.

Gradients that are dropped keep their contents, so that what works on tensors can't tell when it was. A backward pass
adds to gradients, which any tensor from outside may be: it moves above what follows from its loss alone.
"""

from __future__ import annotations

from dataclasses import replace

from janusc.lowering.effects import is_scalar
from janusc.lowering.ir import Const, Graph, Node, Segment, Value
from janusc.lowering.rewrite import Fuel
from janusc.types import TensorType

_COMPUTING = frozenset(
    {"torch", "torch.random", "method", "method.random", "operator", "attribute", "builtin", "unpack"}
)
_WRITING = frozenset({"torch.write", "method.write", "operator.write"})
_ASSERTS = frozenset({"true", "false", "equals", "type", "length", "plain_write"})


def early_gradients(segment: Segment, fuel: Fuel) -> Segment:
    """The segment with what changes gradients as early as it can stand."""
    nodes = list(segment.body.nodes)
    for index, node in enumerate(segment.body.nodes):
        if node.op.name == "method" and node.target == "detach":
            _move(nodes, index, _behind_maker(nodes, index), fuel)
    for index, node in enumerate(list(nodes)):
        if node.op.name == "zero_grad" and node.args[1] == Const(True):
            _move(nodes, index, _first(nodes, index, set()), fuel)
    for index, node in enumerate(list(nodes)):
        if node.op.name == "backward" and isinstance(node.args[0], Value):
            _move(nodes, index, _first(nodes, index, _following(segment.body, node.args[0])), fuel)
    same = all(a is b for a, b in zip(nodes, segment.body.nodes))
    return segment if same else replace(segment, body=replace(segment.body, nodes=tuple(nodes)))


def _move(nodes: list[Node], index: int, first: int, fuel: Fuel) -> None:
    if first < index and fuel.spend():
        nodes.insert(first, nodes.pop(index))


def _first(nodes: list[Node], index: int, following: set[int]) -> int:
    """The first place where a node may stand: above what computes, or above those alone that follow from its loss."""
    node, is_backward = nodes[index], nodes[index].op.name == "backward"
    needed = set(node.inputs)
    while index > 0 and needed.isdisjoint(nodes[index - 1].outputs):
        before = nodes[index - 1]
        if not (id(before) in following if is_backward else _is_unaware(before)):
            break
        index -= 1
    return index


def _behind_maker(nodes: list[Node], index: int) -> int:
    """The place behind what makes the tensor that is detached here: a name for the same memory, at any time."""
    makers = [at for at in range(index) if not set(nodes[index].inputs).isdisjoint(nodes[at].outputs)]
    return makers[-1] + 1 if makers else index


def _is_unaware(node: Node) -> bool:
    """Whether a node works on tensors and numbers, and not on what objects hold."""
    name = node.op.name
    if name == "context":
        return all(map(_is_unaware, node.regions[0].nodes))
    if name == "assert":
        return node.target in _ASSERTS
    if name == "save":
        return node.target == "tensor"
    if name in _WRITING:
        return all(isinstance(v.type, TensorType) or is_scalar(v) for v in node.inputs)
    return name in _COMPUTING


def _following(graph: Graph, loss: Value) -> set[int]:
    """The identities of the nodes that compute from a loss and literals alone, or assert what they have found."""
    known, found = {loss}, set()
    for node in graph.nodes:
        plain = node.op.name in _COMPUTING and "random" not in node.op.name
        if (plain or _is_unaware(node) and node.op.name == "assert") and node.inputs and known.issuperset(node.inputs):
            known.update(node.outputs)
            found.add(id(node))
    return found
