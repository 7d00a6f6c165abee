"""Products of matrices on the CPU, fused with what is around them where no library does better.

A bias is added behind a product, with what follows, and not copied to where the product will be. A product of few terms
for each number is a sum of products.
"""

from __future__ import annotations

from typing import Any

import torch

FEW_TERMS = 4
"""Terms up to which a sum is written out by the kernel compiler, and takes no longer than to call a library."""

_SINGLE_OR_DOUBLE = (torch.float32, torch.float64)


def open_products(graph: torch.fx.Graph) -> None:
    """Change the products of a graph."""
    aten = torch.ops.aten
    for node in [*graph.find_nodes(op="call_function", target=aten.addmm.default)]:
        if not node.kwargs and len(node.args) == 3 and is_on_cpu(node):
            bias, left, right = node.args
            _replace(graph, node, (aten.mm.default, (left, right)), (aten.add.Tensor, (..., bias)))
    for node in [*graph.find_nodes(op="call_function", target=aten.mm.default)]:
        left, right = node.args
        if is_on_cpu(node) and 1 < left.meta["val"].shape[1] <= FEW_TERMS:
            with graph.inserting_before(node):
                rows = call(graph, aten.unsqueeze.default, (left, 2))
                columns = call(graph, aten.unsqueeze.default, (right, 0))
            _replace(graph, node, (aten.mul.Tensor, (rows, columns)), (aten.sum.dim_IntList, (..., [1])))


def is_on_cpu(node: torch.fx.Node) -> bool:
    """Whether a node is a tensor of single or double precision there."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dtype in _SINGLE_OR_DOUBLE


def call(graph: torch.fx.Graph, function: Any, arguments: tuple[Any, ...]) -> torch.fx.Node:
    """A new node that stands where the graph inserts."""
    made = graph.call_function(function, arguments)
    made.meta["val"] = function(*torch.fx.map_arg(arguments, lambda node: node.meta["val"]))
    return made


def _replace(graph: torch.fx.Graph, node: torch.fx.Node, *calls: tuple[Any, tuple[Any, ...]]) -> None:
    """Put calls in place of a node, each of which takes the result of the last for an ellipsis."""
    made = node
    with graph.inserting_before(node):
        for function, arguments in calls:
            made = call(graph, function, tuple(made if item is ... else item for item in arguments))
    node.replace_all_uses_with(made)
    graph.erase_node(node)
