"""The one table type of the package: named entries, each registered once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Registry(Mapping[K, V], Generic[K, V]):
    """A table that refuses a second entry under the same key and knows what it lacks."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._entries: dict[K, V] = {}

    def register(self, key: K, value: V) -> V:
        """Add an entry and return it; a key that is already there raises KeyError."""
        if key in self._entries:
            raise KeyError(f"{self.title}: {key!r} is registered already")
        self._entries[key] = value
        return value

    def missing(self, keys: Iterable[K]) -> list[K]:
        """The keys among ``keys`` that have no entry, in their order."""
        return [key for key in keys if key not in self._entries]

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
