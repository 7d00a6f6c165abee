"""Members of enumerations that are known at run time only: compared by identity, asked for their names and values."""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import Any

from janusc.lowering import codes, ops
from janusc.lowering.abstract import UNKNOWN, Known, ListV, Live, Sym, TupleV
from janusc.lowering.classes import class_lookup
from janusc.lowering.examples import derive, note_identity
from janusc.lowering.inert import is_plain_enum
from janusc.lowering.ir import Tup
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import SCALARS, arg, emit, exact_type

_NEVER_EQUAL = (type(None), *SCALARS)
_EQUALITY: Any = object.__eq__


def is_members_class(cls: type | None) -> bool:
    """Whether a class is an enumeration whose members are equal to themselves alone."""
    if cls is None or not issubclass(cls, enum.Enum) or not is_plain_enum(cls):
        return False
    return class_lookup(cls, "__eq__") is _EQUALITY


def compare_members(lo: Lowering, name: str, left: Any, right: Any) -> Any:
    """``==`` and ``!=`` where a side is a member; None where neither is."""
    for member, other in ((left, right), (right, left)):
        cls = exact_type(member)
        if cls is None or not is_members_class(cls) or isinstance(other, Live):
            continue
        if isinstance(other, Sym):
            refuse_other_than_members(lo, other, (cls,))
        elif exact_type(other) not in (cls, *_NEVER_EQUAL):
            return None
        same = "is_" if name == "eq" else "is_not"
        result = emit(lo, ops.OPERATOR, same, (arg(lo, left), arg(lo, right)), False)
        return note_identity(lo, result, same, left, right)
    return None


def is_choice_of_members(container: Any) -> bool:
    """Whether a container is a display of members of enumerations, such as ``(Kind.A, Kind.B)``."""
    if not isinstance(container, (TupleV, ListV)) or getattr(container, "real", None) is not None:
        return False
    fixed = [type(x.value) for x in container.items if isinstance(x, Known)]
    return bool(fixed) and len(fixed) == len(container.items) and all(map(is_members_class, fixed))


def refuse_other_than_members(lo: Lowering, value: Sym, classes: Collection[type]) -> None:
    """A value is a member of one of these classes, or plain and so equal to none."""
    of_class = exact_type(value)
    if of_class in classes or of_class in _NEVER_EQUAL:
        return
    site = lo.site(lo.node, "member")
    if of_class is not None or value.maybe_unbound or lo.profile.is_refuted(site):
        raise lo.refuse(codes.OPERATOR, "a member of an enumeration is compared with an object")
    lo.check("among", (value.value, Tup(tuple(map(lo.builder.ref, (*classes, *_NEVER_EQUAL))))), site, lo.span())


def member_field(lo: Lowering, owner: Sym, name: str) -> Any:
    """The name or value of a member; None where its class has another meaning for it."""
    cls = owner.pytype
    if cls is None or not is_members_class(cls) or class_lookup(cls, name) is not class_lookup(enum.Enum, name):
        return None
    field = f"_{name}_"
    result = emit(lo, ops.READ_ATTR, field, (owner.value,), "" if name == "name" else UNKNOWN)
    return derive(lo, result, lambda member: getattr(member, field), owner)
