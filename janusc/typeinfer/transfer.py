"""The type of an op: run it on meta tensors that stand for the arguments.

Only torch knows what its functions return; the result of such a run is a *sample*: right in kind, and in dtype and shape for this
call's sizes. Nothing is folded from it without an assert.
"""

from __future__ import annotations

from typing import Any

import torch


class NoSample(Exception):
    """The op can't be run without data (its result depends on values), or refuses these arguments."""


def meta_of(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor with the geometry, dtype and ``requires_grad`` of a strided tensor; NoSample for other layouts."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        raise NoSample(str(tensor.layout))
    size, stride = tuple(tensor.shape), tuple(tensor.stride())
    result = torch.empty_strided(size, stride, dtype=tensor.dtype, device="meta")
    return result.requires_grad_(True) if tensor.requires_grad else result


def meta_like(dtype: torch.dtype | None, shape: tuple[int | None, ...] | None) -> torch.Tensor:
    """A meta tensor for a partly known type; an unknown dimension is 2."""
    dims = () if shape is None else tuple(2 if d is None else d for d in shape)
    return torch.empty(dims, dtype=dtype or torch.float32, device="meta")


def _on_meta(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("meta")
    if isinstance(value, str) and value.split(":")[0] in ("cpu", "cuda", "mps", "xpu"):
        return "meta"
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(_on_meta(v) for v in value)
    return value


_IGNORED_KEYWORDS = ("generator", "pin_memory", "non_blocking")


def apply(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool) -> Any:
    """The result of ``function`` on samples. Raises NoSample where torch can't say without data."""
    args = tuple(_on_meta(a) for a in args)
    kwargs = {k: _on_meta(v) for k, v in kwargs.items() if k not in _IGNORED_KEYWORDS}
    try:
        with torch.set_grad_enabled(grad), torch.device("meta"):
            return function(*args, **kwargs)
    except Exception as error:  # whatever torch raises here, it only means that there is no sample
        raise NoSample(f"{type(error).__name__}: {error}") from None


def shares_storage(result: torch.Tensor, others: list[torch.Tensor]) -> bool:
    """Whether a meta result is a view of (or the same as) one of the meta arguments."""
    storage = result.untyped_storage()._cdata
    return any(o.untyped_storage()._cdata == storage for o in others)
