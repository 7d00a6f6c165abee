"""The public interface: ``compile`` and the questions about what it made.

There is no wrapper object: ``compile`` returns a plain function, or the very class or instance it was given; everything
known about it is asked through the functions here.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar, overload

import torch

from janusc import marks
from janusc.diagnostics import Refusal
from janusc.fallback import binding, cache, report
from janusc.fallback.call import CompiledFunction, StrictError
from janusc.fallback.converter import Converter
from janusc.fallback.report import GraphViews, Stats
from janusc.frontend import capture
from janusc.options import Options, make_options

C = TypeVar("C", bound=Callable[..., Any])


class _Missing:
    """There is no argument; None would be one, and a wrong one."""


_MISSING = _Missing()


@overload
def compile(
    *,
    warmup: int | None = ...,
    backend: str = ...,
    strict: bool = ...,
    trust_inputs: bool = ...,
    passes: bool = ...,
    executor: str = ...,
    abort_hooks: bool = ...,
    max_variants: int = ...,
) -> Callable[[C], C]: ...


@overload
def compile(
    target: C,
    /,
    *,
    warmup: int | None = ...,
    backend: str = ...,
    strict: bool = ...,
    trust_inputs: bool = ...,
    passes: bool = ...,
    executor: str = ...,
    abort_hooks: bool = ...,
    max_variants: int = ...,
) -> C: ...


def compile(target: Any = _MISSING, /, **options: Any) -> Any:
    """Run a function, method, ``nn.Module`` class or instance as graphs wherever that gives the same.

    A function or bound method comes back as a plain function with the same signature; of a module class or instance
    the ``forward`` is replaced in place, and the same object comes back. Without a target it is a decorator:
    ``@janus.compile(warmup=1)``.

    The first calls run eagerly, and three of them are profiled; then the function is converted, under assumptions that
    are checked in each call; where one does not hold, state is rolled back and that call runs eagerly. This waits until
    it is worth its price: no more is spent on it than a tenth of what the calls have taken so far, while ``warmup=n``
    converts after ``n`` profiled calls. What can't be converted runs eagerly and says so once, as a
    ``JanusWarning``; with ``strict=True`` that is an error. See ``Options`` for the rest.
    """
    chosen = make_options(options)
    if isinstance(target, _Missing):
        return functools.partial(_compile, chosen)
    return _compile(chosen, target)


def _compile(options: Options, target: Any) -> Any:
    if isinstance(target, (staticmethod, classmethod)):
        return type(target)(_compile(options, target.__func__))
    if not callable(target):
        raise TypeError(f"janusc: compile needs a function, a method, a module class or instance, got {target!r}")
    if isinstance(target, torch.nn.Module):
        return _compile_instance(options, target)
    if isinstance(target, type):
        return _compile_class(options, target)
    if isinstance(target, functools.partial):
        return _compile_partial(options, target)
    if isinstance(target, types.FunctionType):
        return _compile_function(options, target)
    if isinstance(target, types.MethodType):
        return _compile_method(options, target)
    called = type(target).__call__
    if isinstance(called, types.FunctionType):  # an object with a __call__ of the user's
        return _compile_method(options, types.MethodType(called, target))
    return _leave(options, target, target)


def _compile_function(options: Options, function: types.FunctionType) -> Any:
    state: CompiledFunction | None = marks.state_of(function)
    original = marks.original_of(function)
    if state is not None and original is not None:
        return function if state.options == options else _compile(options, original)
    if function.__code__.co_flags & _RESUMABLE:
        return _leave(options, function, function)
    return cache.wrap(function, options, _converter())


# generators and coroutines of all kinds
_RESUMABLE = 0x20 | 0x80 | 0x100 | 0x200


def _compile_method(options: Options, method: types.MethodType) -> Any:
    wrapper = _shared_wrapper(options, method.__func__)
    if wrapper is None:
        return _leave(options, method, method.__func__)
    return cache.wrap_bound(types.MethodType(_original(method.__func__), method.__self__), wrapper)


def _compile_class(options: Options, cls: type) -> type:
    forward = getattr(cls, "forward", None) if issubclass(cls, torch.nn.Module) else None
    wrapper = _shared_wrapper(options, forward)
    if wrapper is None:
        left: type = _leave(options, cls, cls if forward is None else forward)
        return left
    cls.forward = wrapper  # type: ignore[attr-defined]
    return cls


def _compile_instance(options: Options, module: torch.nn.Module) -> torch.nn.Module:
    forward: Any = module.forward
    method = isinstance(forward, types.MethodType) and forward.__self__ is module
    wrapper = _shared_wrapper(options, forward.__func__ if method else forward)
    if wrapper is None or isinstance(module, torch.jit.ScriptModule):
        left: torch.nn.Module = _leave(options, module, forward)
        return left
    if not method:
        vars(module)["forward"] = wrapper
    elif wrapper is not forward.__func__:
        binding.bind_forward(module, wrapper)
    return module


def _compile_partial(options: Options, target: functools.partial[Any]) -> Any:
    inner = _compile(options, target.func)
    if inner is target.func:
        return target
    made = functools.partial(inner, *target.args, **target.keywords)
    vars(made).update(vars(target))
    return made


def _original(function: Any) -> Any:
    """The user's function, also behind a wrapper of ours."""
    original = marks.original_of(function)
    return function if original is None else original


def _shared_wrapper(options: Options, function: Any) -> types.FunctionType | None:
    """The wrapper of a method's function, or None where that can't have one."""
    function = _original(function)
    if type(function) is not types.FunctionType or function.__code__.co_flags & _RESUMABLE:
        return None
    return cache.wrap_shared(function, options, _converter())


def _leave(options: Options, target: Any, culprit: Any) -> Any:
    """Return a target as it is, and say once why."""
    try:
        capture.capture(culprit)
    except Refusal as refusal:
        if options.strict:
            raise StrictError(f"janusc: {target!r} can't run in a graph: {refusal.diagnostic}") from refusal
        cache.keep_unchanged(target, refusal.diagnostic, options, _converter())
    return target


def _converter() -> Converter:
    """The pipeline, imported late: a program that only imports the package does not wait for the compiler's parts."""
    from janusc.pipeline import convert

    return convert


def _state(target: Any) -> CompiledFunction:
    state = cache.find_state(target)
    if state is None:
        raise TypeError(f"janusc: {target!r} was not compiled with janus.compile")
    return state


def stats(target: Any) -> Stats:
    """Counters of a compiled function, method, class or instance: what ran where, how often, at what cost."""
    return report.make_stats(_state(target))


def explain(target: Any) -> str:
    """A text that says, at the user's own lines, what is in graphs, what is assumed, and what runs eagerly and why."""
    return report.explain_state(_state(target))


def graphs(target: Any) -> GraphViews:
    """The graphs in use, oldest first: ``print`` shows all or one, ``source`` of one is the Python emitted for it."""
    return report.list_graphs(_state(target))


def reset(target: Any) -> None:
    """Forget what was learned about a compiled function: profile, graphs and counters."""
    _state(target).reset()


def wait(target: Any) -> None:
    """Wait until the kernels are there that a compiled function's graphs may use for the inputs they have met.

    Without it they come in the background, once a block has been called often enough. Whether a kernel is then kept is
    decided by the next calls, as ever; ``janus.explain`` says why there is none where none can be made.
    """
    report.wait_for_kernels(_state(target))


def opaque(target: C) -> C:
    """Declare that a function, class or instance is called as it is and never looked into; returns it."""
    if not callable(target):
        raise TypeError(f"janusc: opaque needs something callable, got {target!r}")
    marks.mark_opaque(target)
    return target
