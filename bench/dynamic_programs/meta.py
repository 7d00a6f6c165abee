"""Learning to learn: an optimisation inside the function, differentiated through."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from . import Case, Decorator, program
from .digits import load


class Learner(nn.Module):
    """Weights that are good to start from: a few steps on a task's examples make them good for the task."""

    def __init__(self, inputs: int = 64, width: int = 32, classes: int = 2) -> None:
        super().__init__()
        self.weights = nn.ParameterDict(
            {
                "first": nn.Parameter(torch.randn(width, inputs) * 0.1),
                "first_bias": nn.Parameter(torch.zeros(width)),
                "second": nn.Parameter(torch.randn(classes, width) * 0.1),
                "second_bias": nn.Parameter(torch.zeros(classes)),
            }
        )

    def classify(self, weights, x):
        hidden = torch.relu(F.linear(x, weights["first"], weights["first_bias"]))
        return F.linear(hidden, weights["second"], weights["second_bias"])

    def forward(self, examples, labels, queries, targets, steps, lr):
        weights = dict(self.weights.items())
        for _ in range(steps):
            loss = F.cross_entropy(self.classify(weights, examples), labels)
            grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
            weights = {name: w - lr * g for (name, w), g in zip(weights.items(), grads)}
            if loss < 0.5:
                break
        return F.cross_entropy(self.classify(weights, queries), targets)


@program()
def inner_loops(decorate: Decorator) -> Case:
    digits = load()
    model = Learner()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    @decorate
    def step(*episode):
        loss = model(*episode)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def call(number: int):
        a, b = number % 10, (number * 3 + 1) % 10
        rows = [digits.pixels[digits.labels == d][number : number + 10] for d in (a, b if b != a else (a + 1) % 10)]
        shots = 2 + number % 4
        examples, queries = (torch.cat([r[:shots] for r in rows]), torch.cat([r[shots:] for r in rows]))
        labels, targets = (torch.arange(2).repeat_interleave(n) for n in (shots, 10 - shots))
        return step(examples, labels, queries, targets, 1 + number % 4, 0.1 + 0.1 * (number % 3))

    return Case(call, [step], list(model.parameters()))


def minimise(f, x, steps=50, start=1.0, shrink=0.5):
    """Gradient descent with a backtracking line search."""
    history = []
    for _ in range(steps):
        x = x.detach().requires_grad_()
        value = f(x)
        (grad,) = torch.autograd.grad(value, x)
        slope = grad.square().sum()
        if slope.sqrt() < 1e-3:
            break
        step = start
        with torch.no_grad():
            while f(x - step * grad) > value - 0.5 * step * slope:
                step *= shrink
                if step < 1e-6:
                    return x.detach(), history
            x = x - step * grad
        history.append(value.item())
    return x.detach(), history


@program()
def line_search(decorate: Decorator) -> Case:
    """A logistic regression between two digits, fitted from scratch in each call."""
    digits = load()
    f = decorate(minimise)

    def call(number: int):
        a, b = number % 5, 5 + number % 4
        rows = torch.cat([digits.pixels[digits.labels == d][: 4 + number % 7] for d in (a, b)])
        signs = torch.ones(len(rows))
        signs[: len(rows) // 2] = -1
        return f(
            lambda w: F.softplus(-signs * (rows @ w)).mean() + 0.01 * w.square().sum(), torch.zeros(64), 4 + number % 9
        )

    return Case(call, [f])
