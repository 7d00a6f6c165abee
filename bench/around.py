"""What a whole step by kernels takes beside them: guards, arguments, gradients handed over, state written back."""

from __future__ import annotations

import gc
from collections.abc import Callable
from statistics import median
from time import perf_counter_ns
from typing import Any

from models import stacked
from timing import Timing

import janusc as janus
from janusc.runtime.kernels.whole import WholeStep

LAYERS = 15
CALLS, ROUNDS = 200, 31


class Timed:
    """A kernel that keeps how long its last call took."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        self.kernel, self.taken = kernel, 0

    def __call__(self, inputs: Any) -> Any:
        start = perf_counter_ns()
        results = self.kernel(inputs)
        self.taken = perf_counter_ns() - start
        return results


def time_around() -> dict[str, Timing]:
    """Microseconds of an eager step, of ours, of the kernels in it, and of what is around them."""
    eager, ours = stacked.make_step(LAYERS), janus.compile(backend="inductor")(stacked.make_step(LAYERS))
    while not (kernels := _kernels()):
        expected, found = eager(), ours()
    assert abs(found - expected) <= 1e-4 * abs(expected), "the losses differ"
    names = ("eager", "a whole step by kernels", "the kernels in it", "around them")
    found_in: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name, taken in zip(names, _round(eager, ours, kernels)):
            found_in[name].append(taken)
    return {name: Timing(median(taken), min(taken)) for name, taken in found_in.items()}


def _kernels() -> list[Timed]:
    """The kernels of the only whole step, wrapped where they are called; none before it was made once."""
    kernels: list[Timed] = []
    for order in [one._order for one in gc.get_objects() if type(one) is WholeStep]:
        if order is not None and order.binding.kernel is not None:
            kernels += Timed(order.kernel._compiled), Timed(order.binding.kernel)
            order.kernel._compiled, order.binding.kernel = kernels
    return kernels


def _round(eager: Callable[[], float], ours: Callable[[], float], kernels: list[Timed]) -> tuple[float, ...]:
    """Medians of some calls of each, those of the same kind in a row, as in training."""
    of_eager, of_ours, inside = [], [], []
    for _ in range(CALLS):
        start = perf_counter_ns()
        eager()
        of_eager.append(perf_counter_ns() - start)
    for _ in range(CALLS):
        start = perf_counter_ns()
        ours()
        of_ours.append(perf_counter_ns() - start)
        inside.append(sum(kernel.taken for kernel in kernels))
    around = [whole - within for whole, within in zip(of_ours, inside)]
    return tuple(median(taken) / 1e3 for taken in (of_eager, of_ours, inside, around))
