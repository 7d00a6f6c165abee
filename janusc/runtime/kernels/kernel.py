"""A kernel as it is called: its results go where those of the block's operations would go."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.graph import increment_version

from janusc import torch_private
from janusc.runtime import gradients, rng
from janusc.runtime.kernels.autocasts import Surroundings
from janusc.runtime.kernels.classes import InputClass
from janusc.runtime.kernels.draws import drawer
from janusc.runtime.kernels.joint import Facts
from janusc.runtime.kernels.makers import Compiled, failed
from janusc.runtime.kernels.methods import Methods
from janusc.runtime.kernels.spent import spent
from janusc.runtime.optimizers import conditions
from janusc.runtime.transaction import UndoLog, rollback, save_tensor

_is_anomaly, _saved_hooks = torch.is_anomaly_enabled, torch_private.saved_hooks


def picker(positions: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What picks the items at these positions."""
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    return lambda items: [items[i] for i in positions]


class Kernel:
    """Compiled code for one class of inputs."""

    __slots__ = (
        "_accumulators",
        "_around",
        "_compiled",
        "_constants",
        "_draw",
        "_first",
        "_given",
        "_methods",
        "_wraps",
        "facts",
        "inputs",
        "leaves",
    )

    def __init__(
        self,
        inputs: InputClass,
        bare: frozenset[int],
        methods: Methods,
        facts: Facts,
        compiled: Compiled,
        around: Surroundings | None,
    ) -> None:
        self._around = around
        self.inputs, self.facts, self._compiled, self._methods = inputs, facts, compiled, methods
        self._wraps = [(index, spent(name)) for index, name in facts.histories.items() if index not in bare]
        self._constants = sorted(facts.constants.items())
        self._draw = drawer(facts.draws)
        self._given = picker(inputs.positions)
        self.leaves = picker(facts.leaves)
        """What picks from the inputs those that get gradients."""
        self._first = facts.outputs - len(self._constants)  # of the results that are no outputs
        self._accumulators = torch_private.accumulators.AccumulatorHooks()

    def is_usable(self, inputs: Sequence[Any]) -> bool:
        """Whether nobody sees or is told of what the operations do, or does them in another way.

        Nor may memory overlap that is written.
        """
        facts = self.facts
        if self._around is not None and not self._around.are_there():
            return False
        if not _is_plain_moment() or facts.written and not _are_apart(inputs, self.inputs.positions, facts.written):
            return False
        leaves = self.leaves(inputs)
        if any(map(torch_private.hooks_on_gradient, leaves)) or self._accumulators.any(leaves):
            return False
        return self._methods.are_torchs(inputs)

    def compute(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The tensors among the outputs, new contents, gradients: nothing else is done. None where a demand fails.

        Random numbers are drawn, but given back where it comes to nothing. Raises Unfit where the compiled code fails.
        """
        return self._compute(inputs, [])

    def _compute(self, inputs: Sequence[Any], drawn: UndoLog) -> list[Any] | None:
        """The same; the state of the generators is kept where they are drawn from."""
        set_grad, enabled = torch_private.set_grad_enabled, torch.is_grad_enabled()
        set_grad(False)
        try:
            given = list(self._given(inputs))
            if self._draw is not None:
                rng.save_rng(drawn, given)
                given += self._draw(given)
            results = list(self._compiled(given))
            if not self.facts.has_demands or results.pop():
                return results
        except Exception as error:
            rollback(drawn)
            raise failed("its kernel", error) from None
        finally:
            set_grad(enabled)
        rollback(drawn)
        return None

    def try_out(self, inputs: Sequence[Any]) -> tuple[list[Any] | None, UndoLog]:
        """What it computes, and the state of the generators behind what it draws, which is given back."""
        before: UndoLog = []
        after: UndoLog = []
        if self._draw is None:
            return self.compute(inputs), after
        rng.save_rng(before, inputs)
        try:
            found = self.compute(inputs)
            rng.save_rng(after, inputs)
        finally:
            rollback(before)
        return found, after

    def run(self, undo: UndoLog | None, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """The outputs, after contents and gradients went where they belong; None, with nothing done, for odd inputs.

        Raises Unfit, with nothing done, where the compiled code fails.
        """
        if not self.is_usable(inputs):
            return None
        results = self.compute(inputs)
        if results is None:
            return None
        if undo is None:
            return self.outputs(inputs, results)
        set_grad, enabled = torch_private.set_grad_enabled, torch.is_grad_enabled()
        set_grad(False)
        try:
            found = self.put_contents(undo, inputs, results)
            if found:
                gradients.hand_over(undo, self.leaves(inputs), found)
        finally:
            set_grad(enabled)
        return self.outputs(inputs, results)

    def put_contents(self, undo: UndoLog, inputs: Sequence[Any], results: list[Any]) -> list[Any]:
        """Write new contents where they belong, gradients disabled; the gradients among the results."""
        facts, first = self.facts, self._first
        for index, count, contents in zip(facts.written, facts.changes, results[first:]):
            save_tensor(undo, inputs[index])
            inputs[index].data.copy_(contents)
            increment_version([inputs[index]] * count)
        return results[first + len(facts.written) :]

    def outputs(self, inputs: Sequence[Any], results: list[Any]) -> list[Any]:
        """What the operations would give, of the results that begin with the tensors among it."""
        del results[self._first :]
        for index, constant in self._constants:
            results.insert(index, constant)
        for index, wrap in self._wraps:
            result = results[index]
            results[index] = wrap((result.data if result._is_view() else result,), *self.leaves(inputs))
        return results


def _is_plain_moment() -> bool:
    """Whether nobody sees single operations, and nothing of the user's is called in a backward pass."""
    if not conditions.is_unseen() or _is_anomaly() or _saved_hooks(True) is not None:
        return False
    return gradients.backward_is_torchs() and not torch_private.logs_backward()


def _are_apart(inputs: Sequence[Any], tensors: Sequence[int], written: Sequence[int]) -> bool:
    """Whether what is written shares no memory with any other input."""
    keys = [torch_private.storage_key(inputs[i]) for i in tensors]
    return all(keys.count(torch_private.storage_key(inputs[i])) == 1 for i in written)
