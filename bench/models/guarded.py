"""Programs that differ in how much has to be guarded at each call."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def add_one(x: Tensor) -> Tensor:
    return x + 1


def tensors_0() -> Tensor:
    return torch.ones(4)


def tensors_1(a: Tensor) -> Tensor:
    return a + 1


def tensors_2(a: Tensor, b: Tensor) -> Tensor:
    return a + b


def tensors_4(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    return a + b + c + d


def tensors_8(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor, g: Tensor, h: Tensor) -> Tensor:
    return a + b + c + d + e + f + g + h


class Submodules(nn.Module):
    """Eight submodules, each reached by its own attribute."""

    def __init__(self) -> None:
        super().__init__()
        for number in range(1, 9):
            setattr(self, f"act{number}", nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        x = self.act4(self.act3(self.act2(self.act1(x))))
        return self.act8(self.act7(self.act6(self.act5(x))))


FACTOR = 2


class Mixed(nn.Module):
    """Something of each kind: flags, numbers, tables, buffers that are written, globals and defaults."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.drop = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.scales, self.names, self.mode = [1.0, 2.0, 3.0], {"low": 1, "high": 2}, "high"

    def forward(self, x: Tensor, repeats: int = 2) -> Tensor:
        x = self.drop(self.norm(self.linear(x))) * FACTOR
        for scale in self.scales:
            x = x * scale
        if self.mode == "high":
            x = x + self.names[self.mode]
        for _ in range(repeats):
            x = x + 1
        return x
