"""A kernel whose work on a device is recorded, and done again at each call: what the host does for it is one launch.

A recording reads and writes the same memory each time. Parameters are read where they are, and there is a recording
for each place where they are met; all else is copied into buffers before, and results are copied out behind. So nobody
sees memory that the next replay writes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch

from janusc import torch_private
from janusc.interrupts import is_interrupt
from janusc.runtime.kernels.faithful import tensors_in
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.makers import Compiled, Compiler
from janusc.runtime.kernels.recorder import Recorder, Recording

MOST = 4
"""Places of parameters for which there are recordings; elsewhere the kernel runs as it is."""


def _copy_each(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    for target, source in zip(targets, sources):
        target.copy_(source)


_copy_all = (torch_private.FOREACH or {}).get("copy_", _copy_each)


class _Copies:
    """Memory for tensors that look like some, and what writes it: expanded dimensions are written once."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._looks = [(x.size(), x.stride(), x.dtype, x.device) for x in tensors]
        self._expanded = [
            [d for d, (size, stride) in enumerate(zip(x.shape, x.stride())) if stride == 0 and size > 1]
            for x in tensors
        ]
        self._is_simple = not any(self._expanded)
        if any(map(_overlaps, self._narrowed(tensors))):
            raise Unfit("it has a tensor whose elements share memory")

    def make(self) -> list[torch.Tensor]:
        """New memory."""
        return [torch.empty_strided(size, stride, dtype=t, device=d) for size, stride, t, d in self._looks]

    def write(self, targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
        """Copy from tensors like these to others."""
        if targets:
            _copy_all(self._narrowed(targets), self._narrowed(sources))

    def _narrowed(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if self._is_simple:
            return list(tensors)
        found = []
        for tensor, dimensions in zip(tensors, self._expanded):
            for dimension in dimensions:
                tensor = tensor.narrow(dimension, 0, 1)
            found.append(tensor)
        return found


class _Recorded:
    """A recording, with what copies its results."""

    def __init__(self, recording: Recording) -> None:
        self.replay, self.results = recording.replay, recording.results
        self.copies = _Copies(self.results)


class Captured:
    """Compiled code, recorded on one device.

    ``failure``: why it runs as it is at every call; None while it need not.
    """

    def __init__(self, compiled: Compiled, recorder: Recorder, device: torch.device) -> None:
        self.failure: str | None = None
        self._compiled, self._recorder, self._device = compiled, recorder, device
        self._recorded: dict[tuple[int, ...], _Recorded] = {}
        self._lock = threading.Lock()  # the buffers are for one call at a time
        self._fixed: list[int] = []
        self._moving: list[int] = []
        self._copies: _Copies | None = None
        self._buffers: list[torch.Tensor] = []
        self._stream: Any = None

    def __call__(self, inputs: list[torch.Tensor]) -> Sequence[Any]:
        """Its results, in memory of their own."""
        if self.failure is None and self._lock.acquire(False):
            try:
                if not self._recorder.is_recording(self._device):
                    results = self._replayed(inputs)
                    if results is not None:
                        return results
            finally:
                self._lock.release()
        return [x.data if isinstance(x, torch.Tensor) and x._is_view() else x for x in self._compiled(inputs)]

    def _replayed(self, inputs: list[torch.Tensor]) -> list[torch.Tensor] | None:
        """The results of a recording; None where there is none for these inputs."""
        if self._copies is None and not self._look(inputs):
            return None
        assert self._copies is not None
        now = self._recorder.stream(self._device)
        if self._stream is None:
            self._stream = now
        elif now != self._stream:
            self._recorder.order(self._stream, now, self._buffers)
            self._stream = now
        self._copies.write(self._buffers, [inputs[i] for i in self._moving])
        places = tuple([inputs[i].data_ptr() for i in self._fixed])
        recorded = self._recorded.get(places)
        if recorded is None:
            recorded = self._record(inputs, places)
            if recorded is None:
                return None
        recorded.replay()
        results = recorded.copies.make()
        recorded.copies.write(results, recorded.results)
        return results

    def _look(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Make buffers for what is not read where it is."""
        self._fixed = [i for i, x in enumerate(inputs) if isinstance(x, torch.nn.Parameter)]
        self._moving = [i for i in range(len(inputs)) if i not in self._fixed]
        try:
            copies = _Copies([inputs[i] for i in self._moving])
        except Unfit as error:
            self.failure = str(error)
            return False
        with torch.inference_mode(False):
            self._buffers = copies.make()
        self._copies = copies
        return True

    def _record(self, inputs: Sequence[torch.Tensor], places: tuple[int, ...]) -> _Recorded | None:
        if len(self._recorded) >= MOST:
            return None
        given = list(inputs)
        for position, buffer in zip(self._moving, self._buffers):
            given[position] = buffer
        try:
            made = self._recorder.record(self._device, lambda: self._compiled(list(given)))
            if not all(isinstance(x, torch.Tensor) and x.device == self._device for x in made.results):
                raise Unfit("a result is not on its device")
            recorded = self._recorded[places] = _Recorded(made)
            return recorded
        except Exception as error:
            if is_interrupt(error):
                raise
            text = str(error).partition("\n")[0]
            self.failure = text if isinstance(error, Unfit) else f"{type(error).__name__}: {text}"
            self._recorded, self._buffers, self._copies = {}, [], None
            return None


def capturing(recorder: Recorder) -> Compiler:
    """A compiler that has the operations of a traced graph recorded as they are; raises Unfit."""

    def compile_module(module: torch.fx.GraphModule) -> Compiled:
        devices = {tensor.device for node in module.graph.nodes for tensor in _tensors_of(module, node)}
        if len(devices) != 1:
            raise Unfit(f"its operations are on several devices: {', '.join(sorted(map(str, devices)))}")
        return Captured(lambda inputs: module(*inputs), recorder, devices.pop())

    return compile_module


def _tensors_of(module: torch.fx.GraphModule, node: torch.fx.Node) -> list[torch.Tensor]:
    value: Any = getattr(module, str(node.target)) if node.op == "get_attr" else node.meta.get("val")
    return tensors_in(value)


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether two elements may be in the same place."""
    if tensor.numel() == 0:
        return False
    reached = 0
    for stride, size in sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1):
        if stride <= reached:
            return True
        reached += stride * (size - 1)
    return False
