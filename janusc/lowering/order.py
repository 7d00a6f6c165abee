"""``sorted``, ``list.sort``, and ``min`` and ``max`` with a key: the keys are computed in the graph, by a loop."""

from __future__ import annotations

from typing import Any

import gast

from janusc import ordering
from janusc.frontend import names, parse
from janusc.frontend.nodes import nodes_of
from janusc.lowering import codes, ops
from janusc.lowering.abstract import (
    UNKNOWN,
    DictV,
    FunctionV,
    IterableV,
    Known,
    ListV,
    Live,
    SliceV,
    Sym,
    TupleV,
    Unbound,
)
from janusc.lowering.iterate import item_sample
from janusc.lowering.lower_state import is_kept
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import emit, escape, exact_type, is_plain
from janusc.lowering.store import parts

_ITEMS, _KEY, _ITEM = "_jc_items", "_jc_key", "_jc_item"


def sorted_items(lo: Lowering, items: Any, kwargs: dict[str, Any]) -> Sym:
    """``sorted(items, key=..., reverse=...)`` of what is known at run time, as a new list."""
    if not set(kwargs) <= {"key", "reverse"}:
        raise lo.refuse(codes.RAISES, "TypeError: sorted takes key and reverse")
    reverse = kwargs.get("reverse", Known(False))
    if not is_plain(reverse):
        raise lo.refuse_call(codes.OPAQUE_CALL, "sorted in an order that an object decides")
    held, keys = keyed(lo, items, kwargs.get("key"))
    arguments = (escape(lo, held), escape(lo, keys), escape(lo, reverse))
    result = emit(lo, ops.BUILTIN_READ, ordering.ORDERED, arguments, UNKNOWN)
    element = item_sample(lo, items)
    return Sym(result.value, UNKNOWN, fresh=True, pytype=list, element=element if isinstance(element, Sym) else None)


def sort_list(lo: Lowering, owner: Any, args: list[Any], kwargs: dict[str, Any]) -> Known:
    """``owner.sort(...)``: the list gets its own items in their order."""
    from janusc.lowering.assign import set_item

    if args:
        raise lo.refuse(codes.RAISES, "TypeError: sort takes no positional arguments")
    refuse_looking_at(lo, owner, kwargs.get("key"))
    result = sorted_items(lo, owner, kwargs)
    set_item(lo, owner, SliceV(Known(None), Known(None), Known(None)), result)
    return Known(None)


def foremost_item(lo: Lowering, largest: bool, items: Any, kwargs: dict[str, Any]) -> Any:
    """``max(items, key=...)`` and ``min``; without any item the error is for the eager run to raise."""
    if set(kwargs) != {"key"}:
        raise lo.refuse_call(codes.OPAQUE_CALL, "min or max with a default")
    held, keys = keyed(lo, items, kwargs["key"])
    arguments = (escape(lo, held), escape(lo, keys), escape(lo, Known(largest)))
    return emit(lo, ops.BUILTIN_READ, ordering.FOREMOST, arguments, UNKNOWN)


def keyed(lo: Lowering, items: Any, key: Any) -> tuple[Any, Any]:
    """The items as a sequence, and the list of their keys, which no user code compares."""
    if not is_list(items, tuple):
        items = lo.expr(comprehension(lo, gast.Name(_hold(lo, _ITEMS, items), gast.Load(), None, None), None))
    keys = items
    if key is not None and not (isinstance(key, Known) and key.value is None):
        held = gast.Name(_hold(lo, _ITEMS, items), gast.Load(), None, None)
        keys = lo.expr(comprehension(lo, held, _hold(lo, _KEY, key)))
        for name in (_KEY, _ITEMS):
            lo.store.pop(lo.local(name), None)
    site = lo.site(lo.node, "keys")
    if lo.profile.is_refuted(site):
        raise lo.refuse_call(codes.OPAQUE_CALL, "a sort by what decides its own order")
    plain = emit(lo, ops.BUILTIN_READ, ordering.PLAIN_QUERY, (escape(lo, keys),), True)
    lo.check("true", (plain.value,), site, lo.span())
    return items, keys


def is_list(items: Any, *others: type) -> bool:
    """Whether a value is a list, or of one of the other classes, for certain."""
    return exact_type(items) in (list, *others)


def _hold(lo: Lowering, name: str, abstract: Any) -> str:
    """A variable of the conversion's own for what has no name."""
    if isinstance(abstract, IterableV) and abstract.kind not in ("range", "view"):
        raise lo.refuse_call(codes.OPAQUE_CALL, "a sort of what is made while it is sorted")
    lo.bind(name, abstract)
    return name


def comprehension(lo: Lowering, items: Any, key: str | None) -> Any:
    """``[key(item) for item in items]`` at the place of the call."""
    item = gast.Name(_ITEM, gast.Load(), None, None)
    function = gast.Name(key, gast.Load(), None, None)
    value = item if key is None else gast.Call(func=function, args=[item], keywords=[])
    target = gast.Name(_ITEM, gast.Store(), None, None)
    loop = gast.comprehension(target=target, iter=items, ifs=[], is_async=0)
    result = gast.ListComp(elt=value, generators=[loop])
    for node in nodes_of(result):
        gast.copy_location(node, lo.node)
        node._jc_site = f"{parse.place(lo.node)}/key"
    return result


def refuse_looking_at(lo: Lowering, owner: Any, key: Any) -> None:
    """While Python sorts a list it is empty for all others: a key that may look at it is called by Python."""
    if key is None or isinstance(key, Known):
        return
    made = isinstance(owner, ListV) and not is_kept(lo, owner)
    if isinstance(key, FunctionV):
        seen = [lo.fetch(("local", key.frame.id, name)) for name in names.captures(key.node)]
        if all(_hides(value, owner, made) for value in seen):
            return
    raise lo.refuse_call(codes.OPAQUE_CALL, "a list is sorted by a function that may look at it")


def _hides(value: Any, owner: Any, made: bool) -> bool:
    """Whether nothing leads from a value to the list that is sorted; ``made``: it was made here and kept nowhere."""
    if isinstance(value, Known) or is_plain(value):
        return True
    if value is Unbound or isinstance(value, Live):  # a global, or an object from before
        return made
    if not isinstance(value, (ListV, DictV, TupleV)) or not made or value is owner:
        return False
    real = getattr(value, "real", None)
    if real is not None:
        return is_plain(real.element)
    return all(_hides(part, owner, made) for part in parts(value) if part is not value)
