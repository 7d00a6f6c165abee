"""Sorting and choosing by keys that were computed beforehand: what graphs call at run time.

The keys are compared as often and in the order in which Python's own ``sorted``, ``min`` and ``max`` compare them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_PLAIN = frozenset({bool, int, float, str, bytes, torch.Tensor, torch.nn.Parameter})


def ordered(items: Sequence[Any], keys: Sequence[Any], reverse: bool) -> list[Any]:
    """``sorted(items, key=..., reverse=reverse)``."""
    return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)]


def foremost(items: Sequence[Any], keys: Sequence[Any], largest: bool) -> Any:
    """``max(items, key=...)`` or ``min(items, key=...)``."""
    choose: Any = max if largest else min
    return items[choose(range(len(items)), key=keys.__getitem__)]


def compare_plainly(keys: Sequence[Any]) -> bool:
    """Whether comparing the keys runs no user code: numbers, text, tensors, and tuples or lists of these."""
    return all(type(k) in _PLAIN or (type(k) in (tuple, list) and compare_plainly(k)) for k in keys)


ORDERED, FOREMOST, PLAIN_QUERY = (f"{__name__}.{f.__name__}" for f in (ordered, foremost, compare_plainly))
"""The dotted names of these functions, for graphs."""
