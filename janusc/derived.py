"""Attributes that are worked out when they are first asked for, and kept.

``functools.cached_property`` does the same, but before Python 3.12 it holds a lock meanwhile, one for all objects: in a
child that is forked while another thread has it, nobody would ever let it go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class derived(Generic[T]):
    """A method without arguments as an attribute; two threads may both work it out, and one result is kept."""

    def __init__(self, method: Callable[[Any], T]) -> None:
        self._method = method
        self._name = method.__name__
        self.__doc__ = method.__doc__

    def __get__(self, owner: Any, cls: type | None = None) -> T:
        value = self._method(owner)
        vars(owner).setdefault(self._name, value)
        result: T = vars(owner)[self._name]
        return result
