"""Run a generated module eagerly and compiled, and say what differs."""

from __future__ import annotations

import contextlib
import functools
import itertools
import linecache
import random
import re
import types
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import janusc as janus
from janusc.lowering.ir import HostRange
from janusc.testing import Difference, Trace, World, differences, record

from .programs import write_module

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
    codes: Counter[str] = field(default_factory=Counter)

    def count(self, trace: Trace) -> None:
        self.programs += 1
        self.calls += len(trace.calls)
        self.raised += sum(call["exception"] is not None for call in trace.calls)
        ran = 0
        for target in trace.decorated:
            stats = janus.stats(target)
            ran += stats.graph_calls
            self.fallbacks += stats.fallbacks
            for view in janus.graphs(target):
                if not any(isinstance(step, HostRange) for step in view.chain.steps):
                    self.whole_calls += view.calls
            self.codes.update(set(re.findall(r"JC\d+", janus.explain(target))))
        self.graph_calls += ran
        self.in_graphs += ran > 0

    def __str__(self) -> str:
        calls, programs = max(self.calls, 1), max(self.programs, 1)
        return "; ".join(
            (
                f"{self.programs} programs, {self.in_graphs / programs:.0%} of them in graphs",
                f"{self.calls} calls, {self.raised / calls:.0%} raise, {self.graph_calls / calls:.0%} in graphs",
                f"{self.whole_calls / calls:.0%} in a graph without host statements",
                f"{self.fallbacks / calls:.1%} fall back",
                f"codes {self.codes.most_common(12)}",
            )
        )


def load(source: str, filename: str) -> types.ModuleType:
    """A fresh module of the source."""
    module = types.ModuleType("generated_program")
    module.__file__ = filename
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # a generated test may compare a literal by identity
        code = compile(source, filename, "exec", dont_inherit=True)
    exec(code, module.__dict__)
    return module


def world(source: str, filename: str, decorate: Callable[[Any], Any]) -> World:
    module = load(source, filename)
    observed = {"f": module.f, "LOG": module.LOG, "SEEN": module.SEEN}
    observed.update({name: getattr(module, name) for name in ("BOX", "NET") if hasattr(module, name)})
    module.f = decorate(module.f)
    return World(module.f, module.steps(), observed)


def run_eagerly(source: str) -> Trace:
    """The eager run of a module; raises where the module can't even be set up."""
    return record(functools.partial(world, source, f"<program {next(_numbers)}>"))


def write_program(seed: int) -> tuple[str, Trace]:
    """The program of a seed and its eager run: the first one written of which some early call succeeds."""
    for attempt in itertools.count():
        source = write_module(random.Random(f"{seed}/{attempt}"))
        trace = run_eagerly(source)
        if any(call["exception"] is None for call in trace.calls[:3]):
            return source, trace
    raise AssertionError("unreachable")


def compare(
    source: str,
    eager: Trace,
    statistics: Statistics | None = None,
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    **options: Any,
) -> list[Difference]:
    """What differs from the eager run, faults of the compiler's own included."""
    name = f"<program {next(_numbers)}>"
    compiler = functools.partial(janus.compile, backend="aten", **options)
    trace = record(functools.partial(world, source, name), compiler, around=around)
    if statistics is not None:
        statistics.count(trace)
    found = [d for d in differences(eager, trace) if not _is_repeated_warning(d)]
    for target in trace.decorated:
        text = janus.explain(target)
        if "a fault of janusc's own" in text:
            found.append(Difference(0, "explanation", None, text))
    linecache.cache.pop(name, None)
    return found


def _is_repeated_warning(difference: Difference) -> bool:
    """torch may warn in a graph that is rolled back, and then once more in the eager run."""
    if difference.path != "warnings":
        return False
    once, again = difference.eager, difference.compiled
    return set(once) == set(again) and len(once) < len(again) and all(place is None for _, _, place in again)
