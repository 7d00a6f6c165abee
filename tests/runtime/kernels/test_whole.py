"""A whole step by kernels: it leaves what eager leaves, and is left out where it is not right."""

import copy

import pytest
import torch
import torch.nn.functional as F
from stepped import STEPPED

import janusc as janus
from janusc.runtime import gradients
from janusc.runtime.kernels import whole

pytestmark = pytest.mark.usefixtures("uncompiled")

OPTIMIZERS = {
    "SGD": lambda ps: torch.optim.SGD(ps, lr=0.1),
    "momentum": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
    "AdamW": lambda ps: torch.optim.AdamW(ps, lr=0.01),
    "RMSprop": lambda ps: torch.optim.RMSprop(ps, lr=0.01, momentum=0.5),
    "Adagrad": lambda ps: torch.optim.Adagrad(ps, lr=0.01),
    "groups": lambda ps: torch.optim.SGD([{"params": ps[2:], "lr": 0.2}, {"params": ps[:2]}], lr=0.1, momentum=0.9),
}


class Training:
    """A small network with its optimizer, and the steps that train it."""

    def __init__(self, make):
        torch.manual_seed(3)
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
        self.optimizer = make(list(self.net.parameters()))

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Pair:
    """Two of them: one in eager mode, one compiled."""

    def __init__(self, make):
        self.plain, self.ours = Training(make), Training(make)
        self.compiled = janus.compile(self.ours.step, backend=STEPPED, warmup=1)
        torch.manual_seed(4)

    def run(self, count):
        for _ in range(count):
            x, y = torch.randn(4, 3), torch.randint(0, 2, (4,))
            assert self.compiled(x, y) == pytest.approx(self.plain.step(x, y), rel=1e-5)
            self.compare()

    def compare(self):
        for p, q in zip(self.plain.net.parameters(), self.ours.net.parameters()):
            torch.testing.assert_close(q, p)
            assert (p.grad is None) == (q.grad is None) and q._version > 0
            if p.grad is not None:
                torch.testing.assert_close(q.grad, p.grad)
        one, other = (t.optimizer.state_dict() for t in (self.plain, self.ours))
        assert one["param_groups"] == other["param_groups"]
        torch.testing.assert_close(other["state"], one["state"])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_whole_step_leaves_what_eager_leaves(name, finished):
    pair = Pair(OPTIMIZERS[name])
    pair.run(20)
    assert len(finished) > 10


def test_what_changes_between_steps_is_seen(finished):
    pair = Pair(OPTIMIZERS["momentum"])
    pair.run(8)
    count = len(finished)
    assert count
    for training in (pair.plain, pair.ours):
        training.optimizer.param_groups[0]["lr"] = 0.05
    pair.run(3)
    saved = copy.deepcopy(pair.plain.optimizer.state_dict())
    for training in (pair.plain, pair.ours):
        training.optimizer.load_state_dict(copy.deepcopy(saved))
        training.net[0].weight.data = training.net[0].weight.data * 0.5
    pair.run(3)
    assert len(finished) == count + 6


def test_parameters_that_share_memory_are_left_to_torch(finished):
    pair = Pair(OPTIMIZERS["momentum"])
    pair.run(8)
    count = len(finished)
    assert count
    for training in (pair.plain, pair.ours):
        training.net[0].bias.data = training.net[0].weight.data.view(-1)[:5]
    pair.run(3)
    assert len(finished) == count


def test_a_hook_on_gradients_is_called_once_a_step(finished):
    pair = Pair(OPTIMIZERS["momentum"])
    pair.run(8)
    count, told = len(finished), []
    assert count
    pair.ours.net[2].bias.register_post_accumulate_grad_hook(lambda p: told.append(p.grad.clone()))
    pair.run(3)
    assert len(told) == 3 and len(finished) == count


def test_hooks_on_steps_are_called(finished):
    pair = Pair(OPTIMIZERS["Adam"])
    pair.run(8)
    count, told = len(finished), []
    assert count
    pair.ours.optimizer.register_step_pre_hook(lambda *_: told.append("before"))
    pair.ours.optimizer.register_step_post_hook(lambda *_: told.append("after"))
    pair.run(2)
    assert told == ["before", "after"] * 2 and len(finished) == count


def test_a_parameter_of_the_optimizer_alone(finished):
    def make(parameters):
        return torch.optim.SGD([*parameters, torch.nn.Parameter(torch.ones(2))], lr=0.1)

    pair = Pair(make)
    pair.run(8)
    assert not finished and janus.stats(pair.compiled).graph_calls > 4


def test_parameters_that_are_exchanged(finished):
    pair = Pair(OPTIMIZERS["momentum"])
    pair.run(8)
    for training in (pair.plain, pair.ours):
        group = training.optimizer.param_groups[0]
        group["params"].append(group["params"].pop(0))
    count = len(finished)
    pair.run(6)
    assert count and janus.stats(pair.compiled).graph_calls > 10


def test_a_kernel_that_fails_has_done_nothing(finished, monkeypatch):
    pair = Pair(OPTIMIZERS["momentum"])
    pair.run(8)
    count = len(finished)
    assert count

    def fail(self, inputs):
        raise whole.Unfit("its kernel failed")

    monkeypatch.setattr(whole.Kernel, "compute", fail)
    pair.run(2)
    assert len(finished) == count
    assert "its kernel failed" in str(janus.explain(pair.compiled))


def test_in_the_middle_of_another_step_torch_makes_it(finished):
    pair = Pair(OPTIMIZERS["momentum"])
    pair.run(8)
    fused = whole.known_step(pair.ours.optimizer)
    made = fused.made
    with fused._lock:
        pair.run(2)
    assert fused.made == made
    pair.run(1)
    assert fused.made == made + 1


def test_an_interrupt_between_gradients_and_step(monkeypatch):
    """As in eager mode: the gradients are there, the parameters as they were."""
    pair = Pair(OPTIMIZERS["momentum"])
    pair.run(8)
    before = [p.detach().clone() for p in pair.ours.net.parameters()]

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(whole.WholeStep, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pair.compiled(torch.randn(4, 3), torch.tensor([0, 1, 1, 0]))
    assert all(map(torch.equal, before, (p.detach() for p in pair.ours.net.parameters())))
    assert all(p.grad is not None for p in pair.ours.net.parameters())


def test_an_interrupt_while_gradients_are_handed_over(monkeypatch):
    """The transaction is undone: the gradients are those of the step before."""
    pair = Pair(OPTIMIZERS["momentum"])
    pair.run(8)
    parameters = list(pair.ours.net.parameters())
    before = [p.grad for p in parameters]
    replace = gradients.replace

    def interrupted(*args):
        replace(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(gradients, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pair.compiled(torch.randn(4, 3), torch.tensor([0, 1, 1, 0]))
    assert all(p.grad is g for p, g in zip(parameters, before))


def run_like_eager(make, name):
    """Steps of a training, eager and compiled, in graphs."""
    plain, ours = Training(OPTIMIZERS[name]), Training(OPTIMIZERS[name])
    expected, compiled = make(plain), janus.compile(make(ours), backend=STEPPED, warmup=1)
    for _ in range(10):
        x, y = torch.randn(4, 3), torch.randint(0, 2, (4,))
        assert compiled(x, y) == pytest.approx(expected(x, y), rel=1e-5)
    for p, q in zip(plain.net.parameters(), ours.net.parameters()):
        torch.testing.assert_close(q, p)
    assert janus.stats(compiled).graph_calls > 6 and "a kernel" in str(janus.explain(compiled))


def test_a_look_at_the_loss_before_the_step(finished):
    def make(training):
        def step(x, y):
            training.optimizer.zero_grad()
            loss = F.cross_entropy(training.net(x), y)
            loss.backward()
            value = loss.item()
            training.optimizer.step()
            return value * 2

        return step

    run_like_eager(make, "Adam")
    assert len(finished) > 4


def test_clipped_gradients_are_clipped_before_the_step(finished):
    def make(training):
        def step(x, y):
            training.optimizer.zero_grad()
            loss = F.cross_entropy(training.net(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(training.net.parameters(), 0.01)
            training.optimizer.step()
            return loss.item()

        return step

    run_like_eager(make, "SGD")
    assert not finished


def test_the_memory_of_gradients_is_not_held(finished):
    pair = Pair(OPTIMIZERS["SGD"])
    pair.run(8)
    assert finished
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    pair.compiled(x, y)
    gradient = torch.utils.weak.WeakTensorKeyDictionary()
    for p in pair.ours.net.parameters():
        gradient[p.grad] = True
        p.grad = None
    assert len(gradient) == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda loss, leaf: torch.autograd.grad(loss * 2 + leaf.sum(), [leaf]),
        lambda loss, leaf: torch.autograd.grad(loss, [leaf], allow_unused=True),
        lambda loss, leaf: loss.backward(inputs=[leaf]),
    ],
)
def test_a_loss_whose_history_is_used_up_leads_to_all_that_it_came_from(ask, finished):
    training = Training(OPTIMIZERS["SGD"])

    def step(x, y):
        training.optimizer.zero_grad()
        loss = F.cross_entropy(training.net(x), y)
        loss.backward()
        training.optimizer.step()
        return loss

    compiled = janus.compile(step, backend=STEPPED, warmup=1)
    for _ in range(6):
        loss = compiled(torch.randn(4, 3), torch.tensor([0, 1, 1, 0]))
    assert finished
    for leaf in training.net.parameters():
        with pytest.raises(RuntimeError, match="a second time"):
            ask(loss, leaf)


class Adversaries:
    """A generator and a critic; the critic learns from what the generator makes."""

    def __init__(self):
        torch.manual_seed(3)
        self.generator = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 4))
        self.critic = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
        self.one = torch.optim.Adam(self.generator.parameters(), lr=0.01)
        self.other = torch.optim.Adam(self.critic.parameters(), lr=0.01)
        self.seen = None

    def step(self, real, is_early, looks):
        if is_early:
            self.other.zero_grad()
        fakes = self.generator(torch.randn(len(real), 3))
        if looks:
            self.seen = self.critic[0].weight.grad is None
        if not is_early:
            self.other.zero_grad()
        loss = F.softplus(self.critic(fakes.detach())).mean() + F.softplus(-self.critic(real)).mean()
        loss.backward()
        self.other.step()
        self.one.zero_grad()
        F.softplus(-self.critic(fakes)).mean().backward()
        self.one.step()
        return loss.item()


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize("looks", [True, False])
def test_what_is_made_before_the_critic_learns_is_no_part_of_its_step(is_early, looks, finished):
    eager, ours = Adversaries(), Adversaries()
    step = janus.compile(backend=STEPPED, warmup=2)(ours.step)
    for number in range(16):
        real = torch.randn(6, 4)
        torch.manual_seed(number)
        expected = eager.step(real, is_early, looks)
        torch.manual_seed(number)
        assert step(real, is_early, looks) == pytest.approx(expected, rel=1e-5)
        assert eager.seen == ours.seen
        for name in ("generator", "critic"):
            for p, q in zip(getattr(eager, name).parameters(), getattr(ours, name).parameters(), strict=True):
                torch.testing.assert_close(q, p)
                torch.testing.assert_close(q.grad, p.grad)
    assert looks or finished.count(ours.other) > 8
    assert janus.stats(step).graph_calls > 8
    explained = janus.explain(step)
    assert "no kernel" not in explained and all(f"block {n}: a kernel" in explained for n in (1, 2, 3)), explained


def test_an_error_before_the_critic_learns_finds_gradients_dropped(finished):
    ours = Adversaries()
    step = janus.compile(backend=STEPPED, warmup=2)(ours.step)
    for _ in range(8):
        step(torch.randn(6, 4), True, False)
    assert len(finished) > 2
    ours.generator[0].weight.data = torch.randn(5, 2)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        step(torch.randn(6, 4), True, False)
    assert ours.critic[0].weight.grad is None and ours.generator[0].weight.grad is not None
