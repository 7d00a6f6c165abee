"""Networks whose data decide what runs: experts, exits, skipped layers."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import nn

from . import Case, Decorator, program
from .digits import load


class Experts(nn.Module):
    """A mixture of experts: rows go to the experts that the router picks, and one without rows does nothing."""

    def __init__(self, inputs: int, width: int, experts: int = 8, chosen: int = 2) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(inputs, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, inputs)) for _ in range(experts)
        )
        self.used = [0] * experts

    def forward(self, x):
        weights, picks = self.router(x).softmax(-1).topk(self.chosen, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, ranks = torch.where(picks == number)
            if rows.numel() == 0:
                continue
            self.used[number] += 1
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, ranks].unsqueeze(-1))
        return out


@program()
def mixture_of_experts(decorate: Decorator) -> Case:
    digits = load()
    model = nn.Sequential(Experts(64, 48), nn.LayerNorm(64), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @decorate
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def call(number: int):
        return step(*digits.batch(number, size=2 + 3 * number % 14)), list(model[0].used)

    return Case(call, [step], list(model.parameters()))


class EarlyExit(nn.Module):
    """A classifier with an exit after each block; in use, it takes the first one that is sure enough."""

    def __init__(self, width: int = 64, blocks: int = 5) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(blocks))
        self.exits = nn.ModuleList(nn.Linear(width, 10) for _ in range(blocks))
        self.taken: dict[int, int] = {}

    def forward(self, x, threshold=0.9):
        outputs = []
        for depth, (block, leave) in enumerate(zip(self.blocks, self.exits)):
            x = block(x) + x
            logits = leave(x)
            outputs.append(logits)
            if not self.training and logits.softmax(-1).max(-1).values.min() > threshold:
                self.taken[depth] = self.taken.get(depth, 0) + 1
                return logits, depth
        if self.training:
            return outputs, len(outputs)
        return logits, len(self.blocks)


@program()
def early_exit(decorate: Decorator) -> Case:
    digits = load()
    model = EarlyExit()
    forward = decorate(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for number in range(12):
        x, y = digits.batch(number, size=64)
        optimizer.zero_grad()
        sum(F.cross_entropy(out, y) for out in EarlyExit.forward(model, x)[0]).backward()
        optimizer.step()
    model.eval()

    def call(number: int):
        x, _ = digits.batch(number, size=1 + number % 3)
        with torch.no_grad():
            logits, depth = forward(x, 0.3 + 0.1 * (number % 5))
        return logits, depth, sorted(model.taken.items())

    return Case(call, [forward], list(model.parameters()))


class StochasticDepth(nn.Module):
    """Residual blocks, each left out with a chance that grows with its depth."""

    def __init__(self, width: int = 64, blocks: int = 6, last: float = 0.5, draw=lambda: torch.rand(1).item()) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(blocks))
        self.head = nn.Linear(width, 10)
        self.last, self.draw = last, draw

    def forward(self, x):
        skipped = 0
        for i, block in enumerate(self.blocks):
            survival = 1 - (i + 1) / len(self.blocks) * self.last
            if self.training:
                if self.draw() > survival:
                    skipped += 1
                    continue
                x = x + block(x)
            else:
                x = x + survival * block(x)
        self.skipped = skipped
        return self.head(x)


def _train_at_random_depth(model: StochasticDepth, decorate: Decorator) -> Case:
    digits = load()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    @decorate
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        if model.training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach(), model.skipped

    def call(number: int):
        model.train(number % 5 != 4)
        return step(*digits.batch(number, size=16))

    return Case(call, [step], list(model.parameters()))


@program()
def stochastic_depth(decorate: Decorator) -> Case:
    """Torch's generator decides."""
    return _train_at_random_depth(StochasticDepth(), decorate)


@program()
def stochastic_depth_of_python(decorate: Decorator) -> Case:
    """Python's generator decides."""
    random.seed(0)
    return _train_at_random_depth(StochasticDepth(draw=random.random), decorate)
