"""What operations check, count and ask for beside their results stays as it is where a kernel stands for them."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from traced import SEEN, compiled

import janusc as janus
from janusc.testing import assert_equivalent


@pytest.fixture(autouse=True)
def forget():
    SEEN.clear()


TABLE = torch.arange(15.0).reshape(5, 3)


@pytest.mark.parametrize(
    "function",
    [
        lambda i: TABLE.index_select(0, i).sin() + 1,
        lambda i: torch.index_select(TABLE, 0, index=i).sin() + 1,
        lambda i: torch.zeros(5, 3).index_add(0, i, TABLE[:3]).sin() + 1,
        lambda i: torch.zeros(5, 3).index_copy(0, i, TABLE[:3]).sin() + 1,
        lambda i: torch.zeros(5, 3).sin().index_add_(0, i, TABLE[:3]) + 1,
        lambda i: functional.one_hot(i, 5) * 2 + 1,
        lambda i: functional.binary_cross_entropy(i / 4, torch.full((3,), 0.5)) * 2,
    ],
)
def test_contents_that_an_operation_refuses_are_refused(function):
    calls = [(torch.tensor(i),) for i in ([0, 1, 2], [4, 4, 4], [0, 1, -1], [3, 2, 1], [0, 5, 1], [1, 1, 1])]
    assert_equivalent(lambda: (function, []), calls=calls, factory=True, tolerance=1e-5, compiler=compiled)
    assert len(SEEN) == 1


def test_a_refused_loss_leaves_no_gradients():
    def make():
        weight = nn.Parameter(torch.ones(3))

        def step(x):
            weight.grad = None
            loss = functional.binary_cross_entropy(x * weight, torch.full((3,), 0.5))
            loss.backward()
            return loss.item()

        return step, [weight]

    calls = [(torch.full((3,), share),) for share in (0.1, 0.2, 0.3, 1.5, float("nan"), 0.5)]
    assert_equivalent(make, calls=calls, factory=True, tolerance=1e-5, compiler=lambda f: compiled(f, strict=False))
    assert len(SEEN) == 1


def counts(f, x, model):
    f(x)
    return [buffer._version for buffer in model.buffers()], x._version


def test_tensors_are_written_as_often_as_in_eager_mode():
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))

        def step(x):
            x.mul_(2).add_(1)
            loss = model(x.sin()).pow(3).sum()
            loss.backward()
            return loss.item()

        return step, model

    (eager, ours), (step, model) = make(), make()
    step = compiled(step)
    for _ in range(4):
        assert counts(step, torch.ones(5, 3), model) == counts(eager, torch.ones(5, 3), ours)
    assert len(SEEN) == 1


def test_a_history_that_saved_running_statistics_stays_usable():
    model = nn.BatchNorm1d(3)

    def step(x):
        loss = model(x.sin()).pow(3).sum()
        loss.backward()
        return loss.item()

    step = compiled(step)
    for _ in range(3):
        step(torch.randn(5, 3))
    out = model.eval()(torch.randn(5, 3)).sum()
    model.train()
    step(torch.randn(5, 3))
    out.backward()
    assert SEEN


def test_factories_ask_for_the_default_device():
    def make(x):
        return x.sin() * 2, torch.ones(3) * 2

    f = compiled(make)
    x = torch.ones(3)
    for _ in range(3):
        f(x)
    assert len(SEEN) == 1
    with torch.device("meta"):
        assert [t.device.type for t in f(x)] == ["cpu", "meta"]
    assert [t.device.type for t in f(x)] == ["cpu", "cpu"]
    janus.reset(f)
    with torch.device("meta"):
        for _ in range(3):
            assert [t.device.type for t in f(x)] == ["cpu", "meta"]
    assert [t.device.type for t in f(x)] == ["cpu", "cpu"]
