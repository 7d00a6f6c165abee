"""Run a generated module eagerly and compiled, and say what differs."""

from __future__ import annotations

import contextlib
import functools
import itertools
import linecache
import random
import re
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import janusc as janus
from janusc.lowering.ir import HostRange
from janusc.runtime.kernels.check import WRONG
from janusc.runtime.transaction import ForcedAbort, Hook, force
from janusc.testing import Difference, Trace, World, differences, record, report

from .programs import TOPICS, write_module
from .reducing import reduce

_numbers = itertools.count()


@dataclass
class Statistics:
    """What share of the programs and calls ran in graphs, and why others did not."""

    programs: int = 0
    in_graphs: int = 0
    calls: int = 0
    graph_calls: int = 0
    whole_calls: int = 0
    fallbacks: int = 0
    raised: int = 0
    aborts: int = 0
    kernels: int = 0
    codes: Counter[str] = field(default_factory=Counter)

    def count(self, trace: Trace, target: Any) -> None:
        """The first calls of a program, and the function that ran them."""
        self.programs += 1
        self.calls += len(trace.calls)
        self.raised += sum(call["exception"] is not None for call in trace.calls)
        stats = janus.stats(target)
        self.fallbacks += stats.fallbacks
        for view in janus.graphs(target):
            if not any(isinstance(step, HostRange) for step in view.chain.steps):
                self.whole_calls += view.calls
        text = janus.explain(target)
        self.codes.update(set(re.findall(r"JC\d+", text)))
        self.kernels += bool(re.search(r"\b(a kernel|\d+ kernels)\b", text))
        self.graph_calls += stats.graph_calls
        self.in_graphs += stats.graph_calls > 0

    def add(self, other: Statistics) -> None:
        """What another part of the run counted."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        calls, programs = max(self.calls, 1), max(self.programs, 1)
        return "; ".join(
            (
                f"{self.programs} programs, {self.in_graphs / programs:.0%} of them in graphs",
                f"{self.calls} calls, {self.raised / calls:.0%} raise, {self.graph_calls / calls:.0%} in graphs",
                f"{self.whole_calls / calls:.0%} in a graph without host statements",
                f"{self.fallbacks / calls:.1%} fall back; {self.aborts} aborts",
                f"{self.kernels / programs:.0%} of the programs have kernels",
                f"codes {self.codes.most_common(12)}",
            )
        )


@functools.lru_cache(maxsize=64)
def compiled_code(source: str) -> types.CodeType:
    """The code of a module under a file name of its own: the same for every run, so that it is parsed once."""
    filename = f"<program {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # a generated test may compare a literal by identity
        return compile(source, filename, "exec", dont_inherit=True)


class Session:
    """A fresh module of a source, in which the calls of ``steps()`` are made, once per cycle."""

    def __init__(self, source: str, decorate: Callable[[Any], Any] = lambda function: function) -> None:
        self.code = compiled_code(source)
        self.decorate = decorate
        self.module = types.ModuleType("generated_program")
        self.module.__file__ = self.code.co_filename
        self.observed: dict[str, Any] = {}
        self.function: Any = None

    def cycle(self, around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext) -> Trace:
        """One more time all calls, with the same seeds; what the calls have left behind stays."""
        return record(self._world, around=around)

    def _world(self, decorate: Callable[[Any], Any]) -> World:
        module = self.module
        if self.function is None:
            exec(self.code, module.__dict__)
            self.observed = {"f": module.f, "LOG": module.LOG, "SEEN": module.SEEN}
            self.observed.update({name: getattr(module, name) for name in ("BOX", "NET") if hasattr(module, name)})
            self.function = module.f = self.decorate(module.f)
        return World(self.function, module.steps(), self.observed)


class EachAbort(ForcedAbort):
    """One failure per call, each time at a place where there was none before; the graph stays in use.

    Of the guards before anything is done only a few fail: each makes its call an eager one, and costs a conversion.
    """

    learns = False

    def __init__(self, rng: random.Random, guards: int = 1) -> None:
        super().__init__()
        self.rng, self.guards = rng, guards
        self.done: set[tuple[int, int, bool]] = set()
        self.codes: dict[int, types.CodeType] = {}  # kept alive, for their identity stands for them
        self.skip = 0

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """One call."""
        self.fired, self.skip = False, self.rng.choice((0, 0, 1, 3, 9))
        with force(self):
            yield

    def begin(self) -> Hook:
        counts: Counter[int] = Counter()

        def hook(place: str = "assert") -> bool:
            if self.fired or place == "guard" and not self.guards:
                return False
            frame = sys._getframe(1)
            code, at = frame.f_code, frame.f_lasti
            counts[at] += 1
            key = id(code), at, counts[at] > 1
            if key in self.done:
                return False
            if self.skip:
                self.skip -= 1
                return False
            self.codes[id(code)] = code
            self.done.add(key)
            self.guards -= place == "guard"
            self.fired = True
            return True

        return hook


def write_program(seed: int, topics: Sequence[str] = TOPICS) -> tuple[str, Session, Trace]:
    """The program of a seed and its eager run: the first one written of which some early call succeeds."""
    for attempt in itertools.count():
        source = write_module(random.Random(f"{seed}/{attempt}"), topics)
        try:
            session = Session(source)
        except SyntaxError:  # a walrus where there can be none
            continue
        trace = session.cycle()
        if any(call["exception"] is None for call in trace.calls[:3]):
            return source, session, trace
    raise AssertionError("unreachable")


def compare(
    source: str,
    eager: tuple[Session, Trace] | None = None,
    statistics: Statistics | None = None,
    cycles: int = 0,
    tolerance: float | None = None,
    backend: str = "aten",
    **options: Any,
) -> tuple[str, list[Difference]]:
    """What differs from the eager run, faults of the compiler's own included, and in which of the cycles.

    After the calls as they are, up to ``cycles`` times all of them again, each call with another check failing.
    """
    session, trace = eager or _begin(source)
    compiled = Session(source, functools.partial(janus.compile, backend=backend, abort_hooks=cycles > 0, **options))
    found = _differences(trace, compiled.cycle(), compiled, tolerance)
    if statistics is not None:
        statistics.count(trace, compiled.function)
    aborts = EachAbort(random.Random(len(source)))
    for number in range(1, cycles + 1):
        if found:
            return f"cycle {number - 1}", found
        before = len(aborts.done)
        made = compiled.cycle(aborts.around)
        if len(aborts.done) == before:
            break
        found = _differences(session.cycle(), made, compiled, tolerance)
    if statistics is not None:
        statistics.aborts += len(aborts.done)
    return f"cycle {cycles}", found


def _begin(source: str) -> tuple[Session, Trace]:
    session = Session(source)
    return session, session.cycle()


def _differences(eager: Trace, made: Trace, compiled: Session, tolerance: float | None) -> list[Difference]:
    found = [d for d in differences(eager, made, tolerance) if not _is_repeated_warning(d)]
    text = janus.explain(compiled.function)
    if "a fault of janusc's own" in text:
        found.append(Difference(0, "explanation", None, text))
    if WRONG in text:  # it was thrown away before it could do harm
        found.append(Difference(0, "kernel", None, text))
    return found


def _is_repeated_warning(difference: Difference) -> bool:
    """torch may warn in a graph that is rolled back, and then once more in the eager run."""
    if difference.path != "warnings":
        return False
    once, again = difference.eager, difference.compiled
    return set(once) == set(again) and len(once) < len(again) and all(place is None for _, _, place in again)


def examine(
    seed: int, cycles: int = 0, statistics: Statistics | None = None, reducing: float = 30, **options: Any
) -> str:
    """Compare the program of a seed; a report with a smaller program where something differs, else nothing."""
    source, *eager = write_program(seed)
    where, found = compare(source, (eager[0], eager[1]), statistics, cycles, **options)
    if not found:
        return ""
    first = found[0].path

    def fails(text: str) -> bool:
        _, again = compare(text, None, None, cycles, **options)
        return bool(again) and again[0].path == first

    smaller = reduce(source, fails, reducing) if reducing else source
    return f"seed {seed}, {options}, {where}: {report(found, len(eager[1].calls))}\n{smaller}"
