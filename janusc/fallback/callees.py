"""Functions of the user's that ordinary Python in a converted function calls: each may have graphs of its own.

A callee that can't be a part of its caller's graph, since it does something that no graph may, is called from a host
range. What it does beside that is converted as if the user had compiled it too, but says nothing of its own.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from janusc import marks
from janusc.diagnostics import Refusal
from janusc.fallback.call import CompiledFunction
from janusc.fallback.converter import Converter
from janusc.fallback.variant import Specialisation
from janusc.fallback.wrapper import make_wrapper
from janusc.frames import uncounted
from janusc.frontend import parse
from janusc.options import Options
from janusc.runtime.optimizers import lookup
from janusc.typeinfer.callees import is_inlined

_MOST = 64
_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Callees:
    """The states of such functions, by their code: closures of one code share their graphs, and none is kept alive."""

    def __init__(self, options: Options, convert: Callable[..., Specialisation]) -> None:
        self._options = replace(options, strict=False)
        self._convert: Converter = functools.partial(convert, idle=True)
        self._known: dict[int, tuple[types.CodeType, CompiledFunction | None]] = {}
        self._active = threading.local()

    def states(self) -> list[CompiledFunction]:
        """What is known of each."""
        return [state for _, state in list(self._known.values()) if state is not None]

    def reset(self) -> None:
        """Forget them."""
        self._known = {}

    def enter(self, callee: Any) -> Any:
        """What to call instead of a callee: the same, what runs it in graphs, or an equivalent of torch's function.

        A function that runs in graphs already calls itself as it is, so that recursion gets as deep as eager's.
        """
        function = callee.__func__ if type(callee) is types.MethodType else callee
        if type(function) is not types.FunctionType or marks.is_opaque(callee):
            return callee
        if lookup.is_candidate(function):
            return lookup.equivalent_of(callee, function)
        code = function.__code__
        known = self._known.get(id(code))
        if known is None or known[0] is not code:
            if len(self._known) >= _MOST:
                return callee
            known = self._known[id(code)] = code, self._new_state(function)
        state = known[1]
        running: set[int] = self._active.__dict__.setdefault("codes", set())
        if state is None or state.direct or id(code) in running:
            return callee
        entered = _entered(make_wrapper(function, state), running, id(code))
        return entered if function is callee else types.MethodType(entered, callee.__self__)

    def _new_state(self, function: types.FunctionType) -> CompiledFunction | None:
        if function.__code__.co_flags & _SUSPENDED or marks.original_of(function) is not None:
            return None
        if not is_inlined(function):
            return None
        try:
            parse.parse(function)
        except Refusal:
            return None  # perhaps since it looks at the frames around it, which must be as in eager then
        state = CompiledFunction(function, self._options, self._convert, self)
        state.silent = True
        return state


@uncounted
def _entered(call: Any, running: set[int], key: int) -> Any:
    def entered(*args: Any, **kwargs: Any) -> Any:
        running.add(key)
        try:
            return call(*args, **kwargs)
        finally:
            running.discard(key)

    return entered
