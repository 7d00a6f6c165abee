"""What the kernel compiler computes otherwise than torch, by more than the rounding of reordered sums."""

from __future__ import annotations

from typing import Any

import torch

from janusc.runtime.kernels.functional import Unfit

_LEAST_BYTES = 4


_INDEXED = ("gather", "index", "embedding", "scatter", "take")
"""What is part of the names of operations that find elements by the contents of a tensor."""

_SERIAL = 1 << 14
"""Elements below which a loop of a kernel is run by one thread: see ``torch_private.KERNEL_OPTIONS``."""


def check_faithful(module: torch.fx.GraphModule) -> None:
    """Raise Unfit where a kernel of a traced graph would give other numbers than its operations, or end the process."""
    if torch.get_num_threads() > 1 and _may_throw_in_a_thread(module):
        raise Unfit("an index that is out of bounds would end the process: its check fails in a thread of a kernel")
    for node in module.graph.nodes:
        for value in _tensors(node.meta.get("val")):
            if value.is_floating_point() and value.dtype.itemsize < _LEAST_BYTES:
                # what is computed in between stays in float32: x.half().float() would be x
                raise Unfit(f"it has numbers of {value.dtype}, which a kernel rounds where torch does not")
            if node.kwargs.get("rounding_mode") == "floor" and value.is_floating_point():
                raise Unfit("a quotient is rounded down, which torch does from the remainder")  # 1.0 // 0.1 is 9


def _may_throw_in_a_thread(module: torch.fx.GraphModule) -> bool:
    """Whether an index is checked in a loop that several threads share."""
    nodes = list(module.graph.nodes)
    sizes = [value.numel() for node in nodes for value in _tensors(node.meta.get("val"))]
    if max(sizes, default=0) < _SERIAL:
        return False
    names = [getattr(node.target, "__name__", "") for node in nodes if node.op == "call_function"]
    return any(part in name for name in names for part in _INDEXED)


def _tensors(value: Any) -> list[torch.Tensor]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in items if isinstance(item, torch.Tensor)]
