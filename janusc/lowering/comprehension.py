"""Comprehensions, as the loops they stand for; a generator expression only where its consumer uses it up at once."""

from __future__ import annotations

from typing import Any

import gast

from janusc.frontend import names
from janusc.lowering import codes
from janusc.lowering.abstract import DictV, ListV, Unbound
from janusc.lowering.lowering import Lowering, expression

RESULT = "_jc_result"
_CONSUMERS = (sum, tuple, list, min, max, any, all, sorted, set)


@expression(gast.ListComp)
def lower_list_comp(lo: Lowering, node: Any) -> Any:
    return collect(lo, node, ListV([]), _call(node, "append", [node.elt]))


@expression(gast.DictComp)
def lower_dict_comp(lo: Lowering, node: Any) -> Any:
    target = _at(gast.Subscript(value=_result(node), slice=node.key, ctx=gast.Store()), node)
    return collect(lo, node, DictV({}), _at(gast.Assign(targets=[target], value=node.value, type_comment=None), node))


@expression(gast.SetComp)
def lower_set_comp(lo: Lowering, node: Any) -> Any:
    raise lo.refuse(codes.COMPREHENSION, "a set comprehension")


@expression(gast.GeneratorExp)
def lower_generator(lo: Lowering, node: Any) -> Any:
    raise lo.refuse(codes.COMPREHENSION, "a generator expression that is kept")


def consume(lo: Lowering, function: Any, node: Any) -> Any:
    """``sum(x for x in xs)`` and the like: the generator is used up before the call returns."""
    from janusc.lowering.abstract import Known
    from janusc.lowering.lower_call import call

    if not any(function is f for f in _CONSUMERS):
        raise lo.refuse(codes.COMPREHENSION, "a generator expression that is kept")
    generator = node.args[0]
    items = collect(lo, generator, ListV([]), _call(generator, "append", [generator.elt]))
    rest = [lo.expr(a) for a in node.args[1:]]
    keywords = {k.arg: lo.expr(k.value) for k in node.keywords}
    return call(lo, Known(function), [items, *rest], keywords)


def collect(lo: Lowering, node: Any, empty: Any, step: Any) -> Any:
    """Run the loops of a comprehension around ``step``, which adds to ``empty``; its targets stay its own."""
    if any(isinstance(n, (gast.Lambda, *names.COMPREHENSIONS)) for s in [step] for n in gast.walk(s) if n is not node):
        if any(isinstance(n, gast.Lambda) for n in gast.walk(step)):
            raise lo.refuse(codes.COMPREHENSION, "a lambda in a comprehension")
    if any(g.is_async for g in node.generators):
        raise lo.refuse(codes.COMPREHENSION, "an asynchronous comprehension")
    body: Any = step
    for generator in reversed(node.generators):
        for test in reversed(generator.ifs):
            body = _at(gast.If(test=test, body=[body], orelse=[]), test)
        loop = gast.For(target=generator.target, iter=generator.iter, body=[body], orelse=[], type_comment=None)
        body = _at(loop, node)

    targets = sorted(names.stores([g.target for g in node.generators]))
    result = f"{RESULT}_{lo.new_frame(parsed=None, function=None, is_library=False).id}"
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
    for n in gast.walk(tree):
        if isinstance(n, gast.Name) and n.id == RESULT:
            n.id = name
