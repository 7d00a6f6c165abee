"""Sorting and choosing by keys that were computed beforehand, and hashing: what graphs call at run time.

The keys are compared as often and in the order in which Python's own ``sorted``, ``min`` and ``max`` compare them.
"""

from __future__ import annotations

import weakref
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
    return all(type(k) in _PLAIN or (_is_sequence(type(k)) and compare_plainly(k)) for k in keys)


def _is_sequence(cls: type) -> bool:
    """Whether a class is a list or tuple, or a named tuple that is compared as a tuple."""
    return cls in (tuple, list) or (
        issubclass(cls, tuple) and all(_found(cls, n) is _found(tuple, n) for n in _COMPARING)
    )


_COMPARING = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__iter__")


def hash_plainly(items: Iterable[Any]) -> bool:
    """Whether hashing the items, and comparing those of one hash, runs no user code."""
    return all(type(item) in _PLAIN or _hashes_plainly(type(item), item) for item in items)


def _hashes_plainly(cls: type, item: Any) -> bool:
    methods = type.__getattribute__(cls, "__hash__"), type.__getattribute__(cls, "__eq__")
    known = _WAYS.get(cls, _UNKNOWN)
    if known[1] is not methods[0] or known[2] is not methods[1]:  # a class may get others
        known = _WAYS[cls] = _way_of(cls), *methods
    way: str = known[0]
    if way == "by items":
        return hash_plainly(item)
    if way == "by fields":
        return hash_plainly(getattr(item, name) for name in cls.__dict__["__dataclass_fields__"])
    return way == "plainly"


_WAYS: weakref.WeakKeyDictionary[type, tuple[str, Any, Any]] = weakref.WeakKeyDictionary()
_UNKNOWN = ("", _WAYS, _WAYS)


def _way_of(cls: type) -> str:
    """How objects of a class are hashed."""
    if _have_methods_of(cls, tuple):
        return "by items"
    if hashes_its_fields(cls):
        return "by fields"
    plain = cls is type(None) or any(_have_methods_of(cls, other) for other in (object, Enum, int, str, float))
    return "plainly" if plain else "by itself"


def _have_methods_of(cls: type, plain: type) -> bool:
    """Whether hashing and comparing objects of a class is what it is for another one."""
    return issubclass(cls, plain) and all(_found(cls, name) is _found(plain, name) for name in ("__hash__", "__eq__"))


def _found(cls: type, name: str) -> Any:
    return next(vars(base)[name] for base in cls.__mro__ if name in vars(base))


def hashes_its_fields(cls: type) -> bool:
    """Whether objects of a class are hashed and compared by what they hold, as a frozen dataclass is."""
    params, methods = cls.__dict__.get("__dataclass_params__"), [cls.__dict__.get(n) for n in ("__hash__", "__eq__")]
    if params is None or not (params.eq and (params.frozen or params.unsafe_hash)):
        return False
    return all(getattr(getattr(m, "__code__", None), "co_filename", "") == "<string>" for m in methods)


_QUERIES = (ordered, foremost, compare_plainly, hash_plainly)
ORDERED, FOREMOST, PLAIN_QUERY, HASH_QUERY = (f"{__name__}.{f.__name__}" for f in _QUERIES)
"""The dotted names of these functions, for graphs."""
