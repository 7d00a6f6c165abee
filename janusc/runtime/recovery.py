"""The way back: from a body that failed to the result of the call, or to the interrupt that ended it.

Comes in: the error, the undo log, and what runs the rest of the call eagerly. Goes out: a ``Rest``, which the caller of
the emitted function finishes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol

from janusc.frames import uncounted
from janusc.interrupts import is_interrupt
from janusc.once import uncounted_warnings
from janusc.runtime.transaction import Deopt, UndoLog, is_learnt_from, rollback
from janusc.sentinels import MISS


class Listener(Protocol):
    """Who is told of transactions that did not commit."""

    def failed(self, site: str | None, error: Exception, twin_succeeded: bool) -> None:
        """A body was rolled back because of ``error``, and its eager twin has run."""

    def observed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What to run eagerly instead of ``function``, so that something is learned of a way that was not expected."""


class Rest:
    """What an executable returns for a call that it rolled back: how to finish it, or the interrupt to raise.

    The caller of the executable finishes it, so that no frame of emitted code is on the stack of the eager twin.
    """

    __slots__ = ("args", "error", "interrupts", "kwargs", "listener", "resume", "trace")

    def __init__(
        self,
        listener: Listener | None,
        error: BaseException,
        resume: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        self.listener, self.error, self.resume, self.args, self.kwargs = listener, error, resume, args, kwargs
        self.interrupts = not isinstance(error, Deopt) and is_interrupt(error)
        # The trace holds the emitted frame, which holds the error; the twin may also raise this very object.
        self.trace, error.__traceback__ = error.__traceback__, None

    @uncounted
    def finish(self) -> Any:
        """Run the rest of the call eagerly: the result is the result of the call.

        Nothing is kept here meanwhile: this object is in a frame that the trace of an exception may hold for long.
        """
        error, trace, resume = self.error, self.trace, self.resume
        listener = self.listener if is_learnt_from(error) else None
        args, kwargs = self.args, self.kwargs
        del self.error, self.trace, self.args, self.kwargs
        try:
            if self.interrupts:
                error.__traceback__ = trace
                _forget_locals(trace)
                raise error
            site = error.site if isinstance(error, Deopt) else None
            if listener is not None and site is not None:
                resume = listener.observed(resume)
            try:
                if gave_warning(error):
                    with uncounted_warnings():  # torch has counted the one that was not shown
                        result = resume(*args, **kwargs)
                else:
                    result = resume(*args, **kwargs)
            except BaseException:
                if listener is not None:
                    listener.failed(site, _reportable(error), False)
                raise
            if listener is not None:
                error = _reportable(error)
                error.__traceback__ = trace
                try:
                    listener.failed(site, error, True)
                finally:
                    error.__traceback__ = None
            return result
        finally:
            del error, trace, args, kwargs


def _forget_locals(trace: TracebackType | None) -> None:
    """Let go of the values of the emitted frame, which holds the error that holds the frame."""
    if trace is not None:
        with suppress(RuntimeError):  # it still runs
            trace.tb_frame.clear()


def give_up(
    listener: Listener | None,
    error: BaseException,
    undo: UndoLog,
    resume: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Rest:
    """Roll back, and say how to finish the call.

    Called outside the handler that caught ``error``, so an exception of the twin has the context it has in eager mode.
    Where this itself is interrupted, it is called again with the interrupt as the error.
    """
    try:
        rollback(undo)
    except BaseException as late:
        error = late
        rollback(undo)
    return Rest(listener, error, resume, args, kwargs or {})


def recover(
    listener: Listener | None,
    error: BaseException,
    undo: UndoLog,
    resume: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Roll back and finish the call."""
    return give_up(listener, error, undo, resume, args, kwargs).finish()


def missed(error: Exception) -> Any:
    """The answer where a guard raised: MISS, unless it was an interrupt."""
    return Rest(None, error, _nothing, (), {}) if is_interrupt(error) else MISS


def _nothing() -> None:
    return None


class Warned(Exception):
    """Stands in reports for the error by which a warning ended a graph."""


def _reportable(error: BaseException) -> Any:
    return Warned("a torch operation gave a warning, as ordinary Python must") if gave_warning(error) else error


class NoRegistry:
    """In place of ``__warningregistry__`` of emitted code: Python refuses to give a warning that comes from there.

    So the graph fails before anything is shown, and the user's own line gives the warning, once.
    """


_REGISTRY, _ENDINGS = "__warningregistry__", "_jc_endings"
NO_REGISTRY = NoRegistry()


@uncounted
def ending(run: Callable[..., None], function: Any, emitted: dict[str, Any], *args: Any, **kwargs: Any) -> None:
    """What is run once, behind a transaction, may call hooks: a warning of theirs that names its line is given."""
    own = function.__globals__
    registry = own.get(_REGISTRY)
    given: Any = {} if registry is None else registry
    emitted[_ENDINGS] = emitted.get(_ENDINGS, 0) + 1
    emitted[_REGISTRY] = given
    try:
        run(*args, **kwargs)
    finally:
        emitted[_ENDINGS] -= 1
        if not emitted[_ENDINGS]:  # this code may be running in a hook of its own
            emitted[_REGISTRY] = NO_REGISTRY
        if given and registry is None:
            own[_REGISTRY] = given


_NO_REGISTRY = "'registry' must be a dict or None"


def gave_warning(error: BaseException) -> bool:
    """Whether the graph failed because a torch operation in it warned."""
    return type(error) is TypeError and _NO_REGISTRY in str(error)
