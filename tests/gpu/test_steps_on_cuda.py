"""Training and inference on a CUDA device: recorded kernels, random numbers, mixed devices, optimizers."""

import gc

import pytest
import torch
from torch import nn
from torch.nn import functional

import janusc as janus
from janusc.testing import assert_equivalent

from .devices import BACKENDS, CUDA, NEEDS_CUDA, tolerance

pytestmark = [pytest.mark.gpu, NEEDS_CUDA]
RECORDED = "a kernel"


def network():
    torch.manual_seed(0)
    layers = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 2)
    return nn.Sequential(*layers).to(CUDA)


def batches(count=8, size=5):
    generator = torch.Generator().manual_seed(1)
    draws = (
        (torch.randn(size, 3, generator=generator), torch.randint(2, (size,), generator=generator))
        for _ in range(count)
    )
    return [(x.to(CUDA), y.to(CUDA)) for x, y in draws]


def trainer(make=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)):
    model = network()
    optimizer = make(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, model


def compiler(backend):
    return lambda function: janus.compile(function, backend=backend, warmup=1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_training_step_is_as_in_eager_mode(backend):
    assert_equivalent(trainer, calls=batches(), factory=True, tolerance=tolerance(backend), compiler=compiler(backend))


def test_a_training_step_is_recorded():
    step = janus.compile(trainer()[0], backend="cudagraph", warmup=1)
    for inputs in batches():
        step(*inputs)
    said = str(janus.explain(step))
    assert RECORDED in said and "not recorded" not in said and "no kernel" not in said, said


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "adam, capturable": lambda parameters: torch.optim.Adam(parameters, capturable=True),
    "adam, fused": lambda parameters: torch.optim.Adam(parameters, fused=True),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_optimizers_are_as_in_eager_mode(name, backend):
    assert_equivalent(
        lambda: trainer(OPTIMIZERS[name]),
        calls=batches(),
        factory=True,
        tolerance=tolerance(backend),
        compiler=compiler(backend),
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_forward_pass_whose_history_goes_on_is_as_in_eager_mode(backend):
    def make():
        model = network()
        return model.forward, model

    calls = [(x,) for x, _ in batches()]
    assert_equivalent(make, calls=calls, factory=True, tolerance=tolerance(backend), compiler=compiler(backend))


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers_and_the_generator_behind_them_are_eagers(backend):
    def noise(x):
        return functional.dropout(x, 0.5) + torch.randn_like(x) * torch.rand(x.shape, device=x.device)

    converted = janus.compile(noise, backend=backend, warmup=1)
    for seed in range(6):
        x = torch.full((64,), float(seed), device=CUDA)
        torch.manual_seed(seed)
        wanted, state = noise(x), torch.cuda.get_rng_state(0)
        torch.manual_seed(seed)
        found = converted(x)
        assert torch.allclose(wanted, found)
        assert torch.equal(state, torch.cuda.get_rng_state(0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixed_devices_are_as_in_eager_mode(backend):
    def mix(x, scale, table):
        return (x * scale).relu() + table.to(x.device).sum()

    converted = janus.compile(mix, backend=backend, warmup=1)
    for number in range(6):
        inputs = torch.full((4,), float(number), device=CUDA), torch.tensor(number + 0.5), torch.ones(3) * number
        assert torch.allclose(mix(*inputs), converted(*inputs))
    wrong = torch.ones(4, device=CUDA), torch.ones(4), torch.ones(3)
    for function in (mix, converted):
        with pytest.raises(RuntimeError, match="same device"):
            function(*wrong)


def test_what_a_replay_gave_is_not_written_by_the_next_one():
    def scaled(x):
        return (x * 2 + 1).sin()

    converted = janus.compile(scaled, backend="cudagraph", warmup=1)
    inputs = [torch.randn(256, device=CUDA) for _ in range(8)]
    found = [converted(x) for x in inputs]
    assert all(torch.allclose(scaled(x), y) for x, y in zip(inputs, found, strict=True))


def test_calls_on_several_streams_follow_each_other():
    def scaled(x):
        return (x @ x).sin() + 1

    converted = janus.compile(scaled, backend="cudagraph", warmup=1)
    x = torch.randn(512, 512, device=CUDA)
    for _ in range(4):
        converted(x)
    found = []
    for number in range(8):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = x * number
            found.append((number, converted(y)))
    torch.cuda.synchronize()
    assert all(torch.allclose(scaled(x * number), y, rtol=1e-4, atol=1e-4) for number, y in found)


def test_a_cached_call_does_not_wait_for_the_device():
    step = janus.compile(trainer()[0], backend="cudagraph", warmup=1)
    calls = batches()
    for inputs in calls:
        step(*inputs)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for inputs in calls:
            step(*inputs)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_inside_of_a_users_own_recording_a_call_is_recorded_as_it_is():
    def scaled(x):
        return (x * 2 + 1).sin()

    converted = janus.compile(scaled, backend="cudagraph", warmup=1)
    x = torch.randn(64, device=CUDA)
    for _ in range(4):
        converted(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = converted(x)
    x.fill_(3)
    graph.replay()
    assert torch.allclose(y, scaled(x))


def test_memory_is_given_back_with_the_function():
    def scaled(x):
        return (x @ x).relu() @ x

    x = torch.randn(1024, 1024, device=CUDA)
    scaled(x)
    torch.cuda.synchronize()
    gc.collect()
    before = torch.cuda.memory_allocated()
    converted = janus.compile(scaled, backend="cudagraph", warmup=1)
    for _ in range(5):
        converted(x)
    assert torch.cuda.memory_allocated() > before
    del converted
    gc.collect()
    assert torch.cuda.memory_allocated() <= before + (1 << 20)
