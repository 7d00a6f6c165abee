"""How a step is made: prepared without touching anything, then made batch by batch.

Whatever torch would complain of is found while preparing. Then torch's own step is called, which raises as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from janusc import torch_private
from janusc.frames import uncounted
from janusc.interrupts import is_interrupt
from janusc.runtime import numbers
from janusc.runtime.optimizers import batches, conditions, plans
from janusc.runtime.optimizers.batches import Batch
from janusc.runtime.optimizers.equivalents import Equivalent


class Update(NamedTuple):
    """What changes a batch, and the tensors that it changes."""

    make: Callable[[], None]
    changed: Sequence[Tensor]


FOREACH: Mapping[str, Any] = torch_private.FOREACH or {}
Prepare = Callable[[Batch], "Update | None"]


@dataclass(frozen=True)
class Family:
    """How the optimizers of some classes make a step.

    ``captures`` says whether they look for a graph being recorded on a device; ``needs_state`` is asked of the options.
    """

    classes: frozenset[type]
    prepare: Prepare
    needs_state: Callable[[Mapping[str, Any]], bool]
    captures: bool


@uncounted
def equivalent(family: Family) -> Equivalent:
    """The equivalent of the ``step`` of a family."""
    set_grad = torch_private.set_grad_enabled

    def step(original: Callable[..., Any], optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
        updates = None if args or kwargs else _prepared(family, optimizer)
        if updates is None:
            return original(*args, **kwargs)
        before = torch.is_grad_enabled()
        try:
            set_grad(False)
            if family.captures:
                getattr(optimizer, torch_private.CHECK_CAPTURE)()
            for update in updates:
                update.make()
        finally:
            set_grad(before)
        return None

    return step


def _prepared(family: Family, optimizer: Any) -> list[Update] | None:
    """The updates of a step; None where torch's own step is called."""
    if type(optimizer) not in family.classes or not conditions.is_unseen():
        return None
    try:
        return _updates(family, optimizer) if conditions.has_plain_step(optimizer) else None
    except Exception as error:  # what is not as torch makes it
        if is_interrupt(error):
            raise
        return None


def _updates(family: Family, optimizer: Any) -> list[Update] | None:
    groups = optimizer.param_groups
    if not all(map(conditions.is_looped, groups)):
        return None
    known = plans.recall(optimizer)
    if known is not None:
        update = family.prepare(known)
        return None if update is None else [update]
    gathered = batches.gather(optimizer, any(map(family.needs_state, groups)))
    if gathered is None:
        return None
    updates: list[Update] = []
    changed: list[Tensor] = []
    read: list[Tensor] = []
    for batch in gathered:
        update = family.prepare(batch)
        if update is None:
            return None
        updates.append(update)
        changed += update.changed
        read += batch.gradients
    if not batches.are_apart(changed, read):
        return None
    if len(groups) == 1 and len(gathered) == 1:
        plans.remember(optimizer, gathered[0], changed)
    return updates


def changes_of(batch: Batch, decay: float) -> Sequence[Tensor]:
    """The gradients as they are applied: negative where the optimizer maximises, with the decay of the weights."""
    changes = FOREACH["neg"](batch.gradients) if batch.options["maximize"] else batch.gradients
    return FOREACH["add"](changes, batch.parameters, alpha=decay) if decay != 0 else changes


def fits_now(*numbers_of_this_step: Any) -> bool:
    """The same of numbers that are others in the next step."""
    return all(map(numbers.is_exact, numbers_of_this_step))


_NUMBERS = frozenset({int, float})


def fit(*options: Any) -> bool:
    """Whether all are numbers that torch converts to the dtypes of parameters without an error, and to no zero."""
    return _NUMBERS.issuperset(map(type, options)) and _are_exact(options)


@lru_cache(maxsize=256)
def _are_exact(options: tuple[float, ...]) -> bool:
    return all(map(numbers.is_exact, options))


def beside(dtype: torch.dtype, number: float) -> Any:
    """A number that comes up in many steps, as a tensor."""
    return _kept(dtype, number) if number else numbers.tensors(repr(number))(dtype, None)


@lru_cache(maxsize=256)
def _kept(dtype: torch.dtype, number: float) -> Any:
    return numbers.tensors(repr(number))(dtype, None)


def of_this_step(dtype: torch.dtype, values: Sequence[float]) -> list[Tensor]:
    """Numbers as tensors, of this step alone."""
    made = {value: torch.full((), value, dtype=dtype, device="cpu") for value in set(values)}
    return [made[value] for value in values]
