"""The state of the program during lowering: locals of every frame, and own writes to objects, globals and cells.

A slot is a tuple: ("local", frame id, name), ("attr", place id, name), ("global", dict id, name) or ("cell", cell id,
""). Own writes are kept here and read back from here; they reach the real objects at the end of the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from janusc.lowering.abstract import (
    BoundV,
    DictV,
    FunctionV,
    IterableV,
    Known,
    ListV,
    Live,
    MethodV,
    PartsV,
    SliceV,
    SuperV,
    Sym,
    TupleV,
    Unbound,
)

Slot = tuple[str, int, str]


class Store(dict[Slot, Any]):
    """Abstract values by slot; copying it is taking a snapshot."""

    def snapshot(self) -> dict[Slot, Any]:
        return dict(self)

    def restore(self, saved: dict[Slot, Any]) -> None:
        self.clear()
        self.update(saved)

    def changes(self, before: dict[Slot, Any], last_frame: int) -> list[Slot]:
        """Slots set, changed or removed since ``before``, without the locals of frames younger than ``last_frame``."""
        slots = [s for s, v in self.items() if before.get(s) is not v]
        slots += [s for s in before if s not in self]
        return [s for s in slots if s[0] != "local" or s[1] <= last_frame]


def place_of(obj: Any) -> int:
    """The identity of what holds an object's attributes: its ``__dict__``, which two objects may share."""
    state = None if issubclass(type(obj), type) else own_dict(obj)
    return id(obj) if state is None else id(state)


def own_dict(obj: Any) -> dict[str, Any] | None:
    """The ``__dict__`` of an object, or None; no ``__getattribute__`` of the user's runs."""
    try:
        state = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return None
    return state if type(state) is dict else None


_LEAVES = frozenset((Sym, Known, Live))


def is_leaf(abstract: Any) -> bool:
    """Whether nothing is inside an abstract value; most are such."""
    return type(abstract) in _LEAVES or abstract is Unbound


def parts(abstract: Any) -> Iterator[Any]:
    """The abstract values inside one, itself first."""
    if is_leaf(abstract):
        yield abstract
        return
    stack, seen = [abstract], set()
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, (TupleV, PartsV)):
            stack.extend(item.items)
        elif isinstance(item, ListV):
            stack.extend(item.items if item.real is None else [item.real])
        elif isinstance(item, DictV):
            stack.extend(item.items.values() if item.real is None else [item.real])
        elif isinstance(item, IterableV):
            stack.extend(item.operands)
        elif isinstance(item, SliceV):
            stack.extend((item.lower, item.upper, item.step))
        elif isinstance(item, BoundV):
            stack.extend((item.function, item.owner))
        elif isinstance(item, (MethodV, SuperV)):
            stack.append(item.owner)
        elif isinstance(item, FunctionV):
            stack.extend((*item.defaults, *item.kw_defaults))


def holds(abstract: Any, container: Any) -> bool:
    """Whether a container made inside the call would come to hold itself."""
    return isinstance(abstract, (ListV, DictV, TupleV)) and any(p is container for p in parts(abstract))


def map_abstract(abstract: Any, change: Callable[[Sym], Any]) -> Any:
    """The abstract value with ``change`` applied to every symbolic leaf; lists and dicts are changed in place."""
    if isinstance(abstract, Sym):
        return change(abstract)
    if isinstance(abstract, TupleV):
        return TupleV(tuple(map_abstract(x, change) for x in abstract.items))
    if isinstance(abstract, ListV):
        if abstract.real is not None:
            abstract.real = change(abstract.real)
        else:
            abstract.items = [map_abstract(x, change) for x in abstract.items]
    elif isinstance(abstract, DictV):
        if abstract.real is not None:
            abstract.real = change(abstract.real)
        else:
            abstract.items = {k: map_abstract(v, change) for k, v in abstract.items.items()}
    elif isinstance(abstract, IterableV):
        return IterableV(abstract.kind, tuple(map_abstract(x, change) for x in abstract.operands))
    elif isinstance(abstract, SliceV):
        return SliceV(*(map_abstract(x, change) for x in (abstract.lower, abstract.upper, abstract.step)))
    elif isinstance(abstract, BoundV):
        return replace(abstract, owner=map_abstract(abstract.owner, change))
    elif isinstance(abstract, MethodV):
        return replace(abstract, owner=map_abstract(abstract.owner, change))
    return abstract
