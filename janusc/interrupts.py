"""Exceptions that come from outside of the program: interrupts, exits, what signal handlers and other threads raise.

They may be raised between any two instructions, also in a graph or during a conversion. None of them says anything
about the graph, and none may be lost.
"""

from __future__ import annotations

import os
import signal
import types
from collections.abc import Iterator
from typing import Any

import torch

_PLACES = tuple(os.path.dirname(os.path.abspath(path)) + os.sep for path in (torch.__file__, __file__))
_OWN = frozenset({"builtins", "torch", "janusc", "numpy", "gast"})
"""The packages whose classes the operations of a graph, or a conversion, raise by themselves."""


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception was raised by a signal handler or from another thread, not by what was running.

    What is no ``Exception`` always was. Of the others, a signal handler's has the handler's frame in its trace, and one
    that was put into the thread is of a class that no operation raises, without a frame of its own.
    """
    if not isinstance(error, Exception):
        return True
    trace = error.__traceback__
    foreign = type(error).__module__.partition(".")[0] not in _OWN or isinstance(error, TimeoutError)
    if trace is None or trace.tb_next is None:
        return foreign
    codes = list(_codes(trace))
    if foreign and not any(_is_foreign(code) for code in codes[1:]):
        return True
    handlers = [code for number in signal.valid_signals() if (code := _handler_code(signal.getsignal(number)))]
    return any(code is handler for code in codes for handler in handlers)


def _codes(trace: types.TracebackType | None) -> Iterator[types.CodeType]:
    while trace is not None:
        yield trace.tb_frame.f_code
        trace = trace.tb_next


def _is_foreign(code: types.CodeType) -> bool:
    return not code.co_filename.startswith(_PLACES)


def _handler_code(handler: Any) -> types.CodeType | None:
    while hasattr(handler, "func"):  # functools.partial
        handler = handler.func
    if not hasattr(handler, "__code__"):
        handler = getattr(handler, "__func__", None) or vars(type(handler)).get("__call__")
    code = getattr(handler, "__code__", None)
    return code if isinstance(code, types.CodeType) else None
