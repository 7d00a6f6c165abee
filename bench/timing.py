"""Interleaved timing: every candidate takes its turn in every round, so that a slow spell hits all of them alike."""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Timing:
    """Microseconds a call: the median of the rounds, and the best of them."""

    median: float
    minimum: float


def time_calls(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 31, round_seconds: float = 0.004
) -> dict[str, Timing]:
    """Time each candidate in turn, round after round; each round is a loop of about ``round_seconds``."""
    repeats = {name: _repeats(call, round_seconds) for name, call in candidates.items()}
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(rounds):
            order = list(candidates) if number % 2 == 0 else list(reversed(candidates))
            for name in order:
                seconds[name].append(_time(candidates[name], repeats[name]))
    finally:
        if collecting:
            gc.enable()
    return {name: Timing(median(taken) * 1e6, min(taken) * 1e6) for name, taken in seconds.items()}


def _repeats(call: Callable[[], object], round_seconds: float) -> int:
    for _ in range(20):
        call()
    return max(1, int(round_seconds / _time(call, 20)))


def _time(call: Callable[[], object], repeats: int) -> float:
    loop = range(repeats)
    start = time.perf_counter()
    for _ in loop:
        call()
    return (time.perf_counter() - start) / repeats


def processor_name() -> str:
    """The processor's model name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
