"""What stands around a backward pass: torch's own functions beside what ordinary Python in a graph calls instead.

    python bench/optimizers.py

Prints the figures and writes them to ``bench/results/optimizers.txt``. Before anything is timed, parameters, gradients
and state must be equal, bit for bit, after some steps.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from timing import Timing, processor_name, time_calls
from torch import nn

from janusc.runtime.optimizers import lookup

RESULTS = Path(__file__).parent / "results" / "optimizers.txt"
NETWORKS = {"MLP 4-64-64-2, 6 parameters": [4, 64, 64, 2], "15 layers of 32, 30 parameters": [32] * 16}
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda ps: torch.optim.SGD(ps, lr=1e-3),
    "SGD, momentum": lambda ps: torch.optim.SGD(ps, lr=1e-3, momentum=0.9),
    "Adam": lambda ps: torch.optim.Adam(ps),
    "AdamW": lambda ps: torch.optim.AdamW(ps),
    "RMSprop": lambda ps: torch.optim.RMSprop(ps),
    "Adagrad": lambda ps: torch.optim.Adagrad(ps),
}
STEPS, MAX_NORM = 5, 1e6


def called_instead(callee: Any) -> Any:
    """What ordinary Python in a converted function calls."""
    function = callee.__func__ if type(callee) is MethodType else callee
    return lookup.equivalent_of(callee, function) if lookup.is_candidate(function) else callee


def trained(sizes: Sequence[int]) -> list[nn.Parameter]:
    """The parameters of a network, with gradients."""
    torch.manual_seed(0)
    layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.Tanh())]
    model = nn.Sequential(*layers[:-1])
    model(torch.randn(8, sizes[0])).square().mean().backward()
    return list(model.parameters())


def check_equal(one: torch.optim.Optimizer, other: torch.optim.Optimizer) -> None:
    """Make sure that two optimizers have left the same behind."""
    pairs = zip(*([p for g in o.param_groups for p in g["params"]] for o in (one, other)), strict=True)
    for p, q in pairs:
        states = zip(one.state.get(p, {}).values(), other.state.get(q, {}).values(), strict=True)
        if not torch.equal(p, q) or not all(torch.equal(a, b) for a, b in states):
            raise SystemExit(f"{type(one).__name__}: the results differ from torch's, so nothing was timed")


def time_steps(sizes: Sequence[int]) -> dict[str, tuple[Timing, Timing]]:
    """A step of each optimizer, by torch and otherwise."""
    found = {}
    for name, make in OPTIMIZERS.items():
        plain, ours = make(trained(sizes)), make(trained(sizes))
        for _ in range(STEPS):
            plain.step()
            called_instead(ours.step)()
        check_equal(plain, ours)
        timings = time_calls({"torch": plain.step, "janusc": lambda ours=ours: called_instead(ours.step)()})
        found[f"{name}.step"] = timings["torch"], timings["janusc"]
    return found


def time_others(sizes: Sequence[int]) -> dict[str, tuple[Timing, Timing]]:
    """Gradients dropped (and put back, which counts on both sides) or clipped."""
    parameters = trained(sizes)
    gradients = [p.grad for p in parameters]
    optimizer = torch.optim.SGD(parameters)

    def put_back() -> None:
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient

    def call(function: Callable[[], Any], *args: Any) -> Callable[[], None]:
        def run() -> None:
            function()(*args)
            put_back()

        return run

    callees = {
        "zero_grad": (lambda: optimizer.zero_grad, ()),
        "clip_grad_norm_": (lambda: nn.utils.clip_grad_norm_, (parameters, MAX_NORM)),
        "clip_grad_value_": (lambda: nn.utils.clip_grad_value_, (parameters, MAX_NORM)),
    }
    found = {}
    for name, (callee, args) in callees.items():
        timings = time_calls(
            {
                "torch": call(callee, *args),
                "janusc": call(lambda callee=callee: called_instead(callee()), *args),
                "nothing": put_back,
            }
        )
        found[name] = tuple(
            Timing(timings[k].median - timings["nothing"].median, timings[k].minimum - timings["nothing"].minimum)
            for k in ("torch", "janusc")
        )
    return found


def report() -> str:
    """The machine, and the figures."""
    lines = [
        f"torch {torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} thread, "
        f"{processor_name()}",
        "medians and minima of interleaved rounds, in microseconds",
    ]
    for title, sizes in NETWORKS.items():
        lines += ["", f"{title:34}{'torch':>10}{'minimum':>10}{'janusc':>10}{'minimum':>10}{'of torch':>10}"]
        for name, (theirs, ours) in {**time_steps(sizes), **time_others(sizes)}.items():
            lines.append(
                f"{name:34}{theirs.median:10.1f}{theirs.minimum:10.1f}{ours.median:10.1f}{ours.minimum:10.1f}"
                f"{ours.median / theirs.median:10.2f}"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Time everything."""
    torch.set_num_threads(1)
    text = report()
    print(text, end="")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
