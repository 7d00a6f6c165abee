"""What janusc costs a call and a conversion, beside eager and torch.compile, in one run.

    python bench/overhead.py

Prints what is required and what was measured, writes the same text to ``bench/results/overhead.txt``, and ends with
status 1 where a requirement is not met. Every output is compared with eager's before anything is timed; conversions
are timed in fresh processes (``--probe``), as the first in a process is the dearest.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from around import LAYERS, time_around
from guards import table, time_guards
from models import guarded, mlp
from timing import Timing, processor_name, time_calls
from torch import Tensor

import janusc as janus
from janusc.demo.models import CharLSTM, LeNet

RESULTS = Path(__file__).parent / "results" / "overhead.txt"
WARM_CALLS = 8
PROCESSES = 3  # fresh ones for each conversion that is timed

SHARE_OF_TORCH_COMPILE = 0.2
SHARE_OF_EAGER = 0.5
LENET_SECONDS = 1.0
GUARD_NANOSECONDS = 100
AROUND_MICROSECONDS = 25
SHORT, LONG = 10, 200
SAME_WITHIN = 1.3  # two conversion times count as the same below this ratio: they vary so much from run to run
LSTM_GRAPHS = 2


@dataclass(frozen=True)
class Requirement:
    """What must hold, what was measured, and whether it holds."""

    name: str
    required: str
    measured: str
    met: bool


@dataclass(frozen=True)
class Section:
    """One part of the benchmark: a title, its figures, and the requirements on them."""

    title: str
    lines: Sequence[str]
    requirements: Sequence[Requirement] = ()


def convert(target: Any) -> Any:
    """The target under janusc, through the exact backend."""
    return janus.compile(target, backend="aten", warmup=3)


def torch_compile(target: Any) -> Any:
    """The target under torch.compile, its capture and guards alone: graphs are run by eager."""
    return torch.compile(target, backend="eager")


def check_equal(name: str, expected: Tensor, call: Callable[[], Tensor]) -> None:
    """Warm a candidate up; each of its results must be eager's, bit for bit."""
    for _ in range(WARM_CALLS):
        got = call()
        if not (torch.equal(expected, got) and expected.stride() == got.stride() and expected.dtype == got.dtype):
            raise SystemExit(f"{name}: the result differs from eager's, so nothing was timed")


def check_converted(name: str, target: Any) -> None:
    """Make sure that what is about to be timed is a graph."""
    if janus.stats(target).graph_calls == 0:
        raise SystemExit(f"{name}: did not run in a graph, so nothing was timed")


def timed(candidates: dict[str, Callable[[], Tensor]]) -> dict[str, Timing]:
    """Compare every candidate with the first, then time them."""
    expected = next(iter(candidates.values()))()
    for name, call in candidates.items():
        check_equal(name, expected, call)
    return time_calls(candidates)


def rows(timings: dict[str, Timing]) -> list[str]:
    """One line per candidate: median and minimum, and what it adds to eager or is of it."""
    eager = timings["eager"]
    head = f"{'':24}{'median µs':>12}{'minimum µs':>12}{'over eager':>12}{'of eager':>10}"
    return [head] + [
        f"{name:24}{t.median:12.2f}{t.minimum:12.2f}{t.median - eager.median:+12.2f}{t.median / eager.median:10.2f}"
        for name, t in timings.items()
    ]


def measure_add_one() -> Section:
    """What a cached call adds to the smallest function there is."""
    x = torch.arange(4.0)
    eager = guarded.add_one
    converted, captured = convert(guarded.add_one), torch_compile(guarded.add_one)
    with torch.no_grad():
        timings = timed(
            {"eager": lambda: eager(x), "janusc": lambda: converted(x), "torch.compile": lambda: captured(x)}
        )
    check_converted("x + 1", converted)
    ours, theirs = (timings[name].median - timings["eager"].median for name in ("janusc", "torch.compile"))
    requirement = Requirement(
        "x + 1 on a 4-vector: added µs",
        f"<= {SHARE_OF_TORCH_COMPILE} x torch.compile's",
        f"{ours:.2f}, torch.compile {theirs:.2f} ({ours / theirs:.2f} x)",
        ours <= SHARE_OF_TORCH_COMPILE * theirs,
    )
    return Section("x + 1 on a 4-vector", rows(timings), [requirement])


def measure_mlp(width: int, grad: bool) -> Section:
    """Forward of a small MLP at batch 1, compiled as a module and in a function that calls it.

    The requirement is on the narrow one, where calls take the time and not products, and on the function, which has
    no module call left around the graph.
    """
    torch.manual_seed(0)
    model, converted, captured = mlp.MLP(width), mlp.MLP(width), mlp.MLP(width)
    for copy in (converted, captured):
        copy.load_state_dict(model.state_dict())
    converted, captured, predict = convert(converted), torch_compile(captured), convert(mlp.predict)
    x = torch.randn(1, width)
    parameters = tuple(model.parameters())
    with torch.set_grad_enabled(grad):
        timings = timed(
            {
                "eager": lambda: model(x),
                "janusc, module": lambda: converted(x),
                "janusc, function": lambda: predict(model, x),
                "flat calls": lambda: mlp.flat_calls(x, *parameters),
                "torch.compile": lambda: captured(x),
            }
        )
    check_converted("MLP", converted)
    check_converted("predict", predict)
    mode = "with grad" if grad else "under no_grad"
    title = f"{mlp.LAYERS}-layer MLP, width {width}, forward at batch 1, {mode}"
    if grad or width != mlp.NARROW:
        return Section(title, rows(timings))
    share = timings["janusc, function"].median / timings["eager"].median
    requirement = Requirement(
        "MLP forward at batch 1, no_grad", f"<= {SHARE_OF_EAGER} x eager", f"{share:.2f} x", share <= SHARE_OF_EAGER
    )
    return Section(title, rows(timings), [requirement])


def measure_whole_step() -> Section:
    """A training step on fused kernels, where nearly all of it is what stands around them."""
    timings = time_around()
    around = timings["around them"].median
    requirement = Requirement(
        f"around the kernels of a step, {2 * LAYERS} parameters: us",
        f"<= {AROUND_MICROSECONDS}",
        f"{around:.0f}",
        around <= AROUND_MICROSECONDS,
    )
    return Section(f"training step of {2 * LAYERS} parameters, backend='inductor'", rows(timings), [requirement])


def measure_guards() -> Section:
    """Cached calls of functions with more and more to guard."""
    lines = [f"{'':24}{'eager µs':>12}{'janusc µs':>12}{'minimum':>12}{'over eager':>12}"]
    cases: list[tuple[str, Any, Any, tuple[Tensor, ...]]] = []
    for count in (0, 1, 2, 4, 8):
        function = getattr(guarded, f"tensors_{count}")
        inputs = tuple(torch.ones(4) for _ in range(count))
        cases.append((f"{count} tensor arguments", function, convert(function), inputs))
    cases.append(("method, 8 submodules", guarded.Submodules(), convert(guarded.Submodules()), (torch.ones(4),)))
    for name, eager, converted, inputs in cases:
        with torch.no_grad():
            timings = timed(
                {
                    "eager": lambda eager=eager, inputs=inputs: eager(*inputs),
                    "janusc": lambda converted=converted, inputs=inputs: converted(*inputs),
                }
            )
        check_converted(name, converted)
        base, ours = timings["eager"], timings["janusc"]
        added = ours.median - base.median
        lines.append(f"{name:24}{base.median:12.2f}{ours.median:12.2f}{ours.minimum:12.2f}{added:+12.2f}")
    return Section("cached calls, by what is guarded", lines)


def measure_guard_kinds() -> Section:
    """What a guard of each kind costs."""
    found = []
    for make, x in ((guarded.Submodules, torch.ones(4)), (guarded.Mixed, torch.ones(2, 4))):
        converted = convert(make())
        for _ in range(WARM_CALLS):
            converted(x)
        check_converted(make.__name__, converted)
        found += time_guards(converted, (converted, x))
    kinds = {guard.kind for guard in found}
    costs = {kind: median(guard.nanoseconds for guard in found if guard.kind == kind) for kind in kinds}
    dearest = max(costs, key=lambda kind: costs[kind])
    requirement = Requirement(
        "dearest kind of guard: ns",
        f"<= {GUARD_NANOSECONDS}",
        f"{costs[dearest]:.0f} ({dearest})",
        costs[dearest] <= GUARD_NANOSECONDS,
    )
    return Section("one guard, by kind", table(found), [requirement])


def probe_lenet() -> dict[str, float]:
    """Convert LeNet's forward; runs in a process of its own."""
    torch.manual_seed(0)
    model = LeNet()
    images = torch.randn(50, 1, 28, 28)
    expected = model(images)
    converted = convert(model)
    check_equal("LeNet", expected, lambda: converted(images))
    return _counts("LeNet", converted)


def probe_lstm(length: int, varying: bool) -> dict[str, float]:
    """Convert the LSTM's loop at a length, or at several up to it; runs in a process of its own."""
    torch.manual_seed(0)
    model = CharLSTM(100)
    lengths = [length - number % 5 for number in range(4 * WARM_CALLS)] if varying else [length] * WARM_CALLS
    inputs = [torch.randint(100, (number, 16)) for number in lengths]
    expected = [model(characters) for characters in inputs]
    converted = convert(model)
    for characters, result in zip(inputs, expected, strict=True):
        if not torch.equal(converted(characters), result):
            raise SystemExit("LSTM: the result differs from eager's")
    return _counts("LSTM", converted)


def _counts(name: str, converted: Any) -> dict[str, float]:
    check_converted(name, converted)
    stats = janus.stats(converted)
    return {"seconds": stats.conversion_seconds, "graphs": stats.graphs, "graph_calls": stats.graph_calls}


PROBES: dict[str, Callable[[], dict[str, float]]] = {
    "lenet": probe_lenet,
    "lstm-short": lambda: probe_lstm(SHORT, varying=False),
    "lstm-long": lambda: probe_lstm(LONG, varying=False),
    "lstm-short-varying": lambda: probe_lstm(SHORT, varying=True),
    "lstm-long-varying": lambda: probe_lstm(LONG, varying=True),
}


def run_probe(name: str) -> dict[str, float]:
    """Run a probe in a fresh process and read what it found."""
    command = [sys.executable, __file__, "--probe", name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"probe {name} failed:\n{done.stdout}{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_conversions() -> Section:
    """Seconds spent converting LeNet and the LSTM's loop, at several lengths."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in PROBES}
    for _ in range(PROCESSES):
        for name in PROBES:
            found[name].append(run_probe(name))
    seconds = {name: median(probe["seconds"] for probe in probes) for name, probes in found.items()}
    graphs = {name: max(int(probe["graphs"]) for probe in probes) for name, probes in found.items()}
    lines = [f"{'':24}{'median s':>12}{'minimum s':>12}{'graphs':>12}"]
    for name, probes in found.items():
        best = min(probe["seconds"] for probe in probes)
        lines.append(f"{name:24}{seconds[name]:12.3f}{best:12.3f}{graphs[name]:12}")
    requirements = [
        Requirement(
            "LeNet: seconds converting", f"< {LENET_SECONDS:g}", f"{seconds['lenet']:.3f}", seconds["lenet"] < 1
        ),
    ]
    for suffix, text in (("", "one length"), ("-varying", "varying lengths")):
        short, long = seconds[f"lstm-short{suffix}"], seconds[f"lstm-long{suffix}"]
        measured = f"{long:.3f} to {short:.3f} s ({long / short:.2f} x)"
        required = f"the same (<= {SAME_WITHIN} x)"
        requirements.append(
            Requirement(
                f"LSTM: converting at {LONG} to {SHORT}, {text}", required, measured, long <= SAME_WITHIN * short
            )
        )
    most = max(graphs["lstm-short-varying"], graphs["lstm-long-varying"])
    requirements.append(
        Requirement("LSTM: graphs after lengths varied", f"<= {LSTM_GRAPHS}", f"{most}", most <= LSTM_GRAPHS)
    )
    return Section(f"conversions, {PROCESSES} fresh processes each", lines, requirements)


def report(sections: Sequence[Section]) -> str:
    """The whole text: the machine, every figure, and the verdicts."""
    python = platform.python_version()
    lines = [
        f"torch {torch.__version__}, Python {python}, {torch.get_num_threads()} thread, {processor_name()}",
        "medians and minima of interleaved rounds; torch.compile with backend='eager', janusc with backend='aten'",
    ]
    for section in sections:
        lines += ["", section.title, *section.lines]
    lines += ["", f"{'requirement':50}{'required':28}measured"]
    for requirement in (one for section in sections for one in section.requirements):
        verdict = "ok" if requirement.met else "BAD"
        lines.append(f"{requirement.name:50}{requirement.required:28}{requirement.measured}  {verdict}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run every section, or the one probe that was asked for."""
    parser = argparse.ArgumentParser(description="Measure what janusc costs a call and a conversion.")
    parser.add_argument("--probe", choices=sorted(PROBES), help="run one conversion in this process; prints JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.probe:
        print(json.dumps(PROBES[options.probe]()))
        return 0
    whole = measure_whole_step()  # before torch.compile is in the process, as in a program without it
    mlps = [measure_mlp(width, grad) for width in (mlp.NARROW, mlp.WIDE) for grad in (False, True)]
    sections = [measure_add_one(), *mlps, whole, measure_guards(), measure_guard_kinds()]
    sections.append(measure_conversions())
    text = report(sections)
    print(text, end="")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(text, encoding="utf-8")
    return 0 if all(requirement.met for section in sections for requirement in section.requirements) else 1


if __name__ == "__main__":
    sys.exit(main())
