"""A block that gets a kernel when it is called often, and keeps it where it is faster than the operations.

::

    met ──often enough──► asked for ──there──► on trial ──faster──► kernel ──much later──► on trial
                              │                    └─────slower──► operations ──much later──► on trial
                              └─ can't be made: operations

The compiler works in another process: until it is done, the operations run as they stand in the code. In a trial both
take turns by the Thue-Morse sequence, which is in step with no pattern of inputs, and are timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Union

import torch

from janusc.lowering.ir import Graph
from janusc.runtime.kernels.classes import InputClass, class_of
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.kernel import Kernel
from janusc.runtime.kernels.makers import Maker, Making
from janusc.runtime.kernels.site import MOST
from janusc.runtime.transaction import UndoLog

OFTEN = 24
"""Calls with inputs of a class before its kernel is asked for."""

LONG = 1.0
"""Seconds that must have gone by since the first of them: a short run is over before a kernel could be of use."""

WARM = 2
"""Calls of a kernel that are not timed."""

PAIRS = 12
"""Calls of each in a trial."""

LATER = 1 << 15
"""Calls after which there is another trial."""

STRANGE = 256
"""Calls that no kernel may be made for, in a row, after which a block is not asked any more."""

clock = time.perf_counter


class _Class:
    """What is known of one class of inputs."""

    __slots__ = ("calls", "failure", "inputs", "kernel", "making", "phase", "ratio", "seconds", "since")

    def __init__(self, inputs: InputClass) -> None:
        self.inputs = inputs
        self.calls, self.since = 0, clock()
        self.phase: Phase = _met
        self.making: Making | None = None
        self.kernel: Kernel | None = None
        self.failure = ""
        self.ratio: float | None = None
        self.seconds: tuple[list[float], list[float]] = ([], [])


Phase = Callable[["MeasuredSite", _Class, Union[UndoLog, None], Sequence[Any]], Union[Sequence[Any], None]]
"""What a call does with inputs of a class."""


class MeasuredSite:
    """The place of such a block."""

    measures = True

    def __init__(self, graph: Graph, objects: Mapping[str, Any], maker: Maker) -> None:
        self.awake = True
        """Whether it is of use to ask for a kernel."""
        self.running: _Class | None = None
        """The class whose operations are timed just now."""
        self.classes: tuple[_Class, ...] = ()
        self._graph, self._objects, self._maker = graph, objects, maker
        self._strange = 0
        self._started = 0.0

    def __call__(self, undo: UndoLog | None, *inputs: Any) -> Sequence[Any] | None:
        """The outputs by a kernel; None where its operations are to be done, and nothing was."""
        for known in self.classes:
            if known.inputs.takes(inputs):
                return known.phase(self, known, undo, inputs)
        self._strange += 1
        found = class_of(inputs) if len(self.classes) < MOST else None
        if found is not None and found.takes(inputs):
            self.classes += (_Class(found),)
        elif self._strange > STRANGE and not any(known.kernel for known in self.classes):
            self.awake = False
        return None

    def stop(self) -> None:
        """The operations were done one by one, and are timed."""
        known, self.running = self.running, None
        if known is not None:
            known.seconds[0].append(clock() - self._started)
            _judge(known)

    def start(self, known: _Class) -> None:
        """Time the operations that come now."""
        self.running, self._started = known, clock()

    def ask(self, known: _Class, inputs: Sequence[Any]) -> None:
        """Have a kernel made; where that can't be, this class is done with."""
        try:
            known.making = self._maker(self._graph, self._objects, inputs, known.inputs.positions)
            known.phase = _asked_for
        except Unfit as error:
            self.give_up(known, error)

    def give_up(self, known: _Class, error: Unfit) -> None:
        """There will be no kernel of this class."""
        known.phase, known.failure, known.making = _operations, str(error), None
        self.awake = any(not other.failure for other in self.classes) or len(self.classes) < MOST


def _met(site: MeasuredSite, known: _Class, undo: UndoLog | None, inputs: Sequence[Any]) -> None:
    """Wait for more calls; where results may not depend on time, the next kernel is waited for."""
    known.calls += 1
    if known.calls < OFTEN:
        return
    if torch.are_deterministic_algorithms_enabled():
        site.ask(known, inputs)
        if known.making is not None:
            known.making.wait()
    elif clock() - known.since > LONG:
        site.ask(known, inputs)


def _asked_for(site: MeasuredSite, known: _Class, undo: UndoLog | None, inputs: Sequence[Any]) -> Sequence[Any] | None:
    assert known.making is not None
    try:
        made = known.making.poll()
    except Unfit as error:
        site.give_up(known, error)
        return None
    if made is None:
        return None
    known.kernel, known.making, known.calls = Kernel(known.inputs, *made), None, 0
    known.phase = _use if torch.are_deterministic_algorithms_enabled() else _try
    return known.phase(site, known, undo, inputs)


def _try(site: MeasuredSite, known: _Class, undo: UndoLog | None, inputs: Sequence[Any]) -> Sequence[Any] | None:
    assert known.kernel is not None
    known.calls += 1
    if known.calls > WARM and bin(known.calls).count("1") & 1:
        site.start(known)
        return None
    started = clock()
    results = known.kernel.run(undo, inputs)
    if results is not None and known.calls > WARM:
        known.seconds[1].append(clock() - started)
        _judge(known)
    return results


def _judge(known: _Class) -> None:
    """End a trial that has gone on for long enough."""
    operations, kernel = known.seconds
    if len(operations) < PAIRS or len(kernel) < PAIRS:
        return
    known.ratio = median(kernel) / max(median(operations), 1e-9)
    known.phase = _use if known.ratio < 1.0 else _operations
    known.calls, known.seconds = 0, ([], [])


def _use(site: MeasuredSite, known: _Class, undo: UndoLog | None, inputs: Sequence[Any]) -> Sequence[Any] | None:
    assert known.kernel is not None
    _count(known)
    return known.kernel.run(undo, inputs)


def _operations(site: MeasuredSite, known: _Class, undo: UndoLog | None, inputs: Sequence[Any]) -> None:
    if known.kernel is not None:
        _count(known)


def _count(known: _Class) -> None:
    known.calls += 1
    if known.calls >= LATER and known.ratio is not None:
        known.calls, known.phase = 0, _try
