"""Dynamic programs on real input: what varies from call to call is a tree, a length, a decision, a number of steps.

Each file registers its programs; ``bench/dynamic.py`` times them and the tests compare them with eager. A program is a
function that is given a decorator, applies it to what users would compile, and returns a ``Case``. Random numbers are
seeded before a program is made, so that two cases see the same inputs and weights.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["PROGRAMS", "Case", "Dynamic", "make", "program", "same"]

Decorator = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """One fresh run of a program.

    ``call`` makes the call with this number, each with another input, and returns what is compared with eager (losses,
    tokens, tensors). ``targets`` are what was compiled. ``state`` is what training changes, compared at the end.
    """

    call: Callable[[int], Any]
    targets: Sequence[Any]
    state: Sequence[torch.Tensor] = ()


@dataclass(frozen=True)
class Dynamic:
    """A registered program; ``fast`` says that it is one of those that must be faster than eager, not only as fast."""

    name: str
    make: Callable[[Decorator], Case]
    fast: bool


PROGRAMS: dict[str, Dynamic] = {}


def program(fast: bool = False) -> Callable[[Callable[[Decorator], Case]], Callable[[Decorator], Case]]:
    """Register a maker under ``file.name``."""

    def register(maker: Callable[[Decorator], Case]) -> Callable[[Decorator], Case]:
        name = f"{maker.__module__.rpartition('.')[2]}.{maker.__name__}"
        if name in PROGRAMS:
            raise KeyError(f"{name} is registered already")
        PROGRAMS[name] = Dynamic(name, maker, fast)
        return maker

    return register


def make(name: str, decorate: Decorator) -> Case:
    """A fresh case of a program, seeded."""
    torch.manual_seed(0)
    return PROGRAMS[name].make(decorate)


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, tensors bit for bit."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
