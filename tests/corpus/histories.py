"""Backward passes through history from outside of their transaction: of earlier ones, or of earlier calls."""

import torch
from torch import nn
from torch.nn import functional

from . import program
from .backwards import parameters_of


def adversaries():
    """A generator and a critic, their optimizers, and calls of a step of both."""
    generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01) for m in (generator, critic)]
    return generator, critic, *optimizers, [(torch.randn(4, 3),) for _ in range(5)]


@program()
def two_losses_and_optimizers():
    """The second backward pass leads through what was computed before the first step; a hook may come later."""
    generator, critic, for_generator, for_critic, calls = adversaries()
    seen = []

    class Watch:
        factor, hooked = 1.0, None

    def step(x):
        fakes = torch.tanh(generator(torch.randn(4, 2)))
        for_critic.zero_grad()
        critic_loss = functional.softplus(critic(fakes.detach())).mean() + functional.softplus(-critic(x)).mean()
        critic_loss.backward()
        for_critic.step()
        for_generator.zero_grad()
        generator_loss = functional.softplus(-critic(fakes)).mean() * Watch.factor
        generator_loss.backward()
        for_generator.step()
        Watch.factor = Watch.factor * 0.5
        return critic_loss.item(), generator_loss.item(), Watch.factor

    def hooked(f):
        def hook(gradient):
            seen.append((Watch.factor, gradient.sum().item()))
            Watch.factor = 3.0

        handle = generator.weight.register_hook(hook)
        result = f(torch.randn(4, 3))
        handle.remove()
        return result

    return step, [*calls, hooked, *calls[:2]], parameters_of(generator), parameters_of(critic), for_generator, seen


@program()
def a_later_backward_that_fails():
    """What a backward pass through an earlier transaction has done when it fails stays done."""
    generator, critic, for_generator, for_critic, calls = adversaries()

    class State:
        calls, spoil = 0, False

    def step(x):
        State.calls += 1
        fakes = torch.sigmoid(generator(x[:, :2]))
        loss = critic(fakes.detach()).mean()
        for_critic.zero_grad()
        loss.backward()
        for_critic.step()
        if State.spoil:
            fakes.detach().mul_(2)
        State.calls += 10
        (critic(fakes * 1) * 2).mean().backward()
        for_generator.step()
        State.calls += 100
        return loss.item()

    def spoilt(f):
        State.spoil = True
        try:
            f(*calls[0])
        except RuntimeError as error:
            return str(error)[:60]
        finally:
            State.spoil = False

    return step, [*calls, spoilt, spoilt, *calls[:2]], parameters_of(generator), parameters_of(critic), State


@program()
def history_that_comes_in():
    """A recurrent state that is not detached: each loss leads through the calls before, which are kept for that."""
    cell = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)

    def step(x, h):
        h = torch.tanh(cell(torch.cat([x, h], 1)))
        loss = h.square().mean()
        loss.backward(retain_graph=True)
        return h, loss.detach()

    def chained(f):
        h, losses = torch.zeros(3, 2), []
        for _ in range(6):
            h, loss = f(torch.randn(3, 2), h)
            losses.append(loss)
        optimizer.step()
        optimizer.zero_grad()
        return losses

    def used_up(f):
        h, _ = f(torch.randn(3, 2), torch.zeros(3, 2))
        h.sum().backward()
        try:
            f(torch.randn(3, 2), h)
        except RuntimeError as error:
            return str(error)[:60]

    return step, [chained, used_up], parameters_of(cell)


@program()
def what_stands_before_a_backward_pass():
    """A loss that is looked at before it is differentiated, and gradients that are dropped, or read, in between."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class Log:
        total, most = 0.0, 1e9

    def step(x):
        before = torch.zeros(2, 3) if model.weight.grad is None else model.weight.grad
        out = model(x)
        loss = out.square().mean()
        Log.total += loss.item()
        norm = before.norm() + before.view(-1).sum()
        if not torch.isfinite(loss) or loss > Log.most:
            raise ValueError("too large")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return norm, (out > 0).sum().item()

    def too_large(f):
        Log.most = -1.0
        try:
            f(torch.randn(4, 3))
        except ValueError as error:
            return str(error), model.weight.grad.clone()
        finally:
            Log.most = 1e9

    def not_finite(f):
        try:
            f(torch.full((4, 3), float("nan")))
        except ValueError as error:
            return str(error)

    calls = [(torch.randn(4, 3),) for _ in range(5)]
    return step, [*calls, too_large, not_finite, *calls, too_large], parameters_of(model), Log


@program()
def gradients_that_are_kept():
    """Each backward pass adds to gradients, which are read before and after it."""
    model = nn.Linear(3, 2)
    held = torch.zeros(2, 3)
    model.weight.grad = held

    def step(x):
        loss = model(x).square().mean()
        before = held.sum() * 2
        least = loss * 0.5
        loss.backward()
        return before, held.sum(), least.detach(), loss.item()

    return step, [(torch.randn(4, 3),) for _ in range(6)], parameters_of(model)
