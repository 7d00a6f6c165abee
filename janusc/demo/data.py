"""Real data that needs no download: scanned digits, and the text of Python's standard library."""

from __future__ import annotations

import importlib.util
import string
from dataclasses import dataclass
from importlib.abc import InspectLoader

import torch
import torch.nn.functional as F
from torch import Tensor

# These exist in every Python from 3.10 on, are long enough in each, and are never frozen into the interpreter.
TEXT_MODULES = (
    "argparse",
    "bdb",
    "calendar",
    "configparser",
    "difflib",
    "doctest",
    "optparse",
    "pickle",
    "statistics",
    "tarfile",
)
CHARACTERS_PER_MODULE = 20_000
VOCABULARY = string.printable
_STRANGER = VOCABULARY.index("?")

DIGIT_BATCH = 50
_TRAINING_DIGITS = 1450  # of 1797: whole batches only


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs of one step with their targets."""

    inputs: Tensor
    targets: Tensor


@dataclass(frozen=True, eq=False)
class Digits:
    """Images of handwritten digits (count, 1, 28, 28) and their labels, split for training and test."""

    images: Tensor
    labels: Tensor
    test: Batch


class DataError(Exception):
    """The data can't be read on this machine; the text says what is missing."""


def load_digits() -> Digits:
    """The digits of scikit-learn, scaled to 28 by 28 and split by a fixed shuffle."""
    from sklearn.datasets import load_digits as load

    scans = load()
    small = torch.tensor(scans.images, dtype=torch.float32).unsqueeze(1) / 16
    images = F.interpolate(small, size=(28, 28), mode="bilinear", align_corners=False)
    labels = torch.tensor(scans.target, dtype=torch.int64)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    train, test = order[:_TRAINING_DIGITS], order[_TRAINING_DIGITS:]
    return Digits(images[train], labels[train], Batch(images[test], labels[test]))


def digit_batches(digits: Digits, steps: int) -> list[Batch]:
    """``steps`` batches, epoch after epoch, each epoch in a new order that depends on nothing but its number."""
    generator = torch.Generator().manual_seed(1)
    chunks: list[Tensor] = []
    while len(chunks) < steps:
        order = torch.randperm(len(digits.images), generator=generator)
        chunks.extend(torch.split(order, DIGIT_BATCH))
    return [Batch(digits.images[chunk], digits.labels[chunk]) for chunk in chunks[:steps]]


def load_text() -> str:
    """Source text of the standard library, of the same length on every version of Python."""
    return "".join(source_of(name)[:CHARACTERS_PER_MODULE] for name in TEXT_MODULES)


def source_of(name: str) -> str:
    """The source text of a module of the standard library."""
    spec = importlib.util.find_spec(name)
    loader = spec.loader if spec is not None else None
    text = loader.get_source(name) if isinstance(loader, InspectLoader) else None
    if text is None or len(text) < CHARACTERS_PER_MODULE:
        raise DataError(f"the source of the standard module {name!r} can't be read in this installation of Python")
    return text


def encode(text: str) -> Tensor:
    """Every character as its place in the vocabulary; one that is not in it as a question mark."""
    places = {character: place for place, character in enumerate(VOCABULARY)}
    return torch.tensor([places.get(character, _STRANGER) for character in text])


def text_batches(codes: Tensor, steps: int, batch: int, lengths: tuple[int, int], seed: int) -> list[Batch]:
    """Random excerpts (length, batch), the length drawn anew for every batch; targets are the next characters."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(steps):
        length = int(torch.randint(lengths[0], lengths[1] + 1, (1,), generator=generator))
        starts = torch.randint(len(codes) - length - 1, (batch,), generator=generator)
        window = codes[starts + torch.arange(length + 1).unsqueeze(1)]
        batches.append(Batch(window[:-1].contiguous(), window[1:].flatten()))
    return batches
