"""Which values of a block may have a history: what is computed from tensors that require gradients."""

from __future__ import annotations

from collections.abc import Iterable

from janusc.lowering.ir import Graph, Node, Value, values_of
from janusc.lowering.rewrite import inlined

NO_GRAD = "torch.no_grad"
AUTOCAST = "torch.autocast"

_WITHOUT = frozenset(
    "detach argmax argmin argsort eq ne lt le gt ge isnan isfinite isinf logical_and logical_or logical_not bool int "
    "long shape dtype ndim device size dim numel".split()
)
"""What has no derivative, under the names that operators, methods and functions share."""


def may_have_history(graph: Graph, requiring: Iterable[Value]) -> bool:
    """Whether an output of a graph may be part of a history, where these inputs require gradients."""
    found = set(requiring)
    graph = inlined(graph, is_autocast)
    for node in graph.nodes:
        if has_derivative(node) and not is_without_gradients(node, graph) and not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return not found.isdisjoint(values_of(graph.outputs))


def has_derivative(node: Node) -> bool:
    """Whether what a node makes may have a history, where what it is made from has one."""
    return node.op.name == "context" or node.target.rpartition(".")[2] not in _WITHOUT


def is_without_gradients(node: Node, graph: Graph) -> bool:
    """Whether a node is a block under ``torch.no_grad()``."""
    made = _maker(node, graph)
    return made is not None and made.target == NO_GRAD and not made.args


def is_autocast(node: Node, graph: Graph) -> bool:
    """Whether a node is a block under ``torch.autocast(...)``."""
    made = _maker(node, graph)
    return made is not None and made.target == AUTOCAST


def _maker(node: Node, graph: Graph) -> Node | None:
    """What makes the manager of a block."""
    if node.op.name != "context":
        return None
    return next((other for other in graph.nodes if node.args[0] in other.outputs), None)
