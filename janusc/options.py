"""The options of ``compile``, checked once when they are given."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from janusc.registry import Registry

BACKENDS: Registry[str, Any] = Registry("backends")
"""Who computes straight-line tensor code, by the names that users ask for them by; see the chapter of backends."""
EXECUTORS = ("emitted", "interpreter")


@dataclass(frozen=True)
class Options:
    """What a user may choose for one compiled function.

    ``warmup``         calls that run eagerly and are profiled before the first conversion; None: three, once the calls
                       have taken ten times what converting is expected to cost (``strict`` does not wait for that)
    ``backend``        who computes straight-line tensor code: ``"aten"`` (exact), ``"inductor"`` (kernels,
                       compiled when a graph first runs), ``"cudagraph"`` (torch's operations on a CUDA device,
                       recorded and replayed), or ``"auto"`` for the fastest
    ``strict``         after warm-up an eager fallback is an error that says why
    ``trust_inputs``   leave out the guards on the types and shapes of arguments
    ``passes``         optimise graphs
    ``executor``       ``"emitted"`` Python, or the ``"interpreter"`` that tests compare it with
    ``abort_hooks``    let tests force each assert to fail
    ``max_variants``   specialisations kept per function, or per module where modules share them
    """

    warmup: int | None = None
    backend: str = "auto"
    strict: bool = False
    trust_inputs: bool = False
    passes: bool = True
    executor: str = "emitted"
    abort_hooks: bool = False
    max_variants: int = 8

    def __post_init__(self) -> None:
        if self.warmup is not None:
            _check_count("warmup", self.warmup, 0)
        _check_count("max_variants", self.max_variants, 1)
        _check_choice("backend", self.backend, tuple(BACKENDS))
        _check_choice("executor", self.executor, EXECUTORS)
        for name in ("strict", "trust_inputs", "passes", "abort_hooks"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise TypeError(f"janusc: option {name} must be True or False, got {value!r}")


def make_options(given: Mapping[str, Any]) -> Options:
    """The options from keyword arguments; an unknown name raises TypeError listing the known ones."""
    known = [field.name for field in fields(Options)]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise TypeError(f"janusc: unknown option {name!r}{hint}; the options are {', '.join(known)}")
    return Options(**given)


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"janusc: option {name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"janusc: option {name} must be at least {least}, got {value!r}")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str):
        raise TypeError(f"janusc: option {name} must be a string, got {value!r}")
    if value not in choices:
        raise ValueError(f"janusc: option {name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
