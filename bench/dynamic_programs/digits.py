"""The digits that ship with scikit-learn, as the programs take them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Digits:
    """Rows of 64 pixels between 0 and 1, and their labels."""

    pixels: Tensor
    labels: Tensor

    def batch(self, number: int, size: int) -> tuple[Tensor, Tensor]:
        """The rows of a call with this number."""
        start = number * 53 % (len(self.labels) - size)
        return self.pixels[start : start + size], self.labels[start : start + size]


def load() -> Digits:
    scans = load_digits()
    return Digits(torch.tensor(scans.data, dtype=torch.float32) / 16, torch.tensor(scans.target))
