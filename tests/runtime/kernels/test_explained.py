"""What ``janus.explain`` says of kernels: what they stand for, and what not."""

import sys

import pytest
import torch
import torch.nn.functional as F
from stepped import STEPPED
from torch import nn

import janusc as janus

pytestmark = pytest.mark.usefixtures("uncompiled")


def explained(step, calls, backend=STEPPED):
    compiled = janus.compile(step, backend=backend, warmup=1)
    for arguments in calls:
        compiled(*arguments)
    assert janus.stats(compiled).graph_calls > 1
    return [line.strip() for line in str(janus.explain(compiled)).splitlines()]


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
def test_a_layer_that_no_kernel_stands_for(make):
    torch.manual_seed(0)
    layer, head = make(3, 4, batch_first=True), nn.Linear(4, 2)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        inside, _ = layer(x)
        loss = F.cross_entropy(head(inside[:, -1]), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    calls = [(torch.randn(2, 5, 3), torch.tensor([0, 1])) for _ in range(5)]
    lines = explained(step, calls)
    (place,) = (index for index, line in enumerate(lines) if line.startswith("outside"))
    assert lines[place].endswith("inside, _ = layer(x)")
    assert lines[place + 1] == f"{make.__name__}: called as it is, by no kernel"
    assert "block 1: a kernel" in lines
    assert not any(line.startswith("outside") for line in explained(step, calls, "aten"))


def test_steps_are_numbered_by_themselves():
    torch.manual_seed(0)
    nets = [nn.Linear(3, 1), nn.Linear(3, 1)]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]

    def step(xs):
        optimizers[0].zero_grad()
        for x in xs:
            (nets[0](x).tanh() - 1).square().mean().backward()
        optimizers[0].step()
        optimizers[1].zero_grad()
        (nets[1](xs[0]).tanh() - 1).square().mean().backward()
        optimizers[1].step()

    lines = explained(step, [([torch.randn(2, 3) for _ in range(3)],)] * 6)
    assert [line.split(":")[0] for line in lines if line.startswith("step")] == ["step 1", "step 2"]
    assert [line.split(":")[0] for line in lines if line.startswith("block")] == [f"block {i}" for i in (1, 2, 3, 4)]


def test_a_reason_is_given_once():
    def step(x):
        y = (x * 2).tanh()
        print("first", file=sys.stderr)
        y = (y * 3).tanh()
        print("second", file=sys.stderr)
        return (y * 4).tanh()

    text = explained(step, [(torch.randn(3),) for _ in range(4)])
    (place,) = (index for index, line in enumerate(text) if line.startswith("JC"))
    line = step.__code__.co_firstlineno + 4
    assert text[place + 1] == f"at test_explained.py:{line - 2}"
    assert f"the same at test_explained.py:{line}" in text
