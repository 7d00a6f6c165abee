"""The iterator of a loop that is gone through in parts: asked for once, as a ``for`` statement does."""

from __future__ import annotations

from collections.abc import Iterator
from types import WrapperDescriptorType
from typing import Any

from janusc.frames import uncounted

PREFIX = "_jc_iter_"
"""How the names of the locals begin that hold the iterators of such loops, each in a list."""


def iterator_of(iterable: Any) -> Iterator[Any]:
    """``iter`` of it, such that each part may be a ``for`` over it: what the user's own ``__iter__`` does is not seen.

    It may count, start from the beginning, or not be there at all.
    """
    iterator: Iterator[Any] = iter(iterable)
    return iterator if _is_plain(type(iterator)) else _Begun(iterator)


def _is_plain(cls: type) -> bool:
    """Whether instances of a class are iterators of Python's own making, found without asking its metaclass."""
    try:
        found = type.__getattribute__(cls, "__iter__")
    except AttributeError:
        return False
    return type(found) is WrapperDescriptorType


class _Begun:
    """An iterator of the user's that was asked for."""

    __slots__ = ("_iterator",)

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator

    def __iter__(self) -> _Begun:
        return self

    @uncounted
    def __next__(self) -> Any:
        return next(self._iterator)
