"""Dynamic programs beside eager and torch.compile: the first varying calls with all they cost, then the steady state.

    python bench/dynamic.py [--no-torch-compile] [name ...]

Prints what is required and what was measured, and ends with status 1 where a requirement is not met. The text is also
written to ``bench/results/dynamic.txt`` where all programs were run. Every result is compared with eager's.
``torch.compile`` runs in processes of its own with a time limit, since it may compile for minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import dynamic_programs as programs
import replay
import torch
from cold_start import CALLS, ColdStart
from timing import processor_name

import janusc as janus

RESULTS = Path(__file__).parent / "results" / "dynamic.txt"
COLD_RUNS, WARM_ROUNDS, ROUNDS = 3, 1, 9
LIMIT = 20  # seconds that torch.compile gets for its cold start

COLD, FAST, STEADY, CONVERSION, GRAPHS = 1.2, 0.85, 1.02, 2.0, 3


@dataclass(frozen=True)
class Figures:
    """What was measured of one program: cold starts, waiting or converting at once, and seconds of each call later."""

    name: str
    cold: ColdStart
    at_once: ColdStart
    steady_eager: float
    steady: float
    alone: float
    graphs: int
    in_graphs: float
    fast: bool
    captured: str

    @property
    def conversion(self) -> float:
        """The seconds of all conversions."""
        return self.at_once.conversion

    def complaints(self) -> list[str]:
        """The requirements that are not met."""
        allowed = FAST if self.fast else STEADY
        cold, steady = self.cold.janusc / self.cold.eager, self.steady / self.steady_eager
        until, alone = until_graphs(self.cold), self.alone / self.steady_eager
        found = [
            (cold > COLD, f"cold start {cold:.2f} x eager, allowed {COLD} x"),
            (until is None or until > COLD, f"until there are graphs {until} x eager, allowed {COLD} x"),
            (
                steady > allowed,
                f"steady state {steady:.2f} x eager, allowed {allowed} x; alone {alone:.2f} x",
            ),
            (self.conversion > CONVERSION, f"converting took {self.conversion:.2f} s, allowed {CONVERSION} s"),
            (self.graphs > GRAPHS, f"{self.graphs} graphs, allowed {GRAPHS}"),
        ]
        return [f"{self.name}: {text}" for holds, text in found if holds]


def convert(target: Any) -> Any:
    """The target under janusc, through the exact backend, without waiting until that pays."""
    return janus.compile(target, backend="aten", warmup=3)


def until_graphs(start: ColdStart) -> float | None:
    """What the calls take until all graphs are in use, as a multiple of eager; None where they never are."""
    if start.eager_until is None or start.janusc_until is None:
        return None
    return round(start.janusc_until / start.eager_until, 2)


def run(call: Callable[[int], Any], numbers: Sequence[int]) -> tuple[float, list[Any]]:
    """The seconds that these calls take, and their results."""
    start = time.perf_counter()
    results = [call(number) for number in numbers]
    return time.perf_counter() - start, results


def measure_cold(name: str, *warmup: str, runs: int = COLD_RUNS) -> ColdStart:
    """The cold start in the middle of some, by what janusc took of eager's time."""
    command = [str(Path(__file__).with_name("cold_start.py")), name, *warmup]
    starts = [ColdStart(**json.loads(in_child(*command).stdout.splitlines()[-1])) for _ in range(runs)]
    if not all(start.equal for start in starts):
        raise SystemExit(f"{name}: the results differ from eager's")
    return sorted(starts, key=lambda start: start.janusc / start.eager)[runs // 2]


def in_child(*arguments: str, limit: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a file in a fresh process, which finds modules compiled, as a user's does after the first time."""
    command = [sys.executable, *arguments]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit, check=limit is None)


def measure_steady(name: str) -> tuple[float, float, float, programs.Case]:
    """Seconds a call of eager, janusc, and with the torch calls of the target alone.

    They take turns with every call, since the machine's speed changes from second to second; of each input's calls the
    median counts.
    """
    replayer = replay.Replayer()
    eager, ours = programs.make(name, lambda target: target), programs.make(name, convert)
    replayed = programs.make(name, replayer.decorate)

    def replaying(number: int) -> Any:
        replayer.begin(number)
        return replayed.call(number)

    contestants = [eager.call, ours.call, replaying]
    seconds: list[list[list[float]]] = [[[] for _ in range(CALLS)] for _ in contestants]
    for turn in range(WARM_ROUNDS + ROUNDS):
        for number in range(CALLS):
            for which in ((turn + number + k) % 3 for k in range(3)):
                taken, _ = run(contestants[which], [number])
                if turn >= WARM_ROUNDS:
                    seconds[which][number].append(taken)
    eager_time, our_time, alone = (sum(map(median, taken)) / CALLS for taken in seconds)
    return eager_time, our_time, alone, ours


def measure(name: str, capture: bool) -> Figures:
    """All figures of one program."""
    cold, at_once = measure_cold(name), measure_cold(name, "3", runs=1)
    steady_eager, steady, alone, ours = measure_steady(name)
    stats = [janus.stats(target) for target in ours.targets]
    return Figures(
        name=name,
        cold=cold,
        at_once=at_once,
        steady_eager=steady_eager,
        steady=steady,
        alone=alone,
        graphs=max(s.graphs for s in stats),
        in_graphs=sum(s.graph_calls for s in stats) / sum(s.calls for s in stats),
        fast=programs.PROGRAMS[name].fast,
        captured=captured(name, cold.calls) if capture else "",
    )


def captured(name: str, calls: int) -> str:
    """The cold start and steady state of torch.compile, with its default backend, in a fresh process."""
    try:
        done = in_child(__file__, "--probe", name, "--calls", str(calls), limit=LIMIT)
    except subprocess.TimeoutExpired:
        return f"over {LIMIT} s"
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["failed"])[-1][:60]
    cold, steady = json.loads(done.stdout.splitlines()[-1])
    return f"{cold:8.2f}{steady * 1e3:9.2f}"


def probe(name: str, calls: int) -> None:
    """Run a program under torch.compile."""
    case = programs.make(name, torch.compile)
    numbers = (list(range(CALLS)) * (calls // CALLS + 1))[:calls]
    cold, _ = run(case.call, numbers)
    steady = median(run(case.call, range(CALLS))[0] / CALLS for _ in range(3))
    print(json.dumps([cold, steady]))


def row(f: Figures) -> str:
    """The figures of one program in a line."""
    cold, at_once, until = f.cold, f.at_once, until_graphs(f.cold)
    waited = f"{'never':>8}{'':8}" if until is None else f"{cold.eager_until:8.1f}{until:8.2f}"
    return (
        f"{f.name:34}{cold.calls:6}{cold.eager:8.2f}{cold.janusc / cold.eager:8.2f}{waited}"
        f"{at_once.janusc / at_once.eager:8.2f}{f.conversion:8.2f}{f.graphs:7}"
        f"{f.in_graphs:10.0%}{f.steady_eager * 1e3:9.2f}{f.steady * 1e3:9.2f}{f.steady / f.steady_eager:9.2f}"
        f"{'*' if f.fast else ' '}{f.alone / f.steady_eager:7.2f}  {f.captured}"
    )


LEGEND = f"""
calls, eager s: the first {CALLS} calls or more, each with another input; cold: the same by janusc, as a multiple
until s, cold: the same until all graphs are there, and {CALLS} calls longer; at once: the first calls where warmup=3
convert s: all conversions of that; graphs, in graphs: their number, and the share of calls that ran in them
eager ms, janusc ms: a call after that; alone: what is compiled as straight-line code of the torch calls it makes
* of these, at most {FAST} x eager is required, of the others {STEADY} x; a cold start at most {COLD} x"""


def report(found: Sequence[Figures]) -> str:
    """The machine, the figures, and what is not as required."""
    python, threads = platform.python_version(), torch.get_num_threads()
    heads = ("calls", "eager s", "cold", "until s", "cold", "at once", "convert", "graphs", "in graphs")
    heads += ("eager ms", "janusc", "of eager", "alone")
    widths = (6, 8, 8, 8, 8, 8, 8, 7, 10, 9, 9, 9, 8)
    first = median(start.first_conversion for f in found for start in (f.cold, f.at_once))
    complaints = [text for f in found for text in f.complaints()]
    lines = [
        f"torch {torch.__version__}, Python {python}, {threads} thread, {processor_name()}",
        "",
        f"{'':34}{''.join(f'{h:>{w}}' for h, w in zip(heads, widths, strict=True))}   torch.compile",
        *map(row, found),
        LEGEND,
        f"the first conversion of a process takes {first:.2f} s more: not in these figures",
        *([f"BAD  {text}" for text in complaints] or ["all as required"]),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure all programs, or those named."""
    parser = argparse.ArgumentParser(description="Measure janusc on dynamic programs.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(programs.PROGRAMS))
    parser.add_argument("--no-torch-compile", action="store_true", help="leave torch.compile out: it takes minutes")
    parser.add_argument("--probe", choices=sorted(programs.PROGRAMS), help="torch.compile in this process; prints JSON")
    parser.add_argument("--calls", type=int, default=CALLS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.probe:
        probe(options.probe, options.calls)
        return 0
    unknown = [name for name in options.names if name not in programs.PROGRAMS]
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(programs.PROGRAMS)}")
    found = []
    for name in options.names or programs.PROGRAMS:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        found.append(measure(name, not options.no_torch_compile))
        print(row(found[-1]), file=sys.stderr, flush=True)
    text = report(found)
    print(text, end="")
    if not options.names:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text, encoding="utf-8")
    return 1 if any(f.complaints() for f in found) else 0


if __name__ == "__main__":
    sys.exit(main())
