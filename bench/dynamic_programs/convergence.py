"""Steps until something has settled: how many there are depends on the data."""

from __future__ import annotations

import torch
from torch import nn

from . import Case, Decorator, program


class Equilibrium(nn.Module):
    """A layer that is applied to its own result until that no longer changes much, as deep equilibrium models do."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)
        with torch.no_grad():
            self.inner.weight.mul_(0.5)

    def forward(self, x, tolerance):
        z, steps = torch.zeros_like(x), 0
        injected = self.outer(x)
        while True:
            new = torch.tanh(self.inner(z) + injected)
            steps += 1
            if (new - z).abs().max() < tolerance or steps >= 60:
                return new, steps
            z = new


@program(fast=True)
def fixed_point(decorate: Decorator) -> Case:
    model = Equilibrium()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    @decorate
    def step(inputs, tolerance):
        result, steps = model(inputs, tolerance)
        loss = (result - inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), steps

    def call(number: int):
        inputs = torch.randn(8, 32, generator=torch.Generator().manual_seed(number))
        return step(inputs, 10.0 ** -(1 + number % 5))

    return Case(call, [step], list(model.parameters()))
