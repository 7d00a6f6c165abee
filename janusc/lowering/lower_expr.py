"""Literals, displays, slices, f-strings, lambdas, walrus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast
import torch

from janusc.frontend.nodes import nodes_of
from janusc.lowering import codes, ops
from janusc.lowering.abstract import DictV, FunctionV, IterableV, Known, ListV, Live, SliceV, Sym, TupleV
from janusc.lowering.inert import is_inert
from janusc.lowering.ir import Arg, Const, Tup
from janusc.lowering.lower_state import store_name
from janusc.lowering.lowering import Lowering, expression
from janusc.lowering.operands import HOST_VALUES, SCALARS, arg, emit, is_plain
from janusc.types import HostType

_STR = HostType("str")


@expression(gast.Constant)
def lower_constant(lo: Lowering, node: Any) -> Any:
    return Known(node.value)


@expression(gast.Tuple)
def lower_tuple(lo: Lowering, node: Any) -> Any:
    return TupleV(tuple(display_items(lo, node.elts)))


@expression(gast.List)
def lower_list(lo: Lowering, node: Any) -> Any:
    return ListV(display_items(lo, node.elts))


def display_items(lo: Lowering, elements: Any) -> list[Any]:
    """The items of a display or the positional arguments of a call, with ``*x`` spread where its items are known."""
    from janusc.lowering.iterate import static_items

    items: list[Any] = []
    for element in elements:
        if isinstance(element, gast.Starred):
            spread = static_items(lo, lo.expr(element.value), element)
            if spread is None:
                raise lo.refuse(codes.STAR, "*-argument of unknown length", node=element)
            items.extend(spread)
        else:
            items.append(lo.expr(element))
    return items


@expression(gast.Dict)
def lower_dict(lo: Lowering, node: Any) -> Any:
    items: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values):
        if key is None:
            items.update(static_dict(lo, lo.expr(value)))
        else:
            fixed = literal_key(lo, lo.expr(key))  # the key comes first
            items[fixed] = lo.expr(value)
    return DictV(items)


def literal_key(lo: Lowering, key: Any) -> Any:
    """A dictionary key that is fixed: a literal, a tuple of literals or a code-like object."""
    if isinstance(key, Known):
        if not is_inert(key.value):
            raise lo.refuse(codes.MAPPING, "a key that decides what it is equal to")
        try:
            hash(key.value)
        except TypeError:
            raise lo.refuse(codes.MAPPING, "unhashable key") from None
        return key.value
    if isinstance(key, TupleV):
        return tuple(literal_key(lo, k) for k in key.items)
    raise lo.refuse(codes.MAPPING, "a dictionary key that varies")


def static_dict(lo: Lowering, abstract: Any) -> dict[Any, Any]:
    """The items of a dict whose keys are known; an existing dict has its keys guarded."""
    from janusc.lowering.iterate import live_dict_items, static_items

    if isinstance(abstract, DictV) and abstract.real is None:
        return dict(abstract.items)
    if isinstance(abstract, Live) and type(abstract.sample) is dict:
        return live_dict_items(lo, abstract)
    if isinstance(abstract, IterableV):
        pairs = static_items(lo, abstract)
        if pairs is not None and all(isinstance(p, TupleV) and len(p.items) == 2 for p in pairs):
            return {literal_key(lo, p.items[0]): p.items[1] for p in pairs}
    raise lo.refuse(codes.MAPPING, "a mapping whose keys are not known")


@expression(gast.Slice)
def lower_slice(lo: Lowering, node: Any) -> Any:
    bounds = [Known(None) if n is None else lo.expr(n) for n in (node.lower, node.upper, node.step)]
    if all(isinstance(b, Known) for b in bounds):
        return Known(slice(*(b.value for b in bounds)))
    return SliceV(*bounds)


@expression(gast.JoinedStr)
def lower_joined(lo: Lowering, node: Any) -> Any:
    pieces: list[Arg] = []
    texts: list[str] = []
    for index, part in enumerate(node.values):
        if isinstance(part, gast.Constant):
            pieces.append(Const(part.value))
            texts.append(part.value)
            continue
        value = lo.expr(part.value)
        _check_formattable(lo, value)
        spec = format_spec(lo, part.format_spec)
        if isinstance(value, Known):
            texts.append(_format(value.value, part.conversion, spec))
        pieces.append(Tup((arg(lo, value), Const(part.conversion), Const(spec))))
        if not _is_immutable(value) and any(map(_may_act, node.values[index + 1 :])):
            made = lo.builder.one(ops.FORMAT, "", *pieces, type_=_STR, span=lo.span())
            pieces = [Tup((made, Const(-1), Const("")))]
    if len(texts) == len(node.values):
        return Known("".join(texts))
    (value,) = lo.builder.emit(ops.FORMAT, "", tuple(pieces), (), (_STR,), lo.span())
    return Sym(value, "", pytype=str)


def percent_format(lo: Lowering, left: Known, right: Any) -> Any:
    """``"%.3f" % x``, of values whose text and number are Python's or torch's own business."""
    items = right.items if isinstance(right, TupleV) else [right]
    if type(left.value) is not str or not all(is_plain(x) and not isinstance(x, (TupleV, SliceV)) for x in items):
        raise lo.refuse(codes.FORMAT, "%-formatting of objects")
    return emit(lo, ops.OPERATOR, "mod", (arg(lo, left), arg(lo, right)), "")


def _is_immutable(value: Any) -> bool:
    return isinstance(value, Known) or (isinstance(value, Sym) and value.pytype in HOST_VALUES)


def _may_act(part: Any) -> bool:
    """Whether evaluating a piece of text may change what the pieces before it show: then those are made first."""
    return any(not isinstance(n, (gast.FormattedValue, gast.Name, gast.Constant, gast.Load)) for n in nodes_of(part))


def format_spec(lo: Lowering, node: Any) -> str:
    if node is None:
        return ""
    spec = lo.expr(node)
    if not (isinstance(spec, Known) and isinstance(spec.value, str)):
        raise lo.refuse(codes.FORMAT, "a format specification that varies")
    return spec.value


def _format(value: Any, conversion: int, spec: str) -> str:
    converters: dict[int, Callable[[Any], Any]] = {-1: lambda v: v, 115: str, 114: repr, 97: ascii}
    return format(converters[conversion](value), spec)


def _check_formattable(lo: Lowering, value: Any) -> None:
    """Only values whose text is Python's own business: no user ``__str__`` runs early."""
    if isinstance(value, Known) and isinstance(value.value, (*SCALARS, type(None))) and is_inert(value.value):
        return
    if isinstance(value, Sym) and (value.is_tensor or value.pytype in SCALARS):
        return
    if isinstance(value, TupleV):
        for item in value.items:
            _check_formattable(lo, item)
        return
    if isinstance(value, ListV) and value.real is None:
        for item in value.items:
            _check_formattable(lo, item)
        return
    if isinstance(value, Sym) and value.pytype in (torch.Size, torch.dtype, torch.device, range, slice):
        return
    if isinstance(value, Sym) and value.pytype is tuple and _is_plain_tuple(value.sample):
        return
    raise lo.refuse(codes.FORMAT, "an object is turned into text")


def _is_plain_tuple(sample: Any) -> bool:
    return isinstance(sample, tuple) and all(isinstance(item, (torch.Tensor, *SCALARS)) for item in sample)


@expression(gast.FormattedValue)
def lower_formatted(lo: Lowering, node: Any) -> Any:
    return lower_joined(lo, gast.JoinedStr(values=[node]))


@expression(gast.Lambda)
def lower_lambda(lo: Lowering, node: Any) -> Any:
    return closure(lo, node, "<lambda>")


def closure(lo: Lowering, node: Any, name: str) -> FunctionV:
    """A function made inside the call: defaults are evaluated now, names later."""
    defaults = tuple(lo.expr(d) for d in node.args.defaults)
    keyword_defaults = tuple(None if d is None else lo.expr(d) for d in node.args.kw_defaults)
    return FunctionV(node, lo.frame, defaults, keyword_defaults, name)


@expression(gast.NamedExpr)
def lower_walrus(lo: Lowering, node: Any) -> Any:
    value = lo.expr(node.value)
    store_name(lo, node.target.id, value)
    return value


@expression(gast.Starred)
def lower_starred(lo: Lowering, node: Any) -> Any:
    raise lo.refuse(codes.STAR, "a starred expression here", node=node)
