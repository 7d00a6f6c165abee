"""A small multilayer perceptron, and the same forward as flat calls written by hand: the floor for a converter."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYERS, NARROW, WIDE = 6, 16, 64


class MLP(nn.Module):
    """Six linear layers, each with a rectifier."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(LAYERS):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def predict(model: nn.Module, x: Tensor) -> Tensor:
    """What a user writes around a model."""
    return model(x)


def flat_calls(x: Tensor, w1, b1, w2, b2, w3, b3, w4, b4, w5, b5, w6, b6) -> Tensor:
    """``MLP.forward`` without a module call: twelve calls into torch."""
    x = torch.relu(F.linear(x, w1, b1))
    x = torch.relu(F.linear(x, w2, b2))
    x = torch.relu(F.linear(x, w3, b3))
    x = torch.relu(F.linear(x, w4, b4))
    x = torch.relu(F.linear(x, w5, b5))
    return torch.relu(F.linear(x, w6, b6))
