"""What ``bench/step.py`` measures in processes of their own. Prints JSON.

    python bench/step_probe.py cold STEP CONTESTANT SECONDS      the first steps, and those until it is at full speed
    python bench/step_probe.py steady STEP THREADS SECONDS [CONTESTANT ...]      some, or all, after that, in turns
    python bench/step_probe.py equal STEP                        losses and state beside eager's

Each contestant draws from random numbers of its own.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

import torch
from models import steps

import janusc as janus
from janusc.options import BACKENDS

FIRST = 100  # steps that a cold start is compared over
TURN = 0.01  # seconds of a turn: a step comes behind others of its kind, as in training
AGAIN = 500  # steps after which a training begins anew: later, momenta of dead units are denormal numbers, slow for all
EXACT, CLOSE, RELATIVE = 200, 50, 1e-4
MODEL, STEP = "model compiled", "step compiled"
ITSELF = "itself"
ON_CPU = tuple(sorted(set(BACKENDS) - {"cudagraph"}))  # bench/gpu.py has that

Decorators = tuple[steps.Decorator, steps.Decorator]


def contestants() -> dict[str, Decorators]:
    """Those that are measured: how the step is decorated, and how the model is."""
    found: dict[str, Decorators] = {
        "eager": (steps.as_it_is, steps.as_it_is),
        MODEL: (steps.as_it_is, torch.compile),
        STEP: (torch.compile, steps.as_it_is),
    }
    for backend in ON_CPU:
        found[backend] = janus.compile(backend=backend), steps.as_it_is
    return found


class Contestant:
    """One training, its random numbers, and the seconds that its steps took."""

    def __init__(self, step: str, decorators: Decorators) -> None:
        self.training = steps.make(step, *decorators)
        self.seconds: list[float] = []
        self.results: list[Any] = []
        self._random = torch.get_rng_state()
        self._start = [t.detach().clone() for t in self.training.state()]

    def begin_anew(self) -> None:
        """Put parameters and buffers back to where training began, in place, and state of optimizers to zero."""
        models, optimizers = self.training.models, self.training.optimizers
        with torch.no_grad():
            for tensor, start in zip((t for m in models for t in (*m.parameters(), *m.buffers())), self._start):
                tensor.copy_(start)
            for state in (state for optimizer in optimizers for state in optimizer.state.values()):
                for value in (value for value in state.values() if isinstance(value, torch.Tensor)):
                    value.zero_()

    def run(self, steps: int = 1) -> None:
        """The next steps."""
        torch.set_rng_state(self._random)
        for number in range(len(self.seconds), len(self.seconds) + steps):
            start = time.perf_counter()
            result = self.training.call(number)
            self.seconds.append(time.perf_counter() - start)
            self.results.append(result)
        self._random = torch.get_rng_state()

    def stats(self) -> janus.Stats | None:
        """The counters of janusc; None of another contestant."""
        try:
            return janus.stats(self.training.step)
        except TypeError:
            return None

    def settle(self, limit: float) -> None:
        """Run until all is compiled that will be, or for so many seconds."""
        end = time.perf_counter() + limit
        for _ in range(5):
            self.run()
        while self.stats() is not None and self.stats().graph_calls < FIRST and time.perf_counter() < end:
            self.run()
        if self.stats() is not None:
            janus.wait(self.training.step)
            for _ in range(FIRST):
                self.run()


def cold(step: str, contestant: str, seconds: float) -> dict[str, Any]:
    """The first steps of a process: what each took, when one ran in a graph, and from when on they were fast."""
    torch.manual_seed(0)
    eager = Contestant(step, contestants()["eager"])  # what torch loads when it is first used is no part of this
    for _ in range(5):
        eager.run()
    runner, start, in_graph = Contestant(step, contestants()[contestant]), time.perf_counter(), None
    ends: list[float] = []
    while len(ends) < 2 * FIRST or time.perf_counter() - start < seconds:
        runner.run()
        ends.append(time.perf_counter() - start)
        stats = runner.stats() if in_graph is None else None
        in_graph = ends[-2 if len(ends) > 1 else -1] if stats is not None and stats.graph_calls else in_graph
    stats = runner.stats()
    full = median(runner.seconds[-FIRST:])
    until = _full_speed(runner.seconds, full)
    return {
        "first": sum(runner.seconds[:FIRST]),
        "compile": max(0.0, sum(runner.seconds[:5]) - 5 * full),
        "conversion": None if stats is None else stats.conversion_seconds,
        "in_graph": in_graph,
        "full": ends[until],
        "until": (ends[until] - (ends[0] - runner.seconds[0])) / (until + 1),
        "step": full,
    }


def _full_speed(taken: Sequence[float], full: float, window: int = 20) -> int:
    """The first step behind which none waits for long, and most take at most a tenth longer than the last ones."""
    for number in range(len(taken) - window):
        later = taken[number + 1 : number + 1 + window]
        if median(later) <= 1.1 * full and sum(later) <= 2 * window * full:
            return number
    return len(taken) - 1


def steady(step: str, seconds: float, names: Sequence[str]) -> dict[str, dict[str, float | str]]:
    """Of each contestant: ``seconds`` of a step, the median of calls in turns, and the share of them ``in_graphs``.

    ``error``: what went wrong, of one that can't.
    """
    found: dict[str, dict[str, float | str]] = {}
    running: dict[str, Contestant] = {}
    for name, decorators in contestants().items():
        if names and name not in names:
            continue
        torch.manual_seed(0)
        runner = Contestant(step, decorators)
        try:
            runner.settle(limit=20)
        except Exception as error:  # of torch.compile: what it can't do is a result
            found[name] = {"error": type(error).__name__}
            continue
        running[name] = runner
        runner.seconds, runner.results = [], []
    before = {name: runner.stats() for name, runner in running.items()}
    order = list(running.values())
    order[0].run(20)
    length = math.ceil(TURN / median(order[0].seconds))
    end, turn = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or turn < 10:
        for runner in (order[(turn + k) % len(order)] for k in range(len(order))):
            runner.run(length)
            if len(runner.seconds) % AGAIN < length:
                runner.begin_anew()
        turn += 1
    for name, runner in running.items():
        was, now = before[name], runner.stats()
        share = 0 if was is None or now is None else (now.graph_calls - was.graph_calls) / len(runner.seconds)
        found[name] = {"seconds": median(runner.seconds), "in_graphs": share}
    return found


def equal(step: str) -> dict[str, dict[str, float]]:
    """How far ``losses`` of each backend are from eager's at most, relative to them; nan where ``aten`` is not equal.

    On ``aten`` that is also asked of all that is trained. ``gradients``: by the name of a dtype, how far single ones
    are, by kernels. ``itself`` beside each: how far eager mode is from itself, where its weights begin at
    neighbouring numbers: networks with many thresholds make more of that than others, and nobody can be nearer.
    """
    losses = {ITSELF: _loss_distance(step, contestants()["eager"], CLOSE, nudged=True)}
    for backend in ON_CPU:
        decorators = janus.compile(backend=backend, warmup=3), steps.as_it_is
        losses[backend] = _loss_distance(step, decorators, EXACT if backend == "aten" else CLOSE)
    gradients: dict[str, float] = {}
    kernels = janus.compile(backend="inductor", warmup=3), steps.as_it_is
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        name = str(dtype).removeprefix("torch.")
        gradients[name] = max(_gradient_distances(step, kernels))
        gradients[f"{name} {ITSELF}"] = max(_gradient_distances(step, contestants()["eager"], nudged=True))
    return {"losses": losses, "gradients": gradients}


def _loss_distance(step: str, decorators: Decorators, count: int, nudged: bool = False) -> float:
    torch.manual_seed(0)
    eager, other = Contestant(step, contestants()["eager"]), Contestant(step, decorators)
    if nudged:
        _nudge(other)
    for number in range(count):
        eager.run(), other.run()
        if number in (5, 10) and other.stats() is not None:
            janus.wait(other.training.step)
    pairs = zip(eager.training.state(), other.training.state(), strict=True)
    if count == EXACT and not all(torch.equal(a, b) for a, b in pairs):
        return float("nan")
    return max(map(_distance, eager.results, other.results))


def _gradient_distances(step: str, decorators: Decorators, nudged: bool = False, rounds: int = 8) -> Iterator[float]:
    """How far the gradients of single steps are from eager's: before each, both have the same state."""
    torch.manual_seed(0)
    eager, other = Contestant(step, contestants()["eager"]), Contestant(step, decorators)
    for _ in range(rounds):
        for ours, theirs in zip(other.training.state(), eager.training.state()):
            ours.detach().copy_(theirs.detach())
        if nudged:
            _nudge(other)
        eager.run(), other.run()
        for one, another in zip(eager.training.models, other.training.models, strict=True):
            for p, q in zip(one.parameters(), another.parameters(), strict=True):
                if p.grad is not None and q.grad is not None:
                    yield (torch.linalg.vector_norm(p.grad - q.grad) / torch.linalg.vector_norm(p.grad)).item()


def _nudge(runner: Contestant) -> None:
    """Move each weight to the number above or below it."""
    generator = torch.Generator().manual_seed(1)
    for model in runner.training.models:
        for parameter in model.parameters():
            signs = torch.randint(0, 2, parameter.shape, generator=generator, dtype=torch.bool)
            target = torch.where(signs, torch.inf, -torch.inf).to(parameter.dtype)
            parameter.data.copy_(torch.nextafter(parameter.data, target))


def _distance(expected: Any, found: Any) -> float:
    """The relative distance of two losses, or of the farthest of several."""
    if isinstance(expected, tuple):
        return max(map(_distance, expected, found))
    return abs(found - expected) / abs(expected) if found != expected else 0.0


def main(what: str, step: str, *rest: str) -> None:
    """Measure one thing."""
    torch.set_num_threads(1)
    if what == "steady":
        torch.set_num_threads(int(rest[0]))
    measures: dict[str, Callable[[], Any]] = {
        "cold": lambda: cold(step, rest[0], float(rest[1])),
        "steady": lambda: steady(step, float(rest[1]), rest[2:]),
        "equal": lambda: equal(step),
    }
    print(json.dumps(measures[what]()))


if __name__ == "__main__":
    main(*sys.argv[1:])
