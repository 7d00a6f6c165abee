"""Attributes of objects that are known at run time only: read in the body, after Python's own lookup order.

The class is certain, by an assert, and what the class has under the name is guarded; the object's own is read when it
is needed, and nothing of the user's runs unseen.
"""

from __future__ import annotations

import enum
import types as pytypes
from typing import Any

import torch

from janusc.lowering import codes, examples, ops
from janusc.lowering.abstract import BoundV, Known, MethodV, Sym
from janusc.lowering.classes import (
    FIELD,
    MISSING,
    check_lacks,
    class_function,
    class_lookup,
    is_named_tuple,
    overrides,
)
from janusc.lowering.containers import is_kind
from janusc.lowering.ir import Const
from janusc.lowering.lower_state import check_once, raw_attr
from janusc.lowering.lowering import Lowering
from janusc.types import ANY, HostType

_SLOTS = (pytypes.MemberDescriptorType,)


def is_object(cls: type | None) -> bool:
    """Whether values of a class are user objects with attributes of their own."""
    if cls is None or cls.__module__ in ("builtins", "torch") or is_kind(cls):
        return False
    return not issubclass(cls, (torch.Tensor, torch.nn.Module))


def is_plain_class(cls: type) -> bool:
    """Whether objects of a class are no more than their attributes: no numbers, tuples or members of enumerations."""
    return not issubclass(cls, enum.Enum) and all(base is object or is_object(base) for base in cls.__mro__)


def object_attribute(lo: Lowering, owner: Sym, name: str) -> Any:
    """``owner.name`` for an object of a certain class."""
    from janusc.lowering.lower_attr import property_getter
    from janusc.lowering.lower_call import call

    cls = owner.pytype
    assert cls is not None
    if name in ("name", "value") and issubclass(cls, enum.Enum):
        from janusc.lowering.members import member_field

        field = member_field(lo, owner, name)
        if field is not None:
            return field
    if overrides(cls, "__getattribute__", object) or class_lookup(cls, "__getattr__") is not MISSING:
        raise lo.refuse(codes.ATTRIBUTE, f"{cls.__qualname__} finds its attributes itself")
    check_lacks(lo, cls, "__getattribute__", "__getattr__")
    found = class_lookup(cls, name)
    if name == "_replace" and is_named_tuple(cls):
        return MethodV(owner, name)
    if isinstance(found, property):
        return call(lo, BoundV(property_getter(lo, cls, name, found), owner), [], {})
    if isinstance(found, (pytypes.FunctionType, staticmethod, classmethod)):
        check_not_overridden(lo, owner, name)
        if isinstance(found, pytypes.FunctionType):
            return BoundV(class_function(lo, cls, name, found), owner)
        function = class_function(lo, cls, name, found.__func__)
        return function if isinstance(found, staticmethod) else BoundV(function, Known(cls))
    from janusc.lowering.lower_instance import given

    held = given(lo, owner, name)
    if held is not None:
        return held
    if is_named_tuple(cls):
        if type(found) is FIELD:
            check_once(lo, "is", (raw_attr(lo, lo.builder.ref(cls), name), lo.builder.ref(found, name)), name)
            return Sym(lo.builder.one(ops.READ_ATTR, name, owner.value, span=lo.span()))
    check_plain(lo, cls, name, found)
    if not owner.fresh and any(slot[0] == "attr" and slot[2] == name for slot in lo.written):
        raise lo.refuse(codes.ATTRIBUTE, f"{name} of an object that may have been changed")
    lo.object_reads.add(name)
    (value,) = lo.builder.emit(ops.READ_ATTR, name, (owner.value,), (), (ANY,), lo.span())
    shown = examples.of(lo, owner)
    lo.worlds.note(value, {w: getattr(e, name) for w, e in shown.items() if type(e) is cls and hasattr(e, name)})
    return Sym(value)


def check_plain(lo: Lowering, cls: type, name: str, found: Any) -> None:
    """What the class has under a name, nothing or a plain value or a slot, is still that."""

    if found is MISSING:
        check_lacks(lo, cls, name)
        return
    if not isinstance(found, _SLOTS) and hasattr(type(found), "__get__"):
        raise lo.refuse(codes.ATTRIBUTE, f"descriptor {name}")
    if isinstance(found, (torch.Tensor, torch.nn.Module)):
        raise lo.refuse(codes.ATTRIBUTE, f"{name} is a tensor or module of the class")
    memo = (id(cls), "plain", name)
    if memo not in lo.memo:
        lo.memo[memo] = True
        value = lo.builder.guard(ops.READ_ATTR, name, (lo.builder.ref(cls),), ANY, lo.span())
        expected = Const(found) if found is None or isinstance(found, bool) else lo.builder.ref(found)
        lo.check("is", (value, expected), f"{cls.__qualname__}.{name}", lo.span())


def check_not_overridden(lo: Lowering, owner: Sym, name: str) -> None:
    """The object has no attribute of its own under the name of a method."""
    cls = owner.pytype
    if cls is None or not any("__dict__" in base.__dict__ for base in cls.__mro__):
        return  # slots only
    (own,) = lo.builder.emit(ops.READ_ATTR, "__dict__", (owner.value,), (), (HostType("dict"),), lo.span())
    lo.check("absent", (own, Const(name)), f"{cls.__qualname__}.{name}", lo.span())
