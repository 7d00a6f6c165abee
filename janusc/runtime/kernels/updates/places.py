"""A statement ``optimizer.step()`` in emitted code: by a kernel, at once or when it is worth while, or by torch."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from janusc.runtime.compiler.jobs import Job, request
from janusc.runtime.compiler.program import Program
from janusc.runtime.kernels import measured
from janusc.runtime.kernels.updates.fused import FusedStep, count_call, step_of


def _awaited(program: Program) -> Job:
    job = request(program)
    job.wait()
    return job


class EarlyStep:
    """Steps by a kernel as soon as the optimizer has its state."""

    def __init__(self) -> None:
        self._fused: weakref.ref[FusedStep] | None = None

    def __call__(self, optimizer: Any) -> bool:
        """Make a step by a kernel; False, with nothing done, where torch has to make it."""
        return self.take(step_of(optimizer, _awaited, patience=1), optimizer)

    def take(self, fused: FusedStep, optimizer: Any) -> bool:
        """Make a step by this one's kernel, if it has one that does for it."""
        if self._fused is None or self._fused() is not fused:
            self._fused = weakref.ref(fused)
        if not fused.run(optimizer):
            return False
        count_call(optimizer)
        return True

    def wait(self) -> None:
        """Have the kernel made that fits the optimizer as it is."""
        fused = None if self._fused is None else self._fused()
        if fused is not None:
            fused.wait()

    def report(self) -> list[str]:
        """What a user may know of the steps that were made here last."""
        fused = None if self._fused is None else self._fused()
        if fused is None:
            return []
        made = [f"{fused.name}: a kernel made {fused.made} of its steps"] if fused.made else []
        return [*made, *([] if fused.objection is None else [f"no kernel: {fused.objection}"])]


class MeasuredStep(EarlyStep):
    """Steps by a kernel when they were many."""

    def __init__(self) -> None:
        super().__init__()
        self._since: float | None = None
        self._calls = 0

    def __call__(self, optimizer: Any) -> bool:
        """The same; where results may not depend on time, the kernel is waited for at a fixed call."""
        if self._since is None:
            self._since = measured.clock()
        if self._calls < measured.OFTEN:
            self._calls += 1
            return False
        if torch.are_deterministic_algorithms_enabled():
            return super().__call__(optimizer)
        if measured.clock() - self._since > measured.LONG:
            return self.take(step_of(optimizer, request), optimizer)
        return False
