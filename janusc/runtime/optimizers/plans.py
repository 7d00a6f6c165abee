"""What a step has found of an optimizer, so that the next one need only see that it is still so.

Kept for optimizers of one group, all of whose parameters have gradients and state. A plan keeps nothing alive: it has
the identities of tensors, and is void as soon as one of them has gone; what may have changed about them (``.data``
assigned, another shape) is read anew each time.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Sequence
from itertools import chain
from typing import Any

from torch import Tensor

from janusc import torch_private
from janusc.runtime.optimizers.batches import FACTS, GRADIENT, PLAIN, Batch

_SHAPE = operator.attrgetter("shape")


class Plan:
    """The parameters and state of one optimizer, as they were when a step was found to be safe."""

    __slots__ = (
        "__weakref__", "dtype", "facts", "ids", "is_used", "names", "own", "owner", "references", "shapes", "storages"
    )  # fmt: skip

    def __init__(self, optimizer: Any, parameters: Sequence[Tensor], values: Sequence[Tensor], dtype: Any) -> None:
        changed = [*parameters, *values]
        key = id(optimizer)
        me = weakref.ref(self)

        def forget(_: object) -> None:
            plan = me()
            if plan is not None and _plans.get(key) is plan:
                del _plans[key]

        self.owner: Any = weakref.ref(optimizer, forget)
        self.references = [weakref.ref(tensor, forget) for tensor in changed]
        self.ids = list(map(id, (*parameters, *optimizer.state, *values)))
        self.names = list(chain.from_iterable(optimizer.state.values()))
        self.shapes = list(map(_SHAPE, changed))
        self.storages = list(map(_storage, changed))
        self.own = frozenset(self.storages)
        self.facts = list(map(FACTS, parameters))
        self.dtype = dtype
        self.is_used = False

    def batch(self, optimizer: Any) -> Batch | None:
        """What the next step works on; None where something is otherwise than it was."""
        (group,) = optimizer.param_groups
        parameters, known = group["params"], optimizer.state
        values = list(chain.from_iterable(map(dict.values, known.values())))
        changed = [*parameters, *values]
        if type(parameters) is not list:
            return None
        if list(map(id, (*parameters, *known, *values))) != self.ids or not PLAIN.issuperset(map(type, changed)):
            return None
        if list(chain.from_iterable(known.values())) != self.names or list(map(_SHAPE, changed)) != self.shapes:
            return None
        gradients = list(map(GRADIENT, parameters))
        if not PLAIN.issuperset(map(type, gradients)) or list(map(FACTS, gradients)) != self.facts:
            return None
        if list(map(_storage, changed)) != self.storages or not self.own.isdisjoint(map(_storage, gradients)):
            return None
        each = len(values) // len(parameters)
        columns = {name: values[number::each] for number, name in enumerate(self.names[:each])}
        self.is_used = True
        return Batch(group, parameters, gradients, columns, self.dtype)


_plans: dict[int, Plan] = {}
_storage: Any = torch_private.storage_of


def recall(optimizer: Any) -> Batch | None:
    """What a step works on, where all is as it was at the last one."""
    plan = _plans.get(id(optimizer))
    if plan is None or plan.owner() is not optimizer or len(optimizer.param_groups) != 1:
        return None
    return plan.batch(optimizer)


def remember(optimizer: Any, batch: Batch, changed: Sequence[Tensor]) -> None:
    """Make a plan of a batch that is the whole optimizer, and was found to be safe; not again where one was in vain."""
    old = _plans.get(id(optimizer))
    if old is not None and old.owner() is optimizer and not old.is_used:
        return
    known, parameters = optimizer.state, batch.options["params"]
    values = list(chain.from_iterable(map(dict.values, known.values())))
    everything = [*parameters, *values]
    if len(everything) != len(changed) or set(map(id, everything)) != set(map(id, changed)):
        return
    if known and list(map(id, known)) != list(map(id, parameters)):
        return
    if any(list(state) != list(batch.columns) for state in known.values()):
        return
    if all(parameter.requires_grad for parameter in parameters):  # so that they stay leaves
        _plans[id(optimizer)] = Plan(optimizer, parameters, values, parameters[0].dtype)
