"""Fixed objects whose operators, truth, hash and text are Python's or torch's own: only those are computed with early.

Enumerations and classes are fixed, too, but a user's class may give them methods of its own: an ``__eq__`` of members,
a metaclass with ``__len__``. Those run when the program says so, once, and never during a conversion.
"""

from __future__ import annotations

import abc
import enum
import types as pytypes
from typing import Any

_METACLASSES = (type, abc.ABCMeta, enum.EnumMeta)
_NESTED = (tuple, list, dict, set, frozenset)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement, or by a C library for itself
_BUILTIN = (pytypes.WrapperDescriptorType, pytypes.MethodDescriptorType, pytypes.BuiltinFunctionType, type(None))
_SAME: Any = object.__eq__
_SPECIAL = tuple(
    f"__{name}__"
    for name in (
        "eq ne lt le gt ge hash bool len str repr format contains getitem iter call index int float complex abs neg "
        "pos invert add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift radd rsub rmul "
        "rtruediv rfloordiv rmod rpow rmatmul rand ror rxor rlshift rrshift getattribute getattr"
    ).split()
)


def is_inert(value: Any) -> bool:
    """Whether computing with a fixed object runs no code of the user's."""
    if issubclass(type(value), enum.Enum):
        return is_plain_enum(type(value))
    if issubclass(type(value), type):
        return type(value) in _METACLASSES or type(value).__module__.partition(".")[0] == "torch"
    if type(value) in (tuple, list, frozenset, set):
        return all(map(is_inert, value))
    if type(value) is dict:
        return all(is_inert(k) and is_inert(v) for k, v in value.items())
    cls = type(value)
    return not cls.__flags__ & _HEAP_TYPE or cls.__module__.partition(".")[0] in ("torch", "typing", "numpy")


def is_plain_enum(cls: type) -> bool:
    """Whether an enumeration leaves to Python's ``enum`` what its members are equal to, true as, and written as."""
    return all(map(_is_builtin, (getattr(cls, name, None) for name in _SPECIAL))) and type(cls) is enum.EnumMeta


def _is_builtin(method: Any) -> bool:
    if isinstance(method, pytypes.FunctionType):
        return method.__module__ == "enum"
    if isinstance(method, pytypes.MethodType):
        return _is_builtin(method.__func__)
    return isinstance(method, (*_BUILTIN, pytypes.MethodWrapperType))


def compares_inertly(container: Any) -> bool:
    """Whether looking for something in a container runs no code of the user's, as far as what it holds has a say."""
    kinds = set(map(type, container))
    nested = kinds.intersection(_NESTED)
    if nested and not all(is_inert(x) for x in container if type(x) in nested):
        return False
    return all(not k.__flags__ & _HEAP_TYPE or k.__eq__ is _SAME or _is_kind_inert(k) for k in kinds)


def _is_kind_inert(kind: type) -> bool:
    if issubclass(kind, enum.Enum):
        return is_plain_enum(kind)
    return kind in _METACLASSES or kind.__module__.partition(".")[0] in ("torch", "numpy")
