"""Whole training steps: eager, torch.compile and janusc by each of its backends.

    python bench/step.py [--quick] [step ...]

Prints what is required and what was measured, and ends with status 1 where a requirement is not met. The text is also
written to ``bench/results/step.txt`` where all steps were run and not in a hurry. Cold starts are in processes of their
own, with empty caches; later the contestants take turns, of about 10 ms each. ``--quick`` takes two minutes: a small
one, one thread, and torch.compile on the model only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from models.steps import STEPS
from step_probe import CLOSE, EXACT, FIRST, ITSELF, MODEL, ON_CPU, RELATIVE, STEP
from timing import processor_name

RESULTS = Path(__file__).parent / "results" / "step.txt"
PROBE = str(Path(__file__).with_name("step_probe.py"))
QUICK = ("mlp, batch 20",)

AUTO, EXACT_BACKEND = "auto", "aten"
MOSTLY = 0.9
GRADIENTS = {"float32": 1e-5, "float64": 1e-10}
SLOWEST, BEST, IN_GRAPH, COLD, FULL = 1.02, 1.02, 1.0, 1.05, 0.5
OURS = (EXACT_BACKEND, *(name for name in ON_CPU if name != EXACT_BACKEND))


@dataclass(frozen=True)
class Effort:
    """How much is measured: seconds of a cold start and of the turns, cold starts, numbers of threads, and whom."""

    cold_seconds: float
    steady_seconds: float
    cold_runs: int
    threads: tuple[int, ...]
    contestants: tuple[str, ...]


ALL = ("eager", MODEL, STEP, *OURS)
FULL_EFFORT = Effort(40, 8, 7, tuple(sorted({1, os.cpu_count() or 1})), ALL)
QUICK_EFFORT = Effort(6, 2, 1, (1,), tuple(name for name in ALL if name != STEP))


@dataclass(frozen=True)
class Figures:
    """What was measured of one step: steady seconds by the number of threads, cold starts, distances from eager."""

    name: str
    steady: Mapping[int, Mapping[str, Mapping[str, Any]]]
    cold: Mapping[str, Mapping[str, Any]]
    distances: Mapping[str, Mapping[str, float]]

    def ratio(self, threads: int, contestant: str) -> float | None:
        """A steady step as a multiple of eager's; None where there is none."""
        taken: float | None = self.steady[threads].get(contestant, {}).get("seconds")
        return None if taken is None else taken / self.steady[threads]["eager"]["seconds"]

    def allowed(self, threads: int) -> float:
        """What a step of janusc may take, as a multiple of eager's: for some, what the best of the others takes."""
        required = STEPS[self.name].required
        others = [r for name in (MODEL, STEP) if (r := self.ratio(threads, name)) is not None]
        return required if required is not None else BEST * min([1.0, *others])

    def complaints(self) -> list[str]:
        """The requirements that are not met."""
        found = []
        for threads in self.steady:
            ratio, allowed = self.ratio(threads, AUTO), self.allowed(threads)
            for limit in (allowed, SLOWEST):
                if ratio is None or ratio > limit:
                    found.append(f"{threads} threads: {AUTO} {_times(ratio)}, allowed {limit:.2f} x eager")
                    break
        found += self._cold_complaints()
        losses, gradients = self.distances["losses"], self.distances["gradients"]
        for name in OURS:
            if not losses[name] <= (0 if name == EXACT_BACKEND else max(RELATIVE, losses[ITSELF])):
                found.append(f"losses of {name} are off by {losses[name]:.1e} of eager's")
        for name, limit in GRADIENTS.items():
            if not gradients[name] <= max(limit, gradients[f"{name} {ITSELF}"]):
                found.append(f"gradients in {name} are off by {gradients[name]:.1e} of eager's")
        return [f"{self.name}: {text}" for text in found]

    def _cold_complaints(self) -> list[str]:
        ours, eager, other = self.cold[AUTO], self.cold["eager"], self.cold[MODEL]
        slow = ours["first"] / eager["first"]
        waited = ours["in_graph"]
        found = [
            (waited is None or waited > IN_GRAPH, f"first step in a graph after {_seconds(waited)} s"),
            (slow > COLD, f"first {FIRST} steps {slow:.2f} x eager, allowed {COLD} x"),
            (
                ours["full"] > FULL * other["compile"],
                f"full speed after {ours['full']:.1f} s, allowed {FULL} of {other['compile']:.1f} s",
            ),
        ]
        return [text for holds, text in found if holds]


def _times(ratio: float | None) -> str:
    return "failed" if ratio is None else f"{ratio:.2f} x"


def _seconds(taken: float | None) -> str:
    return "never" if taken is None else f"{taken:.2f}"


def probe(*arguments: str, caches: str) -> Any:
    """Measure one thing in a process of its own, with these caches."""
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor", "JANUSC_CACHE_DIR": f"{caches}/janusc"}
    done = subprocess.run([sys.executable, PROBE, *arguments], env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure_cold(name: str, effort: Effort) -> dict[str, Any]:
    """Cold starts with empty caches, in turns; of the first steps, the medians, since most starts end there."""
    counts = {"eager": effort.cold_runs, AUTO: effort.cold_runs, MODEL: 1}
    starts: dict[str, list[Any]] = {contestant: [] for contestant in counts}
    for number in range(effort.cold_runs):
        for contestant in (contestant for contestant, count in counts.items() if number < count):
            seconds = effort.cold_seconds if contestant == AUTO and number == 0 else 0
            with tempfile.TemporaryDirectory() as caches:
                starts[contestant].append(probe("cold", name, contestant, str(seconds), caches=caches))
    return {who: {**found[0], "first": median(start["first"] for start in found)} for who, found in starts.items()}


def measure(name: str, effort: Effort, caches: str) -> Figures:
    """All figures of one step."""
    _say(f"  {name}: cold starts")
    cold = measure_cold(name, effort)
    _say(f"  {name}: equality")
    distances = probe("equal", name, caches=caches)
    steady = {}
    for threads in effort.threads:
        _say(f"  {name}: in turns, {threads} threads")
        steady[threads] = probe(
            "steady", name, str(threads), str(effort.steady_seconds), *effort.contestants, caches=caches
        )
    return Figures(name, steady, cold, distances)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def steady_row(f: Figures, threads: int) -> str:
    """The steady figures of one step in a line."""
    cells = []
    for name in (MODEL, STEP, *OURS):
        ratio, figures = f.ratio(threads, name), f.steady[threads].get(name, {})
        star = "*" if name in OURS and figures.get("in_graphs", 1) < MOSTLY else " "
        cells.append(f"{figures.get('error', '-'):>15.15} " if ratio is None else f"{ratio:15.2f}{star}")
    eager = f.steady[threads]["eager"]["seconds"]
    return f"{f.name:26}{threads:8}{eager * 1e3:9.3f}{''.join(cells)}{f.allowed(threads):10.2f}"


def cold_row(f: Figures) -> str:
    """The cold start and the distances of one step in a line."""
    ours, eager, other = f.cold[AUTO], f.cold["eager"], f.cold[MODEL]
    losses, gradients = f.distances["losses"], f.distances["gradients"]
    far = [losses[name] for name in (*OURS, ITSELF)]
    far += [gradients[kind] for name in GRADIENTS for kind in (name, f"{name} {ITSELF}")]
    off = "".join(f"{_distance(distance):>10}" for distance in far)
    return (
        f"{f.name:26}{ours['conversion']:10.2f}{_seconds(ours['in_graph']):>10}"
        f"{ours['first'] / eager['first']:10.2f}{other['first'] / eager['first']:10.1f}"
        f"{ours['full']:10.1f}{ours['until'] / eager['step']:10.2f}{other['compile']:10.1f}{off}"
    )


def _distance(distance: float) -> str:
    return "unequal" if math.isnan(distance) else "equal" if distance == 0 else f"{distance:.0e}"


LEGEND = f"""
steps in turns: eager in ms, the others as multiples of it; allowed: what {AUTO} may take
* of the steps, fewer than nine in ten ran in graphs, which were not faster when they were tried
model compiled, step compiled: torch.compile on the model as users have it, or on the whole step

cold starts, with empty caches: the seconds of {AUTO}'s conversions, and from the start to the first step in a graph
first {FIRST}: that many steps as a multiple of eager's, by {AUTO} and by torch.compile on the model
full: seconds until {AUTO} is as fast as it gets; until: its steps till then, as multiples of eager's
compile: the seconds that torch.compile waits for kernels of the model
then how far the losses are from eager's: {EXACT} steps on {EXACT_BACKEND}, with all state; {CLOSE} on the others
float32, float64: how far single gradients by kernels are from eager's, relative to their norms
itself: how far eager is from itself, where each weight begins at a neighbouring number: nobody can be nearer"""


def report(found: Sequence[Figures]) -> str:
    """The machine, the figures, and what is not as required."""
    python = platform.python_version()
    heads = "".join(f"{name:>16}" for name in (MODEL, STEP, *OURS))
    complaints = [text for f in found for text in f.complaints()]
    cold_heads = ("convert", "in graph", f"first {FIRST}", "compiled", "full", "until", "compile", *OURS, ITSELF)
    cold_heads += tuple(head for name in GRADIENTS for head in (name, ITSELF))
    lines = [
        f"torch {torch.__version__}, Python {python}, {os.cpu_count()} cores, {processor_name()}",
        "",
        f"{'steps in turns':26}{'threads':>8}{'eager ms':>9}{heads}{'allowed':>10}",
        *(steady_row(f, threads) for f in found for threads in f.steady),
        "",
        f"{'cold starts':26}{''.join(f'{head:>10}' for head in cold_heads)}",
        *map(cold_row, found),
        LEGEND,
        "",
        *([f"BAD  {text}" for text in complaints] or ["all as required"]),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure all steps, or those named."""
    parser = argparse.ArgumentParser(description="Measure whole training steps.")
    parser.add_argument("names", nargs="*", metavar="step", help="; ".join(STEPS))
    parser.add_argument("--quick", action="store_true", help="two minutes: fewer steps, shorter, one thread")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in STEPS]
    if unknown:
        parser.error(f"no such step: {'; '.join(unknown)}; there are {'; '.join(STEPS)}")
    effort = QUICK_EFFORT if options.quick else FULL_EFFORT
    found = []
    with tempfile.TemporaryDirectory() as caches:
        for name in options.names or (QUICK if options.quick else STEPS):
            found.append(measure(name, effort, caches))
            _say("\n".join(steady_row(found[-1], threads) for threads in found[-1].steady))
    text = report(found)
    print(text, end="")
    if not options.names and not options.quick:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text, encoding="utf-8")
    return 1 if any(f.complaints() for f in found) else 0


if __name__ == "__main__":
    sys.exit(main())
