"""Sets, deques, counters and other dictionaries: made, asked and changed at run time, see ``containers``."""

from __future__ import annotations

import collections
import types
from dataclasses import replace
from typing import Any

import gast

from janusc import ordering
from janusc.lowering import codes, ops
from janusc.lowering.abstract import UNKNOWN, IterableV, Known, Live, Sym, TupleV
from janusc.lowering.containers import FACTORIES, KINDS, MAPPINGS, METHODS, NOTHING
from janusc.lowering.ir import Arg, Tup
from janusc.lowering.iterate import static_items
from janusc.lowering.keys import ask, check_key
from janusc.lowering.lower_builtin import builtin
from janusc.lowering.lower_state import note_read
from janusc.lowering.lowering import Lowering, expression
from janusc.lowering.mutation import change, refuse_foreign
from janusc.lowering.operands import aged, arg, emit, escape, exact_type, is_plain, missing_value, sym, typed_item

_MANY = (list, tuple, dict, str, range, *KINDS)
_QUESTIONS = frozenset({"issubset", "issuperset", "isdisjoint"})
_COUNTS = frozenset({"index", "count", "total"})


# ---- made inside the call


def made(lo: Lowering, cls: type, args: tuple[Arg, ...], element: Any = None, **kwargs: Arg) -> Sym:
    """A new container, as the call of its class makes it."""
    name = cls.__name__ if cls is set else f"collections.{cls.__name__}"
    result = emit(lo, ops.BUILTIN_READ, name, args, UNKNOWN, kwargs=tuple(kwargs.items()))
    return Sym(result.value, UNKNOWN, fresh=True, pytype=cls, element=element)


@expression(gast.Set)
def lower_set(lo: Lowering, node: Any) -> Any:
    from janusc.lowering.lower_expr import display_items

    if any(isinstance(element, gast.Starred) for element in node.elts):
        raise lo.refuse(codes.STAR, "a set display with a star")  # in which order its members come depends on it
    items = TupleV(tuple(display_items(lo, node.elts)))
    if len(node.elts) > 2 and all(isinstance(element, gast.Constant) for element in node.elts):
        return made(lo, set, (lo.builder.ref(compiled_members(lo, frozenset(x.value for x in items.items))),))
    check_key(lo, items)
    return made(lo, set, (escape(lo, items),))


def compiled_members(lo: Lowering, members: frozenset[Any]) -> frozenset[Any]:
    """The members as the program's own code holds them, in the order that they have there."""
    codes_left = [lo.frame.parsed.code]
    while codes_left:
        for held in codes_left.pop().co_consts:
            if isinstance(held, types.CodeType):
                codes_left.append(held)
            elif type(held) is frozenset and held == members and set(map(repr, held)) == set(map(repr, members)):
                return held
    raise lo.refuse(codes.SYNTAX, "a set display that Python has compiled otherwise")


@builtin(set)
def make_set(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs or len(args) > 1:
        raise lo.refuse(codes.RAISES, "TypeError: set takes one argument")
    return made(lo, set, tuple(many(lo, a) for a in args))


@builtin(collections.deque)
def make_deque(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    bound = dict(zip(("iterable", "maxlen"), args), **kwargs)
    if len(bound) != len(args) + len(kwargs) or not bound.keys() <= {"iterable", "maxlen"}:
        raise lo.refuse(codes.RAISES, "TypeError: deque takes iterable and maxlen")
    length = bound.get("maxlen", Known(None))
    if not is_plain(length):
        raise lo.refuse_call(codes.OPAQUE_CALL, "a deque whose length an object decides")
    items = many(lo, bound["iterable"], hashed=False) if "iterable" in bound else Tup(())
    return made(lo, collections.deque, (items, arg(lo, length)))


@builtin(collections.Counter)
def make_counter(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs or len(args) > 1 or (args and exact_type(args[0]) in (dict, *MAPPINGS)):
        raise lo.refuse_call(codes.OPAQUE_CALL, "a Counter of given counts")
    number = sym(lo.builder.value(), 1)
    return made(lo, collections.Counter, tuple(many(lo, a) for a in args), number)


@builtin(collections.OrderedDict)
def make_ordered(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args or kwargs:
        raise lo.refuse_call(codes.OPAQUE_CALL, "an OrderedDict of given entries")
    return made(lo, collections.OrderedDict, ())


@builtin(collections.defaultdict)
def make_default(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What it makes of a missing key is made in the call, so it needs no saving: see ``put``."""
    known = len(args) == 1 and not kwargs and isinstance(args[0], Known)
    if not known or not any(args[0].value is f for f in FACTORIES):
        raise lo.refuse_call(codes.OPAQUE_CALL, "a defaultdict of values that a function makes")
    return made(lo, collections.defaultdict, (arg(lo, args[0]),), missing_value(lo, args[0].value))


def many(lo: Lowering, items: Any, hashed: bool = True) -> Arg:
    """Several items given at once: to be hashed without code of the user's, and read without taking them away."""
    if isinstance(items, IterableV) and items.kind != "range":
        known = static_items(lo, items)
        if known is None:
            raise lo.refuse_call(codes.OPAQUE_CALL, f"what {items.kind} gives is collected")
        items = TupleV(tuple(known))
    if isinstance(items, Live):
        if type(items.sample) not in (list, tuple, set):
            raise lo.refuse_call(codes.OPAQUE_CALL, "the items of an object are collected")
        note_read(lo, ("content", id(items.sample), ""), items)
    elif isinstance(items, Sym):
        static_items(lo, items)  # which makes sure that it is no iterator
    elif exact_type(items) not in _MANY and not isinstance(items, IterableV):
        raise lo.refuse_call(codes.OPAQUE_CALL, "the items of an object are collected")
    given = escape(lo, items)
    if hashed and not isinstance(items, (Known, IterableV)):
        ask(lo, ordering.HASH_QUERY, given, "hashes", "what decides its own hash is collected")
    return given


# ---- methods


def container_method(lo: Lowering, owner: Sym, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    cls = owner.pytype
    assert cls is not None
    methods = METHODS[cls]
    if name not in methods.reads | methods.writes or not kwargs.keys() <= {"last"}:
        raise lo.refuse_call(codes.METHOD, f"method {name} of a {cls.__name__}")
    if not all(map(is_plain, kwargs.values())):
        raise lo.refuse_call(codes.METHOD, f"{name} as an object decides")
    named = tuple((k, arg(lo, v)) for k, v in kwargs.items())
    if name in methods.hash_argument and args:
        check_key(lo, args[0])
    if name in methods.compare:
        refuse_comparing(lo, owner, args)
    if name in methods.take_items:
        if cls is collections.Counter and any(exact_type(a) in (dict, *MAPPINGS) for a in args):
            raise lo.refuse_call(codes.METHOD, f"{name} of given counts")
        operands = tuple(many(lo, a, methods.hash_items) for a in args)
    else:
        operands = tuple(escape(lo, a) for a in args)
    if name in methods.writes:
        for given in args[1:] if cls in MAPPINGS else ():
            refuse_foreign(lo, owner, given)
        change(lo, owner, name)
        result = emit(lo, ops.METHOD_WRITE, name, (owner.value, *operands), UNKNOWN, kwargs=named)
        if name in NOTHING:
            return Known(None)
        return typed_item(lo, result.value, owner.element) if name in ("pop", "popleft") else Sym(result.value)
    sample: Any = 1 if name in _COUNTS else True if name in _QUESTIONS else UNKNOWN
    result = emit(lo, ops.METHOD_READ, name, (owner.value, *operands), sample)
    if name in ("keys", "values", "items"):
        key = Sym(result.value)
        element = {"keys": None, "values": owner.element, "items": owner.element and TupleV((key, owner.element))}
        return replace(result, element=element[name])
    if name == "most_common":
        return Sym(result.value, UNKNOWN, fresh=True, pytype=list)
    if sample is UNKNOWN and name != "get":
        return Sym(result.value, UNKNOWN, fresh=True, pytype=cls, element=aged(owner.element))
    return result


def refuse_comparing(lo: Lowering, owner: Sym, args: list[Any]) -> None:
    """What searches, or orders counts, compares what the container holds."""
    held = owner.value
    if owner.pytype in MAPPINGS:
        held = lo.builder.one(ops.METHOD_READ, "values", owner.value, span=lo.span())
    elif not all(map(is_plain, args)):
        raise lo.refuse_call(codes.METHOD, "a search for an object that may decide what it is equal to")
    ask(lo, ordering.PLAIN_QUERY, held, "compared", "a search among objects that decide what they are equal to")


def item_or_missing(lo: Lowering, owner: Sym, key: Any) -> Any:
    """An item of a ``defaultdict``, which asking for it may make."""
    element = owner.element
    if not isinstance(element, Sym):
        raise lo.refuse(codes.SUBSCRIPT, "a defaultdict of values that a function may make")
    check_key(lo, key)
    change(lo, owner)
    result = emit(lo, ops.METHOD_WRITE, "__getitem__", (owner.value, escape(lo, key)), UNKNOWN)
    item = typed_item(lo, result.value, element)
    own = owner.fresh and element.fresh and item.pytype is element.pytype
    return replace(item, fresh=True) if own and isinstance(item, Sym) else item
