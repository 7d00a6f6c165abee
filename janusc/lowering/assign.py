"""Binding of targets: names, unpacking, attributes, items; augmented assignment; ``del``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import gast

from janusc.lowering import codes, ops
from janusc.lowering.abstract import DictV, Known, ListV, Live, Sym, Unbound
from janusc.lowering.containers import KINDS, MAPPINGS
from janusc.lowering.ir import Arg
from janusc.lowering.iterate import static_items, unpack
from janusc.lowering.keys import check_key
from janusc.lowering.lower_attr import get_attribute, set_attribute
from janusc.lowering.lower_expr import literal_key
from janusc.lowering.lower_operator import BINARY, binary, check_index, get_item, is_container, refuse_deciding_keys
from janusc.lowering.lower_state import find_slot, load, note_read, store_name
from janusc.lowering.lowering import Lowering, statement
from janusc.lowering.mutation import change, refuse_foreign, save_container, write_tensor
from janusc.lowering.namespaces import note_key
from janusc.lowering.operands import arg, escape, exact_type, is_plain
from janusc.lowering.profiled import expect_parts
from janusc.lowering.store import holds
from janusc.types import ANY


@statement(gast.Assign)
def lower_assign(lo: Lowering, node: Any) -> None:
    used_up = isinstance(node.value, gast.GeneratorExp) and isinstance(node.targets[0], (gast.Tuple, gast.List))
    value = generated(lo, node.value) if used_up and len(node.targets) == 1 else lo.expr(node.value)
    if len(node.targets) == 1:
        value = expect_parts(lo, node.targets[0], value, lo.profile.type_at(lo.site(node)), lo.site(node, "seen"))
    for target in node.targets:
        assign(lo, target, value)


def generated(lo: Lowering, node: Any) -> Any:
    """The items of a generator expression that is unpacked at once, before any target is set."""
    from janusc.lowering.comprehension import lower_list_comp

    return lower_list_comp(lo, node)


def assign(lo: Lowering, target: Any, value: Any) -> None:
    if isinstance(target, gast.Name):
        store_name(lo, target.id, value)
    elif isinstance(target, (gast.Tuple, gast.List)):
        assign_many(lo, target.elts, value)
    elif isinstance(target, gast.Attribute):
        set_attribute(lo, lo.expr(target.value), target.attr, value)
    elif isinstance(target, gast.Subscript):
        set_item(lo, lo.expr(target.value), lo.expr(target.slice), value)
    else:
        raise lo.refuse(codes.SYNTAX, f"assignment to {type(target).__name__}", node=target)


def assign_many(lo: Lowering, targets: Any, value: Any) -> None:
    stars = [i for i, t in enumerate(targets) if isinstance(t, gast.Starred)]
    items = static_items(lo, value)
    if items is None:
        if stars:
            raise lo.refuse(codes.STAR, "starred unpacking of unknown length")
        items = unpack(lo, value, len(targets))
    if stars:
        (star,) = stars
        after = len(targets) - star - 1
        if len(items) < len(targets) - 1:
            raise lo.refuse(codes.RAISES, "ValueError: not enough values to unpack")
        middle = ListV(items[star : len(items) - after])
        items = [*items[:star], middle, *items[len(items) - after :]]
        targets = [t.value if isinstance(t, gast.Starred) else t for t in targets]
    if len(items) != len(targets):
        raise lo.refuse(codes.RAISES, "ValueError: wrong number of values to unpack")
    for target, item in zip(targets, items):
        assign(lo, target, item)


def refuse_cycle(lo: Lowering, owner: Any, values: Iterable[Any]) -> None:
    """A container that is followed item by item must not be among its own items."""
    if any(holds(value, owner) for value in values):
        raise lo.refuse(codes.ASSIGNMENT, "a container is put into itself")


def set_item(lo: Lowering, owner: Any, key: Any, value: Any) -> None:
    refuse_cycle(lo, owner, (value,))
    if isinstance(owner, ListV) and owner.real is None and isinstance(key, Known) and type(key.value) is int:
        if not -len(owner.items) <= key.value < len(owner.items):
            raise lo.refuse(codes.RAISES, "IndexError: list assignment index out of range")
        owner.items[key.value] = value
    elif isinstance(owner, DictV) and owner.real is None and isinstance(key, Known):
        owner.items[literal_key(lo, key)] = value
    elif isinstance(owner, Sym) and owner.is_tensor:
        check_index(lo, owner, key)
        write_tensor(lo, ops.OPERATOR_WRITE, "setitem", owner, (arg(lo, key), arg(lo, value)), [value, key], outputs=0)
    elif isinstance(owner, (ListV, DictV)) or (isinstance(owner, Sym) and owner.pytype in (list, dict, *KINDS)):
        target = owner if isinstance(owner, Sym) else real_of(lo, owner)
        if target.pytype in (dict, *MAPPINGS):
            check_key(lo, key)
            refuse_foreign(lo, target, value)
        change(lo, target)
        _emit_set(lo, target.value, key, value)
    elif isinstance(owner, Live) and type(owner.sample) in (list, dict):
        if type(owner.sample) is dict:
            check_key(lo, key)
        write_container(lo, owner, key)
        _emit_set(lo, owner.value, key, value)
    else:
        raise lo.refuse(codes.ASSIGNMENT, "an item of an object is assigned")


def real_of(lo: Lowering, owner: Any) -> Sym:
    from janusc.lowering.operands import realise

    realise(lo, owner)
    real: Sym = owner.real
    return real


def _emit_set(lo: Lowering, owner: Any, key: Any, value: Any) -> None:
    args: tuple[Arg, ...] = (owner, escape(lo, key), escape(lo, value))
    lo.builder.emit(ops.OPERATOR_WRITE, "setitem", args, (), (), lo.span())


def write_container(lo: Lowering, owner: Live, key: Any = None, method: str = "") -> None:
    """Prepare an existing list or dict for being changed at once: saved for rollback, read at run time from here on.

    ``key`` is the one that is set, where it is only one, and ``method`` what changes it.
    """
    kind = type(owner.sample)
    refuse_deciding_keys(lo, owner)
    slot = ("content", id(owner.sample), "")
    note_read(lo, slot, owner)
    note_key(lo, owner, key)
    lo.written.setdefault(slot, owner)
    lo.written_containers.append(owner)
    save_container(lo, owner.value, kind, method)


# ---- augmented assignment


@statement(gast.AugAssign)
def lower_augmented(lo: Lowering, node: Any) -> None:
    target, name = node.target, BINARY[type(node.op)]
    if isinstance(target, gast.Name):
        store_name(lo, target.id, augmented(lo, name, load(lo, target.id), lo.expr(node.value)))
    elif isinstance(target, gast.Attribute):
        owner = lo.expr(target.value)
        held = lo.within(target, lambda: lo.settled(get_attribute(lo, owner, target.attr)))
        result = augmented(lo, name, held, lo.expr(node.value))
        if result is not held or not isinstance(held, Live):
            set_attribute(lo, owner, target.attr, result)
    elif isinstance(target, gast.Subscript):
        owner, key = lo.expr(target.value), lo.expr(target.slice)
        result = augmented(lo, name, get_item(lo, owner, key), lo.expr(node.value))
        set_item(lo, owner, key, result)
    else:
        raise lo.refuse(codes.SYNTAX, "augmented assignment here")


_KEEPS_NUMBERS = frozenset({"add", "sub", "mul", "truediv", "floordiv", "mod"})
_IN_PLACE: dict[tuple[type | None, str], str] = {
    (set, "or_"): "update",
    (set, "and_"): "intersection_update",
    (set, "sub"): "difference_update",
    (set, "xor"): "symmetric_difference_update",
    (deque, "add"): "extend",
}


def augmented(lo: Lowering, name: str, held: Any, value: Any) -> Any:
    """``held op= value``: in place on tensors and lists, a new value for everything immutable."""
    if isinstance(held, Sym) and held.is_tensor:
        sample = held.sample
        out = write_tensor(lo, ops.OPERATOR_WRITE, in_place(name), held, (arg(lo, value),), [value], outputs=1)
        return Sym(out[0], sample, fresh=held.fresh, pytype=held.pytype)
    if isinstance(held, ListV) and name == "add":
        return extend_list(lo, held, value)
    if isinstance(held, Sym) and held.pytype is list and name == "add" and exact_type(value) in (list, tuple):
        from janusc.lowering.lower_method import real_method

        real_method(lo, held, "extend", [value])
        return held
    if isinstance(held, Sym) and (held.pytype, name) in _IN_PLACE:
        from janusc.lowering.lower_container import container_method

        if held.pytype is set and exact_type(value) is not set:
            raise lo.refuse(codes.OPERATOR, "augmented assignment of something else than a set to a set")
        container_method(lo, held, _IN_PLACE[held.pytype, name], [value], {})
        return held
    if isinstance(held, (Live, ListV, DictV)) or (
        isinstance(held, Sym) and is_container(held) and held.pytype is not tuple
    ):
        raise lo.refuse(codes.OPERATOR, "augmented assignment to an object")
    if isinstance(held, Sym) and held.number and _is_number(value):
        result = binary(lo, name, held, value)
        return replace(result, number=True) if isinstance(result, Sym) and name in _KEEPS_NUMBERS else result
    if isinstance(held, Sym) and held.pytype is None:
        raise lo.refuse(codes.OPERATOR, "augmented assignment to a value of no certain type")
    return binary(lo, name, held, value)


def _is_number(value: Any) -> bool:
    return exact_type(value) in (int, float) or (isinstance(value, Sym) and value.number)


def extend_list(lo: Lowering, held: ListV, value: Any) -> Any:
    items = static_items(lo, value)
    refuse_cycle(lo, held, items or ())
    if held.real is None and items is not None:
        held.items.extend(items)
        return held
    target = real_of(lo, held)
    lo.builder.emit(ops.METHOD_WRITE, "extend", (target.value, escape(lo, value)), (), (ANY,), lo.span())
    return held


def in_place(name: str) -> str:
    return "i" + name.rstrip("_")


@statement(gast.Delete)
def lower_delete(lo: Lowering, node: Any) -> None:
    for target in node.targets:
        if isinstance(target, gast.Subscript):
            delete_item(lo, lo.expr(target.value), lo.expr(target.slice))
            continue
        slot = find_slot(lo, target.id) if isinstance(target, gast.Name) else None
        if slot is None or lo.fetch(slot) is Unbound:
            raise lo.refuse(codes.DELETION, "del of something else than a local variable")
        held = lo.store.pop(slot)
        if isinstance(held, Sym) and held.maybe_unbound:
            raise lo.refuse(codes.DELETION, "del of a variable that may be unbound")


def delete_item(lo: Lowering, owner: Any, key: Any) -> None:
    """``del owner[key]`` of a list, deque or dictionary."""
    kind = exact_type(owner)
    if kind in (dict, *MAPPINGS):
        check_key(lo, key)
    elif kind is list or kind is deque:
        if not is_plain(key):
            raise lo.refuse(codes.DELETION, "del of an item that an object picks")
    else:
        raise lo.refuse(codes.DELETION, "del of an item of something else than a list or dictionary")
    if isinstance(owner, DictV) and owner.real is None and isinstance(key, Known):
        if owner.items.pop(literal_key(lo, key), None) is None:
            raise lo.refuse(codes.RAISES, f"KeyError: {key.value!r}")
        return
    if isinstance(owner, Live):
        write_container(lo, owner, key)
        held = owner.value
    else:
        target = owner if isinstance(owner, Sym) else real_of(lo, owner)
        change(lo, target)
        held = target.value
    lo.builder.emit(ops.OPERATOR_WRITE, "delitem", (held, escape(lo, key)), (), (), lo.span())
