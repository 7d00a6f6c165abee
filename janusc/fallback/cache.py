"""The wrappers that the user holds, and the way from whatever the user asks about to its state.

The state lives in the closure of the wrapper, so both go when the user drops the function. Only what ``compile``
returns unchanged (a generator function, a builtin) has its state in a weak table here.
"""

from __future__ import annotations

import contextlib
import functools
import types
import weakref
from typing import Any

import torch

from janusc import marks
from janusc.diagnostics import Diagnostic
from janusc.fallback.call import CompiledFunction
from janusc.fallback.callees import Callees
from janusc.fallback.converter import Converter
from janusc.fallback.sharers import codes_of
from janusc.fallback.wrapper import make_bound_wrapper, make_wrapper
from janusc.options import Options

_shared: weakref.WeakKeyDictionary[types.FunctionType, dict[Options, weakref.ref[Any]]] = weakref.WeakKeyDictionary()
_of_code: weakref.WeakValueDictionary[tuple[tuple[int, ...], Options], CompiledFunction] = weakref.WeakValueDictionary()
_unchanged: dict[int, tuple[weakref.ref[Any], CompiledFunction]] = {}


def wrap(function: types.FunctionType, options: Options, convert: Converter) -> types.FunctionType:
    """A plain function that runs the calls of ``function`` in graphs where it can, otherwise like it."""
    wrapper = make_wrapper(function, _state_for(function, options, convert))
    functools.update_wrapper(wrapper, function)
    wrapper.__defaults__ = function.__defaults__
    wrapper.__kwdefaults__ = function.__kwdefaults__
    return wrapper


def _state_for(function: types.FunctionType, options: Options, convert: Converter) -> CompiledFunction:
    """The state of a function: that of another one of the same ``def`` or ``lambda``, as long as one is alive.

    What is made anew in each turn of a loop would else be converted anew each time. A function that is compiled again
    starts afresh.
    """
    key = tuple(map(id, codes_of(function))), options
    known = _of_code.get(key)
    if known is not None and known.sharers.adopt(function):
        return known
    state = _of_code[key] = CompiledFunction(function, options, convert, Callees(options, convert))
    return state


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
    bound = make_bound_wrapper(method, wrapper)
    functools.update_wrapper(bound, method)
    return bound


def keep_unchanged(target: Any, verdict: Diagnostic, options: Options, convert: Converter) -> None:
    """Note why a target is returned as it was; says so once."""
    known = find_state(target)
    state = known or CompiledFunction(target, options, convert, Callees(options, convert))
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
