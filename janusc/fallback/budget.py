"""What a function may spend on its graphs: a share of what its calls have taken so far.

Nobody knows how often a function will still be called. Who spends on being faster no more than a fixed share of what
being slow has cost loses no more than this share, whatever comes: the answer to the ski-rental problem (Karlin et al.,
"Competitive snoopy caching", 1988), with the share chosen smaller, since a conversion only makes calls cheaper.
"""

from __future__ import annotations

import time
from typing import NamedTuple

SHARE = 0.1
"""Of the seconds that the calls take eagerly. What a conversion costs is only estimated, so twice that stays small."""

SECONDS_A_LINE = 2.5e-3
"""What converting costs for each line that it goes through (``lowering.extent``), as measured on common programs."""

UNMEASURED = 2e-3
"""The most seconds of calls that are taken to be like those before, between two that are measured."""

MEASURED = 32
"""Calls that are measured before any is not."""

USELESS = 0.01
"""Of the same seconds: what conversions may cost in the long run, where those before came to be of no use."""


class Start(NamedTuple):
    """The time at which a call begins, and the budget then: the seconds of calls, those spent, and the calls so far."""

    began: float
    seconds: float
    spent: float
    calls: int


class Budget:
    """The seconds of a function's calls, and those spent on profiling and converting it.

    ``lines`` is the number of lines that the next conversion is of, where there was none yet to tell its price.
    Calls inside of a call, and at once with it in another thread, are counted into its seconds once: when a call ends,
    the sum is what it was at its start and what it has taken, or more. So nothing is kept of a call that does not end,
    in a forked child that another thread's call was copied into, or after an interrupt.
    """

    __slots__ = (
        "_calls",
        "_converted",
        "_due",
        "_lines",
        "_overlap",
        "_price",
        "_seconds",
        "_spared",
        "_spent",
        "limited",
    )

    def __init__(self, limited: bool, lines: int) -> None:
        self.limited = limited
        self._spent = self._seconds = 0.0
        self._calls = self._converted = self._spared = 0
        self._overlap = False
        self._lines = lines
        self._set_due()

    def start(self) -> Start | None:
        """A call begins; None where nothing is limited."""
        if not self.limited:
            return None
        return Start(time.perf_counter(), self._seconds, self._spent, self._calls)

    def stop(self, start: Start | None) -> None:
        """An eager call has ended that began then."""
        if start is not None:
            self._count(start, self._taken_since(start))

    def stop_profiling(self, start: Start | None, lines: int, weaving: float) -> None:
        """A profiled call through so many lines has ended, with so many seconds of it for weaving the recorder in.

        What the recorder has cost beside that can't be told from a call that does more than others: as much as a mean
        call at most.
        """
        if start is not None:
            self._lines = lines
            taken = self._taken_since(start) - weaving
            recording = min(max(0.0, taken - max(self.each, self._seconds - start.seconds)), self.each)
            self.spend(weaving + recording)
            self._count(start, taken - recording)

    def _taken_since(self, start: Start) -> float:
        """The seconds since, but for those spent meanwhile."""
        return time.perf_counter() - start.began - (self._spent - start.spent)

    def _count(self, start: Start, taken: float) -> None:
        self._overlap |= self._calls != start.calls
        if start.seconds + taken > self._seconds:  # those inside of it are no calls of their own
            self._seconds, self._calls = start.seconds + taken, start.calls + 1

    def spend(self, seconds: float, conversions: int = 0) -> None:
        """So much was spent on conversions, or on preparing one."""
        self._spent += seconds
        self._converted += conversions
        self._set_due()

    def _set_due(self) -> None:
        self._price = self._spent / self._converted if self._converted else self._lines * SECONDS_A_LINE
        self._due = (self._spent + self._price) / SHARE

    @property
    def each(self) -> float:
        """The seconds of a call in the mean, 0 where none was measured."""
        return self._seconds / self._calls if self._calls else 0.0

    def longest_wait(self) -> int:
        """The calls to wait for before a conversion that is likely to be of no use, 0 where none was measured."""
        return int(self._price / (self.each * USELESS)) if self.each else 0

    def forbids(self, hits: int) -> bool:
        """Whether the next conversion may not be prepared or made yet; ``hits`` are the calls of graphs."""
        return self.limited and self._seconds < self._due and self._taken(hits) < self._due

    def _taken(self, hits: int) -> float:
        """The seconds that the calls would have taken eagerly."""
        return self._seconds + self.each * (hits + self._spared)

    def spare(self, most: int) -> int:
        """How many of the next calls need not be measured, and count as what others took.

        A call takes a few microseconds more to be measured. None is spared where calls are made inside of others, or at
        once with them: they would count more than once.
        """
        if self._overlap or self._calls < MEASURED or not self.each:
            return 0
        spared = min(most, int(UNMEASURED / self.each))
        self._spared += spared
        return spared

    def pending(self, hits: int) -> tuple[float, float] | None:
        """The seconds that calls have taken and must have taken, while the next conversion waits for that."""
        return (self._taken(hits), self._due) if self.forbids(hits) else None
