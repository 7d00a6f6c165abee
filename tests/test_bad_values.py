"""Functions called with what they were not made for, between calls that fit: eager's result or eager's own error.

No crash of ours, no state half written, and the calls that fit go on as before. Each function gets some values of each
kind, others than the next function; with ``JANUSC_FUZZ=1`` all of them.
"""

import os
import random

import numpy
import pytest
import torch
import torch.nn.functional as F
from bad_values import KINDS
from torch import nn

import janusc as janus
from janusc.testing import World, differences, record, report

EVERY = os.environ.get("JANUSC_FUZZ") == "1"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls, self.log = nn.Linear(3, 3), 0, []
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x):
        self.calls += 1
        y = self.layer(x)
        self.log.append(self.calls)
        self.last = y.detach()
        self.log.append(y.sum())
        return torch.relu(y) * self.calls


def stateful():
    state, log = {"n": 0}, []

    def f(x):
        state["n"] += 1
        log.append(x)
        y = torch.tanh(x)
        log.append(y)
        z = y.reshape(-1, 3)
        state["n"] += 1
        state["last"] = z
        return z

    return f


def in_place():
    log = []

    def f(x):
        log.append(1)
        x.add_(1)
        x[0] = 5
        log.append(2)
        y = x @ torch.ones(3, 2)
        x.mul_(2)
        return y

    return f


def augmented(x):
    y = x
    x += 1
    x *= 2
    return x, y


def branching(x):
    if x:
        return torch.ones(2)
    if x is None:
        return torch.zeros(2)
    return torch.ones(3) * 2


def looping(x):
    total = torch.zeros(3)
    for item in x:
        total = total + item
    return total


def shaped(x):
    rows = x.shape[0]
    return x.view(rows, -1)[: rows // 2 + 1], len(x), x.dtype, x.ndim


def contained(x):
    held = {"x": x, "both": [x, x]}
    return torch.stack(held["both"]), held


def told_apart(x):
    if isinstance(x, torch.Tensor):
        return x * 2
    if isinstance(x, (list, tuple, dict)):
        return torch.ones(len(x))
    if isinstance(x, (bool, int, float)):
        return torch.ones(3) * x
    return torch.zeros(3)


def converted(x):
    return torch.as_tensor(x) * 2 + torch.ones(3)


def called(x):
    return x(torch.ones(3)) + 1


def indexed(x):
    return torch.arange(12.0).reshape(4, 3)[x] * 2


def shown(x):
    y = torch.ones(3) * 2
    print(f"{x} {y.sum()}")
    return y, str(x)


def compared(x):
    y = torch.ones(3)
    if x == 3:
        y = y + 1
    return y, x != 2


def caught(x):
    try:
        y = x + torch.ones(3)
        z = y.sum()
    except Exception as error:
        return torch.zeros(3), type(error).__name__
    return y * z


def items_set(x):
    y = torch.ones(3) * 2
    x.value = y
    x[0] = 1
    x.append(y)
    return y


def functional(x):
    y = F.softmax(x, dim=-1)
    return F.dropout(y, 0.5), torch.cat([x, y], 0)


def to_numpy(x):
    y = x * 2
    return numpy.asarray(y).sum() + torch.ones(3)


def with_more(x, y=2, *args, z=None, **named):
    for value in (y, *args, z, *named.values()):
        if value is not None:
            x = x * value
    return x


PLAIN = (
    augmented, branching, looping, shaped, contained, told_apart, converted, called, indexed, shown, compared, caught,
    items_set, functional, to_numpy, with_more,
)  # fmt: skip
FUNCTIONS = {f.__name__: lambda f=f: f for f in PLAIN} | {"Model": Model, "stateful": stateful, "in_place": in_place}


def world(name, kind):
    def make(decorate):
        function = FUNCTIONS[name]()
        order = random.Random(f"{name} {kind}")
        makers = list(KINDS[kind].values())
        order.shuffle(makers)
        calls = []
        for maker in makers if EVERY else makers[:10]:
            calls += [(torch.ones(2, 3),)] * order.randrange(2) + [(maker(),)] * order.randrange(1, 3)
        return World(decorate(function), [*calls, (torch.ones(2, 3),)], {"function": function})

    return make


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_to_eager_or_eagers_own_error(name, kind):
    eager = record(world(name, kind))
    trace = record(world(name, kind), lambda f: janus.compile(f, backend="aten", warmup=0))
    for table in (*eager.calls, *trace.calls):  # torch's own remarks on the future of a layout may be made twice
        table["warnings"] = {warning for warning in table["warnings"] if "Triggered internally" not in warning[1]}
    found = differences(eager, trace)
    assert not found, report(found, len(trace.calls))
    assert not [text for text in trace.notices if "a fault of janusc's own" in text]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.xfail(strict=True, reason="torch prints that a warning was refused where what warns then raises as well")
def test_an_operation_that_warns_and_raises_prints_nothing():
    def make(decorate):
        steps = [(torch.ones(2, 3, dtype=kind),) for kind in (torch.long, torch.long, torch.uint8)]
        return World(decorate(indexed), steps, {})

    eager, trace = record(make), record(make, lambda f: janus.compile(f, backend="aten", warmup=0))
    assert [table["standard error"] for table in trace.calls] == [table["standard error"] for table in eager.calls]
