"""Comprehensions, as the loops they stand for; a generator expression only where its consumer uses it up at once."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import gast

from janusc.frontend import names
from janusc.frontend.nodes import nodes_of
from janusc.lowering import codes
from janusc.lowering.abstract import DictV, Frame, FunctionV, Known, ListV, MethodV, Sym, Unbound
from janusc.lowering.assign import set_item
from janusc.lowering.effects import acts
from janusc.lowering.lowering import Lowering, expression, statement
from janusc.lowering.operands import exact_type
from janusc.lowering.store import parts

RESULT = "_jc_result"
_CONSUMERS = (sum, tuple, list, min, max, any, all, sorted, set, deque, Counter)


@expression(gast.ListComp)
def lower_list_comp(lo: Lowering, node: Any) -> Any:
    return collect(lo, node, ListV([]), _call(node, "append", [node.elt]))


@expression(gast.DictComp)
def lower_dict_comp(lo: Lowering, node: Any) -> Any:
    target = _at(gast.Subscript(value=_result(node), slice=node.key, ctx=gast.Store()), node)
    return collect(lo, node, DictV({}), _at(_Entry(targets=[target], value=node.value, type_comment=None), node))


class _Entry(gast.Assign):  # type: ignore[misc]
    """``result[key] = value`` of a comprehension, which evaluates the key first, as no assignment does."""


@statement(_Entry)
def lower_entry(lo: Lowering, node: Any) -> None:
    (target,) = node.targets
    key = lo.expr(target.slice)
    value = lo.expr(node.value)
    set_item(lo, lo.expr(target.value), key, value)


@expression(gast.SetComp)
def lower_set_comp(lo: Lowering, node: Any) -> Any:
    from janusc.lowering.lower_container import made

    return collect(lo, node, made(lo, set, ()), _call(node, "add", [node.elt]))


@expression(gast.GeneratorExp)
def lower_generator(lo: Lowering, node: Any) -> Any:
    raise lo.refuse(codes.COMPREHENSION, "a generator expression that is kept")


def consume(lo: Lowering, function: Any, node: Any) -> Any:
    """``sum(x for x in xs)`` and the like: the generator is used up before the call returns."""
    from janusc.lowering.lower_call import call

    if not any(function is f for f in _CONSUMERS):
        raise lo.refuse(codes.COMPREHENSION, "a generator expression that is kept")
    generator = node.args[0]
    point = lo.mark()
    items = collect(lo, generator, ListV([]), _call(generator, "append", [generator.elt]))
    if function in (any, all) and len(node.args) == 1 and not node.keywords and changes(lo, point, generator):
        lo.rewind(point)
        return quantified(lo, generator, function is any)
    if function in (sum, min, max) and changes(lo, point, generator) and not _keep_their_values(items):
        raise lo.refuse(codes.COMPREHENSION, "a generator expression that changes the items it has given")
    rest = [lo.expr(a) for a in node.args[1:]]
    keywords = {k.arg: lo.expr(k.value) for k in node.keywords}
    return call(lo, Known(function), [items, *rest], keywords)


_TAKES_IN: dict[tuple[type, str], str] = {
    (list, "extend"): "append",
    (deque, "extend"): "append",
    (deque, "extendleft"): "appendleft",
    (set, "update"): "add",
}


def take_in(lo: Lowering, method: MethodV, generator: Any) -> Any:
    """``queue.extend(x for x in xs)`` takes in one item after the other, and ``join`` makes a list first."""
    from janusc.lowering.lower_call import call

    if method.name == "join" and exact_type(method.owner) is str:
        items = collect(lo, generator, ListV([]), _call(generator, "append", [generator.elt]))
        return call(lo, method, [items], {})
    step = _TAKES_IN.get((exact_type(method.owner) or object, method.name))
    if step is None:
        raise lo.refuse(codes.COMPREHENSION, "a generator expression that is kept")
    collect(lo, generator, method.owner, _call(generator, step, [generator.elt]))
    return Known(None)


def changes(lo: Lowering, point: tuple[Any, ...], generator: Any) -> bool:
    """Whether what was lowered since ``point`` does more than compute: then it matters how far a generator runs.

    The collecting of the items themselves, a write at the place of the whole generator expression, is none.
    """
    store, lengths, contents, (written, *_) = point
    place = lo.span(generator)
    made = [n for region, length in zip(lo.builder.regions, lengths) for n in region.nodes[length:]]
    followed = any(p.items != items or p.real is not real for p, items, real in contents)
    stored = any(lo.store.get(slot) is not value for slot, value in store.items())
    named = any(slot not in store for slot in lo.store.changes(store, lo.frame.id))
    return followed or stored or named or lo.written.keys() != written.keys() or acts(made, lambda n: n.span == place)


def _keep_their_values(items: ListV) -> bool:
    """Whether no item can be changed by what comes after it: each is a number, text, or a tensor of its own."""
    held = items.items if items.real is None else [items.real.element]
    seen = [p.value for item in held for p in parts(item) if isinstance(p, Sym) and p.is_tensor]
    tensors = [p for item in held for p in parts(item) if isinstance(p, Sym) and p.is_tensor]
    plain = all(isinstance(item, (Known, Sym)) for item in held)
    return plain and items.real is None and all(p.fresh for p in tensors) and len(set(seen)) == len(seen)


def quantified(lo: Lowering, node: Any, positive: bool) -> Any:
    """``any`` and ``all`` over a generator with effects: the loop ends at the item that decides."""
    from janusc.lowering.truth import truth

    negated = _at(gast.UnaryOp(op=gast.Not(), operand=node.elt), node.elt)
    found = _at(gast.Name(id=RESULT, ctx=gast.Store(), annotation=None, type_comment=None), node)
    true = _at(gast.Constant(value=True, kind=None), node)
    stop = _at(gast.Assign(targets=[found], value=true, type_comment=None), node)
    step = _at(gast.If(test=node.elt if positive else negated, body=[stop], orelse=[]), node)
    decided = truth(lo, collect(lo, node, Known(False), step, stops=True))
    if positive or isinstance(decided, bool):
        return Known(decided is positive) if isinstance(decided, bool) else decided
    return computed_not(lo, decided)


def computed_not(lo: Lowering, value: Any) -> Any:
    from janusc.lowering.lower_operator import computed

    return computed(lo, "not_", value)


def collect(lo: Lowering, node: Any, empty: Any, step: Any, stops: bool = False) -> Any:
    """Run the loops of a comprehension around ``step``, which adds to ``empty``; its targets stay its own.

    ``stops``: what is collected is a flag, which ends all loops.
    """
    inside = [step, *(t for g in node.generators for t in g.ifs), *(g.iter for g in node.generators[1:])]
    if any(isinstance(n, gast.Lambda) for n in nodes_of(inside)):
        raise lo.refuse(codes.COMPREHENSION, "a lambda in a comprehension")
    if any(g.is_async for g in node.generators):
        raise lo.refuse(codes.COMPREHENSION, "an asynchronous comprehension")
    body: Any = step
    result = f"{RESULT}_{lo.new_frame(parsed=None, function=None, is_library=False).id}"
    for generator in reversed(node.generators):
        for test in reversed(generator.ifs):
            body = _at(gast.If(test=test, body=[body], orelse=[]), test)
        loop = gast.For(target=generator.target, iter=generator.iter, body=[body], orelse=[], type_comment=None)
        loop._jc_stop = result if stops else None
        body = _at(loop, node)

    targets = sorted(names.stores([g.target for g in node.generators]))
    refuse_captured(lo, targets)
    _rename(body, result)
    saved = {name: lo.fetch(lo.local(name)) for name in targets}
    outer = lo.frame.locals
    lo.frame.locals = outer | frozenset(targets)
    try:
        lo.bind(result, empty)
        lo.stmt(body)
        collected = lo.store.pop(lo.local(result))
    finally:
        lo.frame.locals = outer
        for name, value in saved.items():
            if value is Unbound:
                lo.store.pop(lo.local(name), None)
            else:
                lo.bind(name, value)
    return collected


def refuse_captured(lo: Lowering, targets: list[str]) -> None:
    """The variables of a comprehension are its own: an inner function that captures such a name means another one."""
    for value in list(lo.store.values()):
        for part in parts(value):
            if isinstance(part, FunctionV) and _is_inside(part.frame, lo.frame):
                if not names.captures(part.node).isdisjoint(targets):
                    raise lo.refuse(codes.COMPREHENSION, "a comprehension over a name that an inner function captures")


def _is_inside(frame: Frame | None, outer: Frame) -> bool:
    while frame is not None and frame is not outer:
        frame = frame.parent
    return frame is outer


def _at(new: Any, where: Any) -> Any:
    gast.copy_location(new, where)
    site = getattr(where, "_jc_site", None)
    if site is not None:
        new._jc_site = site
    return new


def _result(node: Any) -> Any:
    return _at(gast.Name(id=RESULT, ctx=gast.Load(), annotation=None, type_comment=None), node)


def _call(node: Any, method: str, args: list[Any]) -> Any:
    function = _at(gast.Attribute(value=_result(node), attr=method, ctx=gast.Load()), node)
    return _at(gast.Expr(value=_at(gast.Call(func=function, args=args, keywords=[]), node)), node)


def _rename(tree: Any, name: str) -> None:
    for n in nodes_of(tree):
        if isinstance(n, gast.Name) and n.id == RESULT:
            n.id = name
