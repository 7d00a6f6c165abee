"""Whether a transaction is worth being a graph."""

from __future__ import annotations

from typing import Any

from janusc.lowering import ops
from janusc.lowering.ir import Graph, Value, walk
from janusc.types import TensorType


def is_worth(body: Graph) -> bool:
    """Whether a transaction does any tensor work."""
    tensor_ops = (ops.TORCH, ops.TORCH_RANDOM, ops.TORCH_WRITE, ops.METHOD_RANDOM, ops.MODULE_CALL)
    for node in walk(body):
        if node.op in tensor_ops or (node.op in (ops.METHOD, ops.METHOD_WRITE) and _yields_tensor(node)):
            return True
        if node.op in (ops.OPERATOR, ops.OPERATOR_READ, ops.OPERATOR_WRITE, ops.ATTRIBUTE) and _yields_tensor(node):
            return True
    return False


def hands_on_tensor(body: Graph) -> bool:
    """Whether a transaction returns a tensor that it was given or read: the base case of a function that computes."""
    return any(isinstance(v.type, TensorType) for v in body.outputs if isinstance(v, Value))


def _yields_tensor(node: Any) -> bool:
    return any(isinstance(v.type, TensorType) for v in (*node.outputs, *(a for a in node.args if hasattr(a, "type"))))
