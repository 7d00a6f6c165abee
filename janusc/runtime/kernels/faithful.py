"""What the kernel compiler computes otherwise than torch, by more than the rounding of reordered sums."""

from __future__ import annotations

from typing import Any

import torch

from janusc import torch_private
from janusc.runtime.kernels.bounds import is_kept_in_bounds
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.intervals import given, name_of

_LEAST_BYTES = 4

_ROUNDED = {torch.bfloat16, torch.float16}
"""Dtypes to which a kernel rounds wherever its operations do, where it has only one of them: numbers that lie in
registers are of float32. A kernel that rounds less often, as the kernel compiler makes them by itself, is nearer to the
exact result; but a program that casts to a dtype and back asks for rounding, and eager mode is what is to be computed.
"""

_INDEXED = ("gather", "index", "embedding", "scatter", "take", "fractional")
"""What is part of the names of operations that find elements by the contents of a tensor."""

_UNCHECKED = ("_unsafe_", "_embedding_bag", "select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter")
"""What the names of those begin with that a kernel does without a check, or outside of its own loops."""

_SERIAL = 1 << 14
"""Elements below which a loop of a kernel is run by one thread: see ``torch_private.compiling.KERNEL_OPTIONS``."""


def check_faithful(module: torch.fx.GraphModule) -> None:
    """Raise Unfit where a kernel of a traced graph would give other numbers than its operations, or end the process."""
    if torch.get_num_threads() > 1 and _is_large(module):
        if any(map(_is_unknown_index, module.graph.nodes)):
            raise Unfit("an index that is out of bounds would end the process: its check fails in a thread of a kernel")
        if any(map(_is_order_seen, module.graph.nodes)):
            raise Unfit("the last of several values for one element would be that of any thread")
    short: set[torch.dtype] = set()
    for node in module.graph.nodes:
        for value in tensors_in(node.meta.get("val")):
            if value.is_floating_point() and value.dtype.itemsize < _LEAST_BYTES:
                short.add(value.dtype)
            if node.kwargs.get("rounding_mode") == "floor" and value.is_floating_point():
                raise Unfit("a quotient is rounded down, which torch does from the remainder")  # 1.0 // 0.1 is 9

    if short and not (torch_private.compiling.rounding_options() and len(short) == 1 and short <= _ROUNDED):
        # what is computed in between would stay in float32: x.half().float() would be x
        raise Unfit(f"it has numbers of {min(map(str, short))}, which a kernel rounds where torch does not")


def rounding_of(module: torch.fx.GraphModule) -> float:
    """The distance of 1 to the next number of the coarsest dtype in a traced graph; 0 without such."""
    values = (value for node in module.graph.nodes for value in tensors_in(node.meta.get("val")))
    return max((torch.finfo(value.dtype).eps for value in values if value.is_floating_point()), default=0.0)


def _is_large(module: torch.fx.GraphModule) -> bool:
    """Whether there may be a loop that several threads share."""
    sizes = [value.numel() for node in module.graph.nodes for value in tensors_in(node.meta.get("val"))]
    return max(sizes, default=0) >= _SERIAL


def _is_unknown_index(node: torch.fx.Node) -> bool:
    """Whether this finds elements by an index that nobody keeps in bounds."""
    name = name_of(node)
    return not is_kept_in_bounds(node) and not name.startswith(_UNCHECKED) and any(part in name for part in _INDEXED)


def _is_order_seen(node: torch.fx.Node) -> bool:
    """Whether this writes values to elements that may be the same, so that the last of them stays."""
    if name_of(node) not in ("index_put", "scatter") or given(node, "accumulate") or given(node, "reduce"):
        return False
    values = next((x for x in (given(node, "values"), given(node, "src")) if isinstance(x, torch.fx.Node)), None)
    return values is not None and not _is_one_number(values)


def _is_one_number(values: torch.fx.Node) -> bool:
    """Whether all elements are equal whatever the inputs are."""
    found = values.meta["val"]
    same = name_of(values) in ("full", "zeros_like", "full_like")
    return same or all(stride == 0 or size == 1 for size, stride in zip(found.shape, found.stride()))


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors that a node of a traced graph stands for."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in items if isinstance(item, torch.Tensor)]
