"""In which order CUDA is asked to record: the calls themselves, on a stand-in for ``torch.cuda``."""

import contextlib

import pytest
import torch

from janusc.runtime.kernels.recorder import WARM, CudaRecorder

DEVICE = torch.device("cuda:0")


class Cuda:
    """Writes down what is asked of it."""

    def __init__(self, broken=False, is_capturing=False):
        self.calls, self.broken, self.is_capturing = [], broken, is_capturing
        self.current = "before"

    def install(self, patch):
        cuda = self

        class Stream:
            def __init__(self, name):
                self.name = name

            def wait_stream(self, other):
                cuda.calls.append(f"{self.name} waits for {other.name}")

        class Graph:
            def capture_begin(self, capture_error_mode):
                cuda.calls.append(f"begin on {cuda.current}, {capture_error_mode}")

            def capture_end(self):
                cuda.calls.append(f"end on {cuda.current}")
                if cuda.broken:
                    raise RuntimeError("the capture was invalidated")

            def replay(self):
                cuda.calls.append("replay")

        @contextlib.contextmanager
        def stream(chosen):
            before, cuda.current = cuda.current, chosen.name
            try:
                yield
            finally:
                cuda.current = before

        patch.setattr(torch.cuda, "Stream", lambda device: Stream("aside"))
        patch.setattr(torch.cuda, "current_stream", lambda device: Stream(cuda.current))
        patch.setattr(torch.cuda, "CUDAGraph", Graph)
        patch.setattr(torch.cuda, "stream", stream)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: cuda.is_capturing)
        return self

    def work(self, fails_at=None, error=ValueError):
        def work():
            self.calls.append(f"work on {self.current}")
            if self.calls.count(f"work on {self.current}") == fails_at:
                raise error("no")
            return [1]

        return work


WARMED = ["aside waits for before", *["work on aside"] * WARM]
RECORDED = [*WARMED, "begin on aside, thread_local", "work on aside", "end on aside", "before waits for aside"]


def test_work_is_warmed_up_and_recorded_on_a_stream_of_its_own(monkeypatch):
    cuda = Cuda().install(monkeypatch)
    recording = CudaRecorder().record(DEVICE, cuda.work())
    assert cuda.calls == RECORDED and cuda.current == "before"
    recording.replay()
    assert cuda.calls[-1] == "replay" and recording.results == [1]


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_recording_that_fails_is_ended_and_its_own_error_is_raised(monkeypatch, broken, error):
    cuda = Cuda(broken).install(monkeypatch)
    with pytest.raises(error, match="no"):
        CudaRecorder().record(DEVICE, cuda.work(WARM + 1, error))
    assert cuda.calls == RECORDED and cuda.current == "before"


def test_work_that_fails_before_is_not_recorded(monkeypatch):
    cuda = Cuda().install(monkeypatch)
    with pytest.raises(ValueError, match="no"):
        CudaRecorder().record(DEVICE, cuda.work(1))
    assert cuda.calls == [*WARMED[:2], "before waits for aside"] and cuda.current == "before"


def test_a_recording_that_can_not_be_ended_raises(monkeypatch):
    cuda = Cuda(broken=True).install(monkeypatch)
    with pytest.raises(RuntimeError, match="invalidated"):
        CudaRecorder().record(DEVICE, cuda.work())
    assert cuda.calls == RECORDED and cuda.current == "before"


def test_a_stream_on_which_somebody_records_is_left_alone(monkeypatch):
    cuda = Cuda(is_capturing=True).install(monkeypatch)
    with pytest.raises(RuntimeError, match="another graph"):
        CudaRecorder().record(DEVICE, cuda.work())
    assert not cuda.calls and cuda.current == "before"
