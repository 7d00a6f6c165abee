"""A number of the program's beside a tensor, made a tensor beforehand.

For ``x * 0.5`` torch makes a tensor of the number at each call, which takes as long as a computation on some thousand
elements. With a tensor of no dimensions and of the other operand's dtype the result has the same bits, dtype, strides
and gradient: torch converts the number to that dtype, too. So it is for the dtypes below, and for the numbers that are
exact in all of them or are rounded once, to a number that no processor takes for zero. Where the operation keeps its
operands for a gradient, it is given the number: what it keeps can be seen (``y.grad_fn._saved_other``).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

from janusc.lowering.ir import Arg, Value
from janusc.runtime.writer import Writer
from janusc.types import HostType, TensorType

_DTYPES = (torch.float32, torch.float64)
_LARGEST_INT, _SMALLEST, _LARGEST = 2**24, 1e-30, 1e30
_MOST_SEEN = 1024
_MIRRORED = {"lt": ">", "le": ">=", "gt": "<", "ge": "<=", "eq": "==", "ne": "!="}
"""Each comparison with its sides changed, as Python has it of ``0.5 < x``."""
_BESIDE = frozenset({"add", "sub", "mul", "truediv", *_MIRRORED})
_KEEPING = frozenset({"mul", "truediv", "div", "true_divide"})
_METHODS = frozenset({"add", "sub", "mul", "div", "true_divide", "add_", "sub_", "mul_", "div_", "truediv_"})


def operation(writer: Writer, target: str, args: tuple[Arg, ...], symbol: str) -> str | None:
    """The expression of an operator on a tensor and a number; None where there is nothing to gain."""
    left, right = args
    if target in _BESIDE and (number := _given(writer, target, left, right)) is not None:
        return f"{writer.operand(left)} {symbol} {number}"
    if target in _MIRRORED and (number := _given(writer, target, right, left)) is not None:
        return f"{writer.operand(right)} {_MIRRORED[target]} {number}"
    if target in ("add", "mul") and (number := _given(writer, target, right, left)) is not None:
        return f"{writer.operand(right)} {symbol} {number}"  # as ``__radd__`` and ``__rmul__`` have it
    if target == "sub" and (number := _unless_differentiated(writer, right, left)) is not None:
        # with a gradient the tensor would have another ``grad_fn`` than the number gives
        return f"{writer.target('torch.rsub')}({writer.name(right)}, {number})"
    return None


def argument(writer: Writer, method: str, args: tuple[Arg, ...]) -> str | None:
    """The only argument of a tensor's method, where that is a number; None where there is nothing to gain."""
    return _given(writer, method, args[0], args[1]) if method in _METHODS and len(args) == 2 else None


def _given(writer: Writer, operation: str, tensor: Arg, number: Arg) -> str | None:
    """What is given for the number to the operation of that name."""
    if operation.rstrip("_") in _KEEPING:
        text = _unless_differentiated(writer, tensor, number)
        return text and f"({text})"
    return _prepared(writer, tensor, number)


def _unless_differentiated(writer: Writer, tensor: Arg, number: Arg) -> str | None:
    """``0.5 if v1.requires_grad else number_0_5(v1.dtype, 0.5)``"""
    text = _prepared(writer, tensor, number)
    return text and f"{writer.expr(number)} if {writer.name(tensor)}.requires_grad else {text}"


def _prepared(writer: Writer, tensor: Arg, number: Arg) -> str | None:
    """``number_0_5(v1.dtype, 0.5)``; for a number of run time ``_jc_prepared(v1.dtype, v2)``"""
    if not isinstance(tensor, Value) or not isinstance(tensor.type, TensorType):
        return None
    known = writer.literal(number)
    if known is not None:
        if not is_exact(known.value):
            return None
        name = writer.bind(tensors(repr(known.value)), f"number_{known.value!r}")
    elif isinstance(number, Value) and isinstance(number.type, HostType) and number.type.name == "float":
        name = writer.runtime("_jc_prepared", prepared)
    else:
        return None
    return f"{name}({writer.name(tensor)}.dtype, {writer.expr(number)})"


def is_exact(number: Any) -> bool:
    """Whether a number is converted to each of the dtypes as torch does, and without an error."""
    cls = type(number)
    if cls is float:
        return bool(number == 0 or _SMALLEST <= abs(number) <= _LARGEST)
    return cls is int and abs(number) <= _LARGEST_INT


_seen: dict[tuple[torch.dtype, float], torch.Tensor | bool] = {}


def prepared(dtype: torch.dtype, number: float) -> torch.Tensor | float:
    """A number of run time as a tensor of a dtype where it has come up before, as rates do and losses do not."""
    key = dtype, number
    found = _seen.get(key, False)
    if type(found) is torch.Tensor:
        return found
    if dtype in _DTYPES and number and is_exact(number):  # zero has a sign that the key does not have
        if len(_seen) >= _MOST_SEEN:
            _seen.clear()
        _seen[key] = tensors(repr(number))(dtype, True) if found else True
    return number


@lru_cache(maxsize=1024)
def tensors(text: str) -> Callable[[torch.dtype, Any], Any]:
    """From a dtype to the number as a tensor of it; by its text, since 0.0 and -0.0 are equal."""
    number = ast.literal_eval(text)
    with torch.inference_mode(False):
        return {dtype: torch.tensor(number, dtype=dtype, device="cpu") for dtype in _DTYPES}.get
