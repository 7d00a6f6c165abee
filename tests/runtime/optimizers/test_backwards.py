"""The shorter way into a backward pass leaves what torch's own leaves, and is taken where torch has no more to say."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

from janusc.runtime.optimizers import lookup
from janusc.runtime.optimizers.backwards import backward

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def loss_of(weight, kind):
    if kind == "number":
        return (weight * weight).sum()
    if kind == "one element":
        return (weight * weight).sum().view(1, 1)
    return weight.select(0, 0).select(0, 0) * 1  # a number that is a part of a tensor


class Original:
    """Torch's own way, and how often it was taken."""

    def __init__(self, loss):
        self.loss, self.calls = loss, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.loss.backward(*args, **kwargs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["number", "one element", "part"])
def test_gradients_are_as_of_torch(dtype, kind):
    weights = [torch.randn(3, 2, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_() for _ in "ab"]
    for _ in range(2):  # the second is added to the first
        loss_of(weights[0], kind).backward()
        loss = loss_of(weights[1], kind)
        original = Original(loss)
        backward(original, loss)
        assert original.calls == 0
    a, b = (w.grad for w in weights)
    assert torch.equal(a, b) and a.stride() == b.stride() and a.dtype is b.dtype is dtype


def test_a_graph_is_retained_or_used_up():
    weight = torch.randn(3, requires_grad=True)
    loss = weight.exp().sum()
    for keeps in (True, False):
        backward(loss.backward, loss, retain_graph=keeps)
    with pytest.raises(RuntimeError, match="second time"):
        backward(loss.backward, loss)


def a_leaf():
    return torch.ones((), requires_grad=True), {}


def many_elements():
    return torch.ones(2, requires_grad=True) * 2, {"gradient": torch.ones(2)}


def twice_differentiable():
    return torch.ones((), requires_grad=True) * 2, {"create_graph": True}


def some_inputs():
    weight = torch.ones((), requires_grad=True)
    return weight * 2, {"inputs": [weight]}


def complex_number():
    return torch.ones((), dtype=torch.complex64, requires_grad=True).abs() * 1j, {"gradient": torch.ones(()) * 1j}


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("make", [a_leaf, many_elements, twice_differentiable, some_inputs, complex_number])
def test_torch_is_called_where_there_is_more_to_ask(make):
    loss, flags = make()
    original = Original(loss)
    backward(original, loss, **flags)
    assert original.calls == 1


def test_an_error_is_torchs_own():
    for loss in (torch.ones(()), torch.ones(2, requires_grad=True) * 2):
        original = Original(loss)
        with pytest.raises(RuntimeError) as found:
            backward(original, loss)
        with pytest.raises(RuntimeError) as wanted:
            loss.backward()
        assert original.calls == 1 and str(found.value) == str(wanted.value)


def test_whoever_watches_sees_torchs_own():
    log = logging.getLogger("torch.autograd.graph")
    level = log.level
    loss = torch.ones((), requires_grad=True) * 2
    original = Original(loss)
    try:
        log.setLevel(logging.DEBUG)
        backward(original, loss, retain_graph=True)
    finally:
        log.setLevel(level)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        backward(original, loss, retain_graph=True)
    assert original.calls == 2


def test_a_backward_of_somebody_elses_is_called(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.Tensor, "backward", lambda self, *args, **kwargs: calls.append(self))
    loss = nn.Linear(2, 1)(torch.ones(1, 2)).sum()
    found = lookup.equivalent_of(loss.backward, torch.Tensor.backward)
    found()
    assert [loss is given for given in calls] == [True]
