"""A block that gets a kernel when it is called often, and keeps it where it is faster than the operations.

::

    met ──often enough──► asked for ──there──► checked ──right──► on trial ──faster──► kernel
                              │                   │                   └─────slower──► operations
                              └─ can't be made    └─ wrong: operations
                                                        (kernel, operations) ──much later──► on trial

The compiler works in another process: until it is done, the operations run as they stand in the code. In a trial both
take turns, some calls each, by the Thue-Morse sequence, which is in step with no pattern of inputs, and are timed.
Where the history goes on, backward passes count as well, if there are any: for what they took both when the kernel was
checked, since later nobody can say what belongs to a block of operations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Union

import torch

from janusc.lowering.ir import Graph
from janusc.runtime.kernels.check import WRONG, Check
from janusc.runtime.kernels.classes import InputClass, class_of
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.joint import Sample, sample_of, split_block
from janusc.runtime.kernels.kernel import Kernel
from janusc.runtime.kernels.linked_check import check_of
from janusc.runtime.kernels.linking import LinkedKernel, kernel_of
from janusc.runtime.kernels.makers import Maker, Making
from janusc.runtime.kernels.methods import Methods
from janusc.runtime.kernels.site import MOST
from janusc.runtime.transaction import UndoLog

OFTEN = 24
"""Calls with inputs of a class before its kernel is asked for."""

LONG = 1.0
"""Seconds that must have gone by since the first of them: a short run is over before a kernel could be of use."""

RUN = 3
"""Calls in a row by the kernel, or by the operations, in a trial: the first of them, as any after others, is slower."""

PAIRS = 12
"""Calls of each in a trial."""

LATER = 1 << 15
"""Calls after which there is another trial."""

PATIENT = 1 << 10
"""Calls of each after which a trial ends even if there was no backward pass yet, as in the middle of a long loop."""

STRIKES = 2
"""Calls for which a kernel may come to something else than its operations, before it is thrown away."""

STRANGE = 256
"""Calls of no class that is known after which a block is not asked any more."""

clock = time.perf_counter


class _Class:
    """What is known of one class of inputs."""

    __slots__ = (
        "backward",
        "calls",
        "check",
        "failure",
        "inputs",
        "kernel",
        "making",
        "phase",
        "ratio",
        "sample",
        "seconds",
        "since",
        "strikes",
    )

    def __init__(self, inputs: InputClass, sample: Sample | None) -> None:
        self.inputs, self.sample = inputs, sample
        self.calls, self.since = 0, clock()
        self.check: Check | None = None  # of a call whose operations run just now
        self.strikes = 0
        self.phase: Phase = _met
        self.making: Making | None = None
        self.kernel: Kernel | None = None
        self.failure = ""
        self.ratio: float | None = None
        self.backward: tuple[float, float] | None = None  # seconds of a pass through operations, and by the kernel
        self.seconds: tuple[list[float], list[float]] = ([], [])

    @property
    def is_faster(self) -> bool:
        """Whether the kernel was, in the last trial."""
        return self.ratio is not None and self.ratio < 1.0


Phase = Callable[["MeasuredSite", _Class, Union[UndoLog, None], Sequence[Any]], Union[Sequence[Any], None]]
"""What a call does with inputs of a class."""


class MeasuredSite:
    """The place of such a block."""

    measures = True

    def __init__(self, graph: Graph, objects: Mapping[str, Any], bare: frozenset[int], maker: Maker) -> None:
        self.awake = True
        """Whether it is of use to ask for a kernel."""
        self.running: _Class | None = None
        """The class whose operations are timed just now."""
        self.classes: tuple[_Class, ...] = ()
        self._graph, self._objects, self._maker = graph, objects, maker
        self.bare, self.methods = bare, Methods(graph)
        self.block = split_block(graph, objects)
        self._strange = 0
        self._started = 0.0

    def __call__(self, undo: UndoLog | None, *inputs: Any) -> Sequence[Any] | None:
        """The outputs by a kernel; None where its operations are to be done, and nothing was."""
        self.running = None  # an error in the operations may have left it
        for known in self.classes:
            if known.inputs.takes(inputs):
                try:
                    return known.phase(self, known, undo, inputs)
                except Unfit as error:
                    self.give_up(known, error)
                    return None
        self._strange += 1
        found = class_of(inputs) if len(self.classes) < MOST else None
        if found is not None and found.takes(inputs):
            self._meet(found, inputs)
        elif self._strange > STRANGE and not any(known.kernel for known in self.classes):
            self.awake = False
        return None

    @property
    def is_settled(self) -> bool:
        """Whether there are inputs for which a kernel is in use."""
        for known in self.classes:
            if known.phase is _use:
                return True
        return False

    def settled(self, inputs: Sequence[Any]) -> Kernel | None:
        """The kernel that is in use for these inputs, for a call by it."""
        for known in self.classes:
            if known.phase is _use and known.inputs.takes(inputs):
                _count(known)
                return known.kernel
        return None

    def reject(self, kernel: Kernel, error: Unfit) -> None:
        """Use a kernel no more."""
        for known in self.classes:
            if known.kernel is kernel:
                self.give_up(known, error)

    def _meet(self, found: InputClass, inputs: Sequence[Any]) -> None:
        try:
            self.classes += (_Class(found, sample_of(self.block, inputs, found.positions)),)
        except Unfit as error:
            known = _Class(found, None)
            self.classes += (known,)
            self.give_up(known, error)

    def stop(self, outputs: Sequence[Any]) -> None:
        """The operations were done one by one, with these outputs, and are compared or timed."""
        taken, known = clock() - self._started, self.running
        self.running = None
        if known is None:
            return
        if known.check is None:
            known.seconds[0].append(taken)
            _judge(known)
            return
        check, known.check = known.check, None
        if check.passes(outputs):
            known.backward = check.seconds
            known.phase = _use if torch.are_deterministic_algorithms_enabled() else _try
        else:
            known.strikes += 1
            if known.strikes == STRIKES:
                self.give_up(known, Unfit(WRONG))

    def start(self, known: _Class) -> None:
        """Time the operations that come now."""
        self.running, self._started = known, clock()

    def ask(self, known: _Class) -> None:
        """Have a kernel made; raises Unfit."""
        assert known.sample is not None
        known.making = self._maker(self._graph, self._objects, known.sample)
        known.phase = _asked_for

    def give_up(self, known: _Class, error: Unfit) -> None:
        """There will be no kernel of this class."""
        known.phase, known.failure, known.making, known.kernel = _operations, str(error), None, None
        self.awake = any(not other.failure for other in self.classes) or len(self.classes) < MOST

    def wait(self) -> None:
        """Ask for the kernels that were not asked for, and wait for all."""
        for known in self.classes:
            if known.phase is _met:
                try:
                    self.ask(known)
                except Unfit as error:
                    self.give_up(known, error)
            if known.making is not None:
                known.making.wait()

    def report(self) -> list[str]:
        """What became of the kernels for each class of inputs."""
        return [text for text in dict.fromkeys(map(_text, self.classes)) if text]


def _text(known: _Class) -> str:
    if known.failure:
        return f"no kernel: {known.failure}"
    if known.ratio is None:
        return "a kernel is on its way" if known.making else "a kernel is on trial" if known.kernel else ""
    used = "a kernel" if known.is_faster else "no kernel: it was slower"
    return f"{used}, {known.ratio:.2f} x the time of its operations"


def _met(site: MeasuredSite, known: _Class, undo: UndoLog | None, inputs: Sequence[Any]) -> None:
    """Wait for more calls; where results may not depend on time, the next kernel is waited for."""
    known.calls += 1
    if known.calls < OFTEN:
        return
    if torch.are_deterministic_algorithms_enabled():
        site.ask(known)
        assert known.making is not None
        known.making.wait()
    elif clock() - known.since > LONG:
        site.ask(known)


def _asked_for(site: MeasuredSite, known: _Class, undo: UndoLog | None, inputs: Sequence[Any]) -> Sequence[Any] | None:
    assert known.making is not None
    made = known.making.poll()
    if made is None:
        return None
    assert known.sample is not None
    known.kernel = kernel_of(known.inputs, site.block, known.sample, site.bare, site.methods, made)
    known.making, known.calls = None, 0
    known.phase = _compare
    return known.phase(site, known, undo, inputs)


def _compare(site: MeasuredSite, known: _Class, undo: UndoLog | None, inputs: Sequence[Any]) -> None:
    """Have the operations run, with the kernel's results at hand."""
    assert known.kernel is not None
    known.check = None
    if known.kernel.is_usable(inputs):
        known.check = check_of(known.kernel, inputs)
        site.start(known)


def _try(site: MeasuredSite, known: _Class, undo: UndoLog | None, inputs: Sequence[Any]) -> Sequence[Any] | None:
    assert known.kernel is not None
    run, place = divmod(known.calls, RUN)
    known.calls += 1
    if run and bin(run).count("1") & 1:
        if place:
            site.start(known)
        return None
    started = clock()
    results = known.kernel.run(undo, inputs)
    if results is not None and run and place:
        known.seconds[1].append(clock() - started)
        _judge(known)
    return results


def _judge(known: _Class) -> None:
    """End a trial that has gone on for long enough."""
    operations, kernel = known.seconds
    count = min(len(operations), len(kernel))
    backward = known.backward or (0.0, 0.0)
    if isinstance(known.kernel, LinkedKernel) and not known.kernel.passes:
        if count < PATIENT:
            return
        backward = 0.0, 0.0
    if count < PAIRS:
        return
    known.ratio = (median(kernel) + backward[1]) / max(median(operations) + backward[0], 1e-9)
    known.phase = _use if known.is_faster else _operations
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
