"""Sorting and choosing by keys that were computed beforehand, and hashing: what graphs call at run time.

The keys are compared as often and in the order in which Python's own ``sorted``, ``min`` and ``max`` compare them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
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


def compare_plainly(keys: Iterable[Any]) -> bool:
    """Whether comparing the keys runs no user code: numbers, text, tensors, and tuples or lists of these."""
    return all(type(k) in _PLAIN or (type(k) in (tuple, list) and compare_plainly(k)) for k in keys)


def hash_plainly(items: Iterable[Any]) -> bool:
    """Whether hashing the items, and comparing those of one hash, runs no user code."""
    return all(type(i) in _PLAIN or (type(i) is tuple and hash_plainly(i)) or _is_itself_alone(type(i)) for i in items)


def _is_itself_alone(cls: type) -> bool:
    """Whether the objects of a class are equal to themselves alone, as ``object`` or ``Enum`` has it."""
    for name in ("__hash__", "__eq__"):
        found = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
        if found is not vars(object)[name] and found is not vars(Enum).get(name):
            return cls is type(None)
    return True


_QUERIES = (ordered, foremost, compare_plainly, hash_plainly)
ORDERED, FOREMOST, PLAIN_QUERY, HASH_QUERY = (f"{__name__}.{f.__name__}" for f in _QUERIES)
"""The dotted names of these functions, for graphs."""
