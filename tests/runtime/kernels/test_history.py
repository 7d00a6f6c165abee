"""Kernels and histories: parts under ``torch.no_grad()``, and blocks that make nothing of what requires gradients."""

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


def batch(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(5, 3, generator=generator), torch.randint(2, (5,), generator=generator)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def share(out, y, buffer):
    with torch.no_grad():
        return (out.argmax(1) == y).float().mean()


def scaled(out, y, buffer):
    with torch.no_grad():
        return out * 2


def view(out, y, buffer):
    with torch.no_grad():
        return out[0]


def written(out, y, buffer):
    with torch.no_grad():
        buffer.mul_(0.9).add_(out.mean())
        return buffer * 2


def enabled(out, y, buffer):
    with torch.enable_grad():
        return out * 2


def nested(out, y, buffer):
    with torch.no_grad():
        a = out * 2
        with torch.enable_grad():
            b = a * 3
        return a + b


def set_to(out, y, buffer):
    with torch.set_grad_enabled(buffer.numel() > 9):
        return out * 2


def noisy(out, y, buffer):
    with torch.no_grad():
        return out + torch.randn(2)


def world(part, between):
    def make():
        model, buffer = network(), torch.zeros(2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step_before(x, y):
            optimizer.zero_grad()
            out = model(x)
            loss = functional.cross_entropy(out, y)
            found = part(out, y, buffer)
            loss.backward()
            optimizer.step()
            return found, found.requires_grad, found.is_leaf, found._version, loss.item()

        def step_behind(x, y):
            optimizer.zero_grad()
            out = model(x)
            loss = functional.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            found = part(out, y, buffer)
            return found, found.requires_grad, found.is_leaf, loss.item()

        return step_before if between else step_behind, [model, optimizer, buffer]

    return make


@pytest.mark.parametrize("between", [True, False])
@pytest.mark.parametrize("part", [share, scaled, view, written, enabled, nested, set_to, noisy])
def test_parts_under_a_grad_mode_are_those_of_eager(part, between):
    make, calls = world(part, between), [batch(seed) for seed in range(6)]
    assert_equivalent(make, calls=calls, factory=True, tolerance=1e-5, compiler=compiled)


@pytest.mark.parametrize("part", [share, scaled, noisy])
def test_what_is_computed_without_gradients_is_in_the_kernel_of_the_step(part):
    step, _ = world(part, True)()
    step = compiled(step)
    for seed in range(5):
        step(*batch(seed))
    assert len(SEEN) == 1 and "no kernel" not in str(janus.explain(step))


def test_metrics_of_what_has_a_history_have_a_kernel():
    weight = nn.Parameter(torch.ones(3, 2))

    def metrics(x, y):
        found = (x @ weight).argmax(1) == y
        return found.float().mean(), found

    make, calls = lambda: (metrics, [weight]), [batch(seed) for seed in range(5)]
    assert_equivalent(make, calls=calls, factory=True, tolerance=0.0, compiler=compiled)
    assert len(SEEN) == 1


def test_what_is_written_with_a_history_is_left_to_torch():
    def make():
        weight = nn.Parameter(torch.ones(3))

        def count(held, x):
            held.add_(weight.detach().sum() * 0)
            held.mul_(weight)
            return (held > x).float().sum(), (x > 0).sum()

        def call(f):
            held = torch.ones(3)
            result = f(held, torch.zeros(3))
            held.sum().backward()
            return result, held.grad_fn is not None, weight.grad.clone()

        return count, [weight], call

    f, _, call = make()
    f = compiled(f, strict=False)
    g, _, other = make()
    for _ in range(5):
        assert repr(call(f)) == repr(other(g))
