"""Objects of the user's classes that are made in the call: real from the start, their attributes set at once.

A dataclass or named tuple is made by its class, whose code nobody wrote; of any other class an empty object is made
first, on which ``__init__`` is looked into like any method. What such an object was given is known in the region it was
made in, until an attribute of that name is set elsewhere.
"""

from __future__ import annotations

import abc
import dataclasses
import inspect
import types as pytypes
from typing import Any

import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import UNKNOWN, BoundV, Known, Live, Sym
from janusc.lowering.classes import MISSING, check_lacks, class_function, class_lookup, is_named_tuple, overrides
from janusc.lowering.containers import FACTORIES
from janusc.lowering.ir import Arg, Const
from janusc.lowering.lower_builtin import builtin
from janusc.lowering.lower_object import check_plain, is_plain_class
from janusc.lowering.lower_state import refuse_iterator
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import escape, exact_type

_NEW: Any = object.__dict__["__new__"]
_INIT: Any = object.__dict__["__init__"]
WRITTEN = "<string>"  # the file of what ``dataclass`` writes
_PLAIN_METACLASSES = (type, abc.ABCMeta)


def is_made_here(cls: type) -> bool:
    """Whether an object of a class can be made in a graph: by no code of the user's but ``__init__``."""
    if type(cls) not in _PLAIN_METACLASSES or class_lookup(cls, "__del__") is not MISSING:
        return False
    if is_named_tuple(cls):
        return _is_generated_new(class_lookup(cls, "__new__")) and class_lookup(cls, "__init__") is _INIT
    if not is_plain_class(cls) or cls.__module__.partition(".")[0] in ("torch", "collections", "typing", "types"):
        return False
    return class_lookup(cls, "__new__") is _NEW and not issubclass(cls, (BaseException, torch.nn.Module))


def _is_generated_new(found: Any) -> bool:
    function = found.__func__ if isinstance(found, staticmethod) else found
    names = function.__globals__ if isinstance(function, pytypes.FunctionType) else {}
    return bool(names.get("__name__", "").startswith("namedtuple_"))


def make_instance(lo: Lowering, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Sym:
    """``cls(*args, **kwargs)``."""
    check_lacks(lo, cls, "__del__", *(() if is_named_tuple(cls) else ("__new__",)))
    init = class_lookup(cls, "__init__")
    if is_named_tuple(cls) or init is _INIT:
        return called(lo, cls, args, kwargs)
    if not isinstance(init, pytypes.FunctionType):
        raise lo.refuse_call(codes.OPAQUE_CALL, f"a call of {cls.__qualname__}, which has an __init__ of its own kind")
    check_setter(lo, cls)
    function = class_function(lo, cls, "__init__", init)
    if is_generated_init(cls, init):
        for field in dataclasses.fields(cls):
            check_plain(lo, cls, field.name, class_lookup(cls, field.name))
        after = class_lookup(cls, "__post_init__")
        if after is MISSING:
            check_lacks(lo, cls, "__post_init__")
            return called(lo, cls, args, kwargs, init)
        return made_by_parts(lo, cls, function, after, args, kwargs)
    made = new(lo, ops.MAKE, "__new__", (lo.builder.ref(cls),), cls)
    from janusc.lowering.lower_call import call

    call(lo, BoundV(function, made), args, kwargs)
    return made


def made_by_parts(lo: Lowering, cls: type, init: Live, after: Any, args: list[Any], kwargs: dict[str, Any]) -> Sym:
    """A dataclass whose ``__post_init__`` is the user's: the fields as ``__init__`` sets them, then that."""
    from janusc.lowering.lower_call import call, function_defaults

    fields = dataclasses.fields(cls)
    if not isinstance(after, pytypes.FunctionType) or len(fields) != len(cls.__dict__["__dataclass_fields__"]):
        raise lo.refuse_call(codes.OPAQUE_CALL, f"a call of {cls.__qualname__}, which is given more than its fields")
    signature = inspect.signature(init.sample)
    bound = bind(lo, cls, signature, args, kwargs)
    count, positional, _, keyword = function_defaults(lo, init, False)
    parameters = list(signature.parameters.values())[1:]
    ordered = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    made = new(lo, ops.MAKE, "__new__", (lo.builder.ref(cls),), cls)
    for field in fields:
        if field.name in bound:
            value = bound[field.name]
        elif field.default_factory is not dataclasses.MISSING:
            value = call(lo, Known(field.default_factory), [], {})
        elif not field.init:
            raise lo.refuse_call(codes.OPAQUE_CALL, f"a call of {cls.__qualname__}, with a field that it is not given")
        elif field.name in ordered:
            value = positional(ordered.index(field.name) - len(ordered) + count)
        else:
            value = keyword(field.name)
        set_on_instance(lo, made, field.name, value)
    call(lo, BoundV(class_function(lo, cls, "__post_init__", after), made), [], {})
    return made


def bind(lo: Lowering, cls: type, signature: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by the names of the parameters."""
    try:
        bound = signature.bind(None, *args, **kwargs)
    except TypeError:
        raise lo.refuse(codes.RAISES, f"{cls.__qualname__} gets other arguments") from None
    return dict(list(bound.arguments.items())[1:])


def check_setter(lo: Lowering, cls: type) -> None:
    """Attributes are set as ``object`` sets them; a frozen dataclass sets its own so, and nobody else sets any."""
    setter = class_lookup(cls, "__setattr__")
    if not overrides(cls, "__setattr__", object):
        check_lacks(lo, cls, "__setattr__")
    elif isinstance(setter, pytypes.FunctionType) and setter.__code__.co_filename == WRITTEN and is_frozen(cls):
        class_function(lo, cls, "__setattr__", setter)
    else:
        raise lo.refuse_call(codes.OPAQUE_CALL, f"a call of {cls.__qualname__}, which defines __setattr__")


def is_frozen(cls: type) -> bool:
    params = cls.__dict__.get("__dataclass_params__")
    return params is not None and bool(params.frozen)


def is_generated_init(cls: type, init: Any) -> bool:
    """Whether ``__init__`` is what ``dataclass`` has written, and calls nobody."""
    params = cls.__dict__.get("__dataclass_params__")
    if params is None or not params.init or init.__code__.co_filename != WRITTEN:
        return False
    factories = [f.default_factory for f in cls.__dict__["__dataclass_fields__"].values()]
    return all(f is dataclasses.MISSING or any(f is known for known in FACTORIES) for f in factories)


def called(lo: Lowering, cls: type, args: list[Any], kwargs: dict[str, Any], init: Any = None) -> Sym:
    """The object that a call of the class makes."""
    for value in [*args, *kwargs.values()]:
        refuse_iterator(lo, value)
    operands = tuple(escape(lo, a) for a in args)
    named = tuple((k, escape(lo, v)) for k, v in kwargs.items())
    made = new(lo, ops.MAKE, "", (lo.builder.ref(cls), *operands), cls, named)
    if init is not None or is_named_tuple(cls):
        fields = bind(lo, cls, inspect.signature(init or cls.__new__), args, kwargs)
    elif args or kwargs:
        raise lo.refuse(codes.RAISES, f"TypeError: {cls.__qualname__} takes no arguments")
    else:
        fields = {}
    known = {f.name for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set(fields)
    lo.made[made.value] = lo.builder.regions[-1], {name: v for name, v in fields.items() if name in known}
    return made


def new(
    lo: Lowering, op: Any, target: str, args: tuple[Arg, ...], cls: type, kwargs: tuple[tuple[str, Arg], ...] = ()
) -> Sym:
    (value,) = lo.builder.emit(op, target, args, kwargs, span=lo.span())
    lo.made[value] = lo.builder.regions[-1], {}
    return Sym(value, UNKNOWN, fresh=True, pytype=cls)


def given(lo: Lowering, owner: Sym, name: str) -> Any:
    """What an object made in this region was given under a name; None where that is not known."""
    region, fields = lo.made.get(owner.value, (None, {}))
    return fields.get(name) if region is lo.builder.regions[-1] else None


def set_on_instance(lo: Lowering, owner: Sym, name: str, abstract: Any) -> None:
    """``owner.name = abstract`` of an object made in the call, or older and known at run time only."""
    cls = owner.pytype
    assert cls is not None
    if overrides(cls, "__setattr__", object) or any(memo[0] == "exposed" for memo in lo.memo):  # a frozen one, too
        raise lo.refuse(codes.ASSIGNMENT, f"attribute {name} of an object that is known at run time only is assigned")
    refuse_iterator(lo, abstract)
    check_lacks(lo, cls, "__setattr__")
    check_plain(lo, cls, name, class_lookup(cls, name))
    if not owner.fresh:
        lo.set_at_run_time.setdefault(name, set()).add(cls)
        lo.builder.emit(ops.SAVE, "object.attr", (owner.value, Const(name)), (), (), lo.span())
    lo.builder.emit(ops.SET_ATTR, name, (owner.value, escape(lo, abstract)), (), (), lo.span())
    for _, fields in lo.made.values():
        fields.pop(name, None)
    if given_here := lo.made.get(owner.value):
        region, fields = given_here
        if region is lo.builder.regions[-1]:
            fields[name] = abstract


@builtin(dataclasses.replace)
def lower_replace(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A copy of a dataclass with other values: its own fields, read, and the class called."""
    cls = exact_type(args[0]) if len(args) == 1 else None
    fields = cls.__dict__.get("__dataclass_fields__") if cls is not None else None
    if cls is None or fields is None or not is_made_here(cls) or not all(f.init for f in fields.values()):
        raise lo.refuse_call(codes.OPAQUE_CALL, "dataclasses.replace of something else than a plain dataclass")
    if len(dataclasses.fields(cls)) != len(fields):  # some are of the class, or for making it only
        raise lo.refuse_call(codes.OPAQUE_CALL, "dataclasses.replace of a class with other than plain fields")
    return with_values(lo, cls, args[0], list(fields), kwargs)


def replaced(lo: Lowering, owner: Any, values: dict[str, Any]) -> Any:
    """``owner._replace(...)`` of a named tuple."""
    cls = exact_type(owner)
    if cls is None or not is_named_tuple(cls) or not is_made_here(cls):
        raise lo.refuse_call(codes.METHOD, "_replace of something else than a named tuple")
    return with_values(lo, cls, owner, list(cls._fields), values)  # type: ignore[attr-defined]


def with_values(lo: Lowering, cls: type, owner: Any, fields: list[str], values: dict[str, Any]) -> Any:
    from janusc.lowering.lower_attr import get_attribute

    if not values.keys() <= set(fields):
        raise lo.refuse(codes.RAISES, f"{cls.__qualname__} has no such field")
    held = {name: values[name] if name in values else get_attribute(lo, owner, name) for name in fields}
    return make_instance(lo, cls, [], held)


@builtin(object.__init__)
def lower_object_init(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``super().__init__()`` of a class without other bases."""
    if args or kwargs:
        raise lo.refuse(codes.RAISES, "TypeError: object.__init__ takes no arguments")
    return Known(None)
