"""Comparisons of which only the truth is asked: of one-element tensors, by their numbers and without a new tensor.

A tensor of a comparison costs a few microseconds, and the loop that ends on it asks once a turn. Two numbers of one
dtype compare as the tensors do; a Python number is first rounded to the tensor's dtype, as torch does. Whatever is not
plain enough for that, and whatever would be an error, is left to torch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from ctypes import c_float
from typing import Any

import torch

from janusc.registry import Registry

_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_COMPARED = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8}
)
_FLOAT32, _FLOAT64, _INT64 = torch.float32, torch.float64, torch.int64
_LARGEST_FLOAT32 = 3.4e38
_EXACT_FLOAT32, _EXACT_FLOAT64, _EXACT_INT64 = 2**24, 2**53, 2**62

TRUTHS: Registry[str, Callable[[Any, Any], Any]] = Registry("truths")
"""By the name of the operator: what has the truth of its result."""


def _rounded(dtype: torch.dtype, number: Any) -> Any:
    """A Python number as a tensor of this dtype is compared with it; None where that is torch's to say."""
    if type(number) is float:
        if dtype is _FLOAT32:
            return c_float(number).value if -_LARGEST_FLOAT32 < number < _LARGEST_FLOAT32 else None
        return number if dtype is _FLOAT64 else None
    if type(number) is int:
        exact = _EXACT_FLOAT32 if dtype is _FLOAT32 else _EXACT_FLOAT64 if dtype is _FLOAT64 else 0
        exact = _EXACT_INT64 if dtype is _INT64 else exact
        return number if -exact <= number <= exact else None
    return None


def _make(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def truth(left: Any, right: Any) -> Any:
        if type(left) in _TENSORS:
            dtype = left.dtype
            if type(right) in _TENSORS:
                if dtype is right.dtype and dtype in _COMPARED and left.is_cpu and right.is_cpu:
                    return compare(left.item(), right.item())
            elif (number := _rounded(dtype, right)) is not None:
                return compare(left.item(), number)
        elif type(right) in _TENSORS and (number := _rounded(right.dtype, left)) is not None:
            return compare(number, right.item())
        return compare(left, right)

    return truth


for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    TRUTHS.register(_name, _make(getattr(operator, _name)))
