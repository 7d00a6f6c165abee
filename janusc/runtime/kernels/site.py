"""A block in emitted code: the kernels it has, asked at each call, and the making of one more.

A call that no kernel takes gets None, and the block's operations are done one by one, as they stand in the code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from janusc import torch_private
from janusc.diagnostics import silenced
from janusc.runtime import gradients
from janusc.runtime.kernels.classes import InputClass, class_of
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.joint import BlockGraph, Traced, trace_block
from janusc.runtime.kernels.spent import spent
from janusc.runtime.optimizers import conditions
from janusc.runtime.transaction import UndoLog, save_tensor

MOST = 4
"""Classes of inputs that one block has kernels for; it meets others with its operations one by one."""

Compiled = Callable[[list[torch.Tensor]], Sequence[Any]]
Compiler = Callable[[torch.fx.GraphModule], Compiled]


class Kernel:
    """Compiled code for one class of inputs."""

    __slots__ = ("_compiled", "_constants", "_traced", "_wraps", "inputs")

    def __init__(self, inputs: InputClass, traced: Traced, compiled: Compiled) -> None:
        self.inputs, self._traced, self._compiled = inputs, traced, compiled
        self._wraps = [(index, spent(name)) for index, name in traced.histories.items()]
        self._constants = sorted(traced.constants.items())

    def run(self, undo: UndoLog | None, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """The outputs, after contents and gradients went where they belong; None, with nothing done, for odd inputs."""
        traced = self._traced
        if traced.written and not _are_apart(inputs, self.inputs.positions, traced.written):
            return None
        if any(torch_private.is_told_of_gradients(inputs[i]) for i in traced.leaves):
            return None
        enabled = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        try:
            results = list(self._compiled([inputs[i] for i in self.inputs.positions]))
            first = traced.outputs - len(self._constants)
            if undo is not None:
                self._hand_over(undo, inputs, results[first:])
        finally:
            torch.set_grad_enabled(enabled)
        del results[first:]
        for index, constant in self._constants:
            results.insert(index, constant)
        for index, wrap in self._wraps:
            results[index] = wrap((results[index],), inputs[traced.leaves[0]])
        return results

    def _hand_over(self, undo: UndoLog, inputs: Sequence[Any], found: list[torch.Tensor]) -> None:
        traced = self._traced
        for index in traced.written:
            save_tensor(undo, inputs[index])
        for index, contents in zip(traced.written, found):
            inputs[index].copy_(contents)
        if traced.leaves:
            gradients.hand_over(undo, [inputs[i] for i in traced.leaves], found[len(traced.written) :])


class Site:
    """The place of a block; ``failures`` says why classes of inputs have no kernel."""

    def __init__(self, block: BlockGraph, compiler: Compiler) -> None:
        self.block, self.compiler = block, compiler
        self.kernels: tuple[Kernel, ...] = ()
        self.failures: list[str] = []
        self._unfit: list[InputClass] = []

    def __call__(self, undo: UndoLog | None, *inputs: Any) -> Sequence[Any] | None:
        """The outputs by a kernel; None where none takes the inputs, and nothing was done."""
        for kernel in self.kernels:
            if kernel.inputs.takes(inputs):
                if not _is_plain_backward():
                    return None
                return kernel.run(undo, inputs)
        return None if len(self.kernels) + len(self.failures) >= MOST else self._meet(undo, inputs)

    def _meet(self, undo: UndoLog | None, inputs: Sequence[Any]) -> Sequence[Any] | None:
        if any(known.takes(inputs) for known in self._unfit) or not _is_plain_backward():
            return None
        found = class_of(inputs)
        if found is None or not found.takes(inputs):
            return None
        try:
            with silenced():
                traced = trace_block(self.block, inputs, found.positions)
                kernel = Kernel(found, traced, self.compiler(traced.module))
        except Unfit as error:
            self.failures.append(str(error))
            self._unfit.append(found)
            return None
        self.kernels += (kernel,)
        return kernel.run(undo, inputs)


def _is_plain_backward() -> bool:
    """Whether nobody sees single operations, and nothing of the user's is called in a backward pass."""
    if not conditions.is_unseen() or torch.is_anomaly_enabled() or torch_private.saved_hooks(True) is not None:
        return False
    return gradients.backward_is_torchs() and not torch_private.logs_backward()


def _are_apart(inputs: Sequence[Any], tensors: Sequence[int], written: Sequence[int]) -> bool:
    """Whether what is written shares no memory with any other input."""
    keys = [torch_private.storage_key(inputs[i]) for i in tensors]
    return all(keys.count(torch_private.storage_key(inputs[i])) == 1 for i in written)
