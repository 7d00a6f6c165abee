"""The state machine of a compiled function's calls.

::

    profile ──warm-up over──► convert ──► run graphs ──miss──► profile once ──next miss──► convert
                                │             │
                                │             └─ an assumption fails: roll back, finish eagerly,
                                │                refute, convert at the next call
                                └─ refused: eager from then on, with the reason

Which graphs are asked at all is the roster's to say: those that take too few of the calls rest.

The wrapper that the user holds does as little as possible; everything else is in ``CompiledFunction``. Nothing here
holds the user's function or arguments: the wrapper hands them on.
"""

from __future__ import annotations

import os
import time
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from janusc import torch_private
from janusc.diagnostics import CODES, RUNS_EAGERLY, Diagnostic, JanusError, JanusWarning, Refusal, define
from janusc.fallback import faults, generalise, places, policy
from janusc.fallback.budget import Budget
from janusc.fallback.converter import Converter, Entrance
from janusc.fallback.eager import builtins_are_replaced
from janusc.fallback.notes import Notes
from janusc.fallback.roster import Roster
from janusc.fallback.sharers import Sharers
from janusc.fallback.trial import Trial
from janusc.fallback.variant import Specialisation, Variant
from janusc.frames import uncounted
from janusc.frontend import parse
from janusc.interrupts import is_interrupt
from janusc.locks import make_lock
from janusc.lowering import extent
from janusc.lowering.ir import Chain
from janusc.options import Options
from janusc.sentinels import MISS
from janusc.source import Span, count_lines
from janusc.typeinfer.instrument import Instrumenter
from janusc.typeinfer.profile import Profile, Snapshot

STILLBORN = define("JC902", "the guards of a new graph did not hold for its own call")

Arguments = tuple[Any, ...]
Keywords = Mapping[str, Any]
_ALWAYS = 1 << 62
_OF_THE_MOMENT = (RecursionError, MemoryError, SystemError)
"""Errors of a conversion that say nothing about the program: the stack was deep already, or memory short."""


class StrictError(JanusError):
    """A call of a function compiled with ``strict=True`` would have run, or has run, eagerly after warm-up."""


class CompiledFunction:
    """What is known of one compiled function: profile, specialisations, counters, and what to do with the next call."""

    def __init__(self, function: Any, options: Options, convert: Converter, callees: Entrance) -> None:
        self.name = str(getattr(function, "__qualname__", None) or type(function).__qualname__)
        self.module = str(getattr(function, "__module__", None) or "")
        code = getattr(function, "__code__", None)
        self.span = None if code is None else Span(code.co_filename, code.co_firstlineno)
        self._lines = 0 if code is None else count_lines(code)
        self.options = options
        self.warmup = policy.PROFILED if options.warmup is None else options.warmup
        self.callees = callees
        self.silent = False
        self._convert_call = convert
        self._converter: tuple[int, object] | None = None  # the process, and who in it converts just now
        self._lock = make_lock()
        self.sharers = Sharers(function)
        self.roster = Roster(self._lock, self.sharers)
        self._clear()

    def reset(self) -> None:
        """Forget everything learned and counted."""
        self.callees.reset()
        self._clear()

    def _clear(self) -> None:
        self.profile = Profile()
        self._instrumenter = Instrumenter(self.profile)
        self.roster.clear()
        self.direct = False  # all calls run eagerly, without a look at anything else
        self.skip = 0  # so many of the next calls run eagerly at once, or as soon as no specialisation takes them
        self.verdict: Diagnostic | None = None
        self.final = False  # the verdict is of the source, not of some inputs
        self._warned = False
        self.fault = ""
        self.notes = Notes()
        self.eager_calls = self.fallbacks = 0
        self.conversions = self.evictions = self.setbacks = self.waiting = 0
        self.losses: list[float] = []  # of the graphs that were slower than ordinary calls: how much
        self.conversion_seconds = 0.0
        self._profiles_due = self.warmup
        self.budget = Budget(limited=self.options.warmup is None and not self.options.strict, lines=self._lines)
        self._relaxing = False
        self._owes_profile = False  # a part of a call that had to be finished eagerly went unseen
        self._tried_for_all: list[Snapshot] = []
        self._parsed: parse.ParsedFunction | None = None

    # ---- calls that no specialisation took

    @uncounted
    def slow(self, function: types.FunctionType, args: Arguments, kwargs: Keywords) -> Any:
        """Profile, convert or just run a call eagerly, whichever is due."""
        if not self.eager_calls % policy.LOOK and not self.options.strict:
            result = self._look(function, args, kwargs)
            if result is not MISS:
                return result
        tried = self.roster.variants
        if self._waits():
            self.roster.misses += bool(tried)
            return self.run_eagerly(function, args, kwargs)
        if torch_private.in_transform() or builtins_are_replaced():  # what is seen then is no sample of ordinary calls
            return self.run_eagerly(function, args, kwargs)
        if self.is_refused:
            self._forbid(self.verdict or "")
            return self.run_eagerly(function, args, kwargs)
        if not self._can_parse(function) or not generalise.binds(function, args, kwargs):
            return self.run_eagerly(function, args, kwargs)  # raises the TypeError that says what does not fit
        if tried and not self._relaxing:
            self.roster.misses += 1
            self.sharers.meet(args)
        if self._profiles_due > 0:
            self._profiles_due -= 1
            if tried:
                generalise.give_up(self.profile, self._chains().values(), function, args, kwargs, keep=True)
            return self._run_profiled(function, args, kwargs)
        return self._convert_and_run(function, args, kwargs, tried)

    @uncounted
    def _look(self, function: types.FunctionType, args: Arguments, kwargs: Keywords) -> Any:
        """Ask the specialisations that rest, and let others rest; MISS where none takes the call."""
        rests = self.roster.rests
        result = self.roster.look(function, args, kwargs, self.budget.each)
        if self.roster.rests > rests:
            self._wait_after_rests()
        elif self.roster.rests < rests:
            self.waiting = min(self.waiting, policy.wait_after(self.setbacks, self._longest_wait))
        return result

    @property
    def _longest_wait(self) -> int:
        return max(policy.LONGEST_WAIT, self.budget.longest_wait())

    def _wait_after_rests(self) -> None:
        self.waiting = max(self.waiting, policy.wait_after_rests(self.roster.rests, self._longest_wait))

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The specialisations that calls ask."""
        return self.roster.variants

    @property
    def is_refused(self) -> bool:
        """Whether no more conversions are tried."""
        return self.final and self.verdict is not None

    def _waits(self) -> bool:
        """Whether this call runs eagerly before the next conversion is tried; some of the next calls may, too."""
        calls = policy.LOOK - 1 - (self.eager_calls % policy.LOOK if len(self.roster) else 0)  # until the next look
        if self.waiting > 0 and self._profiles_due <= 0:
            self._forbid(
                self.verdict or "the last conversions were of no use, and the next one waits for some more calls"
            )
            self.skip = min(calls, self.waiting - 1)
            self.waiting -= 1 + self.skip
            return True
        if self.is_refused and not self.options.strict:
            self.skip = calls
            return True
        if self.budget.forbids(self.roster.hits()):
            self.skip = self.budget.spare(calls)
            return True
        return False

    def _can_parse(self, function: types.FunctionType) -> bool:
        """Whether there is a source to convert; without one, no call needs to be profiled."""
        if self._parsed is not None and self._parsed.code is not function.__code__:
            self.reset()  # the user gave the function another body: what is known is of the old one
        if self._parsed is None:
            started = time.perf_counter()
            try:
                self._parsed = parse.parse(function)
                self.budget.spend(time.perf_counter() - started)
            except Refusal as refusal:
                self.refuse(refusal.diagnostic)
                self._forbid(refusal.diagnostic)
                return False
            except Exception as error:  # a fault of ours
                if is_interrupt(error):
                    raise
                if isinstance(error, _OF_THE_MOMENT):
                    self._postpone(error)
                    return False
                self.fault = faults.printed(error)
                self.refuse(faults.fault_of(error))
                self._forbid(faults.fault_of(error))
                return False
        return True

    @uncounted
    def run_eagerly(self, function: types.FunctionType, args: Arguments, kwargs: Keywords) -> Any:
        """The plain call."""
        self.eager_calls += 1
        start = self.budget.start()
        try:
            return function(*args, **kwargs)
        finally:
            self.budget.stop(start)

    @uncounted
    def _run_profiled(self, function: types.FunctionType, args: Arguments, kwargs: Keywords) -> Any:
        start, woven = self.budget.start(), self._instrumenter.seconds
        try:
            twin = self._instrumenter.twin(function)
            self.profile.count_call()
            self.eager_calls += 1
            return twin(*args, **kwargs)
        finally:
            lines = extent.count_lines(self._instrumenter.extents, self.profile)
            self.budget.stop_profiling(start, lines, self._instrumenter.seconds - woven)

    @uncounted
    def _convert_and_run(
        self, function: types.FunctionType, args: Arguments, kwargs: Keywords, tried: tuple[Variant, ...]
    ) -> Any:
        own = os.getpid(), object()  # of this process: a forked child does not wait for its parent's
        outcome: Variant | Exception | None = None
        others: list[Variant] = []
        try:  # claimed inside, so that no interrupt leaves it claimed
            with self._lock:
                if self._converter is None or self._converter[0] != own[0]:
                    self._converter = own
            converts = self._converter is own  # else another thread does, or the conversion itself calls the function
            if converts:
                others = [v for v in self.variants if v not in tried]  # another thread was faster
                outcome = None if others else self._convert(function, args, kwargs)
        finally:
            if self._converter is own:
                self._converter = None
        if not converts:
            return self.run_eagerly(function, args, kwargs)
        if isinstance(outcome, Exception):
            return self._run_unconverted(outcome, function, args, kwargs)
        for variant in others if outcome is None else [outcome]:
            result = variant.call(function, args, kwargs)
            if result is not MISS:
                return result
        if outcome is not None:
            self._discard_stillborn(outcome)
        return self.run_eagerly(function, args, kwargs)

    # ---- conversion

    def _convert(self, function: types.FunctionType, args: Arguments, kwargs: Keywords) -> Variant | Exception:
        started = time.perf_counter()
        variant = Variant(self)
        self._relaxing = False
        try:
            parsed = self._parsed or parse.parse(function)

            def make(profile: Profile) -> Specialisation:
                enter = self.callees.enter
                return self._convert_call(
                    parsed, function, args, kwargs, profile, self.options, listener=variant, enter=enter
                )

            made = self._convert_for_all(make, function, args, kwargs)
            made = make(self.profile) if made is None else made
        except Exception as error:
            if is_interrupt(error):
                raise
            return error
        finally:
            seconds = time.perf_counter() - started
            self.conversion_seconds += seconds
            self.budget.spend(seconds, conversions=1)
        variant.adopt(made)
        if self.budget.limited:
            variant.run = Trial(self, variant, made.run).run
        self._install(variant)
        return variant

    def _convert_for_all(
        self,
        make: Callable[[Profile], Specialisation],
        function: types.FunctionType,
        args: Arguments,
        kwargs: Keywords,
    ) -> Specialisation | None:
        """A conversion that also takes what the present ones take; None where that can't be, or is no gain."""
        chains = self._chains()
        if len(chains) < (1 if self.profile.varies() else generalise.FEW):
            return None
        fork = self.profile.fork()
        covered = generalise.give_up(fork, chains.values(), function, args, kwargs)
        if not any(covered) or self._tried_for_all.count(fork.snapshot()) >= generalise.TRIES:
            return None
        self._tried_for_all.append(fork.snapshot())
        try:
            made = make(fork)
        except Refusal:
            return None
        if generalise.host_ranges(made.chain) > min(map(generalise.host_ranges, chains.values())):
            return None
        self.profile.join(fork)
        with self._lock:
            for variant, replaced in zip(chains, covered):
                if replaced and variant in self.roster.everyone():
                    self.roster.drop(variant)
        return made

    def _chains(self) -> dict[Variant, Chain]:
        return {
            v: v.made.chain for v in self.roster.everyone() if v.made is not None and isinstance(v.made.chain, Chain)
        }

    def _install(self, variant: Variant) -> None:
        with self._lock:
            self.conversions += 1
            variant.number = self.conversions
            while len(self.roster) >= self.room:
                self.roster.drop(self.roster.least_used())
                self.evictions += 1
                if self.evictions > self.room:
                    self._set_back()
            self.verdict, self.skip = None, 0
            self.roster.add(variant)
            self._wait_after_rests()  # whether this one is of use is seen before the next is made
            # a new kind of input is looked at once before it is converted
            self._profiles_due = 0 if self.options.strict else 1

    @uncounted
    def _run_unconverted(
        self, error: Exception, function: types.FunctionType, args: Arguments, kwargs: Keywords
    ) -> Any:
        """Run a call whose conversion failed; only where it succeeds was that no error of the user's."""
        if self.options.strict and not faults.has_no_work(error):
            raise StrictError(f"{self.name} can't run in a graph: {error}") from error
        trace = faults.printed(error)
        faults.cut_loose(error)
        try:
            result = self._run_profiled(function, args, kwargs)
        except BaseException:
            with self._lock:
                self._set_back()
            raise
        self._give_up(error, trace)
        return result

    def _postpone(self, error: Exception) -> None:
        """Try again later: there was too little room just now."""
        with self._lock:
            self.notes.add_refusal(faults.fault_of(error))
            self._set_back()
        self._forbid(faults.fault_of(error))

    def _give_up(self, error: Exception, trace: str) -> None:
        if isinstance(error, _OF_THE_MOMENT):
            self._postpone(error)
        elif self.options.strict and faults.has_no_work(error):
            pass  # waiting for some calls would make the next one with work an error
        elif not isinstance(error, Refusal):
            self.fault = trace
            self.refuse(faults.fault_of(error))
        elif len(self.roster):  # other inputs are converted, so these may be another time
            with self._lock:
                self.notes.add_refusal(error.diagnostic)
                self._set_back()
        else:  # a refusal is of these inputs: others are tried, ever more rarely
            with self._lock:
                self._set_back()
            self.refuse(error.diagnostic, final=error.final)

    def refuse(self, verdict: Diagnostic, final: bool = True) -> None:
        """Run eagerly, for ever or for now, whatever the specialisations there are do not take; says so once."""
        verdict = replace(verdict, effect=RUNS_EAGERLY)  # the whole function, whatever part was refused
        self.verdict, self.final = verdict, final
        self._set_direct()
        if not self._warned and not self.silent:
            self._warned = True
            self._warn(verdict)

    def _warn(self, verdict: Diagnostic) -> None:
        place = self.span or Span("<unknown>", 1)
        text = faults.announced(self.name, verdict)
        warnings.warn_explicit(text, JanusWarning, place.filename, place.line, self.module or "<unknown>")

    # ---- what the specialisations report

    def failed(self, variant: Variant, site: str | None, error: Exception, twin_succeeded: bool, place: str) -> None:
        """A transaction was rolled back and its eager twin has run: learn from it."""
        with self._lock:
            self.fallbacks += 1
            count = self.notes.add_failure(site or place or None, error, twin_succeeded)
            spurious = site is None and twin_succeeded and count >= policy.SPURIOUS_LIMIT
            if site is not None or spurious:
                news = self.profile.refute(site or f"host:{place}")
                if news or twin_succeeded:  # else an error of the program's own, which no other graph could have in it
                    self._retire(variant, site is not None and places.is_new_way(site))
                if site is not None and twin_succeeded and places.is_raise(site):
                    self.profile.refute(f"{site}:caught")  # the error of the program's did not get out
                if not news and twin_succeeded:
                    self._set_back()
        if self.options.strict and twin_succeeded:
            what = f"its graph failed with {faults.reason(error)}"
            if site is not None:
                span = self.span_of_site(site)
                what = f"the assumption at {site} failed" + (f"\n  {span}: {span.text()}" if span is not None else "")
            raise StrictError(f"{self.name} has finished this call eagerly, all its effects included: {what}")

    def judged(self, variant: Variant, run: Callable[..., Any], ratio: float, loses: bool) -> None:
        """A specialisation was compared with ordinary calls: a slower one goes, and the next one waits for long."""
        with self._lock:
            variant.run, variant.ratio = run, ratio
            if loses and variant in self.roster.everyone():
                self._drop(variant)
                self.losses.append(ratio)
                self.waiting = max(self.waiting, policy.wait_after_loss(len(self.losses), self._longest_wait))

    def observed(self, function: Any) -> Any:
        """The user's function, to be profiled while it finishes a call; else the next call is."""
        code = None if self._parsed is None else self._parsed.code
        if getattr(function, "__code__", None) is not code:
            self._owes_profile = True
            return function
        return self._instrumenter.twin(function)

    @property
    def profiling_faults(self) -> Mapping[str, str]:
        """The functions whose profiling failed by a fault of ours, with the error; they ran as they are."""
        return self._instrumenter.faults

    def span_of_site(self, site: str) -> Span | None:
        """The user's line that a site is at."""
        filename = None if self.span is None else self.span.filename
        return places.span_of_site(site, f"{self.module}.{self.name}", filename)

    @property
    def room(self) -> int:
        """The most specialisations."""
        return self.sharers.room(self.options.max_variants)

    def _retire(self, variant: Variant, new_way: bool) -> None:
        """Drop a specialisation whose assumption was false; the next call converts again."""
        if variant in self.roster.everyone():
            self._drop(variant)
            self._profiles_due = int(self._owes_profile and new_way)
            self._owes_profile = False
            self._relaxing = True

    def _discard_stillborn(self, variant: Variant) -> None:
        with self._lock:
            if variant in self.roster.everyone():
                self._drop(variant)
            self.roster.misses += 1
            self.notes.add_refusal(Diagnostic(STILLBORN, CODES[STILLBORN], self.span))
            self._set_back()
        self._forbid(CODES[STILLBORN])

    def _drop(self, variant: Variant) -> None:
        self.roster.drop(variant)
        self._set_direct()

    def _set_direct(self) -> None:
        self.direct = self.is_refused and not self.options.strict and not len(self.roster)
        self.skip = _ALWAYS if self.direct else 0

    def _set_back(self) -> None:
        self.setbacks += 1
        self.waiting = policy.wait_after(self.setbacks, self._longest_wait)

    def _forbid(self, reason: Diagnostic | str) -> None:
        if self.options.strict:
            raise StrictError(f"{self.name} would run eagerly: {reason}")
