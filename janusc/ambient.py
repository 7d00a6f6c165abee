"""What surrounds every call: random number streams, modes of torch, the environment; as facts, and kept apart."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch

from janusc.tensor_fact import tensor_fact

_MODES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any] | None]] = {
    "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "inference mode": (torch.is_inference_mode_enabled, None),
    "autocast": (lambda: torch.is_autocast_enabled("cpu"), lambda value: torch.set_autocast_enabled("cpu", value)),
    "autocast dtype": (
        lambda: torch.get_autocast_dtype("cpu"),
        lambda value: torch.set_autocast_dtype("cpu", value),
    ),
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "default device": (
        torch.get_default_device,
        lambda value: torch.set_default_device(None if value.type == "cpu" else value),
    ),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "anomaly mode": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    "matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "working directory": (os.getcwd, os.chdir),
}
"""By name: how to ask for a mode, and how to put it back."""
_SET_BY_TORCH = ("TORCHINDUCTOR_", "TRITON_")  # when it first imports its compiler


def ambient_facts(environment: dict[str, str]) -> dict[str, Any]:
    """The state of the random number streams and of the modes; of the environment, what is not as it was."""
    state = numpy.random.get_state(legacy=False)
    facts: dict[str, Any] = {
        "torch random state": tensor_fact(torch.get_rng_state()),
        "python random state": hash(random.getstate()),
        "numpy random state": hash(
            (state["state"]["key"].tobytes(), state["state"]["pos"], state["has_gauss"], state["gauss"])
        ),
    }
    if _uses_cuda():
        for index, device in enumerate(torch.cuda.get_rng_state_all()):
            facts[f"cuda random state {index}"] = tensor_fact(device)
    facts.update((name, str(ask())) for name, (ask, _) in _MODES.items())
    now = dict(os.environ)
    if now != environment:
        names = sorted(n for n in {*now, *environment} if not n.startswith(_SET_BY_TORCH))
        changes = tuple((n, now.get(n)) for n in names if now.get(n) != environment.get(n))
        facts.update({"environment": changes} if changes else {})
    return facts


def _uses_cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def isolated(seed: int) -> Iterator[dict[str, str]]:
    """Same seeds and modes for every run, and the caller's own ones back afterwards; gives the environment."""
    streams = (torch.get_rng_state(), random.getstate(), numpy.random.get_state())
    devices = torch.cuda.get_rng_state_all() if _uses_cuda() else []
    environment, always = dict(os.environ), torch.is_warn_always_enabled()
    modes = {name: ask() for name, (ask, _) in _MODES.items()}
    try:
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed)
        torch.set_warn_always(True)  # else a warning that torch gives once would be missing from the second run
        yield environment
    finally:
        torch.set_rng_state(streams[0])
        random.setstate(streams[1])
        numpy.random.set_state(streams[2])
        torch.cuda.set_rng_state_all(devices)
        torch.set_warn_always(always)
        for name, (ask, restore) in _MODES.items():
            if restore is not None and ask() != modes[name]:
                restore(modes[name])
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
