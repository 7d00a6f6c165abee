"""A whole step: gradients dropped, a block with its backward pass, and the step of the optimizer behind it.

Where the block and the optimizer have kernels, all that these ask of the same tensors is asked once, gradients are
handed from one to the other, and what the optimizer needs is found before anything is done. The step itself is made
behind the transaction, as ever.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from janusc import torch_private
from janusc.runtime import gradients
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.kernel import Kernel, picker
from janusc.runtime.kernels.updates.binding import Binding
from janusc.runtime.kernels.updates.fused import count_call, known_step
from janusc.runtime.optimizers import conditions
from janusc.runtime.transaction import UndoLog

Picker = Callable[[Sequence[Any]], Sequence[Any]]


class Settling(Protocol):
    """A site of which it can be asked what kernel is in use."""

    @property
    def is_settled(self) -> bool: ...

    def settled(self, inputs: Sequence[Any]) -> Kernel | None: ...

    def reject(self, kernel: Kernel, error: Unfit) -> None: ...


@dataclass(frozen=True)
class _Order:
    """How the parameters of an optimizer, in its order, are picked from the inputs and gradients of a kernel."""

    kernel: Kernel
    binding: Binding
    parameters: Picker
    gradients: Picker
    fits: bool
    """Whether just these parameters get gradients; where not, that is not looked for again at each call."""


class WholeStep:
    """The place of such a step in emitted code: ``begin`` in the transaction, ``finish`` behind it."""

    def __init__(self) -> None:
        self.site: Any = None
        """The ``Settling`` site of the block, once it is written; not where that has none."""
        self._order: _Order | None = None

    @property
    def is_awake(self) -> bool:
        """Whether it is of use to ask for all at once."""
        return self.site is not None and bool(self.site.is_settled)

    def begin(self, undo: UndoLog, optimizer: Any, inputs: tuple[Any, ...]) -> tuple[Sequence[Any], Any] | None:
        """The outputs of the block, and what ``finish`` takes; None, with nothing done, where not all is by kernels."""
        site: Settling = self.site
        fused = known_step(optimizer)
        binding = None if fused is None else fused.binding
        if binding is None or not conditions.has_plain_step(optimizer):
            return None
        kernel = site.settled(inputs)
        if kernel is None:
            return None
        order = self._order
        if order is None or order.kernel is not kernel or order.binding is not binding:
            order = self._order = _learn(kernel, binding, optimizer, inputs)
        if not order.fits:
            return None
        parameters = order.parameters(inputs)
        listed = binding.listed(optimizer)
        if listed is None or not all(map(operator.is_, listed, parameters)):
            self._order = None  # they may be the same in another order
            return None
        states = binding.states(optimizer, parameters)
        if states is None:
            return None
        numbers = binding.figures(optimizer, parameters, states)
        if numbers is None or not kernel.is_usable(inputs):
            return None
        if binding.rule.captures:
            getattr(optimizer, torch_private.CHECK_CAPTURE)()
        try:
            results = kernel.compute(inputs)
        except Unfit as error:
            site.reject(kernel, error)
            return None
        if results is None:
            return None
        set_grad, enabled = torch_private.set_grad_enabled, torch.is_grad_enabled()
        set_grad(False)
        try:
            found = order.gradients(kernel.put_contents(undo, inputs, results))
            gradients.replace(undo, parameters, found)
        finally:
            set_grad(enabled)
        return kernel.outputs(inputs, results), (fused, binding, [*parameters, *found, *states], numbers)

    def finish(self, optimizer: Any, prepared: Any) -> bool | None:
        """Make the step; None, with nothing done, where torch has to make it."""
        fused, binding, tensors, numbers = prepared
        if not fused.complete(binding, tensors, numbers):
            return None
        count_call(optimizer)
        return True


def _learn(kernel: Kernel, binding: Binding, optimizer: Any, inputs: Sequence[Any]) -> _Order:
    """How the parameters are picked."""
    leaves = kernel.facts.leaves
    at = {id(inputs[position]): place for place, position in enumerate(leaves)}
    places = [at.get(id(parameter), -1) for parameter in binding.listed(optimizer) or ()]
    fits = sorted(places) == list(range(len(leaves)))
    return _Order(kernel, binding, picker([leaves[place] for place in places]), picker(places), fits)
