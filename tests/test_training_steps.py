"""The training steps of the benchmark: equal to eager, bit for bit, each in as few transactions as can be."""

import pathlib
import sys

import pytest
import torch

import janusc as janus
from janusc.lowering.ir import Segment

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "bench"))
steps = pytest.importorskip("models.steps", reason="needs the packages of the benchmark")

CALLS = {"mlp": 200, "gan": 200, "lenet": 30, "transformer": 30, "resnet": 12}
WARMUP = 3


def train(name, decorate):
    """The losses of all calls of a fresh training, and the training."""
    training = steps.make(name, decorate)
    return training, [training.call(number) for number in range(CALLS[name.split(",")[0]])]


@pytest.mark.parametrize("name", steps.STEPS)
def test_a_step_is_that_of_eager_and_one_transaction(name):
    eager, expected = train(name, steps.as_it_is)
    training, found = train(name, lambda step: janus.compile(step, backend="aten", warmup=WARMUP))
    assert found == expected
    assert all(torch.equal(a, b) for a, b in zip(eager.state(), training.state(), strict=True))
    assert janus.stats(training.step).graph_calls == len(found) - WARMUP
    (graph,) = janus.graphs(training.step)
    assert all(isinstance(part, Segment) for part in graph.chain.steps), str(janus.explain(training.step))
    operations = [[node.op.name for node in part.body.nodes] for part in graph.chain.steps]
    *wholes, items = operations
    assert set(items) == {"method", "assert"}
    if name.startswith("gan"):
        first, second, last = wholes
        assert "zero_grad" in first and first[-2:] == ["backward", "step"]
        assert second[0] == "zero_grad" and second[-1] == "backward.last"  # through what the first one has made
        assert last == ["step"]
    else:
        (whole,) = wholes
        assert whole[0] == "zero_grad" and whole[-2:] == ["backward", "step"]


def test_clipping_and_a_step_that_a_scheduler_counts_are_in_it():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)

    @janus.compile(backend="aten", warmup=WARMUP)
    def step(x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        scheduler.step()

    for _ in range(2 * WARMUP):
        step(torch.randn(4, 3))
    (graph,) = janus.graphs(step)
    first, *others = graph.chain.steps
    assert [node.op.name for node in first.body.nodes][-3:] == ["backward", "clip", "step"]
    assert not any(isinstance(part, Segment) for part in others)


def test_a_step_without_parameters_may_be_named_as_the_method_it_calls():
    model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @janus.compile(backend="aten", warmup=WARMUP, strict=True)
    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    for _ in range(2 * WARMUP):
        step()
    assert janus.stats(step).graph_calls == WARMUP
