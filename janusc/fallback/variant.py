"""One specialisation in use: its executable, its counters, and what it reports when a transaction is rolled back."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from janusc.diagnostics import Diagnostic
from janusc.frames import uncounted
from janusc.lowering.ir import Chain
from janusc.runtime.backends.base import Place
from janusc.runtime.recovery import Rest
from janusc.sentinels import MISS
from janusc.source import Span


class Specialisation(Protocol):
    """What a conversion gives; ``run`` takes the function and its arguments; MISS where a guard does not hold."""

    @property
    def run(self) -> Callable[..., Any]: ...
    @property
    def chain(self) -> Chain: ...
    @property
    def source(self) -> str: ...
    @property
    def notes(self) -> tuple[Diagnostic, ...]: ...
    @property
    def guard_count(self) -> int: ...
    @property
    def places(self) -> tuple[tuple[str, Place], ...]: ...


class Owner(Protocol):
    """Who is told of failed transactions, and of which specialisation they were."""

    def failed(self, variant: Variant, site: str | None, error: Exception, twin_succeeded: bool, place: str) -> None:
        """A transaction was rolled back and its eager twin has run."""

    def observed(self, function: Any) -> Any:
        """The user's function with recording woven in; what is no such function, as it is."""


class Variant:
    """A specialisation with its counters; ``hits`` counts the calls it took, also those it had to finish eagerly.

    ``credit``: the calls that it took lately where others were to be asked first, or while it rested.
    ``rested``: it was found not to be worth asking once.
    ``ratio``: the seconds that it takes, as a multiple of those of an ordinary call; None where that was not measured.
    ``reviewed``: its hits, and the calls that no specialisation took, when it was last seen to be worth asking.
    """

    __slots__ = (
        "_marked",
        "_owner",
        "credit",
        "fallbacks",
        "hits",
        "made",
        "number",
        "ratio",
        "rested",
        "reviewed",
        "run",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._marked = 0
        self.hits = self.credit = self.fallbacks = self.number = 0
        self.reviewed, self.rested = (0, 0), False
        self.run: Callable[..., Any] = _missing
        self.made: Specialisation | None = None
        self.ratio: float | None = None

    def adopt(self, made: Specialisation) -> None:
        """Take the result of the conversion that this variant was made for."""
        self.made, self.run = made, made.run

    @uncounted
    def call(self, function: types.FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run a call and count it, as the wrapper does; MISS where a guard does not hold."""
        self.hits += 1
        result = attempt(self.run, function, args, kwargs)
        if result is MISS:
            self.hits -= 1
        return result.finish() if type(result) is Rest else result

    def uses_of_late(self) -> int:
        """The hits since this was last asked."""
        late, self._marked = self.hits - self._marked, self.hits
        return late

    def failed(self, site: str | None, error: Exception, twin_succeeded: bool) -> None:
        """A transaction of this variant was rolled back and its eager twin has run."""
        self.fallbacks += 1
        span = self._failing_span(error)
        self._owner.failed(self, site, error, twin_succeeded, "" if span is None else str(span))

    def observed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The rest of a call whose transaction was rolled back, as it is run."""
        observed: Callable[..., Any] = self._owner.observed(function)
        return observed

    def _failing_span(self, error: Exception) -> Span | None:
        """The user's line that the emitted code was at when the error was raised."""
        trace = error.__traceback__
        return None if trace is None else Span(trace.tb_frame.f_code.co_filename, trace.tb_lineno)


@uncounted
def attempt(
    run: Callable[..., Any], function: types.FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Run emitted code; arguments that do not fit are a MISS, left to the user's function to say."""
    try:
        return run(function, *args, **kwargs)
    except TypeError as error:
        if error.__traceback__.tb_next is not None:  # type: ignore[union-attr]
            raise
        return MISS


def _missing(*args: Any, **kwargs: Any) -> Any:
    return MISS
