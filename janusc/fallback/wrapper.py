"""The functions that stand in for the user's: as little as possible before a graph runs."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from janusc import marks, torch_private
from janusc.fallback.call import CompiledFunction
from janusc.fallback.eager import COVERAGE, DEBUGGER, SWITCH, runs_eagerly, tool
from janusc.frames import uncounted
from janusc.runtime.recovery import Rest
from janusc.sentinels import MISS


@uncounted
def make_wrapper(function: types.FunctionType, state: CompiledFunction) -> types.FunctionType:
    """What is called instead of a function: the graphs there are, then the state machine."""
    is_dynamo_compiling, gettrace, monitor = torch.compiler.is_dynamo_compiling, sys.gettrace, tool
    is_tracing = torch_private.is_tracing
    function_modes, dispatch_modes = torch_private.function_modes, torch_private.dispatch_modes
    saved_hooks = torch_private.saved_hooks
    roster, sharers = state.roster, state.sharers

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_dynamo_compiling():  # first, for torch.compile reads this code, and must read no more of it
            return function(*args, **kwargs)
        variants = roster.variants
        if state.skip > 0 and not variants:
            state.skip -= 1
            state.eager_calls += 1
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
        if roster.crowded:
            variants = sharers.in_order(variants, function, args)
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
                    roster.prefer(variant, function, args)
                return result
            variant.hits -= 1
        if state.skip > 0:
            state.skip -= 1
            state.eager_calls += 1
            roster.misses += 1
            return function(*args, **kwargs)
        return state.slow(function, args, kwargs)

    return wrapper  # type: ignore[return-value]


@uncounted
def make_bound_wrapper(function: types.MethodType, call: Callable[..., Any]) -> types.FunctionType:
    """What is called instead of a bound method, given what is called instead of its function."""

    def bound(*args: Any, **kwargs: Any) -> Any:
        return call(function.__self__, *args, **kwargs)

    return bound  # type: ignore[return-value]


def _register_wrappers() -> None:
    for maker in (make_wrapper, make_bound_wrapper):
        for constant in maker.__code__.co_consts:
            if isinstance(constant, types.CodeType):
                marks.register_wrapper(constant)


_register_wrappers()
