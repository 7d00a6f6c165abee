"""The operations of a block, done once more to be differentiated: exact, and slower than a kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from janusc.runtime import rng
from janusc.runtime.interpreter import Machine
from janusc.runtime.kernels.autocasts import OFF
from janusc.runtime.kernels.joint import BlockGraph, Sample
from janusc.runtime.transaction import UndoLog, rollback

Gradients = list["torch.Tensor | None"]


class Replay:
    """A block whose inputs look as in a sample; ``outputs`` says which of its tensors have a history."""

    def __init__(self, block: BlockGraph, sample: Sample, outputs: Sequence[int]) -> None:
        self._block, self.sample, self._outputs = block, sample, outputs
        self._written = {i for i, param in enumerate(block.graph.params) if param in block.written}

    def run(
        self, tensors: Sequence[torch.Tensor], before: UndoLog, has_history: bool
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The leaves by other names, and the outputs with a history, of which only these leaves are part.

        What is drawn is what was drawn with the generators as ``before``. Where it ``has_history``, that of the leaves
        goes on.
        """
        sample = self.sample
        autocast = OFF if sample.around is None else sample.around.autocast
        values: list[Any] = [sample.literals.get(i) for i in range(len(self._block.graph.params))]
        with torch.enable_grad(), autocast.applied():
            for position, tensor in zip(sample.positions, tensors):
                values[position] = tensor.detach().clone() if position in self._written else tensor
            for position in sample.leaves:  # another path that leads to a leaf is not to be followed
                leaf = values[position]
                values[position] = leaf.view_as(leaf) if has_history else leaf.detach().requires_grad_()
            leaves = [values[position] for position in sample.leaves]
            with _generators(before):
                made = Machine(self._block.objects).run(self._block.graph, values)
        found = [output for output in made if isinstance(output, torch.Tensor)]
        return leaves, [found[number] for number in self._outputs]

    def differentiate(
        self,
        tensors: Sequence[torch.Tensor],
        before: UndoLog,
        tangents: Sequence[torch.Tensor | None],
        has_history: bool,
    ) -> Gradients:
        """The gradients of the leaves, where outputs have these tangents; with a history, where that is wanted."""
        leaves, outputs = self.run(tensors, before, has_history)
        pairs = [(output, tangent) for output, tangent in zip(outputs, tangents) if tangent is not None]
        if not pairs:
            return [None] * len(leaves)
        made, given = zip(*pairs)
        return list(torch.autograd.grad(made, leaves, given, create_graph=has_history, allow_unused=True))


@contextlib.contextmanager
def _generators(before: UndoLog) -> Iterator[None]:
    """Inside, torch's generators are as they were before, and go on from there; behind it, as if it had not been."""
    now: UndoLog = []
    if before:
        rng.save_rng(now, [])
    try:
        for restore, arguments in before:
            restore(*arguments)
        yield
    finally:
        rollback(now)
