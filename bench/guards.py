"""What each kind of guard costs: the guard lines of real graphs, timed one by one.

A line is run many times over in a loop of its own, after the lines before it; an empty loop is subtracted.
"""

from __future__ import annotations

import re
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from janusc.fallback.cache import find_state

KINDS = (
    ("hooks of a module", r"if .*\['_forward_hooks'\]"),
    ("hooks of all modules", r"if global_hooks"),
    ("flag, such as training", r"if .* is not (True|False):"),
    ("exact type", r"if type\(\w+\) is not \w+:"),
    ("exact type, local class", r"if type\(\w+\) is not \w+\(\):"),
    ("value of a number or text", r"if type\(.*\) is not \w+ or "),
    ("attribute not on the class or object", r"if '.*' in "),
    ("code of the function", r"if \(?\w+\.__code__\)? is not"),
    ("method or function by identity", r"if \(.*\) is not "),
    ("length", r"if len\("),
    ("no gradient of what is written", r"if \(.*requires_grad"),
    ("read of an attribute", r"\w+ = .*\.\w+$"),
    ("read of an entry", r"\w+ = .*\[.*\]$"),
)
"""By name: how the guard's line looks; the first that fits."""

LOOPS, ROUNDS = 4000, 7


@dataclass(frozen=True)
class Guard:
    """One guard of a graph: its kind, its text, and nanoseconds each time."""

    kind: str
    text: str
    nanoseconds: float


def time_guards(target: Any, arguments: Sequence[Any]) -> list[Guard]:
    """The guards of the newest graph of a compiled function or module, which must hold for the arguments."""
    (variant, *_) = find_state(target).variants
    function = getattr(target.forward, "__wrapped__", target.forward) if hasattr(target, "forward") else target
    function = getattr(function, "__wrapped__", function)
    source = variant.made.source
    lines = _guard_lines(source)
    header = next(line for line in source.splitlines() if line.startswith("def "))
    empty = _timer(header, [], "pass", variant.run.__globals__)
    found = []
    for index, line in enumerate(lines):
        timer = _timer(header, lines[:index], line, variant.run.__globals__)
        times = [timer(function, *arguments) - empty(function, *arguments) for _ in range(ROUNDS)]
        found.append(Guard(_kind(line), line, median(times) / LOOPS * 1e9))
    return found


def _guard_lines(source: str) -> list[str]:
    """The lines of the first ``try``, without the user's lines behind them."""
    lines = source.splitlines()
    start = lines.index("    try:")
    end = next(i for i, line in enumerate(lines) if line.startswith("    except Exception"))
    return [re.sub(r"  # \d+: .*", "", line).strip() for line in lines[start + 1 : end]]


def _kind(line: str) -> str:
    return next((name for name, pattern in KINDS if re.match(pattern, line)), "others")


def _timer(header: str, before: Sequence[str], line: str, namespace: dict[str, Any]) -> Callable[..., float]:
    text = "\n".join(
        [
            header,
            *(f"    {earlier}" for earlier in before),
            f"    start = clock()\n    for _ in loops:\n        {line}\n    return clock() - start",
        ]
    )
    names = {**namespace, "clock": time.perf_counter, "loops": range(LOOPS)}
    exec(text, names)
    made = next(v for v in names.values() if isinstance(v, types.FunctionType) and v.__code__.co_filename == "<string>")
    return made


def table(guards: Sequence[Guard]) -> list[str]:
    """One line per kind: how many were timed, the median and the dearest."""
    lines = [f"{'':40}{'timed':>8}{'median ns':>12}{'maximum ns':>12}"]
    for kind in dict.fromkeys(name for name, _ in (*KINDS, ("others", ""))):
        costs = [guard.nanoseconds for guard in guards if guard.kind == kind]
        if costs:
            lines.append(f"{kind:40}{len(costs):8}{median(costs):12.1f}{max(costs):12.1f}")
    return lines
