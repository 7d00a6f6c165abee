"""The check of a kernel of a block whose history goes on: its gradients are compared, too, for tangents made up here.

The operations are done on other names of the inputs for that, so that nobody is told of the backward pass. What it
takes is measured meanwhile, since it comes at a time when nobody knows what it would take otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from janusc import torch_private
from janusc.interrupts import is_interrupt
from janusc.runtime.kernels.check import Check, are_near
from janusc.runtime.kernels.kernel import Kernel
from janusc.runtime.kernels.linked import Tangent
from janusc.runtime.kernels.linking import LinkedKernel

ROUNDS = 4
"""Backward passes of each, the fastest of which counts."""

clock = time.perf_counter


class LinkedCheck(Check):
    """The results of such a kernel for a call whose operations are about to run."""

    def __init__(self, kernel: LinkedKernel, inputs: Sequence[Any]) -> None:
        super().__init__(kernel, inputs)
        self._is_right = False
        if self._found is None:
            return
        try:
            if kernel.keeps_as_traced(inputs, self._found):
                self._is_right = self._compare(kernel, inputs, self._found)
        except Exception as error:  # the operations are about to raise it, too
            if is_interrupt(error):
                raise
        count = kernel.facts.outputs - len(kernel.facts.constants) + len(kernel.facts.written)
        del self._found[count:]

    def passes(self, outputs: Sequence[Any]) -> bool:
        """Whether the operations, whose outputs these are, have come to the same, and have the same gradients."""
        return self._is_right and super().passes(outputs)

    def _compare(self, kernel: LinkedKernel, inputs: Sequence[Any], found: list[Any]) -> bool:
        generator = torch.Generator().manual_seed(0)
        tangents = [_tangent(known, generator) for known in kernel.link.tangents]
        given = list(inputs)
        for position in kernel.requiring:
            given[position] = inputs[position].detach().requires_grad_()
        handed_out = kernel.hand_out(given, list(found))
        shown = [handed_out[known.output] for known in kernel.link.tangents]
        before = found[-1] if kernel.facts.draws else []
        tensors = [inputs[i] for i in kernel.inputs.positions]
        leaves, outputs = kernel.replayed.run(tensors, before, has_history=False)
        by_position = dict(zip(kernel.replayed.sample.leaves, leaves))
        ways = [
            _Way(outputs, [by_position[position] for position in kernel.requiring], tangents),
            _Way(shown, [given[position] for position in kernel.requiring], tangents),
        ]
        for _ in range(ROUNDS):
            for way in ways:
                way.go()
        self.seconds = ways[0].seconds, ways[1].seconds
        kernel.passes = 0
        wanted, got = (way.gradients for way in ways)
        if [g is None for g in wanted] != [g is None for g in got]:
            return False
        results = [g for g in got if g is not None]
        return _are_apart(results, [*inputs, *found, *tangents]) and are_near(
            [g for g in wanted if g is not None], results, kernel.facts.rounding
        )


class _Way:
    """A way to the gradients."""

    def __init__(self, outputs: Sequence[Any], leaves: Sequence[Any], tangents: Sequence[Any]) -> None:
        self._arguments = outputs, leaves, tangents
        self.gradients: Sequence[torch.Tensor | None] = ()
        self.seconds = float("inf")

    def go(self) -> None:
        started = clock()
        self.gradients = torch.autograd.grad(*self._arguments, retain_graph=True, allow_unused=True)
        self.seconds = min(self.seconds, clock() - started)


def _tangent(known: Tangent, generator: torch.Generator) -> torch.Tensor:
    made = torch.randn(known.size, dtype=known.dtype, generator=generator)
    return torch.empty_strided(known.size, known.stride, dtype=known.dtype, device=known.device).copy_(made)


def _are_apart(tensors: Sequence[torch.Tensor], others: Sequence[Any]) -> bool:
    """Whether tensors share memory with nothing: who adds to a gradient may do it in place."""
    memory = {torch_private.storage_key(other) for other in others if isinstance(other, torch.Tensor)}
    for tensor in tensors:
        if tensor.numel() and torch_private.storage_key(tensor) in memory:
            return False
        memory.add(torch_private.storage_key(tensor))
    return True


def check_of(kernel: Kernel, inputs: Sequence[Any]) -> Check:
    """A kernel beside its operations, which are about to run on these inputs."""
    return LinkedCheck(kernel, inputs) if isinstance(kernel, LinkedKernel) else Check(kernel, inputs)
