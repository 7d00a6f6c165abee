"""A whole step behind other tensor work: gradients that are dropped in front of that come to the same behind it."""

import pytest
import stepping
import test_whole
import torch
import torch.nn.functional as F

import janusc as janus
from janusc.runtime.kernels import whole
from janusc.runtime.kernels.updates import places


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    monkeypatch.setattr(places, "request", stepping.Uncompiled)


@pytest.fixture
def begun(monkeypatch):
    """What ``begin`` came to, of each whole step."""
    made, begin = [], whole.WholeStep.begin

    def counted(self, undo, optimizer, inputs):
        found = begin(self, undo, optimizer, inputs)
        made.append(found is not None)
        return found

    monkeypatch.setattr(whole.WholeStep, "begin", counted)
    return made


class Adversaries:
    """A generator and a critic; the critic learns from what the generator makes."""

    def __init__(self):
        torch.manual_seed(3)
        self.generator = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 4))
        self.critic = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
        self.one = torch.optim.Adam(self.generator.parameters(), lr=0.01)
        self.other = torch.optim.Adam(self.critic.parameters(), lr=0.01)

    def early(self, real):
        self.other.zero_grad()
        fakes = self.generator(torch.randn(len(real), 3))
        loss = F.softplus(self.critic(fakes.detach())).mean() + F.softplus(-self.critic(real)).mean()
        loss.backward()
        self.other.step()
        self.one.zero_grad()
        F.softplus(-self.critic(fakes)).mean().backward()
        self.one.step()
        return loss.item()

    def late(self, real):
        fakes = self.generator(torch.randn(len(real), 3))
        self.other.zero_grad()
        loss = F.softplus(self.critic(fakes.detach())).mean() + F.softplus(-self.critic(real)).mean()
        loss.backward()
        self.other.step()
        self.one.zero_grad()
        F.softplus(-self.critic(fakes)).mean().backward()
        self.one.step()
        return loss.item()

    def looked_at(self, real):
        self.other.zero_grad()
        fakes = self.generator(torch.randn(len(real), 3))
        self.seen = self.critic[0].weight.grad is None
        loss = F.softplus(self.critic(fakes.detach())).mean() + F.softplus(-self.critic(real)).mean()
        loss.backward()
        self.other.step()
        self.one.zero_grad()
        F.softplus(-self.critic(fakes)).mean().backward()
        self.one.step()
        return loss.item()

    def elsewhere(self, real):
        fakes = self.generator(torch.randn(len(real), 3))
        self.other.zero_grad()
        return self.learn(real, fakes)

    def learn(self, real, fakes):
        loss = F.softplus(self.critic(fakes.detach())).mean() + F.softplus(-self.critic(real)).mean()
        loss.backward()
        self.other.step()
        self.one.zero_grad()
        F.softplus(-self.critic(fakes)).mean().backward()
        self.one.step()
        return loss.item()


def compare(eager, ours):
    for name in ("generator", "critic"):
        for p, q in zip(getattr(eager, name).parameters(), getattr(ours, name).parameters(), strict=True):
            torch.testing.assert_close(q, p)
            torch.testing.assert_close(q.grad, p.grad)


@pytest.mark.parametrize("name", ["early", "late", "looked_at", "elsewhere"])
def test_the_critics_half_is_a_whole_step(name, begun):
    eager, ours = Adversaries(), Adversaries()
    step = janus.compile(backend=test_whole.STEPPED, warmup=2)(getattr(ours, name))
    for number in range(16):
        real = torch.randn(6, 4)
        torch.manual_seed(number)
        expected = getattr(eager, name)(real)
        torch.manual_seed(number)
        assert step(real) == pytest.approx(expected, rel=1e-5)
        compare(eager, ours)
    assert vars(eager).get("seen") == vars(ours).get("seen")
    assert sum(begun) > 8 or name in ("looked_at", "elsewhere")


def test_an_error_in_between_finds_the_gradients_dropped(begun):
    ours = Adversaries()
    step = janus.compile(backend=test_whole.STEPPED, warmup=2)(ours.early)
    for _ in range(8):
        step(torch.randn(6, 4))
    assert sum(begun) > 2
    ours.generator[0].weight.data = torch.randn(5, 2)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        step(torch.randn(6, 4))
    assert ours.critic[0].weight.grad is None and ours.generator[0].weight.grad is not None


class Meeting:
    """Blocks that history leads to, and that do not all of it lead on."""

    def __init__(self):
        torch.manual_seed(5)
        self.weights = [torch.nn.Parameter(torch.randn(4, 4)) for _ in range(4)]

    def detached(self, x):
        one = torch.tanh(x @ self.weights[0]) * 2
        loss = (torch.tanh(one.detach() @ self.weights[1]) + 1).pow(2).sum()
        loss.backward()
        (one * 3).sum().backward()
        return loss.item()

    def parted(self, x):
        one, other = torch.tanh(x @ self.weights[0]) * 2, torch.tanh(x @ self.weights[1]) * 3
        first, second = self.pair(one, other)
        first.sum().backward()
        second.sum().backward()
        return first.sum().item()

    def pair(self, one, other):
        return torch.tanh(one @ self.weights[2]) * 2, torch.tanh(other @ self.weights[3]) * 2


@pytest.mark.parametrize("name", ["detached", "parted"])
@pytest.mark.parametrize("backend", [test_whole.STEPPED, "aten"])
def test_history_that_does_not_lead_on_is_left_for_another_pass(name, backend):
    eager, ours = Meeting(), Meeting()
    step = janus.compile(backend=backend, warmup=2)(getattr(ours, name))
    for _ in range(10):
        x = torch.randn(3, 4)
        assert step(x) == pytest.approx(getattr(eager, name)(x), rel=1e-5)
        for p, q in zip(eager.weights, ours.weights):
            torch.testing.assert_close(q.grad, p.grad)


@pytest.mark.parametrize("split", [True, False])
def test_a_model_between_histories(split):
    """The block is compiled alone, and both of its inputs are results of others."""
    eager, ours = Meeting(), Meeting()
    pair = janus.compile(backend=test_whole.STEPPED, warmup=2)(ours.pair)
    for _ in range(10):
        x = torch.randn(3, 4)
        for meeting, function in ((eager, eager.pair), (ours, pair)):
            one, other = torch.tanh(x @ meeting.weights[0]), torch.tanh(x @ meeting.weights[1])
            first, second = function(one, other)
            if split:
                first.sum().backward()
                second.sum().backward()
            else:
                (first * second).sum().backward()
        for p, q in zip(eager.weights, ours.weights):
            torch.testing.assert_close(q.grad, p.grad)
