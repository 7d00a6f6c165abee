"""A program's cold start beside eager, in a process of its own. Prints JSON.

    python bench/cold_start.py NAME [WARMUP]

Both run the same calls in turns of 60, each on its own random numbers: until eager has taken a tenth of a second, and
on until all that was compiled has graphs, and a turn longer. With WARMUP the conversion comes after so many calls, in
place of waiting until it pays.
"""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import dynamic_programs as programs
import torch

import janusc as janus

CALLS = 60  # of a turn, each with another input
SHORTEST = 0.1  # seconds of eager that a cold start is compared over: shorter ones go on with the same inputs
LONGEST = 20  # seconds of eager after which graphs are no longer waited for


@dataclass(frozen=True)
class ColdStart:
    """Seconds of eager and of janusc: of the first ``calls``, and until all graphs were there, or None if never."""

    calls: int
    eager: float
    janusc: float
    eager_until: float | None
    janusc_until: float | None
    conversion: float
    first_conversion: float
    equal: bool


class Contestant:
    """One side: its case, the random numbers that it draws from, and the seconds it took."""

    def __init__(self, name: str, decorate: Any) -> None:
        self.case = programs.make(name, decorate)
        self.seconds = 0.0
        self._state: tuple[Any, Any] = torch.get_rng_state(), random.getstate()

    def run(self) -> list[Any]:
        """Make the calls of a turn."""
        torch.set_rng_state(self._state[0])
        random.setstate(self._state[1])
        start = time.perf_counter()
        results = [self.case.call(number) for number in range(CALLS)]
        self.seconds += time.perf_counter() - start
        self._state = torch.get_rng_state(), random.getstate()
        return results


def measure(name: str, warmup: int | None) -> ColdStart:
    """Run both sides; torch is warm by then, and what a process's first conversion imports is there."""
    first_conversion = first_use()
    Contestant(name, lambda target: target).run()
    eager = Contestant(name, lambda target: target)
    ours = Contestant(name, lambda target: janus.compile(target, backend="aten", warmup=warmup))
    turns, first, after, equal = 0, None, 0, True
    while first is None or after < 2 and eager.seconds < LONGEST:
        equal = programs.same(eager.run(), ours.run()) and equal
        turns += 1
        if first is None and eager.seconds >= SHORTEST:
            first = turns * CALLS, eager.seconds, ours.seconds
        after += all(janus.stats(target).graphs for target in ours.case.targets)
    until = (eager.seconds, ours.seconds) if after else (None, None)
    conversion = max(janus.stats(target).conversion_seconds for target in ours.case.targets)
    return ColdStart(*first, *until, conversion, first_conversion, equal)


def first_use() -> float:
    """The seconds of a process's first conversion, of something small."""
    small = janus.compile(lambda x: torch.relu(x) + 1, backend="aten", warmup=0)
    start = time.perf_counter()
    small(torch.ones(2)), small(torch.ones(2))
    return time.perf_counter() - start


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(asdict(measure(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else None))))
