"""From an optimizer to the layout of its next step: the slow look, which takes nothing for granted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from janusc import torch_private
from janusc.runtime.compiler.program import Input
from janusc.runtime.kernels.updates import memory
from janusc.runtime.kernels.updates.layout import Layout, Part
from janusc.runtime.kernels.updates.rules import RULES, STEP, are_numbers, reader

PLAIN = frozenset({Tensor, torch.nn.Parameter})
DTYPES = frozenset({torch.float32, torch.float64})


@dataclass(frozen=True)
class Survey:
    """What was found: the layout, and how its tensors are got from the optimizer.

    ``sizes`` are the numbers of ``parameters`` in the groups, ``present`` says which of these have gradients: one part
    each. ``keys`` are the positions of those that have states in the optimizer, in its order, and ``places`` says
    which of the states belong to the parts that have some. ``groups`` has for each row of numbers its group, and
    ``readers`` read the options of each group.
    """

    layout: Layout
    sizes: tuple[int, ...]
    present: tuple[bool, ...]
    keys: tuple[int, ...]
    places: tuple[int, ...]
    groups: tuple[int, ...]
    readers: tuple[Callable[[Any], tuple[Any, ...]], ...]
    parameters: tuple[Tensor, ...]
    tensors: tuple[Tensor, ...]


def look(name: str, optimizer: Any) -> Survey | None:
    """The survey of an optimizer that a rule is for; None where something is not as a kernel needs it.

    Raises whatever is raised by what is not as torch makes it.
    """
    rule, groups = RULES[name], optimizer.param_groups
    rows: dict[tuple[int, float], int] = {}
    found: list[tuple[Part, tuple[Tensor, ...]]] = []
    present: list[bool] = []
    for index, group in enumerate(groups):
        if type(group) is not dict or type(group["params"]) is not list or not are_numbers(rule, group):
            return None
        form = rule.form(group)
        for parameter in group["params"]:
            if type(parameter) not in PLAIN or not parameter.is_leaf:
                return None
            present.append(parameter.grad is not None)
            if parameter.grad is None:
                continue
            values = _state(optimizer, parameter, rule.state(form))
            if values is None or not _fits(parameter, parameter.grad, values):
                return None
            count = values[STEP].item() if rule.is_counted else 0.0
            row = rows.setdefault((index, count), len(rows))
            tensors = (parameter, parameter.grad, *values.values())
            item, gradient, *state = map(_described, tensors)
            found.append((Part(row, form, item, gradient, tuple(state)), tensors))
    if not found:
        return None
    layout = Layout(name, tuple(part for part, _ in found))
    if any(part.parameter.dtype != layout.dtype for part in layout.parts):
        return None
    parameters = [parameter for group in groups for parameter in group["params"]]
    keys = _keys(optimizer, parameters) if any(part.state for part in layout.parts) else ()
    if keys is None:
        return None
    positions = [position for position, has_gradient in enumerate(present) if has_gradient]
    return Survey(
        layout,
        tuple(len(group["params"]) for group in groups),
        tuple(present),
        keys,
        tuple(keys.index(position) for position, part in zip(positions, layout.parts) if part.state),
        tuple(index for index, _ in rows),
        tuple(reader(rule, group) for group in groups),
        tuple(parameters),
        _ordered([tensors for _, tensors in found]),
    )


def _ordered(found: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """All parameters, all gradients, all states."""
    parameters, gradients = [tensors[0] for tensors in found], [tensors[1] for tensors in found]
    return (*parameters, *gradients, *(state for tensors in found for state in tensors[2:]))


def _keys(optimizer: Any, parameters: Sequence[Tensor]) -> tuple[int, ...] | None:
    """The positions of the parameters that there are states of; None where there are others."""
    positions = {id(parameter): position for position, parameter in enumerate(parameters)}
    keys = [positions.get(id(key), -1) for key in optimizer.state]
    return None if -1 in keys else tuple(keys)


def _state(optimizer: Any, parameter: Tensor, wanted: Sequence[str]) -> dict[str, Tensor] | None:
    """The state of a parameter that a rule changes; None where it is not there."""
    if not wanted:
        return {}
    state = optimizer.state.get(parameter)
    if type(state) is not dict or any(type(state.get(name)) not in PLAIN for name in wanted):
        return None
    return {name: state[name] for name in wanted}


def _fits(parameter: Tensor, gradient: Tensor, values: Mapping[str, Tensor]) -> bool:
    """Whether a parameter, its gradient and its state are plain, alike, and dense where they are changed."""
    if type(gradient) not in PLAIN or not all(map(_is_plain, (parameter, gradient, *values.values()))):
        return False
    if any(tensor.requires_grad for tensor in (gradient, *values.values())):
        return False
    alike = [tensor for name, tensor in values.items() if name != STEP]
    if any(other.shape != parameter.shape or other.dtype != parameter.dtype for other in (gradient, *alike)):
        return False
    if STEP in values and values[STEP].shape != ():
        return False
    return all(memory.is_dense(Input.of(tensor)) for tensor in (parameter, *alike))


def _described(tensor: Tensor) -> Input:
    """How a tensor looks; whether it requires a gradient does not matter to a kernel."""
    return Input.of(tensor.detach())


def _is_plain(tensor: Tensor) -> bool:
    """Whether nothing distinguishes a tensor from one that is made on the CPU, as far as torch's operations go."""
    if not tensor.is_cpu or tensor.layout is not torch.strided or tensor.dtype not in DTYPES:
        return False
    model = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    if type(tensor) is torch.nn.Parameter:
        model = torch.nn.Parameter(model)
    check = torch_private.tensor_guards([model.requires_grad_(tensor.requires_grad)])
    return check is not None and check(tensor)
