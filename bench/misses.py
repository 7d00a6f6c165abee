"""What calls cost that no graph takes: functions whose inputs are of few and of many kinds, against eager.

    python bench/misses.py

Eager and compiled calls take turns in short runs, over the same inputs. Prints, for each program, the ratio of all
seconds, that without conversions, and the median one of the last runs, and writes the same text to
``bench/results/misses.txt``. Every result is compared with eager's.
"""

from __future__ import annotations

import platform
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from timing import processor_name
from torch import Tensor

import janusc as janus

RESULTS = Path(__file__).parent / "results" / "misses.txt"
CALLS, RUN, LATE = 30_000, 100, 50
MOST = 40


def make_layer(number: int, width: int) -> Any:
    """An object of a class of its own."""

    class Layer:
        def __init__(self) -> None:
            self.weight = torch.full((width,), 1 / (number + 1))

        def apply(self, x: Tensor) -> Tensor:
            y = torch.tanh(x) * self.weight + number
            return torch.sigmoid(y) * x - y

    return Layer()


@dataclass(frozen=True)
class Program:
    """Calls of one function, with objects of so many classes, at random or those of one class after another.

    ``bare``: not compiled, but called by a function that hands its arguments on, as any wrapper must.
    """

    name: str
    kinds: int
    width: int
    shuffled: bool = True
    warmup: int | None = None
    bare: bool = False

    def order(self) -> list[int]:
        """Which object each call is for."""
        if self.shuffled:
            generator = random.Random(0)
            return [generator.randrange(self.kinds) for _ in range(CALLS)]
        return [call * self.kinds // CALLS for call in range(CALLS)]


PROGRAMS = (
    Program("handed on by a function", MOST, 4, bare=True),
    Program("1 class", 1, 4, warmup=3),
    Program("5 classes", 5, 4, warmup=3),
    Program("40 classes", MOST, 4),
    Program("40 classes, longer calls", MOST, 8192),
    Program("40 classes, warmup=3", MOST, 4, warmup=3),
    Program("40 classes, one by one", MOST, 4, shuffled=False, warmup=3),
)


def seconds(function: Callable[..., Tensor], inputs: Sequence[Any], x: Tensor) -> tuple[float, list[Tensor]]:
    """The seconds of these calls, and what they returned."""
    start = time.thread_time()
    results = [function(layer, x) for layer in inputs]
    return time.thread_time() - start, results


def measure(program: Program) -> str:
    """One line: what a call takes eagerly, what calls take beside that, and the counters."""

    def step(layer: Any, x: Tensor) -> Tensor:
        return torch.relu(layer.apply(x)) + 1

    def hand_on(*args: Any, **kwargs: Any) -> Tensor:
        return step(*args, **kwargs)

    compiled = janus.compile(step, backend="aten", warmup=program.warmup)
    called = hand_on if program.bare else compiled
    layers, x = [make_layer(number, program.width) for number in range(program.kinds)], torch.ones(program.width)
    ratios, eager_seconds, all_seconds, order = [], 0.0, 0.0, program.order()
    for start in range(0, CALLS, RUN):
        inputs = [layers[number] for number in order[start : start + RUN]]
        before, expected = seconds(step, inputs, x)
        taken, results = seconds(called, inputs, x)
        after, _ = seconds(step, inputs, x)
        if not all(map(torch.equal, results, expected)):
            raise SystemExit(f"{program.name}: a result differs from eager's")
        eager_seconds += (before + after) / 2
        all_seconds += taken
        ratios.append(2 * taken / (before + after))
    stats = janus.stats(compiled)
    return (
        f"{program.name:28}{eager_seconds / CALLS * 1e6:10.1f}{all_seconds / eager_seconds:8.2f}"
        f"{(all_seconds - stats.conversion_seconds) / eager_seconds:12.2f}{median(ratios[-LATE:]):8.2f}"
        f"{stats.graph_calls:9}{stats.guard_misses:9}{stats.conversions:9}{stats.resting:9}"
    )


def main() -> int:
    """Measure every program."""
    torch.set_num_threads(1)
    lines = [
        f"torch {torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} thread, "
        f"{processor_name()}",
        f"{CALLS} calls, eager and compiled in turn; ratios to eager's seconds",
        "",
        f"{'':28}{'eager µs':>10}{'all':>8}{'no conv.':>12}{'late':>8}"
        f"{'in graph':>9}{'misses':>9}{'made':>9}{'resting':>9}",
        *map(measure, PROGRAMS),
    ]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
