"""Rules of thumb of the call state machine, as pure functions: what to evict, when to try again."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_WAIT = 4096
HITS_TO_FRONT = 8
"""Hits out of order after which a specialisation is tried first: rarely enough that alternating inputs cost nothing."""

PROFILED = 3
"""Calls that are profiled before the first conversion, where the user names no other number."""

FEW_TO_TRY = 4
"""Specialisations that are simply tried in turn: with more of them, those who share them are told apart first."""

MOST_SHARERS = 128
"""Functions or modules that the specialisations of one state are kept for."""

SPURIOUS_LIMIT = 2
"""Failures of one statement that eager did not have, before that statement stays outside of graphs."""


def wait_after(setbacks: int) -> int:
    """The eager calls before the next conversion: doubled with each setback, but never for ever."""
    return min(2**setbacks, LONGEST_WAIT) if setbacks > 0 else 0


def least_used(uses: Sequence[int]) -> int:
    """The index of what was used least of late; among equals the last, which was tried last."""
    return min(range(len(uses)), key=lambda index: (uses[index], -index))
