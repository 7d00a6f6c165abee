"""The specialisations of one function: which are asked for a call, in which order, and which rest.

A call that none takes has read the guards of all of them for nothing. Now and then those are reviewed that calls were
asking in vain: one that costs them more than it may save others rests, and is asked for few calls only, until it takes
those. So a function whose inputs are of too many kinds loses next to nothing, and one whose inputs become as they were
has its graphs back.
"""

from __future__ import annotations

import time
import types
from collections.abc import Mapping
from typing import Any

from janusc.fallback import policy
from janusc.fallback.sharers import Sharers
from janusc.fallback.variant import Variant
from janusc.frames import uncounted
from janusc.sentinels import MISS

_TIMINGS = 3


class Roster:
    """The specialisations that are asked (``variants``) and those that rest (``resting``), with counters of them all.

    ``misses``     calls for which there were specialisations to ask, of which none fitted
    ``rests``      how often one had to rest that never was of use, since those reviewed were last found to be of use
    ``crowded``    so many are asked that whom a call is for decides which is first
    """

    def __init__(self, lock: Any, sharers: Sharers) -> None:
        self._lock, self.sharers = lock, sharers
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.variants: tuple[Variant, ...] = ()
        self.resting: tuple[Variant, ...] = ()
        self.crowded = False
        self.misses = self.rests = self._retired = 0
        self.sharers.forget()

    def __len__(self) -> int:
        return len(self.variants) + len(self.resting)

    def everyone(self) -> tuple[Variant, ...]:
        """Those that are asked and those that rest."""
        return self.variants + self.resting

    def hits(self) -> int:
        """The calls that specialisations took, those of ones that have gone included."""
        if not self.variants and not self.resting:
            return self._retired
        return self._retired + sum(variant.hits for variant in self.everyone())

    # ---- who there is

    def add(self, variant: Variant) -> None:
        """A specialisation was made: it is asked first."""
        self._begin_review(variant)
        self._keep((variant, *self.variants), self.resting)

    def drop(self, variant: Variant) -> None:
        """A specialisation goes for good."""
        self._retired += variant.hits
        self._keep(_without(self.variants, variant), _without(self.resting, variant))

    def least_used(self) -> Variant:
        """The specialisation that can be spared."""
        candidates = self.resting or self.variants
        return candidates[policy.least_used([variant.uses_of_late() for variant in candidates])]

    def _keep(self, variants: tuple[Variant, ...], resting: tuple[Variant, ...]) -> None:
        self.variants, self.resting = variants, resting
        self.crowded = len(variants) > policy.FEW_TO_TRY and self.sharers.are_several()
        self.sharers.forget()

    # ---- who is first

    def prefer(self, variant: Variant, function: types.FunctionType, args: tuple[Any, ...]) -> None:
        """A specialisation has taken a call after others had been asked; one that keeps being used is tried first."""
        variant.credit += 1
        if variant.credit < policy.HITS_TO_FRONT and not self.crowded:
            return
        with self._lock:
            variant.credit = 0
            if variant not in self.variants:
                return
            variants = (variant, *_without(self.variants, variant))
            if self.crowded:
                self.sharers.prefer(variants, function, args)
            else:
                self.variants = variants

    # ---- who rests

    @uncounted
    def look(self, function: types.FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any], each: float) -> Any:
        """Ask those that rest for a call that no other takes, and review who is to rest; MISS where none takes it.

        ``each``: the seconds of an eager call, 0 where they are not known.
        """
        for variant in self.resting:
            result = variant.call(function, args, kwargs)
            if result is not MISS:
                self._welcome(variant)
                return result
        for variant in self.resting:
            variant.credit = max(0, variant.credit - 1)
        due = [v for v in self.variants if self.misses - v.reviewed[1] >= policy.REVIEW]
        return self._review(due, function, args, kwargs, each) if due else MISS

    def _welcome(self, variant: Variant) -> None:
        """One that rests took a call, and returns where it goes on like that."""
        variant.credit += policy.TAKEN
        if variant.credit < policy.RETURNS:
            return
        with self._lock:
            variant.credit = 0
            if variant in self.resting:
                self._begin_review(variant)
                self._keep((variant, *self.variants), _without(self.resting, variant))

    @uncounted
    def _review(
        self,
        due: list[Variant],
        function: types.FunctionType,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        each: float,
    ) -> Any:
        idle, late = [], 0
        for variant in due:
            price = float("inf")
            for _ in range(_TIMINGS if each else 0):
                started = time.perf_counter()
                result = variant.call(function, args, kwargs)
                price = min(price, time.perf_counter() - started)
                if result is not MISS:
                    return result  # what the guards read was changed meanwhile
            taken, missed = variant.hits - variant.reviewed[0], self.misses - variant.reviewed[1]
            late += taken
            if not policy.is_worth_asking(taken, missed, price, each):
                idle.append(variant)
            variant.credit = 0
            self._begin_review(variant)
        with self._lock:
            if idle:
                resting = tuple(v for v in self.variants if v in idle)
                self._keep(tuple(v for v in self.variants if v not in idle), resting + self.resting)
                self.rests += any(v.hits < policy.REVIEW and not v.rested for v in idle)  # else they were of use once
                for variant in idle:
                    variant.rested = True
            elif late >= policy.REVIEW * policy.GOOD:
                self.rests = 0
        return MISS

    def _begin_review(self, variant: Variant) -> None:
        variant.reviewed = variant.hits, self.misses


def _without(variants: tuple[Variant, ...], one: Variant) -> tuple[Variant, ...]:
    return tuple(variant for variant in variants if variant is not one)
