"""Which names a range of statements needs from before it, given those needed after it.

Works backwards over structured statements (after ``jumps``). Where in doubt a name counts as live: an unbound one costs
nothing, since ``outline`` passes unbound names on as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gast

from janusc.frontend import names

_Live = frozenset[str]


def live_in(statements: Sequence[Any], live_out: _Live = frozenset()) -> _Live:
    """The names live before the statements; globals and builtins that they read are among them."""
    live = live_out
    for node in reversed(statements):
        live = _before(node, live)
    return live


def live_between(statements: Sequence[Any], live_out: _Live = frozenset()) -> tuple[_Live, ...]:
    """The names live before each statement, and after the last: one set more than there are statements."""
    sets = [live_out]
    for node in reversed(statements):
        sets.append(_before(node, sets[-1]))
    return tuple(reversed(sets))


def _before(node: Any, live: _Live) -> _Live:
    handler = _HANDLERS.get(type(node))
    if handler is not None:
        result: _Live = handler(node, live)
        return result
    found = names.names_of(node)
    # a walrus may not run, and a rebinding inner function is not called yet: only plain targets end a life
    return (live - _targets(node)) | found.loads | found.deletes


def _targets(node: Any) -> _Live:
    """The names that a simple statement assigns whenever it completes."""
    if isinstance(node, gast.Assign):
        return frozenset().union(*(_plain_stores(target) for target in node.targets))
    if isinstance(node, (gast.AugAssign, gast.AnnAssign)):
        return _plain_stores(node.target) if node.value is not None else frozenset()
    if isinstance(node, (gast.FunctionDef, gast.AsyncFunctionDef, gast.ClassDef)):
        return frozenset({node.name})
    if isinstance(node, gast.Delete):
        return frozenset(target.id for target in node.targets if isinstance(target, gast.Name))
    if isinstance(node, (gast.Import, gast.ImportFrom)):
        return names.stores(node)
    return frozenset()


def _plain_stores(target: Any) -> _Live:
    if isinstance(target, gast.Name):
        return frozenset({target.id})
    if isinstance(target, (gast.Tuple, gast.List)):
        return frozenset().union(*(_plain_stores(item) for item in target.elts))
    if isinstance(target, gast.Starred):
        return _plain_stores(target.value)
    return frozenset()


def _return(node: Any, live: _Live) -> _Live:
    return names.loads(node.value)


def _raise(node: Any, live: _Live) -> _Live:
    # a handler around it may go on with what was live
    return live | names.loads([node.exc, node.cause])


def _if(node: Any, live: _Live) -> _Live:
    return names.loads(node.test) | live_in(node.body, live) | live_in(node.orelse, live)


def _loop(node: Any, live: _Live) -> _Live:
    stop = getattr(node, "_jc_stop", None)
    flags = frozenset({stop} if stop else ())
    start, targets = (node.iter, node.target) if isinstance(node, gast.For) else (node.test, None)
    again = frozenset() if targets is not None else names.loads(start)
    head = live | live_in(node.orelse, live) | again
    while True:
        body = live_in(node.body, head | flags)
        if targets is not None:
            body = (body - _plain_stores(targets)) | names.loads(targets)
        if body <= head:
            return head | names.loads(start)
        head |= body


def _with(node: Any, live: _Live) -> _Live:
    # the manager may swallow an exception: then what the body would assign keeps its old value
    inside = live | live_in(node.body, live)
    for index, item in reversed(list(enumerate(node.items))):
        kept = live if index else frozenset()  # an outer manager may swallow what an inner one raises on entry
        inside = (inside - _plain_stores(item.optional_vars)) | kept
        inside |= names.loads([item.context_expr, item.optional_vars])
    return inside


def _try(node: Any, live: _Live) -> _Live:
    after = live | live_in(node.finalbody, live)
    handled = after.union(*(_handler(handler, after) for handler in node.handlers))
    body = handled | live_in(node.orelse, after)
    # the body may fail before any of its assignments
    return body | live_in(node.body, body) | names.loads(node.body)


def _handler(node: Any, live: _Live) -> _Live:
    return names.loads(node.type) | live_in(node.body, live) | names.loads(node.body)


def _match(node: Any, live: _Live) -> _Live:
    result = live | names.loads(node.subject)
    for case in node.cases:
        result |= names.loads([case.pattern, case.guard]) | live_in(case.body, live)
    return result


_HANDLERS: dict[Any, Any] = {
    gast.Return: _return,
    gast.Raise: _raise,
    gast.If: _if,
    gast.For: _loop,
    gast.While: _loop,
    gast.With: _with,
    gast.Try: _try,
    gast.TryStar: _try,
    gast.Match: _match,
}
