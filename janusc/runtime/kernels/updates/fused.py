"""The steps of one optimizer: by a kernel where there is one for it as it is, else not made here."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from janusc import torch_private
from janusc.interrupts import is_interrupt
from janusc.runtime.compiler.program import Program
from janusc.runtime.kernels.updates import rules, survey
from janusc.runtime.kernels.updates.binding import Binding, Kernel
from janusc.runtime.optimizers import conditions


class Job(Protocol):
    """A kernel that was asked for: None until it is there, and a few words where there will be none."""

    @property
    def kernel(self) -> Kernel | None: ...

    @property
    def failure(self) -> str | None: ...

    def wait(self) -> object: ...


Request = Callable[[Program], Job]
MOST_KERNELS = 4
PATIENCE = 16
"""The steps that are left to torch before a kernel is asked for: many programs make few."""
_LONGEST_WAIT = 4096


class FusedStep:
    """What makes the steps of an optimizer, which is held weakly, by kernels that are asked for by ``request``.

    ``made`` counts the steps that were made. ``objection`` says, in a few words, why no more will be; None until then.
    """

    def __init__(self, optimizer: Any, request: Request, patience: int = PATIENCE) -> None:
        self.owner: Any = weakref.ref(optimizer)
        self.request = request
        self.made = 0
        name = rules.rule_of(optimizer)
        self.name = name or ""
        self.objection = None if name else f"there is no kernel for the steps of {type(optimizer).__name__}"
        self._bindings: list[Binding] = []  # those with a kernel, the last used first
        self._asked: tuple[Binding, Job] | None = None
        self._left = self._wait = patience  # until the next slow look
        self._lock = threading.Lock()

    @property
    def kernels(self) -> int:
        """How many kernels there are."""
        return len(self._bindings)

    def run(self, optimizer: Any) -> bool:
        """Make a step; False, with nothing changed, where torch has to make it."""
        if self.objection is not None or not self._lock.acquire(False):  # in the middle of another step
            return False
        try:
            return self.owner() is optimizer and self._run(optimizer)
        finally:
            self._lock.release()

    @property
    def binding(self) -> Binding | None:
        """What the kernel that was used last is called by; None where there is none yet, or none any more."""
        return self._bindings[0] if self._bindings and self.objection is None else None

    def complete(self, binding: Binding, tensors: list[Tensor], numbers: list[float]) -> bool:
        """Make a step that was prepared, with these numbers; False, with nothing changed, in the middle of another."""
        if not self._lock.acquire(False):
            return False
        try:
            binding.write(numbers)
            self._make(binding, tensors)
        finally:
            self._lock.release()
        return True

    def _make(self, binding: Binding, tensors: list[Tensor]) -> None:
        set_grad, before = torch_private.set_grad_enabled, torch.is_grad_enabled()
        try:
            set_grad(False)
            binding.run(tensors)
        finally:
            set_grad(before)
        self.made += 1

    def wait(self) -> None:
        """Ask for a kernel for the optimizer as it is, if there is none, and wait for it."""
        optimizer = self.owner()
        with self._lock:
            if optimizer is None or self.objection is not None:
                return
            if self._asked is None and not self._bindings:
                self._left = 1
                self._look(optimizer)
            if self._asked is not None:
                self._asked[1].wait()

    def _run(self, optimizer: Any) -> bool:
        if not conditions.is_unseen():
            return False
        try:
            found = self._find(optimizer) if conditions.has_plain_step(optimizer) else None
        except Exception as error:  # what is not as torch makes it
            if is_interrupt(error):
                raise
            return False
        if found is None:
            return False
        self._make(*found)
        return True

    def _find(self, optimizer: Any) -> tuple[Binding, list[Tensor]] | None:
        """The kernel for an optimizer as it is, with what it works on."""
        if self._asked is not None:
            self._adopt(*self._asked)
        for index, binding in enumerate(self._bindings):
            tensors = binding.tensors(optimizer)
            if tensors is None or not binding.prepare(optimizer, tensors):
                continue
            if index:
                self._bindings.insert(0, self._bindings.pop(index))
            if binding.rule.captures:
                getattr(optimizer, torch_private.CHECK_CAPTURE)()
            return binding, tensors
        if self._asked is None:
            self._look(optimizer)
        return None

    def _adopt(self, binding: Binding, job: Job) -> None:
        """Take the kernel that was asked for, if it is there."""
        kernel = job.kernel
        if kernel is None:
            self.objection = job.failure
            return
        self._asked = None
        try:
            binding.rehearse(kernel)
        except Exception as error:
            if is_interrupt(error):
                raise
            self.objection = f"its kernel raised {type(error).__name__}: {error}"
            return
        self._bindings.insert(0, binding)

    def _look(self, optimizer: Any) -> None:
        """Ask for a kernel for an optimizer as it is, now and then: ever more rarely while there can be none."""
        self._left -= 1
        if self._left > 0:
            return
        self._left = self._wait = min(2 * self._wait, _LONGEST_WAIT)
        found = survey.look(self.name, optimizer)
        if found is None:
            return
        binding = Binding(found)
        tensors = binding.tensors(optimizer)
        if tensors is None or not binding.prepare(optimizer, tensors):
            return
        if len(self._bindings) == MOST_KERNELS:
            self.objection = f"{MOST_KERNELS} kernels did not do for its steps"
            return
        self._asked = binding, self.request(found.layout.program())


_steps: dict[int, FusedStep] = {}


def count_call(optimizer: Any) -> None:
    """Tell a scheduler that a step was made: it counts the calls of what it has put in the place of the method."""
    if "step" in vars(optimizer):
        setattr(optimizer, torch_private.SCHEDULED, True)


def known_step(optimizer: Any) -> FusedStep | None:
    """What makes the steps of an optimizer, if it was asked for."""
    found = _steps.get(id(optimizer))
    return found if found is not None and found.owner() is optimizer else None


def step_of(optimizer: Any, request: Request, patience: int = PATIENCE) -> FusedStep:
    """What makes the steps of an optimizer: the same at each call, until it has gone."""
    key = id(optimizer)
    found = _steps.get(key)
    if found is None or found.owner() is not optimizer:
        found = _steps[key] = FusedStep(optimizer, request, patience)
        found.owner = weakref.ref(optimizer, lambda _: _steps.pop(key, None))
    return found
