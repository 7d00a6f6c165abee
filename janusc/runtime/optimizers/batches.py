"""Parameters of one kind with their gradients and state, few enough to be updated together.

torch updates one parameter after the other. To make each operation for all of them first is the same where they are
apart in memory. Temporary results are then there for all of them, so a batch has a bound: large tensors gain nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from janusc import torch_private

_LARGEST = 2**19
"""The elements of a batch of more than one parameter: with far fewer, networks of some size gain nothing."""

PLAIN = frozenset({Tensor, torch.nn.Parameter})
_DTYPES = frozenset({torch.float32, torch.float64})
FACTS = operator.attrgetter("shape", "dtype", "is_cpu")  # the layout is strided where a tensor has a storage
_DTYPE, _IS_CPU = operator.attrgetter("dtype"), operator.attrgetter("is_cpu")
_IS_LEAF, GRADIENT = operator.attrgetter("is_leaf"), operator.attrgetter("grad")
_VERSION = operator.attrgetter("_version")
_SCALAR = torch.Size(())
_MOST_STEPS = 2**24


class Batch(NamedTuple):
    """Parameters of one group, their gradients, and their state, a list for each of its names.

    ``dtype`` is that of all of them where they are known to be alike.
    """

    options: Mapping[str, Any]
    parameters: Sequence[Tensor]
    gradients: Sequence[Tensor]
    columns: Mapping[str, Sequence[Any]]
    dtype: torch.dtype | None = None


def gather(optimizer: Any, stateful: bool) -> list[Batch] | None:
    """The parameters that have a gradient, in their order; None where some are not as an equivalent needs them."""
    batches = []
    known = optimizer.state
    for group in optimizer.param_groups:
        parameters = group["params"]
        if type(parameters) is not list or not are_plain_leaves(parameters):
            return None
        if parameters and not (parameters[0].dtype in _DTYPES and parameters[0].is_cpu):
            return None
        gradients = list(map(GRADIENT, parameters))
        if not PLAIN.issuperset(map(type, gradients)):
            pairs = [(p, g) for p, g in zip(parameters, gradients) if g is not None]
            parameters, gradients = [p for p, _ in pairs], [g for _, g in pairs]
            if not PLAIN.issuperset(map(type, gradients)):
                return None
        states = list(map(known.get, parameters)) if stateful else [{}] * len(parameters)
        if not _IS_DICT.issuperset(map(type, states)):
            return None
        for part in _parts(parameters):
            columns = {name: [state.get(name) for state in states[part]] for name in states[part][0]}
            batches.append(Batch(group, parameters[part], gradients[part], columns))
    return batches


_IS_DICT = frozenset({dict})


def are_plain_leaves(parameters: Sequence[Tensor]) -> bool:
    """Whether the gradients of parameters can be read unseen: of others that may be a call, or give a warning."""
    return PLAIN.issuperset(map(type, parameters)) and all(map(_IS_LEAF, parameters))


def plain_gradients(parameters: Sequence[Any]) -> list[Tensor] | None:
    """The gradients there are; None where there is none, or some are not plain, or of several dtypes."""
    if not are_plain_leaves(parameters):
        return None
    gradients = [gradient for gradient in map(GRADIENT, parameters) if gradient is not None]
    if set(map(type, gradients)) != {Tensor}:
        return None
    dtypes = list(map(_DTYPE, gradients))
    alike = dtypes[0] in _DTYPES and dtypes.count(dtypes[0]) == len(dtypes) and all(map(_IS_CPU, gradients))
    return gradients if alike else None


def _parts(parameters: Sequence[Tensor]) -> Iterator[slice]:
    sizes = list(map(Tensor.numel, parameters))
    if sum(sizes) <= _LARGEST:
        if sizes:
            yield slice(len(sizes))
        return
    start = total = 0
    for index, size in enumerate(sizes):
        if total + size > _LARGEST and index > start:
            yield slice(start, index)
            start, total = index, 0
        total += size
    yield slice(start, len(sizes))


def dtype_of(batch: Batch, *states: Sequence[Any]) -> torch.dtype | None:
    """The dtype of all parameters, gradients and states; None where some are not plain, not of one dtype, not on the
    CPU, or of another shape than the parameter.
    """
    if batch.dtype is not None:
        return batch.dtype
    if states and not PLAIN.issuperset(map(type, chain(*states))):
        return None
    first = list(map(FACTS, batch.parameters))
    _, dtypes, on_cpu = zip(*first)
    dtype: torch.dtype = dtypes[0]
    if dtype not in _DTYPES or dtypes.count(dtype) != len(dtypes) or not all(on_cpu):
        return None
    return dtype if all(list(map(FACTS, others)) == first for others in (batch.gradients, *states)) else None


def are_apart(changed: Sequence[Tensor], read: Iterable[Tensor]) -> bool:
    """Whether each of the tensors that are changed has memory of its own, and a counter of its changes.

    Raises RuntimeError where one has no counter, or no memory as plain tensors have.
    """
    storage = torch_private.storage_of
    if storage is None:
        return False
    storages = set(map(storage, changed))
    for _ in map(_VERSION, changed):
        pass
    return len(storages) == len(changed) and storages.isdisjoint(map(storage, read))


def counted(batch: Batch) -> list[float] | None:
    """The numbers of steps after this one, of counters as torch makes them; None where one is another."""
    steps = batch.columns["step"]
    if batch.dtype is None:
        if set(map(type, steps)) != {Tensor}:
            return None
        facts = list(map(FACTS, steps))
        shape, dtype, on_cpu = facts[0]
        if shape != _SCALAR or dtype not in _DTYPES or not on_cpu or facts.count(facts[0]) != len(facts):
            return None
    counts = [step.item() + 1 for step in steps]
    if not all(0 < count <= _MOST_STEPS and count.is_integer() for count in set(counts)):  # adds up without rounding
        return None
    return counts
