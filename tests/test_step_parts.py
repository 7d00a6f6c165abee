"""What stands around a training step in real programs: metrics, averaged weights, schedulers, accumulation, epochs."""

import gc
import shutil

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler

import janusc as janus
from janusc.lowering.ir import HostRange, Segment

NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
STEPS, WARMUP = 56, 2


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def batch(number):
    generator = torch.Generator().manual_seed(number)
    return torch.randn(12, 8, generator=generator), torch.randint(4, (12,), generator=generator)


class Training:
    """A model and its optimizer; ``kept`` is whatever else has a state."""

    def __init__(self, optimizer=torch.optim.SGD, lr=0.1):
        self.model = network()
        self.optimizer = optimizer(self.model.parameters(), lr=lr)
        self.kept = [self.model, self.optimizer]

    def state(self):
        found = []
        for item in self.kept:
            found += leaves(item.state_dict())
        return found + [p.grad for p in self.model.parameters()]


def leaves(value):
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def averaged(wrap, t):
    average = network().requires_grad_(False)
    t.kept.append(average)
    decay = 0.99

    def step(x, y):
        t.optimizer.zero_grad()
        loss = F.cross_entropy(t.model(x), y)
        loss.backward()
        t.optimizer.step()
        with torch.no_grad():
            for q, p in zip(average.parameters(), t.model.parameters()):
                q.mul_(decay).add_(p, alpha=1 - decay)
        return loss.item()

    return one_by_one(wrap(step))


def interpolated(wrap, t):
    average = network()
    t.kept.append(average)

    def step(x, y):
        t.optimizer.zero_grad()
        loss = F.cross_entropy(t.model(x), y)
        loss.backward()
        t.optimizer.step()
        with torch.no_grad():
            for q, p in zip(average.parameters(), t.model.parameters()):
                q.lerp_(p, 0.01)
        return loss.item()

    return one_by_one(wrap(step))


def measured_before(wrap, t):
    def step(x, y):
        t.optimizer.zero_grad()
        out = t.model(x)
        loss = F.cross_entropy(out, y)
        with torch.no_grad():
            share = (out.argmax(1) == y).float().mean()
        loss.backward()
        t.optimizer.step()
        return loss.item(), share.item(), share.requires_grad

    return one_by_one(wrap(step))


def measured_behind(wrap, t):
    def step(x, y):
        t.optimizer.zero_grad()
        out = t.model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        t.optimizer.step()
        share = (out.argmax(1) == y).float().mean()
        return loss.item(), share.item(), share.requires_grad

    return one_by_one(wrap(step))


def scheduled(make):
    def build(wrap, t):
        scheduler = make(t.optimizer)
        t.kept.append(scheduler)

        def step(x, y):
            t.optimizer.zero_grad()
            loss = F.cross_entropy(t.model(x), y)
            loss.backward()
            t.optimizer.step()
            scheduler.step()
            return loss.item(), scheduler.get_last_lr()

        return one_by_one(wrap(step))

    return build


def accumulated(wrap, t):
    def step(number, x, y):
        loss = F.cross_entropy(t.model(x), y) / 4
        loss.backward()
        if (number + 1) % 4 == 0:
            t.optimizer.step()
            t.optimizer.zero_grad()
        return loss.item()

    step = wrap(step)
    return step, lambda: [step(number, *batch(number)) for number in range(STEPS)]


def epochs(wrap, t):
    def train(loader):
        total = 0.0
        for x, y in loader:
            t.optimizer.zero_grad()
            loss = F.cross_entropy(t.model(x), y)
            loss.backward()
            t.optimizer.step()
            total += loss.item()
        return total

    return by_eights(wrap(train))


def accumulated_epochs(wrap, t):
    def train(loader):
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(t.model(x), y) / 4
            loss.backward()
            if (i + 1) % 4 == 0:
                t.optimizer.step()
                t.optimizer.zero_grad()

    return by_eights(wrap(train))


def one_by_one(step):
    return step, lambda: [step(*batch(number)) for number in range(STEPS)]


def by_eights(train):
    loaders = [[batch(number) for number in range(first, first + 8)] for first in range(0, STEPS, 8)]
    return train, lambda: [train(loader) for loader in loaders]


PROGRAMS = {
    "averaged weights": averaged,
    "interpolated weights": interpolated,
    "metrics before the backward pass": measured_before,
    "metrics behind the step": measured_behind,
    "StepLR": scheduled(lambda o: lr_scheduler.StepLR(o, 3)),
    "CosineAnnealingLR": scheduled(lambda o: lr_scheduler.CosineAnnealingLR(o, 20)),
    "OneCycleLR": scheduled(lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=500)),
    "LambdaLR": scheduled(lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch)),
    "accumulated gradients": accumulated,
    "epochs": epochs,
    "epochs of accumulated gradients": accumulated_epochs,
}


def run(name, wrap, optimizer=torch.optim.SGD):
    training = Training(optimizer)
    function, calls = PROGRAMS[name](wrap, training)
    return function, calls(), training.state()


def compiled(backend):
    return lambda f: janus.compile(f, backend=backend, warmup=WARMUP)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_of_a_step_are_those_of_eager(name, optimizer):
    if "OneCycleLR" in name and optimizer is torch.optim.SGD:
        optimizer = torch.optim.AdamW  # plain SGD has no momentum that could be cycled
    _, expected, wanted = run(name, lambda f: f, optimizer)
    function, found, state = run(name, compiled("aten"), optimizer)
    assert janus.stats(function).graph_calls > 0
    assert found == expected
    assert len(state) == len(wanted)
    for a, b in zip(state, wanted):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b or callable(a)


@NEEDS_COMPILER
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "OneCycleLR"])
def test_parts_of_a_step_leave_it_a_kernel(name):
    _, expected, wanted = run(name, lambda f: f)
    function, found, state = run(name, compiled("inductor"))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for a, b in zip(state, wanted):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert "block 1: a kernel" in str(janus.explain(function))
    assert "no kernel" not in str(janus.explain(function))


def steps_of(name):
    gc.collect()  # functions of one code share their graphs while one lives
    function, *_ = run(name, compiled("aten"))
    return [step for graph in janus.graphs(function) for step in graph.chain.steps]


@pytest.mark.parametrize("name", list(PROGRAMS)[:4])
def test_all_of_a_step_is_in_transactions(name):
    steps = steps_of(name)
    assert all(isinstance(step, Segment) for step in steps) and len(steps) == 2


def test_a_pass_of_an_epoch_is_one_transaction():
    working = [
        s for s in steps_of("epochs") if isinstance(s, Segment) and any(n.op.name == "backward" for n in s.body.nodes)
    ]
    assert len(working) == 1
    assert [node.op.name for node in working[0].body.nodes][-2:] == ["backward", "step"]


def test_items_of_a_loop_that_turn_out_otherwise():
    def train(loader):
        total = 0.0
        for x, y in loader:
            z = x * y + 1
            z = (z * z + x).tanh() * y
            gc.get_count()
            total = total + z.sum()
        return total

    f = janus.compile(train, backend="aten", warmup=WARMUP)
    x = torch.arange(4.0)
    loaders = [[(x, x)], [(x, x), (x, 2.0)], [(x, 3), (x, x)], [], [(x, x.double())], [(nn.Parameter(x), x)]]
    for loader in [loaders[0]] * 4 + loaders + loaders:
        torch.testing.assert_close(f(loader), train(loader), rtol=0, atol=0)
    assert any(isinstance(s, HostRange) for g in janus.graphs(f) for s in g.chain.steps)
