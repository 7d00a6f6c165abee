"""Whether a transaction is worth being a graph."""

from __future__ import annotations

from typing import Any

from janusc.frontend.nodes import nodes_of
from janusc.frontend.parse import ParsedFunction, site
from janusc.lowering import ops
from janusc.lowering.effects import ENDINGS
from janusc.lowering.ir import Graph, Node, Value, walk
from janusc.types import TensorType

_TENSOR_OPS = (ops.TORCH, ops.TORCH_RANDOM, ops.TORCH_WRITE, ops.METHOD_RANDOM, ops.MODULE_CALL)
_ON_ANYTHING = (ops.METHOD, ops.METHOD_WRITE, ops.OPERATOR, ops.OPERATOR_READ, ops.OPERATOR_WRITE, ops.ATTRIBUTE)


def is_worth(body: Graph) -> bool:
    """Whether a transaction does any tensor work."""
    return any(_works(node) for node in walk(body))


def amount_of_work(body: Graph) -> int:
    """The tensor operations of a transaction."""
    return sum(_works(node) for node in walk(body))


def _works(node: Node) -> bool:
    return node.op in _TENSOR_OPS or (node.op in _ON_ANYTHING and _yields_tensor(node))


def has_ending(body: Graph) -> bool:
    """Whether something comes after a transaction that ordinary Python would do otherwise."""
    return bool(body.nodes) and body.nodes[-1].op.name in ENDINGS


def made_tensors(profile: Any, parsed: ParsedFunction) -> bool:
    """Whether a function was seen to make tensors in the calls so far."""
    return any(isinstance(profile.type_at(site(parsed, node)), TensorType) for node in nodes_of(parsed.body))


def hands_on_tensor(body: Graph) -> bool:
    """Whether a transaction returns a tensor that it was given or read: the base case of a function that computes."""
    return any(isinstance(v.type, TensorType) for v in body.outputs if isinstance(v, Value))


def _yields_tensor(node: Any) -> bool:
    return any(isinstance(v.type, TensorType) for v in (*node.outputs, *(a for a in node.args if hasattr(a, "type"))))
