"""Training steps as a user writes them: a model, an optimizer, a function that does one step, and real inputs.

Each file of this folder that trains something registers its steps; ``bench/step.py`` times them, and the tests compare
them with eager. Random numbers are seeded before a step is made, so that two of one name see the same weights.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["STEPS", "Step", "Training", "as_it_is", "make", "register"]

Decorator = Callable[[Any], Any]
FILES = ("perceptron", "lenet", "gan", "transformer", "resnet")


@dataclass(frozen=True)
class Training:
    """One fresh training: ``step(*inputs[i])`` trains ``models`` by ``optimizers`` and returns what is logged.

    ``step`` is the user's function, or what the decorator has made of it.
    """

    step: Callable[..., Any]
    inputs: Sequence[tuple[Tensor, ...]]
    models: Sequence[nn.Module]
    optimizers: Sequence[torch.optim.Optimizer]

    def call(self, number: int) -> Any:
        """The step with this number, on the inputs whose turn it is."""
        return self.step(*self.inputs[number % len(self.inputs)])

    def state(self) -> list[Tensor]:
        """All that training changes: parameters, buffers, gradients and the state of the optimizers."""
        found = [t for model in self.models for t in (*model.parameters(), *model.buffers())]
        found += [p.grad for model in self.models for p in model.parameters() if p.grad is not None]
        for optimizer in self.optimizers:
            states = (optimizer.state.get(p, {}) for group in optimizer.param_groups for p in group["params"])
            found += [v for state in states for v in state.values() if isinstance(v, Tensor)]
        return found


@dataclass(frozen=True)
class Step:
    """A registered step.

    ``make(decorate_step, decorate_model)`` makes a fresh training. ``required`` is what a step may take, as a multiple
    of eager's time; None where it may take as long as the better of eager and ``torch.compile``.
    """

    name: str
    make: Callable[[Decorator, Decorator], Training]
    required: float | None


STEPS: dict[str, Step] = {}


def as_it_is(target: Any) -> Any:
    """The decorator of eager mode."""
    return target


def register(name: str, required: float | None, maker: Callable[[Decorator, Decorator], Training]) -> None:
    """Add a step to the table."""
    if name in STEPS:
        raise KeyError(f"{name} is registered already")
    STEPS[name] = Step(name, maker, required)


def make(name: str, decorate_step: Decorator = as_it_is, decorate_model: Decorator = as_it_is) -> Training:
    """A fresh training, seeded, in the default dtype."""
    torch.manual_seed(0)
    training, dtype = STEPS[name].make(decorate_step, decorate_model), torch.get_default_dtype()
    inputs = [tuple(t.to(dtype) if t.is_floating_point() else t for t in given) for given in training.inputs]
    return replace(training, inputs=inputs)


for _name in FILES:
    importlib.import_module(f"{__package__}.{_name}")
