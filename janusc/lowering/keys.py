"""Keys of dictionaries at run time: hashed and compared without code of the user's, or left to Python."""

from __future__ import annotations

from typing import Any

import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import Known, Sym, TupleV
from janusc.lowering.classes import check_lacks, class_function, class_lookup, is_named_tuple
from janusc.lowering.ir import Arg, Tup
from janusc.lowering.lower_object import is_object
from janusc.lowering.lowering import Lowering
from janusc.lowering.members import is_members_class
from janusc.lowering.operands import arg, emit, exact_type, is_plain
from janusc.ordering import HASH_QUERY, hashes_its_fields

_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.Tensor, torch.nn.Parameter)
_IDENTITY = {"__hash__": object.__hash__, "__eq__": object.__eq__}


def ask(lo: Lowering, query: str, given: Arg, part: str, otherwise: str) -> None:
    """An assert that no user code has a say in what is done with some items."""
    site = lo.site(lo.node, part)
    if lo.profile.is_refuted(site):
        raise lo.refuse_call(codes.OPAQUE_CALL, otherwise)
    answer = emit(lo, ops.BUILTIN_READ, query, (given,), True)
    lo.check("true", (answer.value,), site, lo.span())


def holds_plain_fields(lo: Lowering, key: Any) -> bool:
    """Whether a key was made here, of plain values."""
    cls = exact_type(key)
    if cls is None or not isinstance(key, Sym):
        return False
    region, fields = lo.made.get(key.value, (None, {}))
    names = cls._fields if is_named_tuple(cls) else cls.__dict__["__dataclass_fields__"]  # type: ignore[attr-defined]
    return region is lo.builder.regions[-1] and all(name in fields and is_plain(fields[name]) for name in names)


def check_key(lo: Lowering, key: Any) -> None:
    """A key is plain, or an object that is only equal to itself."""
    if isinstance(key, Known) or is_plain(key):
        return
    if isinstance(key, TupleV):
        for item in key.items:
            check_key(lo, item)
        return
    cls = exact_type(key)
    if cls is not None and (issubclass(cls, torch.Tensor) or cls in _PLAIN or is_members_class(cls)):
        return
    if cls is not None and (is_named_tuple(cls) or hashes_its_fields(cls)):
        for name in () if is_named_tuple(cls) else _IDENTITY:
            class_function(lo, cls, name, class_lookup(cls, name))
        if is_named_tuple(cls):
            check_lacks(lo, cls, *_IDENTITY)
        if not holds_plain_fields(lo, key):
            ask(lo, HASH_QUERY, Tup((arg(lo, key),)), "hashes", "a key whose fields decide what they are equal to")
        return
    if cls is not None and (is_object(cls) or issubclass(cls, torch.nn.Module)):
        from janusc.lowering.lower_compare import guard_default

        if any(class_lookup(cls, name) is not own for name, own in _IDENTITY.items()):
            raise lo.refuse(codes.SUBSCRIPT, f"a {cls.__qualname__} as a key, which decides what it is equal to")
        for name in _IDENTITY:
            guard_default(lo, cls, name)
        return
    site = lo.site(lo.node, "key")
    if cls is not None or not isinstance(key, Sym) or lo.profile.is_refuted(site):
        raise lo.refuse(codes.SUBSCRIPT, "a key that is known at run time only")
    lo.check("among", (key.value, Tup(tuple(map(lo.builder.ref, _PLAIN)))), site, lo.span())
