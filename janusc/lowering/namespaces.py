"""Dictionaries that hold names: what is an attribute or a global to one statement is an item to another.

``self.total`` is also ``vars(self)["total"]``, ``self._buffers["total"]`` or, of a module, ``globals()["total"]``. An
own write by one of these ways is not seen by a read by the other, so a statement that would do both is refused.
"""

from __future__ import annotations

from typing import Any

import torch

from janusc.lowering import codes
from janusc.lowering.abstract import Known, Live
from janusc.lowering.lowering import Lowering
from janusc.lowering.store import Slot, own_dict

REGISTERED = ("_parameters", "_buffers", "_modules")
ANY_KEY = "*"


def namespaces(slot: Slot, owner: Live) -> list[dict[str, Any]]:
    """The dictionaries that may hold what a slot stands for."""
    sample = owner.sample
    if slot[0] == "global":
        return [sample]
    state = own_dict(sample) if slot[0] == "attr" and not issubclass(type(sample), type) else None
    if state is None:
        return []
    tables = REGISTERED if issubclass(type(sample), torch.nn.Module) else ()
    return [state, *(state[t] for t in tables if type(state.get(t)) is dict)]


def refuse_stale(lo: Lowering, slot: Slot, owner: Live) -> None:
    """A name is not read after its dictionary was changed as such, nor such a dictionary after a name was assigned."""
    if slot[0] == "content":
        for written, holder in lo.holders.items():
            if written in lo.store and any(d is owner.sample for d in namespaces(written, holder)):
                raise lo.refuse(codes.SUBSCRIPT, f"a dictionary of names is used after {written[2]} was assigned")
    elif lo.written_containers:
        for held in namespaces(slot, owner):
            if any(w.sample is held for w in lo.written_containers):
                raise lo.refuse(codes.ATTRIBUTE, f"{slot[2]} is used after the dictionary that holds it was changed")


def note_key(lo: Lowering, owner: Live, key: Any) -> None:
    """Remember which names a change of a dictionary may mean; ``key`` is None where it may be any."""
    names = lo.written_keys.setdefault(owner.value, set())
    if not isinstance(key, Known):
        pytype = getattr(key, "pytype", None)
        if pytype is None or issubclass(pytype, str):
            names.add(ANY_KEY)
    elif isinstance(key.value, str):
        names.add(key.value)
    elif type(key.value).__hash__ is None:
        names.add(ANY_KEY)
