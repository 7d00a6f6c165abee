"""Training steps on a CUDA device: eager, torch.compile with and without CUDA graphs, and janusc by its backends.

    python bench/gpu.py

Prints milliseconds per step and writes them to ``bench/results/gpu.txt`` with the name of the card. The contestants
take turns, and the device is waited for at both ends of a turn; medians of the turns. It stops before six minutes: what
is not measured by then has a dash. Ends with status 2 where there is no CUDA device.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch
from models.steps import STEPS, Decorator, Training, as_it_is, make

import janusc as janus

RESULTS = Path(__file__).parent / "results" / "gpu.txt"
SECONDS = 330.0  # in all
TURNS, TURN_SECONDS = 9, 0.05
WARM_CALLS = 12


def of_janusc(backend: str) -> tuple[Decorator, Decorator]:
    """What decorates the step, and the model."""
    return lambda step: janus.compile(step, backend=backend, warmup=3), as_it_is


CONTESTANTS: Mapping[str, tuple[Decorator, Decorator]] = {
    "eager": (as_it_is, as_it_is),
    "torch.compile": (as_it_is, torch.compile),
    "reduce-overhead": (as_it_is, lambda model: torch.compile(model, mode="reduce-overhead")),
    "aten": of_janusc("aten"),
    "auto": of_janusc("auto"),
    "cudagraph": of_janusc("cudagraph"),
}


def prepare(name: str, contestant: str) -> Training:
    """A fresh training whose models and inputs are on the device, warmed up."""
    training = on_device(make(name, *CONTESTANTS[contestant]))
    for number in range(WARM_CALLS):
        training.call(number)
    torch.cuda.synchronize()
    return training


def on_device(training: Training) -> Training:
    """The training on the device: parameters move in place, so that optimizers and steps see the same ones."""
    for model in training.models:
        model.to("cuda")
    return replace(training, inputs=[tuple(x.to("cuda") for x in given) for given in training.inputs])


def turn(training: Training, calls: int) -> float:
    """Seconds of a step, by a turn of so many."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    for number in range(calls):
        training.call(number)
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / calls


def measure(name: str, deadline: float) -> dict[str, float | str]:
    """Seconds of a step by each contestant that was ready in time; of one that failed, its error."""
    ready: dict[str, Training] = {}
    found: dict[str, float | str] = {}
    for contestant in CONTESTANTS:
        if time.perf_counter() > deadline:
            break
        try:
            ready[contestant] = prepare(name, contestant)
        except Exception as error:  # of whoever: the others are measured all the same
            found[contestant] = type(error).__name__
    calls = {who: max(1, int(TURN_SECONDS / turn(training, 3))) for who, training in ready.items()}
    taken: dict[str, list[float]] = {who: [] for who in ready}
    for _ in range(TURNS):
        for who, training in ready.items():
            taken[who].append(turn(training, calls[who]))
    return {**found, **{who: median(seconds) for who, seconds in taken.items()}}


def row(name: str, found: Mapping[str, float | str]) -> str:
    """The figures of a step in a line."""
    cells = (found.get(who, "-") for who in CONTESTANTS)
    return f"{name:26}" + "".join(f"{cell if isinstance(cell, str) else f'{cell * 1e3:.3f}':>17}" for cell in cells)


def main() -> int:
    """Measure all steps, as long as there is time."""
    if not torch.cuda.is_available():
        print("no CUDA device: nothing was measured", file=sys.stderr)
        return 2
    started = time.perf_counter()
    lines = [
        f"torch {torch.__version__}, CUDA {torch.version.cuda}, {torch.cuda.get_device_name()}",
        "milliseconds of a step; torch.compile on the model",
        "",
        f"{'':26}" + "".join(f"{who:>17}" for who in CONTESTANTS),
    ]
    print("\n".join(lines), flush=True)
    for number, name in enumerate(STEPS):
        left = started + SECONDS - time.perf_counter()
        lines.append(row(name, measure(name, time.perf_counter() + left / (len(STEPS) - number))))
        print(lines[-1], flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
