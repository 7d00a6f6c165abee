"""Attribute access on every kind of abstract value, after Python's own lookup order; attribute assignment."""

from __future__ import annotations

import enum
import types as pytypes
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from janusc import torch_private
from janusc.lowering import codes, ops
from janusc.lowering.abstract import (
    UNKNOWN,
    BoundV,
    DictV,
    Known,
    ListV,
    Live,
    MethodV,
    SuperV,
    Sym,
    TupleV,
    Unbound,
)
from janusc.lowering.classes import (
    FIELD,
    MISSING,
    check_lacks,
    check_order,
    class_function,
    class_lookup,
    function_under_guard,
    is_module_getattr,
    is_named_tuple,
    overrides,
)
from janusc.lowering.containers import KINDS as CONTAINERS
from janusc.lowering.inert import is_plain_enum
from janusc.lowering.ir import Const
from janusc.lowering.kinds import ChoiceV, PickV, by_kind, choose, classes_met, has_kinds
from janusc.lowering.lower_object import is_object, object_attribute
from janusc.lowering.lower_state import ANY_NAME, check_once, module_entry, note_read, raw_attr, read, write
from janusc.lowering.lowering import Lowering
from janusc.lowering.namespaces import refuse_stale
from janusc.lowering.operands import HOST_VALUES, emit, exact_type, is_literal, lift, sample_of, sample_type
from janusc.lowering.profiled import expect
from janusc.lowering.store import own_dict, place_of
from janusc.typeinfer import callees, torch_table, transfer

_DATA_DESCRIPTORS = (pytypes.MemberDescriptorType, pytypes.GetSetDescriptorType)
_NAMES = ("__name__", "__qualname__", "__module__", "__doc__")


def get_attribute(lo: Lowering, owner: Any, name: str) -> Any:
    if isinstance(owner, (ChoiceV, PickV)):
        return choose(lo, owner, lambda one: get_attribute(lo, one, name))
    if isinstance(owner, Sym):
        if is_object(owner.pytype):
            found = object_attribute(lo, owner, name)
            return found if lo.routines or owner.value in lo.worlds.examples else expect(lo, found)
        return symbolic_attribute(lo, owner, name)
    if isinstance(owner, Live):
        return live_attribute(lo, owner, name)
    if isinstance(owner, Known):
        return known_attribute(lo, owner, name)
    if isinstance(owner, SuperV):
        return super_attribute(lo, owner, name)
    if isinstance(owner, (ListV, DictV, TupleV)):
        return MethodV(owner, name)
    raise lo.refuse(codes.ATTRIBUTE, f"attribute {name} of a {type(owner).__name__}")


def symbolic_attribute(lo: Lowering, owner: Sym, name: str) -> Any:
    if owner.is_tensor:
        if name in torch_table.ATTRIBUTES:
            try:
                sample = transfer.apply(lambda t: getattr(t, name), (sample_of(owner),), {}, lo.grad)
            except transfer.NoSample:
                sample = UNKNOWN
            if name == "device":
                sample = torch.device("cpu")  # as good as any: where stand-ins are, nothing is done by devices
            if name in ("requires_grad", "is_leaf"):  # a write in place may change these
                return emit(lo, ops.READ_ATTR, name, (owner.value,), sample)
            # in a loop sizes may change from turn to turn; the number of dimensions and the dtype seldom do
            stable = name in ("dtype", "ndim", "itemsize", "is_nested") or (name == "shape" and lo.loop_depth == 0)
            return emit(lo, ops.ATTRIBUTE, name, (owner.value,), sample, stable=stable, fresh=owner.fresh)
        if torch_table.is_tensor_method(name) or name in ("requires_grad_", "backward"):
            return MethodV(owner, name)
        raise lo.refuse(codes.ATTRIBUTE, f"tensor attribute {name}")
    if owner.pytype is not None and (owner.pytype in HOST_VALUES or owner.pytype in (list, dict, tuple, *CONTAINERS)):
        if callable(getattr(owner.pytype, name, None)):
            return MethodV(owner, name)
        if owner.pytype is deque and name == "maxlen":
            return emit(lo, ops.READ_ATTR, name, (owner.value,), UNKNOWN)
    if isinstance(owner.sample, tuple) and hasattr(type(owner.sample), "_fields") or is_struct(owner.sample):
        sample = getattr(owner.sample, name, UNKNOWN)  # results such as (values, indices)
        return emit(lo, ops.ATTRIBUTE, name, (owner.value,), sample, fresh=owner.fresh)
    if has_kinds(lo, owner) or (owner.pytype is None and classes_met(lo)):
        return MethodV(owner, name) if _is_method(lo, owner, name) else by_kind(lo, owner, name, _getter(lo, name))
    raise lo.refuse(codes.ATTRIBUTE, f"attribute {name} of a value that is known at run time only")


def _is_method(lo: Lowering, owner: Sym, name: str) -> bool:
    """Whether it is a method that has that name, for any of the kinds."""
    shown = [type(e) for e in lo.worlds.examples.get(owner.value, {}).values()]
    found = [(cls, class_lookup(cls, name)) for cls in [*shown, *classes_met(lo)]]
    known = [(cls, f) for cls, f in found if f is not MISSING]
    return any(isinstance(f, pytypes.FunctionType) if is_object(cls) else callable(f) for cls, f in known)


def _getter(lo: Lowering, name: str) -> Callable[[Any], Any]:
    return lambda one: get_attribute(lo, one, name)


def is_struct(sample: Any) -> bool:
    """Whether this is what a function of torch's returns that gives several tensors, by name."""
    return isinstance(sample, tuple) and type(sample).__module__.startswith("torch.return_types")


def known_attribute(lo: Lowering, owner: Known, name: str) -> Any:
    obj = owner.value
    if isinstance(obj, pytypes.ModuleType):
        if obj is torch_private.NATIVE and lo.frame.is_library and torch_private.is_native(name):
            return Known(getattr(obj, name))
        if name not in vars(obj):  # a module's own __getattr__ is user code
            raise lo.refuse(codes.ATTRIBUTE, f"{obj.__name__} has no attribute {name} of its own")
        if type(obj) is not pytypes.ModuleType and class_lookup(type(obj), name) is not MISSING:
            raise lo.refuse(codes.ATTRIBUTE, f"the class of {obj.__name__} decides what {name} is")
        return fixed_or_read(lo, obj, name, vars(obj)[name])
    if isinstance(obj, type):
        return class_attribute(lo, obj, name)
    if isinstance(obj, (torch.dtype, torch.device)) or type(obj) in HOST_VALUES:
        value = getattr(obj, name, MISSING)
        if value is MISSING:
            raise lo.refuse(codes.ATTRIBUTE, f"attribute {name}")
        return MethodV(owner, name) if callable(value) else Known(value)
    if isinstance(obj, enum.Enum) and class_lookup(type(obj), name) is class_lookup(enum.Enum, name):
        if name in ("value", "name"):
            return enum_field(lo, obj, f"_{name}_")
    if isinstance(obj, enum.Enum) and is_plain_enum(type(obj)):
        return enum_attribute(lo, obj, name)
    return _refuse_attribute(lo, obj, name)


def enum_field(lo: Lowering, member: enum.Enum, name: str) -> Any:
    """The name or value of a member: a literal is fixed, anything else is read."""
    held = getattr(member, name)
    if is_literal(held):
        return Known(held)
    return lift(lo, held, raw_attr(lo, lo.builder.ref(member), name), f"{type(member).__qualname__}.{name}")


def enum_attribute(lo: Lowering, member: enum.Enum, name: str) -> Any:
    """A method, property or own attribute of a member."""
    cls = type(member)
    found = class_lookup(cls, name)
    if isinstance(found, pytypes.FunctionType):
        return BoundV(class_function(lo, cls, name, found), Known(member))
    if isinstance(found, classmethod) and isinstance(found.__func__, pytypes.FunctionType):
        return BoundV(class_function(lo, cls, name, found.__func__), Known(cls))
    if type(found) is property:
        return read_property(lo, Known(member), cls, name, found)
    if found is MISSING and name in member.__dict__:
        held = raw_attr(lo, lo.builder.ref(member), name)
        return lift(lo, member.__dict__[name], held, f"{cls.__qualname__}.{name}")
    return _refuse_attribute(lo, member, name)


def _refuse_attribute(lo: Lowering, obj: Any, name: str) -> Any:
    raise lo.refuse(codes.ATTRIBUTE, f"attribute {name} of {callees.describe(obj)}")


def fixed_or_read(lo: Lowering, module: pytypes.ModuleType, name: str, sample: Any) -> Any:
    """An attribute of a Python module: guarded, except in torch's own files."""
    if (lo.frame.is_library and module is not torch.nn.functional) or (
        module.__name__.split(".")[0] in ("torch", "math") and isinstance(sample, pytypes.ModuleType)
    ):
        return Known(sample)
    slot = ("global", id(vars(module)), name)
    refuse_stale(lo, slot, Live(None, vars(module)))  # type: ignore[arg-type]
    if slot in lo.store and lo.store[slot] is not Unbound:  # an own write, as a global of that module
        return lo.store[slot]
    lo.module_reads.setdefault(name, {})[id(module)] = module
    memo = (id(module), "module", name)
    if memo not in lo.memo:
        if not callees.is_fixed_module(module):  # a lazy module changes its class
            check_once(lo, "type", (lo.builder.ref(module), lo.builder.ref(type(module))), module.__name__)
            check_lacks(lo, type(module), "__getattribute__", name)
        value = lo.builder.guard(ops.READ_ATTR, name, (lo.builder.ref(module),), span=lo.span())
        lo.memo[memo] = lift(lo, sample, value, f"{module.__name__}.{name}")
    return lo.memo[memo]


def class_attribute(lo: Lowering, cls: type, name: str) -> Any:
    """``Class.name``: a function as such, a plain value under guards."""
    if type(cls) is not type and type(type(cls)) is type and class_lookup(type(cls), name) is not MISSING:
        if not isinstance(cls, enum.EnumMeta):
            raise lo.refuse(codes.ATTRIBUTE, f"attribute {name} of a class with a metaclass")
    if name in _NAMES:
        memo = (id(cls), "name", name)
        if memo not in lo.memo:
            value = lo.builder.guard(
                ops.READ_ATTR, name, (lo.builder.ref(cls),), sample_type(getattr(cls, name)), lo.span()
            )
            lo.memo[memo] = lift(lo, getattr(cls, name), value, name)
        return lo.memo[memo]
    found = class_lookup(cls, name)
    if isinstance(cls, enum.EnumMeta) and name in cls._member_map_:
        member = cls._member_map_[name]
        if is_plain_enum(cls):
            return Known(member)
        return lift(lo, member, raw_attr(lo, lo.builder.ref(cls), name), f"{cls.__qualname__}.{name}")
    if found is MISSING:
        raise lo.refuse(codes.ATTRIBUTE, f"{cls.__qualname__} has no attribute {name}")
    if isinstance(found, staticmethod) and not isinstance(found.__func__, pytypes.FunctionType):
        return class_value(lo, cls, name, found.__func__)
    if isinstance(found, (staticmethod, pytypes.FunctionType)):
        return class_function(lo, cls, name, found.__func__ if isinstance(found, staticmethod) else found)
    if isinstance(found, classmethod):
        return BoundV(class_function(lo, cls, name, found.__func__), Known(cls))
    if callees.is_fixed_class(cls):
        return Known(getattr(cls, name))
    if hasattr(type(found), "__get__"):
        raise lo.refuse(codes.ATTRIBUTE, f"descriptor {name}")
    return class_value(lo, cls, name, found)


def class_value(lo: Lowering, cls: type, name: str, sample: Any) -> Any:
    """What a class gives for a name without any binding, under guards of its kind."""
    memo = (id(cls), "class", name)
    if memo not in lo.memo:
        value = lo.builder.guard(ops.READ_ATTR, name, (lo.builder.ref(cls),), span=lo.span())
        lo.memo[memo] = lift(lo, sample, value, f"{cls.__qualname__}.{name}")
    return lo.memo[memo]


def live_attribute(lo: Lowering, owner: Live, name: str) -> Any:
    sample, cls = owner.sample, type(owner.sample)
    slot = ("attr", place_of(sample), name)
    if slot in lo.store:
        note_read(lo, slot, owner)
        return lo.store[slot]
    if cls in lo.set_at_run_time.get(name, ()):  # of this object, for all that is known
        return expect(lo, object_attribute(lo, Sym(owner.value, pytype=cls), name))
    if issubclass(cls, (list, dict, set, tuple)) and cls.__module__ in ("builtins", "collections"):
        return MethodV(owner, name) if class_lookup(cls, name) is not MISSING else _refuse_attribute(lo, sample, name)
    if cls is pytypes.FunctionType:
        own = sample.__dict__
        if name in own and name not in _NAMES:
            note_read(lo, slot, owner)
            return read(lo, raw_attr(lo, owner.value, "__dict__"), "item", name, own[name], name)
        if name not in _NAMES:
            raise lo.refuse(codes.ATTRIBUTE, f"attribute {name} of a function")
        return read(lo, owner.value, "attr", name, getattr(sample, name), name)
    if overrides(cls, "__getattribute__", object):
        raise lo.refuse(codes.ATTRIBUTE, f"{cls.__qualname__} defines __getattribute__")
    check_lacks(lo, cls, "__getattribute__")
    found = class_lookup(cls, name)
    if isinstance(found, property):
        return read_property(lo, owner, cls, name, found)
    if name == "__dict__":
        return read_dict(lo, owner)
    if isinstance(found, _DATA_DESCRIPTORS):
        note_read(lo, slot, owner)
        try:
            held = getattr(sample, name)  # a slot: nothing of the user's runs
        except AttributeError:
            raise lo.refuse(codes.ATTRIBUTE, f"{name} is not set") from None
        return read(lo, owner.value, "attr", name, held, _path(owner, name))
    if type(found) is FIELD and is_named_tuple(cls):
        field = raw_attr(lo, lo.builder.ref(cls), name)
        check_once(lo, "is", (field, lo.builder.ref(found, name)), _path(owner, name))
        return read(lo, owner.value, "attr", name, getattr(sample, name), _path(owner, name))
    own = own_dict(sample) or {}
    if found is not MISSING and hasattr(type(found), "__set__"):
        raise lo.refuse(codes.ATTRIBUTE, f"descriptor {name}")
    if name in own:
        note_read(lo, slot, owner)
        if found is MISSING:
            check_lacks(lo, cls, name)  # a property there would go first
        if issubclass(type(sample), torch.nn.Module):
            return read(lo, raw_attr(lo, owner.value, "__dict__"), "item", name, own[name], _path(owner, name))
        return read(lo, owner.value, "attr", name, own[name], _path(owner, name))
    if found is not MISSING:
        return inherited(lo, owner, cls, name, found)
    return registered(lo, owner, name)


def read_dict(lo: Lowering, owner: Live) -> Any:
    """``vars(obj)`` as a dict: from then on the object's attributes must not change in this transaction."""
    changed = any(slot[:2] == ("attr", place_of(owner.sample)) for slot in lo.written)
    if changed or not hasattr(owner.sample, "__dict__"):
        raise lo.refuse(codes.ATTRIBUTE, "__dict__ of an object that was changed")
    lo.memo[("exposed", place_of(owner.sample), "")] = True
    note_read(lo, ("attr", place_of(owner.sample), ANY_NAME), owner)
    return read(lo, owner.value, "attr", "__dict__", owner.sample.__dict__, _path(owner, "__dict__"))


def _path(owner: Live, name: str) -> str:
    return f"{type(owner.sample).__qualname__}.{name}"


def read_property(lo: Lowering, owner: Any, cls: type, name: str, found: property) -> Any:
    from janusc.lowering.lower_call import call

    return call(lo, BoundV(property_getter(lo, cls, name, found), owner), [], {})


def property_getter(lo: Lowering, cls: type, name: str, found: property) -> Live:
    """The function behind a property, guarded to be the one on the class."""
    if found.fget is None or not isinstance(found.fget, pytypes.FunctionType):
        raise lo.refuse(codes.ATTRIBUTE, f"property {name}")
    memo = (id(cls), "property", name)
    if memo not in lo.memo:
        prop = lo.builder.guard(ops.READ_ATTR, name, (lo.builder.ref(cls),), span=lo.span())
        lo.check("is", (prop, lo.builder.ref(found, name)), f"{cls.__qualname__}.{name}", lo.span())
        value = lo.builder.guard(ops.READ_ATTR, "fget", (prop,), span=lo.span())
        lo.memo[memo] = function_under_guard(lo, value, found.fget, f"{cls.__qualname__}.{name}")
    getter: Live = lo.memo[memo]
    return getter


def not_overridden(lo: Lowering, owner: Live, name: str) -> None:
    """The instance has no attribute of its own under a name that was found on its class."""
    if hasattr(owner.sample, "__dict__"):
        check_once(lo, "absent", (raw_attr(lo, owner.value, "__dict__"), Const(name)), _path(owner, name))


def inherited(lo: Lowering, owner: Live, cls: type, name: str, found: Any) -> Any:
    """Something found on the class: a method to bind, or a value."""
    not_overridden(lo, owner, name)
    note_read(lo, ("attr", place_of(owner.sample), name), owner)
    if isinstance(found, pytypes.FunctionType):
        return BoundV(class_function(lo, cls, name, found), owner)
    if isinstance(found, classmethod):
        return BoundV(class_function(lo, cls, name, found.__func__), Known(cls))
    if not isinstance(found, staticmethod) and hasattr(type(found), "__get__"):
        raise lo.refuse(codes.ATTRIBUTE, f"descriptor {name}")
    return class_attribute(lo, cls, name)


def registered(lo: Lowering, owner: Live, name: str) -> Any:
    """Parameters, buffers and submodules: found by nn.Module's own ``__getattr__``."""
    sample, cls = owner.sample, type(owner.sample)
    if issubclass(type(sample), torch.nn.Module) and is_module_getattr(class_lookup(cls, "__getattr__")):
        for table in ("_parameters", "_buffers", "_modules"):
            entries = sample.__dict__[table]
            if name in entries and type(entries) is dict:
                note_read(lo, ("attr", place_of(sample), name), owner)
                check_lacks(lo, cls, "__getattr__", name)
                not_overridden(lo, owner, name)
                return read(lo, module_entry(lo, owner.value, table), "item", name, entries[name], _path(owner, name))
    raise lo.refuse(codes.ATTRIBUTE, f"{cls.__qualname__} finds {name} dynamically or not at all")


def super_attribute(lo: Lowering, owner: SuperV, name: str) -> Any:
    of_class = isinstance(owner.owner, Known)  # in a class method
    cls = owner.owner.value if of_class else exact_type(owner.owner)
    assert cls is not None
    order = cls.__mro__
    for base in order[order.index(owner.cls) + 1 :]:
        if name in base.__dict__:
            found = base.__dict__[name]
            if base is object and name == "__init__":
                check_order(lo, cls, order.index(owner.cls) + 1, order.index(base), name)
                return Known(found)
            if not isinstance(found, (pytypes.FunctionType, staticmethod, classmethod, property)):
                break
            check_order(lo, cls, order.index(owner.cls) + 1, order.index(base), name)
            if isinstance(found, property):
                if of_class:
                    break
                return read_property(lo, owner.owner, base, name, found)
            if isinstance(found, pytypes.FunctionType):
                method = class_function(lo, base, name, found)
                return method if of_class else BoundV(method, owner.owner)
            if not isinstance(found.__func__, pytypes.FunctionType):
                break
            function = class_function(lo, base, name, found.__func__)
            return function if isinstance(found, staticmethod) else BoundV(function, Known(cls))
    raise lo.refuse(codes.SUPER, f"super().{name} is not a plain method")


# ---- assignment


def set_attribute(lo: Lowering, owner: Any, name: str, abstract: Any) -> None:
    if isinstance(owner, Known) and isinstance(owner.value, type):
        raise lo.refuse(codes.ASSIGNMENT, f"class attribute {name} is assigned")
    if isinstance(owner, Sym) and is_object(owner.pytype):
        from janusc.lowering.lower_instance import set_on_instance

        set_on_instance(lo, owner, name, abstract)
        return
    if not isinstance(owner, Live):
        raise lo.refuse(codes.ASSIGNMENT, f"attribute {name} of a value made inside the call is assigned")
    sample, cls = owner.sample, type(owner.sample)
    if ("exposed", place_of(sample), "") in lo.memo:
        raise lo.refuse(codes.ASSIGNMENT, f"{name} is assigned after __dict__ was read")
    found = class_lookup(cls, name)
    if issubclass(type(sample), torch.nn.Module):
        if overrides(cls, "__setattr__", torch.nn.Module):
            raise lo.refuse(codes.ASSIGNMENT, f"{cls.__qualname__} defines __setattr__")
        if name in sample._parameters or name in sample._modules or isinstance(abstract, Live):
            raise lo.refuse(codes.ASSIGNMENT, f"parameter or submodule {name} is assigned")
        if isinstance(abstract, Sym) and abstract.is_tensor and abstract.pytype is torch.nn.Parameter:
            raise lo.refuse(codes.ASSIGNMENT, f"a parameter is assigned to {name}")
        if name in sample._buffers and not (isinstance(abstract, Sym) and abstract.is_tensor):
            raise lo.refuse(codes.ASSIGNMENT, f"buffer {name} is replaced by something else")
        if name in sample._buffers:
            if torch_private.BUFFER_HOOKS:
                raise lo.refuse(codes.HOOKS, f"hooks see the assignment of the buffer {name}")
            check_once(lo, "empty", (lo.builder.ref(torch_private.BUFFER_HOOKS, "buffer_hooks"),), "hooks on buffers")
            lo.memo.setdefault((owner.value, "buffers", name), live_attribute(lo, owner, name))
    elif overrides(cls, "__setattr__", object):
        raise lo.refuse(codes.ASSIGNMENT, f"{cls.__qualname__} defines __setattr__")
    if isinstance(sample, (type, pytypes.ModuleType, pytypes.FunctionType)):
        raise lo.refuse(codes.ASSIGNMENT, f"attribute {name} of a {cls.__name__} is assigned")
    if found is not MISSING and hasattr(type(found), "__set__") and not isinstance(found, pytypes.MemberDescriptorType):
        raise lo.refuse(codes.ASSIGNMENT, f"{name} is a property or descriptor")
    if name in lo.object_reads:
        raise lo.refuse(codes.ASSIGNMENT, f"{name} is read of objects that are known at run time only")
    write(lo, ("attr", place_of(sample), name), owner, abstract)
