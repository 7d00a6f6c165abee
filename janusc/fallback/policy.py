"""Rules of thumb of the call state machine, as pure functions: what to evict, what to ask, when to try again."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_WAIT = 4096
"""Calls between two conversions of no use, where it is not known how many of them such a conversion is worth."""

HITS_TO_FRONT = 4
"""Hits out of order after which a specialisation is tried first: soon enough for runs of twenty calls of one kind, and
rarely enough for kinds in turn, which the one that was last tried first would make read all guards each time."""

PROFILED = 3
"""Calls that are profiled before the first conversion, where the user names no other number."""

FEW_TO_TRY = 4
"""Specialisations that are simply tried in turn: with more of them, those who share them are told apart first."""

MOST_SHARERS = 128
"""Functions or modules that the specialisations of one state are kept for."""

SPURIOUS_LIMIT = 2
"""Failures of one statement that eager did not have, before that statement stays outside of graphs."""

REVIEW = 256
"""Calls that no specialisation takes between two reviews of which are worth asking."""

LOOK = 61
"""Of the calls that run eagerly, one in so many asks the specialisations that rest: a prime, so that it is not always
the same one of calls that are of two kinds, or eight, in turn."""

TAKEN, RETURNS = 4, 8
"""What a specialisation that rests gains by a call that it takes when it is asked, against one that it loses by each
that none takes, and with how much it returns: soon, if it takes more than a fifth of the calls."""

FEWEST = 1 / 16
"""Calls taken for each that was not, below which a specialisation is not worth asking, where no seconds are known."""

GOOD = 1 / 4
"""Calls taken for each that was not, from which on conversions are of use again, whatever came of those before."""

GAIN = 1 / 8
"""The share of a call's seconds that a specialisation may save, careful as guesses are."""

COLD = 3
"""How much more it costs to read guards in the middle of a program than at once again, when they are timed."""

NEGLIGIBLE = 1e-3
"""The share of a call's seconds that nobody needs to think about."""


def wait_after(setbacks: int, longest: int = LONGEST_WAIT) -> int:
    """The eager calls before the next conversion: doubled with each setback, but never for ever."""
    return min(1 << min(setbacks, 62), longest) if setbacks > 0 else 0


def least_used(uses: Sequence[int]) -> int:
    """The index of what was used least of late; among equals the last, which was tried last."""
    return min(range(len(uses)), key=lambda index: (uses[index], -index))


def wait_after_rests(rests: int, longest: int) -> int:
    """The calls before the next conversion, after so many times that specialisations had to rest."""
    return min(LONGEST_WAIT << 2 * min(rests - 1, 16), longest) if rests > 0 else 0


def wait_after_loss(losses: int, longest: int) -> int:
    """The calls before the next conversion, after so many graphs that were slower than ordinary calls."""
    return max(LONGEST_WAIT << 2 * min(losses - 1, 16), longest)


def is_worth_asking(taken: int, missed: int, price: float, each: float) -> bool:
    """Whether a specialisation saves more by calls it takes than asking it costs those that none takes.

    ``price``: the seconds of asking it in vain; ``each``: those of an eager call, 0 where they are not known.
    """
    if not each:
        return taken >= missed * FEWEST
    return COLD * price <= each * NEGLIGIBLE or taken * each * GAIN >= missed * COLD * price
