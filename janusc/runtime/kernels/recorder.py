"""What records the work of a device once, and does it again at the price of one call: CUDA graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

WARM = 3
"""Calls before one is recorded: libraries make their handles and workspaces in the first ones."""


class Recording(Protocol):
    """Recorded work."""

    results: Sequence[Any]
    """What the work returned: the same memory is written by each replay."""

    def replay(self) -> None:
        """Do it again, on the caller's stream."""


class Recorder(Protocol):
    """A kind of device whose work can be recorded."""

    is_waited_for: bool
    """Whether the host would have to wait for the device, to look at what it has computed."""

    def takes(self, device: torch.device) -> bool:
        """Whether this is such a device."""

    def is_recording(self, device: torch.device) -> bool:
        """Whether what the caller does on a device is being recorded already."""

    def record(self, device: torch.device, work: Callable[[], Sequence[Any]]) -> Recording:
        """Record work that has no other effect than its results; raises what that raises, with nothing left behind."""

    def stream(self, device: torch.device) -> Any:
        """Where the caller's work on a device goes."""

    def order(self, before: Any, now: Any, tensors: Sequence[torch.Tensor]) -> None:
        """Have what is done on one stream from now on come after what was done on another; tensors are used on both."""


class _CudaRecording:
    """A CUDA graph with memory of its own, which is given back with it."""

    def __init__(self, graph: torch.cuda.CUDAGraph, results: Sequence[Any]) -> None:
        self.results = results
        self.replay = graph.replay


def _new_stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class CudaRecorder:
    """CUDA graphs. The device is not waited for: neither to record, nor to replay."""

    is_waited_for = True

    def takes(self, device: torch.device) -> bool:
        return device.type == "cuda"

    def is_recording(self, device: torch.device) -> bool:
        with torch.cuda.device(device) if torch.cuda.current_device() != device.index else contextlib.nullcontext():
            return torch.cuda.is_current_stream_capturing()

    def record(self, device: torch.device, work: Callable[[], Sequence[Any]]) -> Recording:
        # not by torch.cuda.graph: it waits for the device, and leaves another stream current where a recording fails
        graph, before, aside = torch.cuda.CUDAGraph(), torch.cuda.current_stream(device), _new_stream(device)
        with torch.cuda.stream(aside):
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("another graph is being recorded on the stream")
            aside.wait_stream(before)
            try:
                for _ in range(WARM):
                    work()
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    results = work()
                except BaseException:
                    with contextlib.suppress(RuntimeError):  # it says that the recording came to nothing
                        graph.capture_end()
                    raise
                graph.capture_end()
            finally:
                before.wait_stream(aside)
        return _CudaRecording(graph, results)

    def stream(self, device: torch.device) -> Any:
        return torch.cuda.current_stream(device)

    def order(self, before: Any, now: Any, tensors: Sequence[torch.Tensor]) -> None:
        now.wait_stream(before)
        for tensor in tensors:
            tensor.record_stream(now)
