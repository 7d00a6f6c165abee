"""A compiled training step calls the equivalents, also through a scheduler and from a function that it calls."""

import pytest
import torch
from torch import nn

import janusc as janus
from janusc.runtime.optimizers import conditions


@pytest.fixture
def stepped(monkeypatch):
    """The optimizers whose steps were looked at."""
    found = []
    has_plain_step = conditions.has_plain_step
    monkeypatch.setattr(conditions, "has_plain_step", lambda o: found.append(o) or has_plain_step(o))
    return found


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_whole_step(stepped, scheduled):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters())
    if scheduled:
        torch.optim.lr_scheduler.ConstantLR(optimizer)

    @janus.compile(warmup=3)
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(8):
        step(torch.randn(2, 3))
    assert janus.stats(step).graph_calls == 5
    assert stepped == [optimizer] * 5
    text = janus.explain(step)
    assert "ordinary Python" not in text, "also where a scheduler has put a function in its place"
    assert "Adam.step, which is not looked into" not in text


@pytest.mark.parametrize("works", [False, True])
def test_steps_of_a_function_that_is_called(stepped, works):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def update(loss):
        if works:
            loss = loss * 2 + loss.square()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    @janus.compile(warmup=3)
    def step(x):
        loss = model(x).square().mean()
        update(loss)
        return loss

    for _ in range(20):
        step(torch.randn(2, 3))
    assert stepped
    assert set(stepped) == {optimizer}


def test_a_function_without_tensor_work_is_no_graph_for_its_own_sake(stepped):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @janus.compile(warmup=3)
    def update():
        optimizer.step()
        optimizer.zero_grad()

    with pytest.warns(janus.JanusWarning, match="runs without graphs"):
        for _ in range(6):
            update()
    assert janus.stats(update).graphs == 0
    assert not stepped


def test_a_backward_of_somebody_elses_is_called_in_a_graph(monkeypatch):
    weight = torch.ones(3, requires_grad=True)

    @janus.compile(warmup=1)
    def step(x):
        loss = (weight * x).sum() * 2
        loss.backward()
        return loss.detach()

    for _ in range(4):
        step(torch.ones(3))
    assert janus.stats(step).graph_calls == 3 and "ordinary Python" not in janus.explain(step)
    calls, backward = [], torch.Tensor.backward
    monkeypatch.setattr(torch.Tensor, "backward", lambda self: (calls.append(self), backward(self)))
    weight.grad = None
    step(torch.ones(3))
    assert len(calls) == 1 and weight.grad.tolist() == [2.0, 2.0, 2.0]
