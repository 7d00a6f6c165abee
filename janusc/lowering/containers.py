"""Which containers beside lists, dicts and tuples are known: sets, deques, counters, and other kinds of dictionary.

None of these is followed item by item. Each is a real object from where it is made, and whatever a program asks of it
is asked at run time; so nothing is assumed of what it holds, and two paths may lead to one of them.
"""

from __future__ import annotations

import collections
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

_MAPPING_READS = frozenset({"get", "keys", "values", "items", "copy"})
_MAPPING_WRITES = frozenset({"update", "pop", "popitem", "setdefault", "clear"})
_SET_READS = frozenset(
    {"union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint", "copy"}
)
_SET_WRITES = frozenset(
    {"add", "discard", "remove", "pop", "clear", "update"}
    | {"difference_update", "intersection_update", "symmetric_difference_update"}
)


@dataclass(frozen=True)
class Methods:
    """What the methods of a class do: which only read, which change their object, which hash an argument or items."""

    reads: AbstractSet[str]
    writes: AbstractSet[str]
    hash_argument: AbstractSet[str] = frozenset()
    take_items: AbstractSet[str] = frozenset()
    compare: AbstractSet[str] = frozenset()
    hash_items: bool = True


_OF_MEMBERS = frozenset({"add", "discard", "remove"})
_OF_MAPPINGS = frozenset({"get", "pop", "setdefault", "move_to_end"})
METHODS: dict[type, Methods] = {
    set: Methods(
        _SET_READS, _SET_WRITES, _OF_MEMBERS, (_SET_READS | _SET_WRITES) - _OF_MEMBERS - {"copy", "pop", "clear"}
    ),
    collections.deque: Methods(
        frozenset({"index", "count", "copy"}),
        frozenset({"append", "appendleft", "pop", "popleft", "extend", "extendleft", "clear", "insert"})
        | {"remove", "reverse", "rotate"},
        take_items=frozenset({"extend", "extendleft"}),
        compare=frozenset({"index", "count", "remove"}),
        hash_items=False,
    ),
    collections.Counter: Methods(
        _MAPPING_READS | {"most_common", "total"},
        _MAPPING_WRITES | {"subtract"},
        _OF_MAPPINGS,
        frozenset({"update", "subtract"}),
        frozenset({"most_common", "total"}),
    ),
    collections.defaultdict: Methods(_MAPPING_READS, _MAPPING_WRITES - {"update"}, _OF_MAPPINGS),
    collections.OrderedDict: Methods(_MAPPING_READS, _MAPPING_WRITES - {"update"} | {"move_to_end"}, _OF_MAPPINGS),
}
"""Every method of these classes that is converted."""

NOTHING = frozenset(
    {"add", "discard", "remove", "clear", "update", "append", "appendleft", "extend", "extendleft", "insert"}
    | {"reverse", "rotate", "subtract", "move_to_end", "difference_update", "intersection_update"}
    | {"symmetric_difference_update"}
)
"""The methods that return None."""

KINDS: tuple[type, ...] = tuple(METHODS)
MAPPINGS: tuple[type, ...] = (collections.Counter, collections.defaultdict, collections.OrderedDict)
FACTORIES: tuple[Any, ...] = (list, dict, set, tuple, int, float, bool, str, collections.deque, collections.Counter)
"""What may make the missing values of a ``defaultdict``: classes that run nobody's code."""


def is_kind(cls: type | None) -> bool:
    """Whether a class is one of these containers, other than ``set``, whose objects may be read by path."""
    return cls is not set and cls in METHODS


def is_truthful(cls: type) -> bool:
    """Whether the truth of an object runs no user code."""
    return cls.__module__ in ("builtins", "torch") or is_kind(cls)


def save_target(kind: type, method: str = "") -> str:
    """What to keep of a container for rollback before a method changes it."""
    if kind is collections.deque:
        return f"deque.{method}" if method in ("append", "pop", "popleft") else "deque"
    if kind is set:
        return "set"
    if kind is list:
        return "list.append" if method in ("append", "extend") else "list"
    return "dict"
