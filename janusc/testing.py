"""Does a compiled function behave as the eager one? For users' own tests.

``assert_equivalent`` calls a function several times eagerly and several times compiled, each time in a fresh copy of
its world, and compares everything a user could see after every call: the result, the arguments and every object that
the function can reach, gradients, random number streams, output, warnings and exceptions.

A *world* is what one run needs (`World`), a *trace* what one run left behind (`Trace`): one flat table from path to
fact per call, so that a difference is a path with two facts.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import io
import math
import os
import re
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

import janusc
from janusc.ambient import ambient_facts, isolated
from janusc.diagnostics import JanusWarning
from janusc.snapshot import Fact, Snapshot, is_leaf, scrub
from janusc.tensor_fact import TensorFact, tensor_fact
from janusc.worlds import Call, Decorator, Step, World, copied_world, made_world

__all__ = ["Call", "Difference", "Trace", "World", "assert_equivalent", "differences", "record"]

Around = Callable[[], contextlib.AbstractContextManager[Any]]


@dataclass(frozen=True, eq=False)
class Trace:
    """What one run left behind: a table of facts per call, what the decorator returned, and janusc's own warnings."""

    calls: tuple[dict[str, Fact], ...]
    decorated: tuple[Any, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Difference:
    """One fact that differs; None stands for a fact that the other run doesn't have."""

    call: int
    path: str
    eager: Fact
    compiled: Fact

    def __str__(self) -> str:
        return f"call {self.call}: {self.path} differs\n  eager:    {self.eager}\n  compiled: {self.compiled}"


def assert_equivalent(
    f: Any,
    *inputs: Any,
    calls: int | Sequence[Step] | None = None,
    backend: str = "aten",
    warmup: int = 1,
    factory: bool = False,
    graph: bool = False,
    gradients: bool = True,
    tolerance: float | None = None,
    seed: int = 0,
    compiler: Decorator | None = None,
    **options: Any,
) -> None:
    """Fail with the first difference between ``f`` run eagerly and ``f`` run under ``janusc.compile``.

    ``f`` is a function, a bound method or a module, compiled already or not. Each of the two runs gets deep copies of
    the arguments and of all that can be reached from ``f``: closures, defaults, and the data that functions and methods
    find by name in user modules and on user classes; afterwards everything is as it was. What can't be copied (an
    iterator, a lock, a tensor that is not a leaf) comes from a factory: with ``factory=True``, ``f`` is a function
    without arguments that returns a fresh function, or a tuple of one and the state objects to compare.

    ``inputs`` are the arguments of every call, and ``calls`` the number of calls (default: ``warmup`` + 3); or
    ``calls`` lists the calls: tuples of arguments, `Call` objects, or (with a factory) callables given the function and
    the state objects. ``graph=True`` also fails where no call ran in a graph. ``tolerance`` relaxes the comparison of
    floating-point values, for fusing backends, also of those in texts; everything else stays exact. ``compiler``
    replaces ``janusc.compile``; other options go to it.
    """
    if isinstance(calls, Sequence):
        if inputs:
            raise TypeError("assert_equivalent: give either inputs or a list of calls, not both")
        steps = list(calls)
    else:
        steps = [tuple(inputs)] * (warmup + 3 if calls is None else calls)

    if compiler is None:
        compiler = functools.partial(janusc.compile, backend=backend, warmup=warmup, **options)

    def run(decorate: Decorator, around: Around = contextlib.nullcontext) -> Trace:
        made = contextlib.nullcontext(functools.partial(made_world, f, steps)) if factory else copied_world(f, steps)
        with made as make:
            return record(make, decorate, seed=seed, gradients=gradients, around=around)

    eager, compiled = run(lambda function: function, janusc.eager), run(compiler)
    found = differences(eager, compiled, tolerance)
    if found:
        raise AssertionError(report(found, len(steps)))
    if graph and not any(janusc.stats(g).graph_calls for g in compiled.decorated):
        raise AssertionError(f"all {len(steps)} calls ran eagerly; janusc.explain says why")


def report(found: Sequence[Difference], calls: int) -> str:
    """The first difference in full, and the paths of a few more in the same call."""
    first = found[0]
    more = [d.path for d in found[1:] if d.call == first.call]
    text = str(first).replace(f"call {first.call}:", f"call {first.call} of {calls}:", 1)
    if more:
        text += f"\n  in this call also: {', '.join(more[:4])}{f' and {len(more) - 4} more' if len(more) > 4 else ''}"
    return text


def record(
    make: Callable[[Decorator], World],
    decorate: Decorator = lambda function: function,
    *,
    seed: int = 0,
    gradients: bool = True,
    around: Around = contextlib.nullcontext,
) -> Trace:
    """Run one world and say what it left behind after each call.

    ``make`` gets the decorator and returns the world, with the decorator applied to the function under test.
    Each call is made inside ``around()``.
    """
    decorated: list[Any] = []

    def remember(target: Any) -> Any:
        decorated.append(decorate(target))
        return decorated[-1]

    def play() -> _Run:
        with isolated(seed) as environment:
            world = make(remember)
            run = _Run(world, gradients, environment)
            for step in world.steps:
                run.call(step, around)
        return run

    run = contextvars.copy_context().run(play)
    return Trace(tuple(run.tables), tuple(decorated), tuple(run.notices))


def differences(eager: Trace, compiled: Trace, tolerance: float | None = None) -> list[Difference]:
    """The facts that differ, in the order of the calls and within a call as the eager run has them."""
    found = []
    for number, (left, right) in enumerate(zip(eager.calls, compiled.calls), 1):
        for path in [*left, *(p for p in right if p not in left)]:
            a, b = left.get(path), right.get(path)
            if not (
                a.matches(b, tolerance) if isinstance(a, TensorFact) else a == b or _is_near(path, a, b, tolerance)
            ):
                found.append(Difference(number, path, a, b))
    return found


def _is_near(path: str, a: Fact, b: Fact, tolerance: float | None) -> bool:
    """Whether two facts are the same but for the rounding of numbers in them, and for memory that nobody reads."""
    if tolerance is None or a is None or b is None:
        return False
    if path.endswith(": storage size"):
        return True
    if type(a) is tuple and type(b) is tuple and len(a) == len(b):
        return all(x == y or _is_near(path, x, y, tolerance) for x, y in zip(a, b))
    if type(a) is not str or type(b) is not str or _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return False
    pairs = zip(map(float, _NUMBER.findall(a)), map(float, _NUMBER.findall(b)))
    return all(math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance) for x, y in pairs)


_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


@dataclass
class _Run:
    """The calls of one world, made one after the other; keeps the results, since a later call may change them."""

    world: World
    gradients: bool
    environment: dict[str, str]
    tables: list[dict[str, Fact]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def call(self, step: Step, around: Around) -> None:
        written: list[tuple[str, str]] = []
        result = raised = None
        arguments: dict[str, Any] = {}
        with (
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(_stream("standard output", written)),
            contextlib.redirect_stderr(_stream("standard error", written)),
        ):
            warnings.simplefilter("always")
            try:
                with around():
                    if isinstance(step, (tuple, Call)):
                        args, kwargs = (step, {}) if isinstance(step, tuple) else (step.args, step.kwargs)
                        arguments = {**{f"argument {i}": a for i, a in enumerate(args)}, **kwargs}
                        result = self.world.function(*args, **kwargs)
                    else:
                        result = step(self.world.function)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raised = error
            facts = self._effects(raised, written, list(warned))
            facts.update(self._state(arguments, result, raised))
        self.tables.append(facts)
        self.results.append(result)

    def _effects(
        self, raised: BaseException | None, written: list[tuple[str, str]], warned: list[Any]
    ) -> dict[str, Fact]:
        facts: dict[str, Fact] = {"exception": None} if raised is None else _exception_facts(raised)
        for stream in ("standard output", "standard error"):
            facts[stream] = scrub("".join(text for name, text in written if name == stream))
        if len({name for name, _ in written}) > 1:
            facts["order of output"] = tuple((name, scrub(text)) for name, text in written)
        self.notices += [str(w.message) for w in warned if issubclass(w.category, JanusWarning)]
        facts["warnings"] = tuple(
            (w.category.__name__, scrub(str(w.message)), _location(w.filename, w.lineno))
            for w in warned
            if not issubclass(w.category, JanusWarning)
        )
        facts.update(ambient_facts(self.environment))
        return facts

    def _state(self, arguments: Mapping[str, Any], result: Any, raised: BaseException | None) -> dict[str, Fact]:
        snapshot = Snapshot()
        for name, value in {**self.world.observed, **arguments}.items():
            snapshot.visit(name, value)
        sources = [(path, t) for path, t in snapshot.tensors if is_leaf(t) is not None and t.requires_grad]
        for number, earlier in enumerate(self.results, 1):
            last = len(snapshot.tensors)
            snapshot.visit(f"result of call {number}", earlier)
        if self.results:
            outputs = [("result of the call before", t) for _, t in snapshot.tensors[last:]]
            snapshot.facts.update(self._gradients(outputs, sources, " by the result of the call before"))
        if raised is not None:
            snapshot.visit("exception object", raised)
        known = len(snapshot.tensors)
        snapshot.visit("result", result)
        snapshot.facts.update(self._gradients(snapshot.tensors[known:], sources))
        return snapshot.facts

    def _gradients(
        self, outputs: Sequence[tuple[str, Any]], sources: Sequence[tuple[str, Any]], which: str = ""
    ) -> dict[str, Fact]:
        """Gradients of a weighted sum of the outputs, so that no symmetry of the sum hides a difference."""
        outputs = [(path, t) for path, t in outputs if is_leaf(t) is False]
        if not (self.gradients and outputs and sources):
            return {}
        wanted = [t for _, t in sources]
        try:
            with torch.enable_grad():
                weights = [_weights(t) for _, t in outputs]
                found = torch.autograd.grad(
                    [t for _, t in outputs], wanted, weights, retain_graph=True, allow_unused=True
                )
        except Exception as error:  # a graph that the program itself has used up, or changed in place
            facts: dict[str, Fact] = {f"gradients{which}": type(error).__name__}
            if len(outputs) > 1:
                for output in outputs:
                    facts.update(self._gradients([output], sources, f"{which} by {output[0]}"))
            return facts
        return {
            f"gradient of {path}{which}": "unused" if gradient is None else tensor_fact(gradient)
            for (path, _), gradient in zip(sources, found)
        }


def _weights(output: torch.Tensor) -> torch.Tensor:
    if output.layout is not torch.strided or output.is_nested or type(output) is not torch.Tensor:
        return torch.ones_like(output)
    return torch.linspace(1, 2, output.numel(), device=output.device).to(output.dtype).reshape(output.shape)


class _Raw(io.RawIOBase):
    """The end of a stream: notes what is written under a name, in a list that other streams may share."""

    def __init__(self, name: str, written: list[tuple[str, str]]) -> None:
        super().__init__()
        self._name, self._written = name, written

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        text = bytes(data).decode(errors="surrogatepass")
        if self._written and self._written[-1][0] == self._name:
            text = self._written.pop()[1] + text
        self._written.append((self._name, text))
        return len(data)


def _stream(name: str, written: list[tuple[str, str]]) -> io.TextIOWrapper:
    """Of Python's own class, as a program's real streams are: what is printed to others need not be printed plainly."""
    raw: Any = _Raw(name, written)
    return io.TextIOWrapper(raw, "utf-8", "surrogatepass", newline="", write_through=True)


def _exception_facts(error: BaseException) -> dict[str, Fact]:
    snapshot = Snapshot()
    snapshot.visit("exception arguments", list(error.args))
    snapshot.visit("exception attributes", dict(vars(error)))
    facts: dict[str, Fact] = {"exception": type(error).__name__, "exception line": None, **snapshot.facts}
    frames = [(f.f_code.co_name, _location(f.f_code.co_filename, n)) for f, n in traceback.walk_tb(error.__traceback__)]
    places = [(name, place) for name, place in frames if place is not None]
    if places:
        facts["exception line"] = places[-1][1]
    facts["exception chain"] = tuple(f"{how} {type(e).__name__}{scrub(repr(e.args))}" for how, e in _chain(error))
    facts["exception frames"] = " > ".join(f"{name} {place}" for name, place in places)
    return facts


def _chain(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """What an exception came from, and that in turn, as a traceback shows it."""
    shown = {id(error)}
    while True:
        cause, context = error.__cause__, None if error.__suppress_context__ else error.__context__
        before = cause or context
        if before is None or id(before) in shown:
            return
        shown.add(id(before))
        yield "from" if cause is not None else "during", before
        error = before


_LIBRARIES = tuple(
    os.path.dirname(m.__file__ or "?") + os.sep for m in (torch, numpy, janusc) if getattr(m, "__file__", None)
) + (os.path.dirname(__file__) + os.sep, sysconfig.get_path("stdlib") + os.sep + "site-packages" + os.sep)
_STDLIB = sysconfig.get_path("stdlib") + os.sep


def _location(filename: str, line: int) -> str | None:
    """The place as text where it lies in the user's own code, else None."""
    if filename.startswith(("<", _STDLIB, *_LIBRARIES)):
        return None
    return f"{os.path.basename(filename)}:{line}"
