"""Convolutions of one channel on the CPU as sums of products, which are fused with what is around them.

A library computes sixteen channels of a result at once, however few there are, in a layout of its own, and copies from
and to it. Rows of an image are as good to compute at once.

Before, for two weights a row::

    %y = aten.convolution(%x, %w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)

After::

    %a = aten.mul(%x without its last column, the first weight)
    %b = aten.mul(%x without its first column, the second weight)
    %y = aten.add(%a, %b)

The gradient of a weight is a sum of products, too, at first for each image: what is added lies near.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from math import prod
from typing import Any

import torch

from janusc import torch_private
from janusc.runtime.compiler.products import call, is_on_cpu

MOST_TERMS = 25
"""Weights of a channel: of more, a library is faster."""

CHANNELS, LANES = 16, 16
"""Channels of a result from which on a library wastes nothing, and elements of a row by which vectors are full."""

_aten = torch.ops.aten


def open_convolutions(graph: torch.fx.Graph) -> None:
    """Change the convolutions of a graph, and their gradients."""
    if torch_private.compiling.laying_out() is None:
        return
    for node in [*graph.find_nodes(op="call_function", target=_aten.convolution.default)]:
        images, weights, bias, *how = node.args
        if is_on_cpu(node) and _is_thin(images, weights, node.meta["val"], how):
            with graph.inserting_before(node):
                node.replace_all_uses_with(_sum(graph, images, weights, bias, how[1]))
            graph.erase_node(node)
    for node in [*graph.find_nodes(op="call_function", target=_aten.convolution_backward.default)]:
        gradient, images, weights, _, *how, wanted = node.args
        if not wanted[0] and is_on_cpu(gradient) and _is_thin(images, weights, gradient.meta["val"], how):
            parts = {user.args[1]: user for user in node.users if user.target is operator.getitem}
            with graph.inserting_before(node):
                if 1 in parts:
                    parts[1].replace_all_uses_with(_weights(graph, gradient, images, weights, how[1]))
                if 2 in parts:
                    parts[2].replace_all_uses_with(_bias(graph, gradient))
            for part in [*parts.values(), node]:
                graph.erase_node(part)


def _is_thin(images: torch.fx.Node, weights: torch.fx.Node, result: torch.Tensor, how: list[Any]) -> bool:
    """Whether images are of one channel and those of a result few, with rows long enough, none of them left out."""
    given, factors = images.meta["val"], weights.meta["val"]
    if given.ndim != 4 or given.shape[1] != 1 or not factors.is_contiguous() or not result.is_contiguous():
        return False
    if given.dtype is not factors.dtype or given.dtype is not result.dtype:
        return False
    strides, _, dilations, is_transposed, _, groups = how
    is_plain = set(strides) == set(dilations) == {1} and not is_transposed and groups == 1
    is_small = 1 < prod(factors.shape[2:]) <= MOST_TERMS and factors.shape[0] < CHANNELS
    return is_plain and is_small and result.shape[3] >= LANES and result.numel() > 0


def _shifted(
    graph: torch.fx.Graph, images: torch.fx.Node, weights: torch.fx.Node, size: torch.Size, padding: list[int]
) -> Iterator[torch.fx.Node]:
    """What each weight of a channel is multiplied with: the images, moved."""
    rows, columns = padding * 2 if len(padding) == 1 else padding
    padded = call(graph, _aten.constant_pad_nd.default, (images, [columns, columns, rows, rows], 0.0))
    strides = torch.empty(padded.meta["val"].shape, device="meta").stride()
    padded = call(graph, torch_private.compiling.laying_out(), (padded, list(strides)))
    for row in range(weights.meta["val"].shape[2]):
        cut = call(graph, _aten.slice.Tensor, (padded, 2, row, row + size[2]))
        for column in range(weights.meta["val"].shape[3]):
            yield call(graph, _aten.slice.Tensor, (cut, 3, column, column + size[3]))


def _sum(
    graph: torch.fx.Graph, images: torch.fx.Node, weights: torch.fx.Node, bias: Any, padding: list[int]
) -> torch.fx.Node:
    """A convolution as a sum."""
    factors = weights.meta["val"]
    padding = padding * 2 if len(padding) == 1 else padding
    size = torch.Size(
        [0, 0, *(images.meta["val"].shape[i] + 2 * padding[i - 2] - factors.shape[i] + 1 for i in (2, 3))]
    )
    channels = [1, factors.shape[0], 1, 1]
    found = None if bias is None else call(graph, _aten.view.default, (bias, channels))
    table = call(graph, _aten.view.default, (weights, [factors.shape[0], -1]))
    for number, image in enumerate(_shifted(graph, images, weights, size, padding)):
        factor = call(graph, _aten.view.default, (call(graph, _aten.select.int, (table, 1, number)), channels))
        term = call(graph, _aten.mul.Tensor, (image, factor))
        found = term if found is None else call(graph, _aten.add.Tensor, (found, term))
    assert found is not None
    return found


def _weights(
    graph: torch.fx.Graph, gradient: torch.fx.Node, images: torch.fx.Node, weights: torch.fx.Node, padding: list[int]
) -> torch.fx.Node:
    """The gradient of the weights."""
    columns = []
    for image in _shifted(graph, images, weights, gradient.meta["val"].shape, padding):
        products = call(graph, _aten.mul.Tensor, (image, gradient))
        of_images = call(graph, _aten.sum.dim_IntList, (products, [2, 3]))
        columns.append(call(graph, _aten.unsqueeze.default, (of_images, 2)))
    table = call(graph, _aten.cat.default, (columns, 2))
    sums = call(graph, _aten.sum.dim_IntList, (table, [0]))
    return call(graph, _aten.view.default, (sums, list(weights.meta["val"].shape)))


def _bias(graph: torch.fx.Graph, gradient: torch.fx.Node) -> torch.fx.Node:
    """The gradient of the bias."""
    return call(graph, _aten.sum.dim_IntList, (call(graph, _aten.sum.dim_IntList, (gradient, [2, 3])), [0]))
