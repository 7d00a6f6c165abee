"""The wrappers that the user holds, and the way from whatever the user asks about to its state.

The state lives in the closure of the wrapper, so both go when the user drops the function. Only what ``compile``
returns unchanged (a generator function, a builtin) has its state in a weak table here.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from janusc import marks, torch_private
from janusc.diagnostics import Diagnostic
from janusc.fallback import policy
from janusc.fallback.call import CompiledFunction, Converter
from janusc.fallback.eager import COVERAGE, DEBUGGER, SWITCH, runs_eagerly, tool
from janusc.frames import uncounted
from janusc.options import Options
from janusc.runtime.recovery import Rest
from janusc.sentinels import MISS

_shared: weakref.WeakKeyDictionary[types.FunctionType, dict[Options, weakref.ref[Any]]] = weakref.WeakKeyDictionary()
_unchanged: dict[int, tuple[weakref.ref[Any], CompiledFunction]] = {}


def wrap(function: types.FunctionType, options: Options, convert: Converter) -> types.FunctionType:
    """A plain function that runs the calls of ``function`` in graphs where it can, otherwise like it."""
    wrapper = _wrapper(function, CompiledFunction(function, options, convert))
    functools.update_wrapper(wrapper, function)
    wrapper.__defaults__ = function.__defaults__
    wrapper.__kwdefaults__ = function.__kwdefaults__
    return wrapper


def wrap_shared(function: types.FunctionType, options: Options, convert: Converter) -> types.FunctionType:
    """The same wrapper each time as long as one is alive: methods and instances share their graphs by function."""
    known = _shared.setdefault(function, {})
    reference = known.get(options)
    wrapper = None if reference is None else reference()
    if wrapper is None:
        wrapper = wrap(function, options, convert)
        known[options] = weakref.ref(wrapper)
    return wrapper


def wrap_bound(method: types.MethodType, wrapper: types.FunctionType) -> types.FunctionType:
    """A plain function with the signature of a bound method, calling the wrapper of its function."""
    bound = _bound_wrapper(method, wrapper)
    functools.update_wrapper(bound, method)
    return bound


@uncounted
def _wrapper(function: types.FunctionType, state: CompiledFunction) -> types.FunctionType:
    is_dynamo_compiling, gettrace, monitor = torch.compiler.is_dynamo_compiling, sys.gettrace, tool
    is_tracing = torch_private.is_tracing
    function_modes, dispatch_modes = torch_private.function_modes, torch_private.dispatch_modes
    saved_hooks = torch_private.saved_hooks

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_dynamo_compiling():  # first, for torch.compile reads this code, and must read no more of it
            return function(*args, **kwargs)
        if (
            SWITCH.open
            or gettrace() is not None
            or monitor
            and (monitor(DEBUGGER) is not None or monitor(COVERAGE) is not None)
            or is_tracing()
            or function_modes()
            or dispatch_modes()
            or saved_hooks(True) is not None
        ) and runs_eagerly():
            state.eager_calls += 1
            return function(*args, **kwargs)
        variants = state.variants
        for variant in variants:
            variant.hits += 1
            try:
                result = variant.run(function, *args, **kwargs)
            except TypeError as error:
                if error.__traceback__.tb_next is not None:  # type: ignore[union-attr]
                    raise
                variant.hits -= 1  # the arguments do not fit: left to the user's function to say
                break
            if result is not MISS:
                if type(result) is Rest:
                    return result.finish()
                if variant is not variants[0]:
                    variant.credit += 1
                    if variant.credit >= policy.HITS_TO_FRONT:
                        state.promote(variant)
                return result
            variant.hits -= 1
        if state.direct or state.waits():
            state.eager_calls += 1
            return function(*args, **kwargs)
        return state.slow(function, args, kwargs)

    return wrapper  # type: ignore[return-value]


@uncounted
def _bound_wrapper(function: types.MethodType, call: Callable[..., Any]) -> types.FunctionType:
    def bound(*args: Any, **kwargs: Any) -> Any:
        return call(function.__self__, *args, **kwargs)

    return bound  # type: ignore[return-value]


def _register_wrappers() -> None:
    for maker in (_wrapper, _bound_wrapper):
        for constant in maker.__code__.co_consts:
            if isinstance(constant, types.CodeType):
                marks.register_wrapper(constant)


_register_wrappers()


def keep_unchanged(target: Any, verdict: Diagnostic, options: Options, convert: Converter) -> None:
    """Note why a target is returned as it was; says so once."""
    known = find_state(target)
    state = known or CompiledFunction(target, options, convert)
    if known is None:
        key = id(target)
        with contextlib.suppress(TypeError):  # can't be weakly referenced, so nothing can be told about it later
            _unchanged[key] = weakref.ref(target, lambda _: _unchanged.pop(key, None)), state
    state.refuse(verdict)


def find_state(target: Any) -> CompiledFunction | None:
    """The state behind a wrapper, a method, a module class or instance, a partial; None where nothing was compiled."""
    entry = _unchanged.get(id(target))
    if entry is not None and entry[0]() is target:
        return entry[1]
    for _ in range(10):
        state: CompiledFunction | None = marks.state_of(target)
        if state is not None:
            return state
        inner = _inside(target)
        if inner is None or inner is target:
            return None
        target = inner
    return None


def _inside(target: Any) -> Any:
    """One step closer to the function."""
    if isinstance(target, types.MethodType):
        return target.__func__
    if isinstance(target, functools.partial):
        return target.func
    if isinstance(target, (staticmethod, classmethod)):
        return target.__func__
    if isinstance(target, torch.nn.Module) or isinstance(target, type) and issubclass(target, torch.nn.Module):
        return target.forward
    if isinstance(target, types.FunctionType):
        return getattr(target, "__wrapped__", None)  # decorators of the user's outside ours
    return None
