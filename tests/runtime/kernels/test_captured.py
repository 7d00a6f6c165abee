"""Kernels whose work is recorded and replayed, with a stand-in for the device: it replays by calling the work again.

What a CUDA graph would give is as on a device: a replay writes the very tensors that were handed out when it was
recorded, and reads the addresses that were recorded, not what a later call brings.
"""

import gc
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional

import janusc as janus
from janusc import torch_private
from janusc.options import BACKENDS
from janusc.runtime.backends.compiled import Kernels
from janusc.runtime.compiler.program import Input
from janusc.runtime.kernels import captured
from janusc.runtime.kernels.bounds import keep_in_bounds
from janusc.runtime.kernels.captured import Captured
from janusc.runtime.kernels.capturing import ELSEWHERE, CapturingSite, recorded_by
from janusc.runtime.kernels.functional import Unfit
from janusc.testing import assert_equivalent

CPU = torch.device("cpu")


class Recording:
    def __init__(self, work):
        self.work, self.results, self.replays = work, list(work()), 0

    def replay(self):
        self.replays += 1
        with torch.no_grad():
            for old, new in zip(self.results, self.work(), strict=True):
                for dimension, stride in enumerate(old.stride()):
                    if stride == 0 and old.shape[dimension] > 1:  # written once, as a device does
                        old, new = old.narrow(dimension, 0, 1), new.narrow(dimension, 0, 1)
                old.copy_(new)


class Recorder:
    """Records what is done on the CPU."""

    is_waited_for = False

    def __init__(self):
        self.recordings = []
        self.busy = False
        self.error = None
        self.now = "default"
        self.ordered = []

    def takes(self, device):
        return device == CPU

    def is_recording(self, device):
        return self.busy

    def record(self, device, work):
        if self.error is not None:
            raise self.error
        self.recordings.append(Recording(work))
        return self.recordings[-1]

    def stream(self, device):
        return self.now

    def order(self, before, now, tensors):
        self.ordered.append((before, now, len(tensors)))


RECORDER = Recorder()
BACKENDS.register("recorded", Kernels("recorded", recorded_by(RECORDER), CapturingSite))


@pytest.fixture(autouse=True)
def fresh():
    RECORDER.__init__()


def affine(recorder, weight=None):
    """A recorded product, and its weight."""
    weight = nn.Parameter(torch.randn(3, 3)) if weight is None else weight
    return Captured(lambda inputs: [inputs[0] @ inputs[1], inputs[1].sum(0)], recorder, CPU), weight


def call(made, *inputs):
    with torch.no_grad():
        return made(list(inputs))


def test_replays_give_what_the_inputs_of_each_call_give():
    recorder = Recorder()
    made, weight = affine(recorder)
    kept = []
    for number in range(5):
        x = torch.full((3, 3), float(number))
        kept.append((x @ weight.detach(), call(made, x, weight)[0]))
    assert all(torch.equal(wanted, found) for wanted, found in kept)  # also those of calls before
    assert len(recorder.recordings) == 1 and recorder.recordings[0].replays == 5


def test_a_parameter_is_read_where_it_is_also_when_it_was_changed():
    made, weight = affine(Recorder())
    x = torch.eye(3)
    call(made, x, weight)
    with torch.no_grad():
        weight.add_(1)
    assert torch.equal(call(made, x, weight)[0], weight)


def test_a_parameter_elsewhere_has_a_recording_of_its_own_up_to_a_limit():
    recorder = Recorder()
    made, _ = affine(recorder)
    weights = [nn.Parameter(torch.randn(3, 3)) for _ in range(captured.MOST + 2)]
    for _ in range(2):
        for weight in weights:
            assert torch.equal(call(made, torch.eye(3), weight)[0], weight)
    assert len(recorder.recordings) == captured.MOST
    assert made.failure is None


def test_a_parameter_whose_memory_was_replaced_is_not_read_where_it_was():
    recorder = Recorder()
    made, weight = affine(recorder)
    call(made, torch.eye(3), weight)
    old = weight.data
    weight.data = torch.full((3, 3), 7.0)
    assert torch.equal(call(made, torch.eye(3), weight)[0], weight)
    assert len(recorder.recordings) == 2
    del old


def test_a_recording_that_fails_is_not_tried_again_and_says_why():
    recorder = Recorder()
    recorder.error = RuntimeError("operation not permitted when stream is capturing\nand more")
    made, weight = affine(recorder)
    assert torch.equal(call(made, torch.eye(3), weight)[0], weight)
    assert made.failure == "RuntimeError: operation not permitted when stream is capturing"
    recorder.error = None
    assert torch.equal(call(made, torch.eye(3), weight)[0], weight)
    assert not recorder.recordings


def test_an_interrupt_while_it_is_recorded_goes_on_and_the_next_call_records():
    recorder = Recorder()
    recorder.error = KeyboardInterrupt()
    made, weight = affine(recorder)
    with pytest.raises(KeyboardInterrupt):
        call(made, torch.eye(3), weight)
    recorder.error = None
    assert torch.equal(call(made, torch.eye(3), weight)[0], weight)
    assert len(recorder.recordings) == 1


def test_nothing_is_recorded_or_replayed_inside_of_another_recording():
    recorder = Recorder()
    made, weight = affine(recorder)
    call(made, torch.eye(3), weight)
    recorder.busy = True
    assert torch.equal(call(made, 2 * torch.eye(3), weight)[0], 2 * weight)
    assert recorder.recordings[0].replays == 1


def test_another_stream_comes_after_the_one_before():
    recorder = Recorder()
    made, weight = affine(recorder)
    for recorder.now in ("default", "default", "side", "side", "default"):
        call(made, torch.eye(3), weight)
    assert recorder.ordered == [("default", "side", 1), ("side", "default", 1)]


def test_a_call_in_the_middle_of_another_runs_as_it_is():
    recorder = Recorder()
    made, weight = affine(recorder)
    call(made, torch.eye(3), weight)
    found = []
    with made._lock:
        thread = threading.Thread(target=lambda: found.append(call(made, torch.eye(3), weight)[0]))
        thread.start()
        thread.join()
    assert torch.equal(found[0], weight)
    assert recorder.recordings[0].replays == 1


def test_expanded_inputs_and_results_keep_their_layout():
    made = Captured(lambda inputs: [inputs[0] + 1, inputs[0].expand(4, 3)], Recorder(), CPU)
    for number in range(3):
        x = torch.full((1, 3), float(number)).expand(2, 3)
        y = torch.full((3,), float(number))
        total, expanded = call(made, y)
        assert torch.equal(total, y + 1) and expanded.stride() == (0, 1) and torch.equal(expanded, y.expand(4, 3))
        both = Captured(lambda inputs: [inputs[0] * 2], Recorder(), CPU)
        assert torch.equal(call(both, x)[0], x * 2)


def test_an_input_whose_elements_share_memory_is_not_copied():
    made = Captured(lambda inputs: [inputs[0] * 2], Recorder(), CPU)
    x = torch.arange(4.0).as_strided((3, 2), (1, 1))
    assert torch.equal(call(made, x)[0], x * 2)
    assert made.failure == "it has a tensor whose elements share memory"


def test_recordings_go_with_the_kernel():
    recorder = Recorder()
    made, weight = affine(recorder)
    call(made, torch.eye(3), weight)
    gone = weakref.ref(recorder.recordings.pop()), weakref.ref(made._buffers[0])
    del made
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


# by way of the compiler


def network(**options):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))


def trainer():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        out = model(functional.dropout(x, 0.5))
        loss = functional.mse_loss(out, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, model


def batches(count=8):
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(5, 3, generator=generator), torch.randn(5, 2, generator=generator)) for _ in range(count)]


def compiled(function):
    return janus.compile(function, backend="recorded", warmup=1)


def test_a_training_step_with_random_numbers_and_statistics_is_as_in_eager_mode():
    assert_equivalent(trainer, calls=batches(), factory=True, tolerance=1e-5, compiler=compiled)
    assert sum(recording.replays for recording in RECORDER.recordings) == 7  # all but the profiled call


def test_a_model_whose_history_goes_on_is_as_in_eager_mode():
    def make():
        model = network()
        return model.forward, model

    assert_equivalent(make, calls=[(x,) for x, _ in batches()], factory=True, tolerance=1e-5, compiler=compiled)
    assert RECORDER.recordings


def test_a_failed_recording_is_told():
    RECORDER.error = RuntimeError("no graph today")
    step, _ = trainer()
    step = compiled(step)
    for inputs in batches():
        step(*inputs)
    assert "not recorded: RuntimeError: no graph today" in str(janus.explain(step))


def test_tensors_on_the_cpu_run_as_on_aten_and_say_so_once():
    assert_equivalent(
        trainer, calls=batches(), factory=True, compiler=lambda f: janus.compile(f, backend="cudagraph", warmup=1)
    )
    step = janus.compile(trainer()[0], backend="cudagraph", warmup=1)
    for inputs in batches():
        step(*inputs)
    assert str(janus.explain(step)).count(ELSEWHERE) == 1


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_an_index_on_a_cuda_device_is_left_to_its_operation(device):
    """What would say whether it was in bounds had to be waited for, which eager mode does not."""
    inputs = [Input((5, 3), (3, 1), "float32", device), Input((5, 1), (1, 1), "int64", device)]
    with torch.no_grad():
        module = torch_private.compiling.trace(lambda x, y: [x.gather(1, y)], [item.make for item in inputs])
    assert keep_in_bounds(module, has_demands=False) is (device == "cpu")


def test_operations_on_several_devices_are_not_recorded():
    inputs = [Input((5, 3), (3, 1), "float32", "cuda:0")]
    with torch.no_grad():
        module = torch_private.compiling.trace(lambda x: [x + torch.ones(3).sum()], [item.make for item in inputs])
    with pytest.raises(Unfit, match="its operations are on several devices: cpu, cuda:0"):
        captured.capturing(Recorder())(module)
