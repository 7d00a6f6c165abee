"""What stands around a backward pass in a graph: ``zero_grad`` and ``step`` of optimizers, gradients clipped.

What changes gradients stands in the transaction, behind what a rollback needs. A step can't be taken back: it ends the
segment, behind the commit.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import gast
import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import BoundV, Known, Live, Sym
from janusc.lowering.ir import Const, Tup
from janusc.lowering.iterate import static_items
from janusc.lowering.lower_autograd import is_own_statement, mark
from janusc.lowering.lower_state import check_once
from janusc.lowering.lowering import Lowering, Unconvertible
from janusc.lowering.operands import arg, is_plain, sym
from janusc.typeinfer import callees
from janusc.types import HostType, TensorType

_ZERO_GRAD = inspect.signature(torch.optim.Optimizer.zero_grad)


def call_optimizer(lo: Lowering, callee: Live, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of one of these calls; None where it is called as it is."""
    function = callee.sample
    if callees.is_zero_grad(function):
        return call_zero_grad(lo, args, kwargs)
    if callees.is_clipping(function):
        return call_clipping(lo, callee, args, kwargs)
    if callees.is_scheduled_step(function):
        return call_step(lo, _owner(lo, function), args, kwargs)
    return call_step(lo, args[0], args[1:], kwargs) if args and callees.is_step(function) else None


def call_zero_grad(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Known:
    """``Optimizer.zero_grad``, of an optimizer that was there before."""
    try:
        given = _ZERO_GRAD.bind(*args, **kwargs)
    except TypeError:
        raise lo.refuse(codes.RAISES, "TypeError: zero_grad gets other arguments") from None
    given.apply_defaults()
    optimizer, to_none = given.arguments["self"], given.arguments["set_to_none"]
    flag = to_none.value if isinstance(to_none, Known) else to_none
    if not isinstance(optimizer, Live) or type(flag) is not bool or lo.loop_depth or lo.routines:
        raise lo.refuse_call(codes.OPAQUE_CALL, "zero_grad of an optimizer, or with a flag, that varies")
    mark(lo.node)
    lo.builder.emit(ops.ZERO_GRAD, "", (optimizer.value, Const(flag)), (), (), lo.span())
    return Known(None)


def call_step(lo: Lowering, optimizer: Any, args: list[Any], kwargs: dict[str, Any]) -> Known | None:
    """``optimizer.step()`` as a statement of the function itself: it ends the segment. None where it is no such."""
    if not (is_own_statement(lo) and lo.builder.top_level and isinstance(optimizer, Live)) or args or kwargs:
        return None
    mark(lo.node)
    lo.builder.emit(ops.STEP, "", (optimizer.value,), (), (), lo.span())
    lo.ends = True
    return Known(None)


def stepped(owner: Live, callee: Any) -> Live | None:
    """The optimizer whose ``step`` this is, as torch's class has it or a scheduler has replaced it; None for others."""
    is_method = isinstance(callee, BoundV) and callee.owner is owner
    function = getattr(callee.function if is_method else callee, "sample", None)
    if not isinstance(function, FunctionType):
        return None
    is_scheduled = callees.is_scheduled_step(function) and vars(owner.sample).get("step") is function
    return owner if is_scheduled or (is_method and callees.is_step(function)) else None


def _owner(lo: Lowering, function: Any) -> Any:
    """The optimizer whose step a scheduler has replaced by this function, which is called as ``optimizer.step``."""
    called = getattr(lo.node, "func", None)
    if not isinstance(called, gast.Attribute) or not isinstance(called.value, (gast.Name, gast.Attribute)):
        return None
    owner = lo.expr(called.value)
    held = isinstance(owner, Live) and isinstance(owner.sample, torch.optim.Optimizer)
    return owner if held and vars(owner.sample).get(called.attr) is function and called.attr == "step" else None


def call_clipping(lo: Lowering, callee: Live, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``clip_grad_norm_`` or ``clip_grad_value_`` of known parameters; None where it is called as it is."""
    if not args or not lo.builder.top_level or not all(map(is_plain, [*args[1:], *kwargs.values()])):
        return None
    try:
        items = [args[0]] if isinstance(args[0], Sym) else static_items(lo, args[0])
    except Unconvertible:
        return None
    if not items or not all(isinstance(item, Sym) and isinstance(item.sample, torch.Tensor) for item in items):
        return None
    name = callee.sample.__name__
    check_once(lo, "is", (callee.value, lo.builder.ref(callee.sample)), name)  # others have the same code
    mark(lo.node)
    parameters = Tup(tuple(item.value for item in items))
    named = tuple((k, arg(lo, v)) for k, v in kwargs.items())
    has_norm = name == "clip_grad_norm_"
    types = (TensorType() if has_norm else HostType("NoneType"),)
    (value,) = lo.builder.emit(ops.CLIP, name, (parameters, *(arg(lo, a) for a in args[1:])), named, types, lo.span())
    return sym(value, torch.zeros((), dtype=items[0].sample.dtype), fresh=True) if has_norm else Known(None)
