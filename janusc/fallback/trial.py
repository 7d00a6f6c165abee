"""A new specialisation beside ordinary calls, by the clock: one that is slower is not worth keeping.

Some of the first calls that it would take run eagerly instead, which is right for any call, and both are timed. Inputs
may differ from call to call and come in turns, so who is next goes by the Thue-Morse sequence: it repeats no pattern,
and gives both their share of every turn.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable
from statistics import median
from typing import Any, Protocol

from janusc.fallback.variant import attempt
from janusc.frames import uncounted
from janusc.runtime.recovery import Rest
from janusc.sentinels import MISS

WARM = 8
"""Calls before the first that is timed: memory, caches and what a graph prepares at first are no part of its time."""

PAIRS = (16, 32)
"""Calls of each kind in the first trial, and in the second, which only a specialisation has that loses the first."""

SLOWER = (1.1, 1.05)
"""How much longer than ordinary calls it takes where it loses, in the mean of the calls and in their median."""

clock = time.perf_counter


class Tried(Protocol):
    """What is known of the specialisation under trial."""

    hits: int


class Owner(Protocol):
    """Who is told what came of a trial."""

    eager_calls: int

    def judged(self, variant: Any, run: Callable[..., Any], ratio: float, loses: bool) -> None:
        """A specialisation took so many times the seconds of ordinary calls; ``run`` is what runs it from now on."""


class Trial:
    """Runs the calls of a specialisation while they are compared; calls inside of one that is timed are not."""

    __slots__ = ("_calls", "_owner", "_round", "_run", "_seconds", "_timing", "_variant")

    def __init__(self, owner: Owner, variant: Tried, run: Callable[..., Any]) -> None:
        self._owner, self._variant, self._run = owner, variant, run
        self._calls = self._round = 0
        self._timing = False
        self._seconds: tuple[list[float], list[float]] = ([], [])

    @uncounted
    def run(self, function: types.FunctionType, /, *args: Any, **kwargs: Any) -> Any:
        """A call of the specialisation, or an ordinary one in its place; MISS where it does not take the call."""
        if self._timing or self._calls < WARM:
            self._calls += not self._timing
            return attempt(self._run, function, args, kwargs)
        eager = bool(bin(self._calls).count("1") & 1)
        self._timing = True
        started = clock()
        try:
            result = self._eager(function, args, kwargs) if eager else attempt(self._run, function, args, kwargs)
        finally:
            self._timing = False
        if result is not MISS and type(result) is not Rest:
            self._count(eager, clock() - started)
        return result

    @uncounted
    def _eager(self, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._variant.hits -= 1
        self._owner.eager_calls += 1
        return function(*args, **kwargs)

    def _count(self, eager: bool, seconds: float) -> None:
        self._calls += 1
        self._seconds[eager].append(seconds)
        if len(self._seconds[0]) + len(self._seconds[1]) < 2 * PAIRS[self._round]:
            return
        graph, ordinary = self._seconds
        mean = sum(graph) / len(graph) / max(sum(ordinary) / len(ordinary), 1e-9)
        middle = median(graph) / max(median(ordinary), 1e-9)
        loses = mean > SLOWER[0] and middle > SLOWER[1]
        if loses and self._round == 0:
            self._round, self._seconds = 1, ([], [])
            return
        self._owner.judged(self._variant, self._run, mean, loses)
