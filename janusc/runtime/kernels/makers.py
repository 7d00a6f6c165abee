"""Who makes a kernel: a compiler in this process, or the compiler process, waited for or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from janusc.diagnostics import silenced
from janusc.interrupts import is_interrupt
from janusc.locks import make_lock
from janusc.lowering.ir import Graph
from janusc.runtime.compiler.jobs import Job, request
from janusc.runtime.kernels.carried import carry
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.joint import Facts, Sample, split_block, trace_block

Compiled = Callable[[list[torch.Tensor]], Sequence[Any]]
Compiler = Callable[[torch.fx.GraphModule], Compiled]


Made = tuple[Facts, list[Compiled]]
"""What is known of a kernel, and its code: one function, or a second one for the backward pass."""

_TRACING = make_lock()
"""Tracing changes classes of torch's for a while: one thread at a time."""


class Making(Protocol):
    """A kernel that is on its way."""

    def poll(self) -> Made | None:
        """It, once it is there, with what is known of it; raises Unfit where there will be none."""

    def wait(self) -> None:
        """Wait until it is there, or will not be."""


Maker = Callable[[Graph, Mapping[str, Any], Sample], Making]
"""Begins to make the kernel of a closed block, for inputs of one class; raises Unfit."""


def failed(what: str, error: Exception) -> Unfit:
    """What to raise where a compiler or a kernel raises; an interrupt goes on as it is."""
    if is_interrupt(error):
        raise error
    return Unfit(f"{what} failed: {type(error).__name__}: {error}")


class _There:
    """A kernel that is there."""

    def __init__(self, facts: Facts, compiled: list[Compiled]) -> None:
        self._result = facts, compiled

    def poll(self) -> Made:
        return self._result

    def wait(self) -> None:
        pass


class _Asked:
    """A kernel that the compiler process was asked for."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def poll(self) -> Made | None:
        kernel = self._job.kernel
        if kernel is None:
            if self._job.failure is not None:
                raise Unfit(self._job.failure.removeprefix(f"{Unfit.__name__}: "))
            return None
        return Facts.load(self._job.facts), [kernel, *self._job.more]

    def wait(self) -> None:
        self._job.wait()


def made_here(compiler: Compiler) -> Maker:
    """A maker that has a compiler work in this process, at once."""

    def make(graph: Graph, objects: Mapping[str, Any], sample: Sample) -> Making:
        with _TRACING, silenced():
            modules, facts = trace_block(split_block(graph, objects), sample)
            try:
                return _There(facts, list(map(compiler, modules)))
            except Unfit:
                raise
            except Exception as error:
                raise failed("its compiler", error) from None

    return make


def asked_for(graph: Graph, objects: Mapping[str, Any], sample: Sample) -> Making:
    """Ask the compiler process, and go on."""
    return _Asked(request(carry(graph, sample)))


def waited_for(graph: Graph, objects: Mapping[str, Any], sample: Sample) -> Making:
    """Ask the compiler process, and wait for it."""
    making = _Asked(request(carry(graph, sample), is_urgent=True))
    making.wait()
    return making
