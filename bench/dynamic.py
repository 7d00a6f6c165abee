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
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import dynamic_programs as programs
import replay
import torch
from timing import processor_name

import janusc as janus

RESULTS = Path(__file__).parent / "results" / "dynamic.txt"
CALLS = 60  # the first calls, each with another input
SHORTEST = 0.1  # seconds of eager that a cold start is compared over: shorter ones go on with the same inputs
COLD_RUNS, WARM_ROUNDS, ROUNDS = 3, 1, 9
LIMIT = 20  # seconds that torch.compile gets for its cold start

COLD, FAST, STEADY, CONVERSION, GRAPHS = 1.2, 0.85, 1.02, 2.0, 3


@dataclass(frozen=True)
class Figures:
    """What was measured of one program: seconds of the first calls, and of each after that."""

    name: str
    calls: int
    eager: float
    cold: float
    steady_eager: float
    steady: float
    alone: float
    conversion: float
    first: float
    graphs: int
    in_graphs: float
    fast: bool
    captured: str

    def complaints(self) -> list[str]:
        """The requirements that are not met."""
        allowed = FAST if self.fast else STEADY
        cold, steady = self.cold / self.eager, self.steady / self.steady_eager
        alone = self.alone / self.steady_eager
        found = [
            (cold > COLD, f"cold start {cold:.2f} x eager, allowed {COLD} x"),
            (
                steady > allowed,
                f"steady state {steady:.2f} x eager, allowed {allowed} x; alone {alone:.2f} x",
            ),
            (self.conversion > CONVERSION, f"converting took {self.conversion:.2f} s, allowed {CONVERSION} s"),
            (self.graphs > GRAPHS, f"{self.graphs} graphs, allowed {GRAPHS}"),
        ]
        return [f"{self.name}: {text}" for holds, text in found if holds]


def convert(target: Any) -> Any:
    """The target under janusc, through the exact backend."""
    return janus.compile(target, backend="aten")


def run(call: Callable[[int], Any], numbers: Sequence[int]) -> tuple[float, list[Any]]:
    """The seconds that these calls take, and their results."""
    start = time.perf_counter()
    results = [call(number) for number in numbers]
    return time.perf_counter() - start, results


def cold_start(name: str) -> None:
    """In a process of its own: the first calls, by eager and by janusc, as JSON.

    Torch is warm by then, and what the first conversion of a process imports is there: ``first_conversion`` is told
    apart, since it is paid once and not by each program.
    """
    first_conversion, _ = run(first_use, range(2))
    seconds, _ = run(programs.make(name, lambda target: target).call, range(CALLS))
    numbers = list(range(CALLS)) * max(1, round(SHORTEST / seconds + 0.5))
    eager, expected = run(programs.make(name, lambda target: target).call, numbers)
    case = programs.make(name, convert)  # only now, since it seeds the generator that both draw from
    cold, found = run(case.call, numbers)
    equal = programs.same(expected, found)
    conversion = max(janus.stats(target).conversion_seconds for target in case.targets)
    print(json.dumps([len(numbers), eager, cold, conversion, first_conversion, equal]))


def first_use(number: int) -> torch.Tensor:
    """A conversion of something small."""
    result: torch.Tensor = janus.compile(lambda x: torch.relu(x) + number, backend="aten", warmup=0)(torch.ones(2))
    return result


def measure_cold(name: str) -> tuple[int, float, float, float, float]:
    """Calls, and the medians over some processes: eager, janusc, of that conversion, and a process's first use."""
    rows = [json.loads(in_child("--cold", name).stdout.splitlines()[-1]) for _ in range(COLD_RUNS)]
    if not all(row[-1] for row in rows):
        raise SystemExit(f"{name}: the results differ from eager's")
    calls, *seconds = (median(column) for column in zip(*(row[:-1] for row in rows), strict=True))
    eager, cold, conversion, first = seconds
    return int(calls), eager, cold, conversion, first


def in_child(*arguments: str, limit: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run this file in a fresh process, which finds modules compiled, as a user's does after the first time."""
    command = [sys.executable, __file__, *arguments]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit, check=limit is None)


def measure_steady(name: str) -> tuple[float, float, float, programs.Case]:
    """Seconds a call of eager, janusc, and eager's torch calls alone, in rounds: each goes first in every third."""
    recorder = programs.make(name, lambda target: target)
    replays = [replay.recorded(partial(recorder.call, number)) for number in range(CALLS)]
    eager, ours = programs.make(name, lambda target: target), programs.make(name, convert)
    contestants = [eager.call, ours.call, lambda number: replays[number]()]
    seconds: list[list[float]] = [[], [], []]
    for number in range(WARM_ROUNDS + ROUNDS):
        for which in ((number + k) % 3 for k in range(3)):
            taken, _ = run(contestants[which], range(CALLS))
            if number >= WARM_ROUNDS:
                seconds[which].append(taken / CALLS)
    return median(seconds[0]), median(seconds[1]), median(seconds[2]), ours


def measure(name: str, capture: bool) -> Figures:
    """All figures of one program."""
    calls, eager_seconds, our_seconds, conversion, first = measure_cold(name)
    steady_eager, steady, alone, ours = measure_steady(name)
    stats = [janus.stats(target) for target in ours.targets]
    return Figures(
        name=name,
        calls=calls,
        eager=eager_seconds,
        cold=our_seconds,
        steady_eager=steady_eager,
        steady=steady,
        alone=alone,
        conversion=conversion,
        first=first,
        graphs=max(s.graphs for s in stats),
        in_graphs=sum(s.graph_calls for s in stats) / sum(s.calls for s in stats),
        fast=programs.PROGRAMS[name].fast,
        captured=captured(name, calls) if capture else "",
    )


def captured(name: str, calls: int) -> str:
    """The cold start and steady state of torch.compile, with its default backend, in a fresh process."""
    try:
        done = in_child("--probe", name, "--calls", str(calls), limit=LIMIT)
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
    return (
        f"{f.name:34}{f.calls:6}{f.eager:9.2f}{f.cold:9.2f}{f.cold / f.eager:9.2f}{f.conversion:10.2f}{f.graphs:7}"
        f"{f.in_graphs:10.0%}{f.steady_eager * 1e3:9.2f}{f.steady * 1e3:10.2f}{f.steady / f.steady_eager:9.2f}"
        f"{'*' if f.fast else ' '}{f.alone / f.steady_eager:8.2f}  {f.captured}"
    )


def report(found: Sequence[Figures]) -> str:
    """The machine, the figures, and what is not as required."""
    python, threads = platform.python_version(), torch.get_num_threads()
    heads = ("calls", "eager s", "janusc s", "of eager", "convert s", "graphs", "in graphs", "eager ms", "janusc ms")
    widths = (6, 9, 9, 9, 10, 7, 10, 9, 10)
    lines = [
        f"torch {torch.__version__}, Python {python}, {threads} thread, {processor_name()}",
        f"the first {CALLS} calls or more, each with another input, warm-up and conversion included; then ms a call",
        "",
        f"{'':34}{''.join(f'{h:>{w}}' for h, w in zip(heads, widths, strict=True))} of eager   alone   torch.compile",
    ]
    lines += map(row, found)
    complaints = [text for f in found for text in f.complaints()]
    lines += [
        "",
        "alone: the torch calls that eager makes, as straight-line code without a program around them",
        f"the first conversion of a process takes {median(f.first for f in found):.2f} s more: not in these figures",
        f"* of these, at most {FAST} x eager is required, of the others {STEADY} x; a cold start at most {COLD} x",
    ]
    lines += [f"BAD  {text}" for text in complaints] or ["all as required"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure all programs, or those named."""
    parser = argparse.ArgumentParser(description="Measure janusc on dynamic programs.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(programs.PROGRAMS))
    parser.add_argument("--no-torch-compile", action="store_true", help="leave torch.compile out: it takes minutes")
    parser.add_argument("--probe", choices=sorted(programs.PROGRAMS), help="torch.compile in this process; prints JSON")
    parser.add_argument("--cold", choices=sorted(programs.PROGRAMS), help="a cold start in this process; prints JSON")
    parser.add_argument("--calls", type=int, default=CALLS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.cold:
        cold_start(options.cold)
        return 0
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
