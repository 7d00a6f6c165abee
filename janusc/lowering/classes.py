"""What is found on classes, and the guards that it stays so.

A class can change at any time: a method may get other code, a descriptor or ``__getattr__`` may arrive, a class in
between may get a method. What is read of a class is guarded by identity; what a class lacks is guarded by the
dictionaries of the classes that the user wrote. Torch's own classes are taken as they are, but for their methods.
"""

from __future__ import annotations

import ast
import collections
import types as pytypes
import weakref
from typing import Any

import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import BoundV, Live
from janusc.lowering.ir import Const
from janusc.lowering.lower_state import check_once, raw_attr
from janusc.lowering.lowering import Lowering
from janusc.typeinfer import callees, torch_table

MISSING: Any = object()
_PLAIN_LOOKUPS = (
    pytypes.SimpleNamespace,
    BaseException,
    tuple,
    ast.AST,
)  # written in C, and look up attributes as object does


def class_lookup(cls: type, name: str) -> Any:
    """The attribute as it stands in the class dictionaries, or MISSING; no descriptor runs."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def overrides(cls: type, name: str, base: type) -> bool:
    """Whether a class has a method other than the one it would inherit from ``base``, or a builtin's spelling of it."""
    return all(getattr(cls, name) is not getattr(plain, name) for plain in (base, *_PLAIN_LOOKUPS))


def has_plain_class(obj: Any) -> bool:
    """Whether ``obj.__class__`` is the type of the object, which ``isinstance`` asks for too."""
    cls = type(obj)
    return class_lookup(cls, "__class__") is object.__dict__["__class__"] and cls not in weakref.ProxyTypes


def check_lacks(lo: Lowering, cls: type, *names: str) -> None:
    """The class still has none of these attributes: objects that decide nothing themselves may learn to."""
    for base in cls.__mro__:
        if callees.is_fixed_class(base):
            continue
        for name in names:
            if name not in base.__dict__:
                entries = raw_attr(lo, lo.builder.ref(base), "__dict__")
                check_once(lo, "absent", (entries, Const(name)), f"{base.__qualname__}.{name}")


def check_order(lo: Lowering, cls: type, first: int, last: int, name: str) -> None:
    """Between two places of the method resolution order, no class has got the name, and the last is still there."""
    order = cls.__mro__
    for base in order[first:last]:
        if not callees.is_fixed_class(base):
            entries = raw_attr(lo, lo.builder.ref(base), "__dict__")
            check_once(lo, "absent", (entries, Const(name)), f"{base.__qualname__}.{name}")
    memo = (id(cls), "order", last)
    if memo not in lo.memo:
        lo.memo[memo] = True
        bases = raw_attr(lo, lo.builder.ref(cls), "__mro__")
        held = lo.builder.guard(ops.READ_ITEM, "", (bases, Const(last)), span=lo.span())
        lo.check("is", (held, lo.builder.ref(order[last])), f"the bases of {cls.__qualname__}", lo.span())


def class_function(lo: Lowering, cls: type, name: str, function: Any) -> Any:
    """A method as found on its class: guarded once, by identity and by its code, which may be swapped in place."""
    memo = (id(cls), "method", name)
    if memo not in lo.memo:
        value = lo.builder.guard(ops.READ_ATTR, name, (lo.builder.ref(cls),), span=lo.span())
        raw = class_lookup(cls, name)
        if isinstance(raw, classmethod):
            value = lo.builder.guard(ops.READ_ATTR, "__func__", (value,), span=lo.span())
        path = f"{cls.__qualname__}.{name}"
        lo.check("is", (value, lo.builder.ref(function)), path, lo.span())
        lo.memo[memo] = function_under_guard(lo, value, function, path)
    return lo.memo[memo]


def function_under_guard(lo: Lowering, value: Any, function: Any, path: str) -> Live:
    """A function that is known by identity; the user's own also by its code."""
    library = torch_table.is_torch_code(getattr(function, "__code__", None) or _NO_CODE)
    if isinstance(function, pytypes.FunctionType) and not library:
        code = lo.builder.guard(ops.READ_ATTR, "__code__", (value,), span=lo.span())
        lo.check("is", (code, lo.builder.ref(function.__code__, function.__name__ + "_code")), path, lo.span())
    return Live(value, function, fixed=library)


_NO_CODE = (lambda: None).__code__


def special_method(lo: Lowering, owner: Live, name: str) -> Any:
    """A special method for a call by syntax: Python looks at the class alone. None where it is no plain function."""
    cls = type(owner.sample)
    found = class_lookup(cls, name)
    if not isinstance(found, pytypes.FunctionType):
        return None
    if type(cls) is not type and overrides(type(cls), "__getattribute__", type):
        raise lo.refuse(codes.ATTRIBUTE, f"{name} of a class with a metaclass")
    return BoundV(class_function(lo, cls, name, found), owner)


MODULE_CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.ParameterList)


def keeps_method(lo: Lowering, cls: type, name: str, bases: tuple[type, ...]) -> bool:
    """Whether a class has a special method as one of torch's containers has it; guarded to stay so."""
    found = class_lookup(cls, name)
    if not any(issubclass(cls, base) and found is class_lookup(base, name) for base in bases):
        return False
    check_lacks(lo, cls, name)
    return True


FIELD: type = type(collections.namedtuple("_Example", "field").field)  # type: ignore[attr-defined]
"""The class of what reads a field of a named tuple."""

_OF_TUPLES = ("__getitem__", "__iter__", "__len__", "__contains__", "__eq__", "__hash__", "__add__", "__mul__")


def is_named_tuple(cls: type) -> bool:
    """Whether a class is a named tuple that leaves to ``tuple`` how it is taken apart."""
    if not issubclass(cls, tuple) or type(cls) is not type or not isinstance(class_lookup(cls, "_fields"), tuple):
        return False
    return class_lookup(cls, "__bool__") is MISSING and all(getattr(cls, n) is getattr(tuple, n) for n in _OF_TUPLES)


def is_sequence(lo: Lowering, owner: Live, *names: str) -> bool:
    """Whether an object is a list or tuple, or a named tuple whose class has, and gets, none of these methods."""
    cls = type(owner.sample)
    if cls in (list, tuple):
        return True
    if not is_named_tuple(cls):
        return False
    check_lacks(lo, cls, *names)
    return True


def is_module_getattr(found: Any) -> bool:
    """Whether this is nn.Module's own way to find parameters, buffers and submodules."""
    return found is torch.nn.Module.__dict__["__getattr__"]
