"""Operators and subscripts, on host values and on tensors."""

from __future__ import annotations

import operator
from collections import defaultdict
from dataclasses import replace
from typing import Any

import gast
import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import (
    UNKNOWN,
    DictV,
    Known,
    ListV,
    Live,
    PartsV,
    SliceV,
    Sym,
    TupleV,
)
from janusc.lowering.containers import KINDS, MAPPINGS
from janusc.lowering.examples import derive
from janusc.lowering.inert import compares_inertly, is_inert
from janusc.lowering.ir import Const, Op
from janusc.lowering.keys import check_key
from janusc.lowering.lower_attr import is_struct
from janusc.lowering.lower_state import note_read, read
from janusc.lowering.lowering import Lowering, expression
from janusc.lowering.operands import (
    SCALARS,
    arg,
    element_of,
    emit,
    exact_type,
    is_plain,
    is_stable,
    sample_of,
)
from janusc.typeinfer import transfer

BINARY: dict[type, str] = {
    gast.Add: "add", gast.Sub: "sub", gast.Mult: "mul", gast.Div: "truediv", gast.FloorDiv: "floordiv", gast.Mod: "mod",
    gast.Pow: "pow", gast.MatMult: "matmul", gast.LShift: "lshift", gast.RShift: "rshift", gast.BitAnd: "and_",
    gast.BitOr: "or_", gast.BitXor: "xor",
}  # fmt: skip
UNARY: dict[type, str] = {gast.USub: "neg", gast.UAdd: "pos", gast.Invert: "invert"}
_CONTAINERS = (list, dict, tuple, frozenset, *KINDS)
_OF_SETS = frozenset({"or_", "and_", "sub", "xor"})
_JOINS = ("add", "mul", "getitem")  # on containers these compare nothing


@expression(gast.BinOp)
def lower_binary(lo: Lowering, node: Any) -> Any:
    return binary(lo, BINARY[type(node.op)], lo.expr(node.left), lo.expr(node.right))


def binary(lo: Lowering, name: str, left: Any, right: Any) -> Any:
    """A binary operator; sequences made inside the call are joined item by item."""
    if isinstance(left, Known) and isinstance(right, Known):
        return fold(lo, name, left.value, right.value)
    if name == "add":
        if isinstance(left, TupleV) and isinstance(right, TupleV):
            return TupleV(left.items + right.items)
        if _virtual(left) and _virtual(right):
            return ListV(left.items + right.items)
    if name == "mul" and isinstance(right, Known) and type(right.value) is int:
        if isinstance(left, TupleV):
            return TupleV(left.items * right.value)
        if _virtual(left):
            return ListV(left.items * right.value)
    if name == "mod" and isinstance(left, Known) and isinstance(left.value, str):
        from janusc.lowering.lower_expr import percent_format

        return percent_format(lo, left, right)
    return set_operator(lo, name, left, right) or computed(lo, name, left, right)


def set_operator(lo: Lowering, name: str, left: Any, right: Any) -> Sym | None:
    """A new set of two, none of whose members has a say; None where that is not what the operator makes."""
    if name not in _OF_SETS or not exact_type(left) is exact_type(right) is set:
        return None
    for operand in (left, right):
        if isinstance(operand, Live):
            refuse_deciding_keys(lo, operand)
            note_read(lo, ("content", id(operand.sample), ""), operand)
    result = emit(lo, ops.OPERATOR_READ, name, (arg(lo, left), arg(lo, right)), UNKNOWN)
    return Sym(result.value, UNKNOWN, fresh=True, pytype=set)


def _virtual(value: Any) -> bool:
    return isinstance(value, ListV) and value.real is None


def fold(lo: Lowering, name: str, *values: Any) -> Known:
    """Python's own result on known values; an error is left to the eager run."""
    if name == "pow" and all(isinstance(v, int) for v in values) and abs(values[0]) > 1 and values[1] > 4096:
        raise lo.refuse(codes.HUGE, "a huge power")
    if (
        name in ("mul", "lshift")
        and any(isinstance(v, int) and abs(v) > 1 << 20 for v in values)
        and not all(isinstance(v, (int, float)) for v in values)
    ):
        raise lo.refuse(codes.HUGE, "a huge repetition")
    if not all(map(is_inert, values)):
        raise lo.refuse(codes.OPERATOR, f"operator {name} on a class or enumeration that defines it")
    try:
        return Known(getattr(operator, name)(*values))
    except Exception as error:
        raise lo.refuse(codes.RAISES, f"{type(error).__name__} at conversion") from None


def is_container(value: Any) -> bool:
    if isinstance(value, Live):
        return type(value.sample) in _CONTAINERS
    if isinstance(value, Sym):
        return value.pytype in _CONTAINERS
    return isinstance(value, (ListV, DictV, TupleV))


def computed(lo: Lowering, name: str, *operands: Any) -> Any:
    """An operator as a node. One with unknown operand types runs too, unless it may be user code."""
    op: Op = ops.OPERATOR
    if not all(is_plain(v) for v in operands):
        if not all(is_plain(v) or is_container(v) or is_untyped(v) for v in operands):
            raise lo.refuse(codes.OPERATOR, f"operator {name} on objects")
        if name not in _JOINS and not all(compares_plainly(v) for v in operands):
            raise lo.refuse(codes.OPERATOR, "a comparison of containers of objects")
        op = ops.OPERATOR_READ
    sample, aliases = operator_sample(lo, name, operands)
    tensors = [v for v in operands if isinstance(v, Sym) and v.is_tensor]
    fresh = not aliases or all(isinstance(v, Known) or getattr(v, "fresh", False) for v in operands[:1])
    stable = is_stable(*operands) and not isinstance(sample, torch.Tensor)
    if name == "pow" and not tensors:  # int ** int is a float for negative exponents
        power = emit(lo, op, name, tuple(arg(lo, v) for v in operands), UNKNOWN)
        return Sym(power.value, sample, stable=stable, plain=all(is_plain(v) for v in operands))
    result = emit(lo, op, name, tuple(arg(lo, v) for v in operands), sample, stable=stable, fresh=fresh)
    if result.pytype is None and all(is_plain(v) for v in operands):
        result = replace(result, plain=True)
    if name in ("add", "mul") and result.pytype is None:
        result = joined(result, operands)
    return derive(lo, result, getattr(operator, name), *operands)


def joined(result: Sym, operands: tuple[Any, ...]) -> Sym:
    """A new list or tuple out of two, or several times one."""
    kinds = {exact_type(v) for v in operands} - {int, bool}
    elements = [element_of(getattr(v, "real", None) or v) for v in operands if exact_type(v) in (list, tuple)]
    (kind,) = kinds if len(kinds) == 1 else (None,)
    if kind not in (list, tuple):
        return result
    alike = len({getattr(e, "pytype", None) for e in elements}) == 1
    return Sym(result.value, UNKNOWN, fresh=True, pytype=kind, element=elements[0] if alike else None)


def compares_plainly(value: Any) -> bool:
    """Whether comparing a container, or searching in it, runs no user code: what it holds has no say."""
    if isinstance(value, Live):
        items = value.sample.values() if isinstance(value.sample, dict) else value.sample
        return compares_inertly(items) and (not isinstance(value.sample, dict) or compares_inertly(value.sample))
    if isinstance(value, (TupleV, ListV, DictV)):
        real = getattr(value, "real", None)
        held = value.items.values() if isinstance(value, DictV) else value.items
        return _compares_plainly_inside(held if real is None else [real.element])
    return not isinstance(value, Sym) or value.pytype not in _CONTAINERS


def _compares_plainly_inside(held: Any) -> bool:
    return all(
        compares_plainly(x) if is_container(x) else is_plain(x) or (isinstance(x, Known) and is_inert(x.value))
        for x in held
    )


def is_untyped(value: Any) -> bool:
    return isinstance(value, Sym) and value.pytype is None


def operator_sample(lo: Lowering, name: str, operands: tuple[Any, ...]) -> tuple[Any, bool]:
    """A sample of the result and whether it may be a view of an operand."""
    function = getattr(operator, name)
    try:
        samples = tuple(sample_of(v) for v in operands)
        result = transfer.apply(function, samples, {}, lo.grad)
    except transfer.NoSample as error:
        refuse_raising(lo, error, *operands)
        return _guess(operands), name == "getitem"
    if isinstance(result, torch.Tensor):
        others = [s for s in samples if isinstance(s, torch.Tensor)]
        return result, name == "getitem" or transfer.shares_storage(result, others)
    return result, False


def refuse_raising(lo: Lowering, error: Exception, *operands: Any) -> None:
    """What raises on host values that are this call's own raises in this call: that is for ordinary Python to do."""
    if is_stable(*operands) and not any(isinstance(v, Sym) and v.is_tensor for v in operands):
        raise lo.refuse(codes.RAISES, f"{str(error).partition(':')[0]} on the values at hand")


def _guess(operands: tuple[Any, ...]) -> Any:
    """Without a sample: an operator with a tensor operand gives a tensor."""
    for operand in operands:
        if isinstance(operand, Sym) and operand.is_tensor and isinstance(operand.sample, torch.Tensor):
            return operand.sample
    return UNKNOWN


@expression(gast.UnaryOp)
def lower_unary(lo: Lowering, node: Any) -> Any:
    from janusc.lowering.truth import truth

    value = lo.expr(node.operand)
    if isinstance(node.op, gast.Not):
        known = truth(lo, value)
        if isinstance(known, bool):
            return Known(not known)
        return (
            emit(lo, ops.OPERATOR, "not_", (arg(lo, known),), False, stable=False)
            if not is_stable(known)
            else (computed(lo, "not_", known))
        )
    name = UNARY[type(node.op)]
    return fold(lo, name, value.value) if isinstance(value, Known) else computed(lo, name, value)


def refuse_deciding_keys(lo: Lowering, owner: Live) -> None:
    """An existing dict or set whose keys decide what they are equal to."""
    if isinstance(owner.sample, (dict, set)) and not compares_inertly(owner.sample):
        raise lo.refuse(codes.MAPPING, "keys that decide what they are equal to")


# ---- subscripts


@expression(gast.Subscript)
def lower_subscript(lo: Lowering, node: Any) -> Any:
    from janusc.lowering.profiled import expect

    return expect(lo, get_item(lo, lo.expr(node.value), lo.expr(node.slice)))


def get_item(lo: Lowering, owner: Any, key: Any) -> Any:
    from janusc.lowering.lower_expr import literal_key
    from janusc.lowering.parts import holds_code, pick_part
    from janusc.lowering.truth import concretise

    if isinstance(owner, PartsV):
        return pick_part(lo, owner.cls, owner.items, key)
    if isinstance(owner, (TupleV, ListV, DictV)) and isinstance(key, Sym) and holds_code(owner):
        key = concretise(lo, key)
    if isinstance(owner, (TupleV, ListV)) and isinstance(key, Known) and getattr(owner, "real", None) is None:
        try:
            picked = list(owner.items)[key.value]
        except (IndexError, TypeError) as error:
            raise lo.refuse(codes.RAISES, f"{type(error).__name__}: {error}") from None
        if isinstance(key.value, slice):
            return TupleV(tuple(picked)) if isinstance(owner, TupleV) else ListV(picked)
        return picked
    if isinstance(owner, DictV) and owner.real is None and isinstance(key, Known):
        if literal_key(lo, key) not in owner.items:
            raise lo.refuse(codes.RAISES, f"KeyError: {key.value!r}")
        return owner.items[key.value]
    if isinstance(owner, Known) and isinstance(key, Known):
        return fold(lo, "getitem", owner.value, key.value)
    if isinstance(owner, Known) and is_plain(owner) and is_plain(key):
        return computed(lo, "getitem", owner, key)
    if isinstance(owner, Live):
        return live_item(lo, owner, key)
    if isinstance(owner, (TupleV, ListV, DictV)):
        return runtime_item(lo, owner, key)
    if isinstance(owner, Sym):
        if owner.pytype is defaultdict:
            from janusc.lowering.lower_container import item_or_missing

            return item_or_missing(lo, owner, key)
        if owner.pytype in (list, dict, *KINDS):
            return derive(lo, runtime_item(lo, owner, key), operator.getitem, owner, key)
        if isinstance(key, Known) and type(key.value) is int and is_struct(owner.sample):
            return struct_item(lo, owner, key.value)
        check_index(lo, owner, key)
        return computed(lo, "getitem", owner, key)
    raise lo.refuse(codes.SUBSCRIPT, f"a subscript of a {type(owner).__name__}")


def struct_item(lo: Lowering, owner: Sym, index: int) -> Sym:
    """One of several results of a torch function."""
    try:
        sample = owner.sample[index]
    except IndexError as error:
        raise lo.refuse(codes.RAISES, f"IndexError: {error}") from None
    return emit(lo, ops.OPERATOR, "getitem", (owner.value, Const(index)), sample, fresh=owner.fresh)


def check_index(lo: Lowering, owner: Any, key: Any) -> None:
    """A sequence that is no tuple is a deprecated index, save a list of numbers: torch warns, at the user's line."""
    if not (isinstance(owner, Sym) and owner.is_tensor):
        return
    if isinstance(key, ListV) and key.real is None:
        numbers = all(isinstance(x, Known) and type(x.value) in (int, bool) for x in key.items)
    else:
        known = key.value if isinstance(key, Known) else key.sample if isinstance(key, Live) else None
        pytype = key.pytype if isinstance(key, Sym) else list if isinstance(key, ListV) else type(known)
        numbers = pytype not in (str, bytes, list, range)
    if not numbers:
        raise lo.refuse(codes.SUBSCRIPT, "an index that is a sequence of something else than numbers", "use a tuple")


def runtime_item(lo: Lowering, owner: Any, key: Any) -> Any:
    """An item picked at run time: of the kind the container's elements have in common."""
    from janusc.lowering.operands import element_of, realise, typed_item

    if exact_type(owner) in (dict, set, *MAPPINGS):
        check_key(lo, key)
    element = element_of(owner)
    if isinstance(owner, (TupleV, ListV)) and getattr(owner, "real", None) is None:
        kinds = {v.pytype if isinstance(v, Sym) else None for v in owner.items}
        if len(kinds) == 1 and None not in kinds:
            element = owner.items[0]
    owner = realise(lo, owner)
    real = getattr(owner, "real", None)
    element = element_of(real) if real is not None and element is None else element
    if isinstance(key, (SliceV,)) or (isinstance(key, Known) and isinstance(key.value, slice)):
        kind = {TupleV: tuple, ListV: list}.get(type(owner), getattr(owner, "pytype", None))
        if kind not in (list, tuple):
            raise lo.refuse(codes.SUBSCRIPT, "a slice of an object")
        result = emit(lo, ops.OPERATOR_READ, "getitem", (arg(lo, owner), arg(lo, key)), UNKNOWN, fresh=True)
        return Sym(result.value, UNKNOWN, fresh=True, pytype=kind, element=element)
    sample = element.sample if isinstance(element, Sym) else UNKNOWN
    result = emit(lo, ops.OPERATOR_READ, "getitem", (arg(lo, owner), arg(lo, key)), sample)
    return typed_item(lo, result.value, element)


def live_item(lo: Lowering, owner: Live, key: Any) -> Any:
    """An item of an existing list, tuple, dict or module container, by path where the key is fixed."""
    from janusc.lowering.classes import MODULE_CONTAINERS, is_sequence, keeps_method, special_method
    from janusc.lowering.lower_call import call
    from janusc.lowering.lower_expr import literal_key
    from janusc.lowering.operands import typed_item
    from janusc.lowering.truth import concretise

    sample = owner.sample
    if type(sample) is not dict and not is_sequence(lo, owner, "__getitem__"):
        if keeps_method(lo, type(sample), "__getitem__", MODULE_CONTAINERS):
            from janusc.lowering.parts import module_item

            return module_item(lo, owner, key)
        method = special_method(lo, owner, "__getitem__")
        if method is not None:
            return call(lo, method, [key], {})
        raise lo.refuse(codes.SUBSCRIPT, f"a subscript of a {type(sample).__qualname__}")
    slot = ("content", id(sample), "")
    note_read(lo, slot, owner)
    refuse_deciding_keys(lo, owner)
    if is_mutated(lo, owner):
        if type(sample) is dict:
            check_key(lo, key)
        return mutated_item(lo, owner, key)
    if isinstance(key, Sym) and _homogeneous(sample):
        found = emit(lo, ops.OPERATOR_READ, "getitem", (owner.value, arg(lo, key)), _first_sample(sample))
        return typed_item(lo, found.value, found)
    if isinstance(key, Sym):
        key = concretise(lo, key)
    if not isinstance(key, Known) or isinstance(key.value, slice):
        return live_slice(lo, owner, key)
    if type(sample) is dict:
        literal_key(lo, key)
    try:
        item = sample[key.value]
    except (IndexError, KeyError, TypeError) as error:
        raise lo.refuse(codes.RAISES, f"{type(error).__name__}: {error}") from None
    return read(lo, owner.value, "item", key.value, item, f"{type(sample).__name__}[{key.value!r}]")


def live_slice(lo: Lowering, owner: Live, key: Any) -> Any:
    from janusc.lowering.iterate import item_sample, live_sequence, varies

    several = varies(lo, owner, lo.site(lo.node, "length"))
    if type(owner.sample) in (list, tuple) and (several or isinstance(key, SliceV)):
        result = emit(lo, ops.OPERATOR_READ, "getitem", (owner.value, arg(lo, key)), UNKNOWN)
        element = item_sample(lo, owner)
        element = element if isinstance(element, Sym) else None
        return Sym(result.value, UNKNOWN, fresh=True, pytype=type(owner.sample), element=element)
    if isinstance(owner.sample, (list, tuple)) and isinstance(key, Known):
        items = live_sequence(lo, owner)[key.value]
        return ListV(items) if isinstance(owner.sample, list) else TupleV(tuple(items))
    raise lo.refuse(codes.SUBSCRIPT, "a slice with varying bounds of an existing list")


def is_mutated(lo: Lowering, owner: Live) -> bool:
    return any(t.sample is owner.sample for t in lo.written_containers)


def _homogeneous(sample: Any) -> bool:
    values = list(sample.values()) if isinstance(sample, dict) else sample
    kinds = {type(v) for v in values}
    return len(kinds) == 1 and next(iter(kinds)) in (torch.Tensor, int, float)


def _first_sample(sample: Any) -> Any:
    first = next(iter(sample.values())) if isinstance(sample, dict) else sample[0]
    return transfer.stand_in(first) if isinstance(first, torch.Tensor) else first


def mutated_item(lo: Lowering, owner: Live, key: Any) -> Any:
    """An item of a container that this transaction has changed: read at run time, its type asserted."""
    result = emit(lo, ops.OPERATOR_READ, "getitem", (owner.value, arg(lo, key)), UNKNOWN)
    item: Any = UNKNOWN
    if isinstance(key, Known):
        try:
            item = owner.sample[key.value]
        except (IndexError, KeyError, TypeError):
            item = UNKNOWN
    if type(item) not in (*SCALARS, torch.Tensor):
        return result
    lo.check("type", (result.value, lo.builder.ref(type(item))), lo.site(lo.node, "item"), lo.span())
    sample = transfer.stand_in(item) if isinstance(item, torch.Tensor) else item
    return Sym(result.value, sample, pytype=type(item))
