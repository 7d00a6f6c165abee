"""What the kernel compiler computes otherwise than torch, by more than the rounding of reordered sums."""

from __future__ import annotations

from typing import Any

import torch

from janusc.runtime.kernels.functional import Unfit

_LEAST_BYTES = 4


def check_faithful(module: torch.fx.GraphModule) -> None:
    """Raise Unfit where a kernel of a traced graph would give other numbers than its operations."""
    for node in module.graph.nodes:
        for value in _tensors(node.meta.get("val")):
            if value.is_floating_point() and value.dtype.itemsize < _LEAST_BYTES:
                # what is computed in between stays in float32: x.half().float() would be x
                raise Unfit(f"it has numbers of {value.dtype}, which a kernel rounds where torch does not")
            if node.kwargs.get("rounding_mode") == "floor" and value.is_floating_point():
                raise Unfit("a quotient is rounded down, which torch does from the remainder")  # 1.0 // 0.1 is 9


def _tensors(value: Any) -> list[torch.Tensor]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in items if isinstance(item, torch.Tensor)]
