"""What a program asks about its objects: ``isinstance``, ``type``, ``callable``, ``getattr``, ``hasattr``."""

from __future__ import annotations

import types as pytypes
from typing import Any

import torch

from janusc.lowering import codes, examples, ops
from janusc.lowering.abstract import (
    BoundV,
    FunctionV,
    Known,
    Live,
    Sym,
    TupleV,
)
from janusc.lowering.classes import (
    MISSING,
    check_lacks,
    class_lookup,
    has_plain_class,
    is_module_getattr,
    overrides,
)
from janusc.lowering.lower_builtin import builtin
from janusc.lowering.lower_object import is_object
from janusc.lowering.lower_state import note_read
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import arg, emit, exact_type
from janusc.lowering.store import own_dict, place_of
from janusc.typeinfer import callees
from janusc.types import HostType


@builtin(isinstance)
def lower_isinstance(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    value, classes = args
    if isinstance(classes, TupleV):
        classes = Known(tuple(c.value if isinstance(c, Known) else None for c in classes.items))
    if not isinstance(classes, Known) or classes.value is None:
        raise lo.refuse_call(codes.OPAQUE_CALL, "isinstance with classes that vary")
    pytype = exact_type(value)
    if pytype is None:
        result = emit(lo, ops.BUILTIN, "isinstance", (arg(lo, value), arg(lo, classes)), False)
        return note_isinstance(lo, result, value, classes.value)
    wanted = classes.value if isinstance(classes.value, tuple) else (classes.value,)
    if all(isinstance(c, type) for c in wanted) and all(map(decides_plainly, wanted)) and _says_its_class(value):
        if pytype is torch.Tensor and torch.nn.Parameter in wanted:  # a tensor can be marked as one
            return emit(lo, ops.BUILTIN, "isinstance", (arg(lo, value), arg(lo, classes)), False)
        return Known(any(_is_instance(lo, pytype, c) for c in wanted))
    raise lo.refuse_call(codes.OPAQUE_CALL, "isinstance of a class that decides itself")


_TENSOR_CLASSES = (torch.Tensor, torch.nn.Parameter)


def note_isinstance(lo: Lowering, result: Sym, value: Any, classes: Any) -> Sym:
    """The outcomes for the examples of the value."""
    wanted = classes if isinstance(classes, tuple) else (classes,)
    if all(isinstance(c, type) for c in wanted) and all(map(decides_plainly, wanted)):
        found = {w: e for w, e in examples.of(lo, value).items() if has_plain_class(e)}
        lo.worlds.note(result.value, {w: issubclass(type(e), wanted) for w, e in found.items()})
        if len(wanted) == 1 and isinstance(value, Sym):
            lo.worlds.tested[result.value] = value.value, wanted[0]
    return result


def decides_plainly(cls: type) -> bool:
    """Whether ``isinstance`` asks nobody: no metaclass of the user's has a say."""
    if cls in _TENSOR_CLASSES or cls.__module__ in ("collections.abc", "numbers"):
        return True
    return not overrides(type(cls), "__instancecheck__", type) and not overrides(type(cls), "__subclasscheck__", type)


def _says_its_class(value: Any) -> bool:
    return has_plain_class(value.sample if isinstance(value, Live) else getattr(value, "value", None))


def _is_instance(lo: Lowering, pytype: type, cls: type) -> bool:
    """The answer for a plain class, guarded where the bases of the user's own class give it."""
    answer = issubclass(pytype, cls)
    if pytype is not cls and not callees.is_fixed_class(pytype):
        memo = (id(pytype), "subclass", id(cls))
        if memo not in lo.memo:
            lo.memo[memo] = True
            refs = lo.builder.ref(pytype), lo.builder.ref(cls)
            found = lo.builder.guard(ops.BUILTIN_READ, "issubclass", refs, HostType("bool"), lo.span())
            lo.check("true" if answer else "false", (found,), f"the bases of {pytype.__qualname__}", lo.span())
    return answer


@builtin(type)
def lower_type(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    pytype = exact_type(args[0]) if len(args) == 1 else None
    if pytype is None and len(args) == 1 and isinstance(args[0], Sym):
        result = Sym(lo.builder.one(ops.BUILTIN, "type", arg(lo, args[0]), span=lo.span()))
        lo.worlds.note(result.value, {w: type(e) for w, e in examples.of(lo, args[0]).items()})
        return result
    if pytype is None:
        raise lo.refuse_call(codes.OPAQUE_CALL, "type of a value that varies")
    return Known(pytype)


@builtin(id)
def lower_id(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Of an object from before the call: one that is made in a graph need not be where eager's would be."""
    if len(args) != 1 or not (isinstance(args[0], Live) or _is_older(args[0])):
        raise lo.refuse_call(codes.OPAQUE_CALL, "id of a value that varies")
    return emit(lo, ops.BUILTIN, "id", (arg(lo, args[0]),), 1)


def _is_older(value: Any) -> bool:
    """Whether an object is not known to be made in the call."""
    return is_object(exact_type(value)) and not getattr(value, "fresh", False)


@builtin(callable)
def lower_callable(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if isinstance(args[0], (FunctionV, BoundV)):
        return Known(True)
    pytype = exact_type(args[0])
    if pytype is None:
        raise lo.refuse_call(codes.OPAQUE_CALL, "callable of a value that varies")
    if isinstance(args[0], Known):
        return Known(callable(args[0].value))
    found = class_lookup(pytype, "__call__") is not MISSING
    if not found:
        check_lacks(lo, pytype, "__call__")
    return Known(found)


@builtin(getattr)
def lower_getattr(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    from janusc.lowering.lower_attr import get_attribute
    from janusc.lowering.lowering import Unconvertible
    from janusc.lowering.truth import concretise

    if isinstance(args[1], Sym):
        args = [args[0], concretise(lo, args[1]), *args[2:]]
    if not (isinstance(args[1], Known) and isinstance(args[1].value, str)):
        raise lo.refuse_call(codes.OPAQUE_CALL, "getattr with a name that varies")
    if len(args) == 2:
        return get_attribute(lo, args[0], args[1].value)
    if isinstance(args[0], Live) and not has_statically(lo, args[0], args[1].value):
        present = lower_hasattr(lo, args[:2], {})
        if isinstance(present, Known):  # written in this transaction
            return get_attribute(lo, args[0], args[1].value)
        lo.check("false", (present.value,), f"{args[1].value} is missing", lo.span())
        return args[2]
    try:
        return get_attribute(lo, args[0], args[1].value)
    except Unconvertible:
        raise lo.refuse_call(codes.OPAQUE_CALL, f"getattr of {args[1].value} with a default") from None


def has_statically(lo: Lowering, owner: Live, name: str) -> bool:
    """Whether an object has an attribute, found without running anything; objects that decide it are refused."""
    sample, cls = owner.sample, type(owner.sample)
    found, dynamic = class_lookup(cls, name), class_lookup(cls, "__getattr__")
    plain = dynamic is MISSING or is_module_getattr(dynamic)
    own = own_dict(sample) or {}
    runs = hasattr(type(found), "__get__") and not isinstance(found, (pytypes.FunctionType, staticmethod, classmethod))
    if not plain or runs or overrides(cls, "__getattribute__", object) or not hasattr(cls, "__dict__"):
        raise lo.refuse_call(codes.OPAQUE_CALL, "an object that decides itself what it has")
    check_lacks(lo, cls, "__getattribute__", *(() if dynamic is not MISSING else ("__getattr__",)))
    if issubclass(type(sample), torch.nn.Module) and any(
        name in own[t] for t in ("_parameters", "_buffers", "_modules")
    ):
        return True
    return found is not MISSING or name in own


@builtin(hasattr)
def lower_hasattr(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Asked at run time, in the guards; own writes count."""
    owner, name = args
    if not (isinstance(owner, Live) and isinstance(name, Known) and isinstance(name.value, str)):
        raise lo.refuse_call(codes.OPAQUE_CALL, "hasattr of something else than an object and a fixed name")
    slot = ("attr", place_of(owner.sample), name.value)
    note_read(lo, slot, owner)
    if slot in lo.store:
        return Known(True)
    sample = has_statically(lo, owner, name.value)
    memo = (owner.value, "hasattr", name.value)
    if memo not in lo.memo:
        args = [owner.value, arg(lo, name)]
        answer = lo.builder.guard(ops.BUILTIN_READ, "hasattr", tuple(args), HostType("bool"), lo.span())
        lo.memo[memo] = Sym(answer, sample, stable=True, pytype=bool)
    return lo.memo[memo]
