"""The class of inputs that a kernel is for: what it was traced with, and what may not differ at a later call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from janusc import torch_private
from janusc.types import LITERALS


class InputClass:
    """What is asked of inputs: tensors by their traits, numbers and the like by type and value."""

    __slots__ = ("_check", "_is_moment", "_literals", "positions")

    def __init__(self, inputs: Sequence[Any], check: Callable[..., bool], positions: tuple[int, ...]) -> None:
        self.positions = positions
        """Of the tensors among the inputs."""
        self._check = check
        self._literals = [(i, x, repr(x)) for i, x in enumerate(inputs) if i not in positions]
        self._is_moment = torch_private.ambient_guard()

    def takes(self, inputs: Sequence[Any]) -> bool:
        """Whether inputs are of this class, at this moment."""
        if self._literals:
            for index, value, text in self._literals:
                given = inputs[index]
                if given is not value and (type(given) is not type(value) or repr(given) != text):
                    return False
            inputs = [inputs[i] for i in self.positions]
        return self._check(*inputs) and self._is_moment()


def class_of(inputs: Sequence[Any]) -> InputClass | None:
    """The class of inputs; None where no kernel could be made for them."""
    positions = tuple(i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor))
    tensors = [inputs[i] for i in positions]
    if not tensors or not all(map(_is_plain, tensors)):
        return None
    if torch_private.default_device() not in (None, torch.device("cpu")):  # which factories use
        return None
    if not all(is_literal(x) for x in inputs if not isinstance(x, torch.Tensor)):
        return None
    check = torch_private.tensor_guards(tensors)
    return None if check is None else InputClass(inputs, check, positions)


_OF_TORCH = (torch.device, torch.dtype)


def is_literal(value: Any) -> bool:
    """Whether a value is one whose text makes an equal one, where torch and its device are known by name."""
    if type(value) in (tuple, torch.Size):
        return all(map(is_literal, value))
    if type(value) in _OF_TORCH:
        return True
    return type(value) in LITERALS and (type(value) not in (float, complex) or value - value == 0)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the kernel compiler knows all that a tensor is."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_complex() or tensor.is_conj() or tensor.is_neg())
        and not tensor.is_inference()
        and tensor.device.type != "meta"
    )
