"""When a call must be plain Python: the user asked for it, or somebody watches each single step of the program."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from janusc import torch_private


class Switch:
    """``open`` counts the ``eager()`` blocks open anywhere: with none, a call pays for one look at it."""

    __slots__ = ("open",)

    def __init__(self, start: int) -> None:
        self.open = start


WHOLE_PROCESS = os.environ.get("JANUSC_EAGER", "").strip().lower() not in ("", "0", "false", "no")
SWITCH = Switch(int(WHOLE_PROCESS))
_inside: ContextVar[bool] = ContextVar("janusc_eager", default=WHOLE_PROCESS)


_MONITORING: Any = getattr(sys, "monitoring", None)
tool: Callable[[int], str | None] | None = getattr(_MONITORING, "get_tool", None)
"""Who uses a slot of ``sys.monitoring``; None before Python 3.12."""

DEBUGGER, COVERAGE = 0, 1
"""The slots of the tools that look for lines of the user's code objects, whatever events they asked for."""


@contextmanager
def eager() -> Iterator[None]:
    """Run every compiled function called inside as plain Python.

    Only for the thread or task that entered it; nothing is profiled or converted meanwhile. Setting ``JANUSC_EAGER=1``
    in the environment does the same for a whole process.
    """
    SWITCH.open += 1
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)
        SWITCH.open -= 1


_HARMLESS = frozenset({"print", "input", "open", "breakpoint", "help", "exit", "quit", "display", "__import__", "_"})
_BUILTINS = {name: value for name, value in vars(builtins).items() if name not in _HARMLESS}


def builtins_are_replaced() -> bool:
    """Whether a builtin function is another one just now: janusc itself could not be trusted."""
    now = vars(builtins)
    return any(now.get(name) is not value for name, value in _BUILTINS.items())


def runs_eagerly() -> bool:
    """Whether this call must be plain Python.

    That is inside ``eager()``, under a debugger, a coverage tool or another tracer, recorded by a torch tracer, seen by
    a torch mode, or where hooks see what is saved for backward: they may stop the program by an exception, as
    checkpointing does when it has recomputed enough, and must not be called twice for one call.
    """
    return (
        _inside.get()
        or sys.gettrace() is not None
        or tool is not None
        and (tool(DEBUGGER) is not None or tool(COVERAGE) is not None)
        or torch_private.is_tracing()
        or torch_private.watching_modes()
        or torch_private.is_symbolic_tracing()
        or torch_private.saved_hooks(True) is not None
    )
