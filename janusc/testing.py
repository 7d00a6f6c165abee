"""Does a compiled function behave as the eager one? For users' own tests.

``assert_equivalent`` calls a function several times eagerly and several times compiled, each time in a fresh copy of
its world, and compares everything a user could see after every call: the result, the arguments and every object that
the function can reach, gradients, random number streams, output, warnings and exceptions.

A *world* is what one run needs (`World`), a *trace* what one run left behind (`Trace`): one flat table from path to
fact per call, so that a difference is a path with two facts.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import os
import random
import re
import sysconfig
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import numpy
import torch

import janusc
from janusc.diagnostics import JanusWarning
from janusc.snapshot import Fact, Snapshot, TensorFact, is_leaf, named_globals

__all__ = ["Call", "Difference", "Trace", "World", "assert_equivalent", "differences", "record"]


class Call:
    """The arguments of one call, keyword arguments included."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs


Step = Union[tuple[Any, ...], Call, Callable[..., Any]]
Decorator = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class World:
    """One run's objects: the callable under test, its calls, and what else to look at afterwards.

    A step is a tuple of arguments, a `Call`, or a callable that is given the function under test. ``observed`` maps
    names to objects whose state is compared; the original function belongs in it, since its closure, its defaults and
    the globals that it names are state too.
    """

    function: Any
    steps: Sequence[Step]
    observed: Mapping[str, Any]


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

    ``f`` is a function, a bound method or a module, deep-copied for each of the two runs together with its closure and
    the data among the globals it names. What can't be copied (open files, state kept on classes) comes from a factory:
    with ``factory=True``, ``f`` is a function of no arguments that returns a fresh function, or a tuple of one and the
    state objects to compare.

    ``inputs`` are the arguments of every call, and ``calls`` the number of calls (default: ``warmup`` + 3); or
    ``calls`` lists the calls: tuples of arguments, `Call` objects, or (with a factory) callables given the function and
    the state objects. ``graph=True`` also fails where no call ran in a graph. ``tolerance`` relaxes the comparison of
    floating-point values, for fusing backends; everything else stays exact. ``compiler`` replaces ``janusc.compile``;
    other options go to it.
    """
    if isinstance(calls, Sequence):
        if inputs:
            raise TypeError("assert_equivalent: give either inputs or a list of calls, not both")
        steps = list(calls)
    else:
        steps = [tuple(inputs)] * (warmup + 3 if calls is None else calls)

    def make(decorate: Decorator) -> World:
        return _factory_world(f, steps, decorate) if factory else _copied_world(f, steps, decorate)

    if compiler is None:
        compiler = functools.partial(janusc.compile, backend=backend, warmup=warmup, **options)
    eager = record(make, seed=seed, gradients=gradients)
    compiled = record(make, compiler, seed=seed, gradients=gradients)
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
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
) -> Trace:
    """Run one world and say what it left behind after each call.

    ``make`` gets the decorator and returns the world, with the decorator applied to the function under test.
    Each call is made inside ``around()``.
    """
    decorated: list[Any] = []

    def remember(target: Any) -> Any:
        decorated.append(decorate(target))
        return decorated[-1]

    with _isolated(seed):
        world = make(remember)
        run = _Run(world, gradients)
        for step in world.steps:
            run.call(step, around)
    return Trace(tuple(run.tables), tuple(decorated), tuple(run.notices))


def differences(eager: Trace, compiled: Trace, tolerance: float | None = None) -> list[Difference]:
    """The facts that differ, in the order of the calls and within a call as the eager run has them."""
    found = []
    for number, (left, right) in enumerate(zip(eager.calls, compiled.calls), 1):
        for path in [*left, *(p for p in right if p not in left)]:
            a, b = left.get(path), right.get(path)
            if not (a.matches(b, tolerance) if isinstance(a, TensorFact) else a == b):
                found.append(Difference(number, path, a, b))
    return found


@dataclass
class _Run:
    """The calls of one world, made one after the other; keeps the results, since a later call may change them."""

    world: World
    gradients: bool
    tables: list[dict[str, Fact]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def call(self, step: Step, around: Callable[[], contextlib.AbstractContextManager[Any]]) -> None:
        output, errors = io.StringIO(), io.StringIO()
        result = raised = None
        arguments: dict[str, Any] = {}
        with (
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
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
            facts = self._effects(raised, output.getvalue(), errors.getvalue(), list(warned))
            facts.update(self._state(arguments, result))
        self.tables.append(facts)
        self.results.append(result)

    def _effects(self, raised: BaseException | None, output: str, errors: str, warned: list[Any]) -> dict[str, Fact]:
        facts: dict[str, Fact] = {"exception": None} if raised is None else _exception_facts(raised)
        facts["standard output"] = _scrub(output)
        facts["standard error"] = _scrub(errors)
        self.notices += [str(w.message) for w in warned if issubclass(w.category, JanusWarning)]
        facts["warnings"] = tuple(
            (w.category.__name__, _scrub(str(w.message)), _location(w.filename, w.lineno))
            for w in warned
            if not issubclass(w.category, JanusWarning)
        )
        facts.update(_streams())
        return facts

    def _state(self, arguments: Mapping[str, Any], result: Any) -> dict[str, Fact]:
        snapshot = Snapshot()
        for name, value in {**self.world.observed, **arguments}.items():
            snapshot.visit(name, value)
        leaves = [(path, t) for path, t in snapshot.tensors if is_leaf(t) and t.requires_grad]
        for number, earlier in enumerate(self.results, 1):
            snapshot.visit(f"result of call {number}", earlier)
        known = len(snapshot.tensors)
        snapshot.visit("result", result)
        if self.gradients:
            snapshot.facts.update(_gradients([t for _, t in snapshot.tensors[known:]], leaves))
        return snapshot.facts


def _gradients(outputs: Sequence[Any], leaves: Sequence[tuple[str, Any]]) -> dict[str, Fact]:
    """Gradients of a weighted sum of the outputs, so that no symmetry of the sum hides a difference."""
    outputs = [t for t in outputs if is_leaf(t) is False]
    if not outputs or not leaves:
        return {}
    weights = [torch.linspace(1, 2, t.numel()).to(t.dtype).reshape(t.shape) for t in outputs]
    try:
        with torch.enable_grad():
            found = torch.autograd.grad(outputs, [t for _, t in leaves], weights, retain_graph=True, allow_unused=True)
    except RuntimeError as error:  # a graph that the program itself has used up, or changed in place
        return {"gradients": type(error).__name__}
    facts: dict[str, Fact] = {}
    for (path, _), gradient in zip(leaves, found):
        facts[f"gradient of {path}"] = "unused" if gradient is None else TensorFact(gradient.detach().clone())
    return facts


def _exception_facts(error: BaseException) -> dict[str, Fact]:
    snapshot = Snapshot()
    snapshot.visit("exception arguments", [_scrub(a) if isinstance(a, str) else a for a in error.args])
    snapshot.visit("exception attributes", {k: v for k, v in vars(error).items() if k != "__notes__"})
    facts: dict[str, Fact] = {"exception": type(error).__name__, "exception line": None, **snapshot.facts}
    for frame in traceback.extract_tb(error.__traceback__):
        facts["exception line"] = _location(frame.filename, frame.lineno or 0) or facts["exception line"]
    facts["exception chain"] = tuple(
        type(e).__name__ for e in (error.__cause__, None if error.__suppress_context__ else error.__context__) if e
    )
    return facts


_LIBRARIES = tuple(
    os.path.dirname(m.__file__ or "?") + os.sep for m in (torch, numpy, janusc) if getattr(m, "__file__", None)
) + (os.path.dirname(__file__) + os.sep, sysconfig.get_path("stdlib") + os.sep + "site-packages" + os.sep)
_STDLIB = sysconfig.get_path("stdlib") + os.sep


def _location(filename: str, line: int) -> str | None:
    """The place as text where it lies in the user's own code, else None."""
    if filename.startswith(("<", _STDLIB, *_LIBRARIES)):
        return None
    return f"{os.path.basename(filename)}:{line}"


def _scrub(text: str) -> str:
    """Text without memory addresses."""
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0x...", text)


def _streams() -> dict[str, Fact]:
    """The state of the random number streams and of torch's ambient modes."""
    state = numpy.random.get_state(legacy=False)
    facts: dict[str, Fact] = {
        "torch random state": TensorFact(torch.get_rng_state()),
        "python random state": hash(random.getstate()),
        "numpy random state": hash(
            (state["state"]["key"].tobytes(), state["state"]["pos"], state["has_gauss"], state["gauss"])
        ),
        "grad modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": (torch.is_autocast_enabled("cpu"), str(torch.get_autocast_dtype("cpu"))),
        "default dtype": str(torch.get_default_dtype()),
    }
    if torch.cuda.is_available():
        facts["cuda random state"] = TensorFact(torch.cuda.get_rng_state())
    return facts


@contextlib.contextmanager
def _isolated(seed: int) -> Iterator[None]:
    """Same seeds and modes for every run, and the caller's own ones back afterwards."""
    streams = (torch.get_rng_state(), random.getstate(), numpy.random.get_state())
    environment, always = dict(os.environ), torch.is_warn_always_enabled()
    default, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    try:
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed)
        torch.set_warn_always(True)  # else a warning that torch gives once would be missing from the second run
        yield
    finally:
        torch.set_rng_state(streams[0])
        random.setstate(streams[1])
        numpy.random.set_state(streams[2])
        torch.set_warn_always(always)
        torch.set_default_dtype(default)
        torch.set_grad_enabled(grad)
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)


def _factory_world(factory: Callable[[], Any], steps: Sequence[Step], decorate: Decorator) -> World:
    made = factory()
    function, *state = made if isinstance(made, tuple) else (made,)
    observed = {"function": function, **{f"state {i}": s for i, s in enumerate(state)}}
    calls: list[Step] = []
    memo: dict[int, Any] = {}
    for step in steps:
        if isinstance(step, (tuple, Call)):
            calls.append(copy.deepcopy(step, memo))
        else:
            calls.append(functools.partial(_with_state, step, state))
    return World(decorate(function), calls, observed)


def _with_state(step: Callable[..., Any], state: Sequence[Any], function: Any) -> Any:
    return step(function, *state)


def _copied_world(f: Any, steps: Sequence[Step], decorate: Decorator) -> World:
    copier = _Copier(f)
    function = copier.copy(f)
    if not all(isinstance(step, (tuple, Call)) for step in steps):
        raise TypeError("assert_equivalent: a call given as a callable needs factory=True")
    return World(decorate(function), copy.deepcopy(list(steps), copier.memo), {"function": function})


class _Copier:
    """Deep copies that reach into functions: closure cells, defaults, and the data among the globals they name."""

    def __init__(self, target: Any) -> None:
        self.memo: dict[int, Any] = {}
        self.functions: dict[types.FunctionType, types.FunctionType] = {}
        self.module = getattr(target, "__globals__", None)
        self.globals = None if self.module is None else dict(self.module)

    def copy(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return types.MethodType(value.__func__, self.copy(value.__self__))
        if isinstance(value, functools.partial):
            keywords = {k: self.copy(v) for k, v in value.keywords.items()}
            return functools.partial(self.copy(value.func), *map(self.copy, value.args), **keywords)
        return copy.deepcopy(value, self.memo)

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        if function in self.functions:
            return self.functions[function]
        if function.__globals__ is not self.module or self.globals is None:  # a library's function
            return function
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        twin = types.FunctionType(function.__code__, self.globals, function.__name__, None, cells)
        self.functions[function] = self.functions[twin] = twin
        for old, new in zip(function.__closure__ or (), cells):
            with contextlib.suppress(ValueError):  # an empty cell stays empty
                new.cell_contents = self.copy(old.cell_contents)
        twin.__defaults__ = self.copy(function.__defaults__)
        twin.__kwdefaults__ = self.copy(function.__kwdefaults__)
        twin.__qualname__, twin.__doc__, twin.__module__ = function.__qualname__, function.__doc__, function.__module__
        twin.__annotations__ = dict(function.__annotations__)
        for key, value in vars(function).items():
            setattr(twin, key, self.copy(value))
        for name in set(named_globals(function.__code__)) & set(self.globals):
            value = self.module[name]
            if not isinstance(value, (type, types.ModuleType)) and self.globals[name] is value:
                with contextlib.suppress(TypeError, RuntimeError):  # what can't be copied is shared
                    self.globals[name] = self.copy(value)
        return twin
