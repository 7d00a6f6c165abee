"""The values of a tensor of any kind, kept as plain tensors that can be compared bit by bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from janusc import torch_private

_SPARSE_INDICES = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


@dataclass(frozen=True, eq=False)
class TensorFact:
    """The values of a tensor: dense parts, and what is said of it beside them; two match where every bit does.

    A dense tensor is one part; a sparse one has its indices and values, a nested one its components.
    """

    parts: tuple[torch.Tensor, ...]
    traits: tuple[Any, ...] = ()

    def matches(self, other: Any, tolerance: float | None = None) -> bool:
        """Whether the other fact is a tensor of equal values; the tolerance is for floating-point ones."""
        if not isinstance(other, TensorFact) or self.traits != other.traits or len(self.parts) != len(other.parts):
            return False
        return all(_match(a, b, tolerance) for a, b in zip(self.parts, other.parts))

    def __str__(self) -> str:
        shown = (" ".join(str(part).split()) for part in self.parts)
        return ", ".join([*shown, *(str(trait) for trait in self.traits if trait)])


def tensor_fact(tensor: torch.Tensor) -> TensorFact | None:
    """A copy of the values of a tensor; None where it has none of its own, as a wrapper of other tensors has."""
    with torch_private.without_overrides():
        if not _has_values(tensor):
            return None
        try:
            values = tensor.detach()
            parts = [part.detach().clone() for part in _parts(values)]
            plain = [part if type(part) is torch.Tensor else part.as_subclass(torch.Tensor) for part in parts]
            return TensorFact(tuple(plain), _traits(values))
        except (RuntimeError, TypeError):
            return None


def _has_values(tensor: torch.Tensor) -> bool:
    if tensor.device.type == "meta":
        return False
    if tensor.layout in (torch.strided, torch.jagged):
        try:
            tensor.untyped_storage().data_ptr()
        except RuntimeError:  # a tensor made of others, which are attributes of it
            return False
        if not tensor.is_nested and tensor.numel() and not tensor.untyped_storage().nbytes():  # its memory was freed
            return False
    return True


def _parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if tensor.is_nested:
        return tuple(tensor.unbind())
    if tensor.layout is torch.sparse_coo:
        whole = tensor.coalesce()
        return whole.indices(), whole.values()
    if tensor.layout in _SPARSE_INDICES:
        return (*(getattr(tensor, name)() for name in _SPARSE_INDICES[tensor.layout]), tensor.values())
    if tensor.layout is not torch.strided:
        return (tensor.to_dense(),)
    if tensor.is_quantized:
        per_tensor = tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric)
        scales = () if per_tensor else (tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points())
        return tensor.int_repr(), *scales
    return (tensor,)


def _traits(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What the parts do not show."""
    if tensor.is_quantized:
        per_tensor = tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric)
        how = (tensor.q_scale(), tensor.q_zero_point()) if per_tensor else (tensor.q_per_channel_axis(),)
        return str(tensor.qscheme()), *how
    if tensor.layout is torch.sparse_coo:
        return ("coalesced" if tensor.is_coalesced() else "not coalesced",)
    return ()


def _match(a: torch.Tensor, b: torch.Tensor, tolerance: float | None) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape or a.device != b.device:
        return False
    if tolerance is not None and (a.is_floating_point() or a.is_complex()):
        return torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    return torch.equal(_bits(a), _bits(b))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.resolve_conj().resolve_neg().reshape(-1)
    # Tensors of one element or none count as contiguous whatever their stride, which a view as bytes minds.
    return flat.clone(memory_format=torch.contiguous_format).view(torch.uint8)
