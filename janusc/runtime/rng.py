"""Random number generators: which nodes draw from one, and how a transaction gives the numbers back.

States go through the undo log like any other state, so a rolled back transaction draws the same numbers again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from janusc.lowering.ir import Effect, Graph, Node, walk
from janusc.runtime.transaction import UndoLog

# In-place calls are writes by effect; these draw numbers too.
_DRAWING_WRITES = frozenset(
    "normal_ uniform_ bernoulli_ random_ exponential_ cauchy_ geometric_ log_normal_ dropout_ alpha_dropout_ "
    "feature_dropout_ feature_alpha_dropout_ rrelu_".split()
)


TORCH, PYTHON = "torch", "python"


def stream(node: Node) -> str | None:
    """Whose generator the node itself, leaving its regions aside, may draw from."""
    if node.op.effect is Effect.RANDOM:
        return PYTHON if node.op.name == "builtin.random" else TORCH
    if node.op.effect is not Effect.WRITE:
        return None
    drawing = node.target.rpartition(".")[2] in _DRAWING_WRITES or node.target.startswith("torch.nn.init.")
    return TORCH if drawing else None


def streams(body: Graph) -> frozenset[str | None]:
    """The same for a whole body."""
    return frozenset(map(stream, walk(body)))


def save_rng(undo: UndoLog, inputs: Sequence[Any] = ()) -> None:
    """Keep the state of torch's default generators.

    The CPU's always; of the CUDA devices, once CUDA is in use, the current one and those that ``inputs`` live on.
    """
    undo.append((torch.set_rng_state, (torch.get_rng_state(),)))
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        devices = {torch.cuda.current_device()}
        devices.update(t.get_device() for t in inputs if isinstance(t, torch.Tensor) and t.is_cuda)
        for device in sorted(devices):
            undo.append((torch.cuda.set_rng_state, (torch.cuda.get_rng_state(device), device)))


def is_at(kept: UndoLog) -> bool:
    """Whether torch's generators are in the state that ``save_rng`` has kept."""
    return all(
        torch.equal(state, torch.cuda.get_rng_state(*device) if device else torch.get_rng_state())
        for _, (state, *device) in kept
    )


def save_python(undo: UndoLog) -> None:
    """Keep the state of Python's own generator."""
    undo.append((random.setstate, (random.getstate(),)))


def save_generator(undo: UndoLog, generator: Any) -> None:
    """Keep the state of a generator of the user's; None stands for the default one."""
    if generator is not None:
        undo.append((generator.set_state, (generator.get_state(),)))
