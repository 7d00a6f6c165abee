"""Inputs of changing kind: what is given, and as what, differs from call to call."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from . import Case, Decorator, program
from .digits import load


class Fusion(nn.Module):
    """Makes one vector of whatever is known of a digit: its pixels, its rows, sums over them, or nothing but a hint."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(
            {"pixels": nn.Linear(64, width), "ink": nn.Linear(8, width), "halves": nn.Linear(2, width)}
        )
        self.rows = nn.GRUCell(8, width)
        self.memory = None
        self.head = nn.Linear(width, 10)

    def forward(self, batch, rows=(), hint=None, remember=False):
        parts = {}
        for name, value in batch.items():
            if value is not None:
                parts[name] = torch.tanh(self.encoders[name](value))
        if rows:
            state = self.memory
            for row in rows:
                state = self.rows(row, state)
            parts["rows"] = state
            self.memory = state.detach() if remember else None
        if not parts:
            return None
        fused = sum(parts.values()) / len(parts)
        logits = self.head(fused)
        if hint is not None:
            if isinstance(hint, torch.Tensor):
                logits = logits + hint
            else:
                logits = logits + F.one_hot(torch.tensor(hint), 10) * 0.5
        return logits


@program()
def missing_modalities(decorate: Decorator) -> Case:
    digits = load()
    model = Fusion()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @decorate
    def step(batch, rows, hint, remember, y):
        logits = model(batch, rows, hint, remember=remember)
        if logits is None:
            return None
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def call(number: int):
        x, y = digits.batch(number, size=6)
        images = x.view(-1, 8, 8)
        known = {"pixels": x, "ink": images.mean(1), "halves": images.view(-1, 2, 32).mean(-1)}
        batch = {name: known[name] for i, name in enumerate(known) if (number + 1) >> i & 1}
        if number % 6 == 5:
            batch["ink"] = None
        rows = [images[:, i] for i in range(number % 7)]
        hint = (None, 3, torch.linspace(-1, 1, 10))[number % 3]
        return step(batch, rows, hint, number % 2 == 0, y)

    return Case(call, [step], list(model.parameters()))
