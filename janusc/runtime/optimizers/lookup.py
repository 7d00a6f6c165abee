"""From what is about to be called to what to call instead."""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import torch

from janusc import torch_private
from janusc.frames import uncounted
from janusc.runtime.optimizers import adagrad, adam, backwards, clipping, gradients, rmsprop, sgd  # noqa: F401
from janusc.runtime.optimizers.equivalents import EQUIVALENTS, Equivalent
from janusc.typeinfer import callees

_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_WRAPPING = frozenset(
    os.path.join(_TORCH, *path)
    for path in (("optim", "optimizer.py"), ("_compile.py",), ("nn", "utils", "clip_grad.py"))
)
"""The files of the wrappers that torch puts around the functions of the table: an equivalent stands for these, too."""


def _outermost_codes() -> Iterator[CodeType]:
    """The codes of what is called where a function of the table is meant."""
    yield from callees.scheduled_codes()
    for code in callees.codes_in(torch.optim.Optimizer.profile_hook_step.__code__):
        if "func" in code.co_freevars:
            yield code
    clips = torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_
    for function in (torch.optim.Optimizer.zero_grad, torch.Tensor.backward, *clips):
        if isinstance(function, FunctionType):  # not replaced by something else
            yield function.__code__


_CODES = {id(code): code for code in _outermost_codes()}
_SCHEDULERS = {id(code): code for code in callees.scheduled_codes()}
_found: dict[FunctionType, Equivalent | None] = {}


def is_candidate(function: FunctionType) -> bool:
    """Whether a function may have an equivalent: of nearly all others this says no at once."""
    return id(function.__code__) in _CODES


def equivalent_of(callee: Any, function: FunctionType) -> Any:
    """What to call instead of a candidate, which is ``function`` or a method of it; the same where there is nothing."""
    if torch_private.FOREACH is None:
        return callee
    if id(function.__code__) in _SCHEDULERS:
        return _scheduled(callee, function)
    equivalent = _equivalent(function)
    if equivalent is None:
        return callee
    owner = callee.__self__ if type(callee) is types.MethodType else None
    return functools.partial(equivalent, callee, owner)


def _equivalent(function: FunctionType) -> Equivalent | None:
    """That of the function inside of torch's own wrappers."""
    if function in _found:
        return _found[function]
    inner = function
    while inner not in EQUIVALENTS and inner.__code__.co_filename in _WRAPPING:
        inner = getattr(inner, "__wrapped__", None)  # type: ignore[assignment]
        if type(inner) is not FunctionType:
            return None
    found = EQUIVALENTS.get(inner)
    if found is not None:
        _found[function] = found  # one for each class of optimizers
    return found


def _scheduled(callee: Any, function: FunctionType) -> Any:
    """The step of an optimizer that has a scheduler, which counts the calls by an attribute."""
    held = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    step, optimizer = held["func"].cell_contents, held["opt_ref"].cell_contents()
    if callee is not function or type(step) is not FunctionType or optimizer is None:
        return callee
    equivalent = _equivalent(step)
    return callee if equivalent is None else functools.partial(_call_scheduled, equivalent, callee, optimizer)


@uncounted
def _call_scheduled(
    equivalent: Equivalent, original: Callable[..., Any], optimizer: Any, /, *args: Any, **kwargs: Any
) -> Any:
    setattr(optimizer, torch_private.SCHEDULED, True)
    return equivalent(original, optimizer, *args, **kwargs)
