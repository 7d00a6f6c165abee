"""A kernel beside the operations it stands for, once, before it is used: compilers have faults.

The kernel computes, and nothing of it is used; then the operations run as ever, and what they leave is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from janusc.runtime import rng
from janusc.runtime.kernels.kernel import Kernel

NEAR = 1e-2
"""How far a tensor may be off, as a share of its largest number: reordered sums are off by less, but in networks that
are badly conditioned, and what a fault makes of a tensor by more."""

FAINT = 1e-4
"""The share of the largest number of all tensors of a kind below which there is nothing but rounding."""

STEPS = 4
"""As many steps of a short dtype a tensor may be off where that is more than NEAR: kernels round to short dtypes where
their operations do, so that eight layers of bfloat16 were off by one step. Sums of what cancels out are off by a step
of what was summed: FAINT is one step then."""

WRONG = "its results were others than those of its operations"
"""Why a kernel is thrown away that does not pass."""


class Check:
    """The results of a kernel for a call whose operations are about to run."""

    seconds: tuple[float, float] | None = None
    """What a backward pass through the block takes its operations, and the kernel, where that comes later."""

    def __init__(self, kernel: Kernel, inputs: Sequence[Any]) -> None:
        self._kernel = kernel
        # None: it is for the operations to say what is wrong
        self._found, self._drawn = kernel.try_out(inputs)
        self._written = [inputs[i] for i in kernel.facts.written]
        self._leaves = [inputs[i] for i in kernel.facts.leaves]
        self._before = [None if leaf.grad is None else leaf.grad.detach().clone() for leaf in self._leaves]

    def passes(self, outputs: Sequence[Any]) -> bool:
        """Whether the operations, whose outputs these are, have come to the same."""
        if self._found is None or self._drawn and not rng.is_at(self._drawn):
            return False
        constants, rounding = self._kernel.facts.constants, self._kernel.facts.rounding
        wanted = [x for i, x in enumerate(outputs) if i not in constants]
        wanted += self._written
        first = len(wanted)
        for leaf, before in zip(self._leaves, self._before):
            if leaf.grad is None:
                return False
            wanted.append(leaf.grad if before is None else leaf.grad - before)
        same = all(outputs[i] == x for i, x in constants.items())
        if not same or len(wanted) != len(self._found):
            return False
        kinds = slice(first), slice(first, None)  # a loss that is scaled has gradients of another size than its own
        return all(are_near(wanted[kind], self._found[kind], rounding) for kind in kinds)


def are_near(wanted: Sequence[Any], found: Sequence[Any], rounding: float) -> bool:
    """Whether tensors are equal but for rounding, where the coarsest dtype has steps like this."""
    with torch.no_grad():
        near, faint = max(NEAR, STEPS * rounding), max(FAINT, rounding) * max(map(_size, wanted), default=0.0)
        return all(_is_near(x, y, near, faint) for x, y in zip(wanted, found))


def _size(tensor: Any) -> float:
    if not tensor.is_floating_point():
        return 0.0
    finite = tensor[tensor.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _is_near(wanted: Any, found: Any, near: float, faint: float) -> bool:
    if type(wanted) is not torch.Tensor and not isinstance(wanted, torch.nn.Parameter):
        return False
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return False
    if not wanted.is_floating_point():
        return torch.equal(wanted, found)
    if not torch.equal(wanted.isfinite(), found.isfinite()):
        return False
    return _size(wanted - found) <= max(near * _size(wanted), faint)
