"""What branches on a test: ``if``, conditional expressions, ``and`` and ``or``; and ``assert``.

One way where that is certain or was always so, under an assert (``truth``); else both (``cond``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gast
import torch

from janusc.lowering import codes
from janusc.lowering.abstract import UNKNOWN, Sym
from janusc.lowering.cond import cond
from janusc.lowering.lowering import Lowering, Unconvertible, expression, statement
from janusc.lowering.operands import SCALARS
from janusc.lowering.truth import assume, check_raise, decide, test_site, truth


def specialise(lo: Lowering, node: Any, predicate: Sym, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """Both sides if that can be done; else the side of the call at hand, under an assert until that was false."""
    point, site = lo.mark(), f"{test_site(lo, node)}:value"
    try:
        return cond(lo, node, predicate, then, orelse, objects=False)
    except Unconvertible:
        if lo.profile.is_refuted(site):
            raise
        lo.rewind(point)
    direction = bool(predicate.sample)
    assume(lo, predicate, direction, site)
    return then() if direction else orelse()


def both_ways(lo: Lowering, statement: Any, predicate: Sym) -> None:
    """An ``if`` of the function itself that went both ways, or may."""

    def then() -> None:
        lo.block(statement.body)

    def orelse() -> None:
        lo.block(statement.orelse)

    is_of_call = predicate.stable and predicate.sample is not UNKNOWN and type(predicate.sample) in SCALARS
    (specialise if is_of_call else cond)(lo, statement, predicate, then, orelse)


@statement(gast.If)
def lower_if(lo: Lowering, node: Any) -> None:
    branch_on(lo, node.test, lambda: lo.block(node.body), lambda: lo.block(node.orelse), node)


def branch_on(lo: Lowering, test: Any, then: Callable[[], Any], orelse: Callable[[], Any], where: Any) -> Any:
    """A branch on a test expression; ``where`` is the whole construct."""
    predicate = lo.expr(test)
    known = truth(lo, predicate)
    if isinstance(known, bool):
        return then() if known else orelse()
    direction = decide(lo, test, known, where)
    if direction is None:
        direction = check_raise(lo, known, where)
    if direction is not None:
        return then() if direction else orelse()
    if known.stable and known.sample is not UNKNOWN and not isinstance(known.sample, torch.Tensor):
        return specialise(lo, where, known, then, orelse)
    return cond(lo, where, known, then, orelse)


@expression(gast.IfExp)
def lower_ifexp(lo: Lowering, node: Any) -> Any:
    return branch_on(lo, node.test, lambda: lo.expr(node.body), lambda: lo.expr(node.orelse), node)


@expression(gast.BoolOp)
def lower_boolop(lo: Lowering, node: Any) -> Any:
    operands = [lambda n=n: lo.expr(n) for n in node.values]
    tests = list(node.values)
    if isinstance(node.op, gast.And):
        return lower_and(lo, operands, node, tests)
    return lower_or(lo, operands, node, tests)


def lower_and(lo: Lowering, operands: Sequence[Callable[[], Any]], node: Any, tests: Any = None) -> Any:
    value = operands[0]()
    if len(operands) == 1:
        return value
    rest = tests[1:] if tests else None
    return _short(lo, value, node, tests, lambda: lower_and(lo, operands[1:], node, rest), lambda: value)


def lower_or(lo: Lowering, operands: Sequence[Callable[[], Any]], node: Any, tests: Any = None) -> Any:
    value = operands[0]()
    if len(operands) == 1:
        return value
    rest = tests[1:] if tests else None
    return _short(lo, value, node, tests, lambda: value, lambda: lower_or(lo, operands[1:], node, rest))


def _short(lo: Lowering, value: Any, node: Any, tests: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    known = truth(lo, value)
    if isinstance(known, bool):
        return then() if known else orelse()
    direction = decide(lo, tests[0], known) if tests else None
    if direction is not None:
        return then() if direction else orelse()
    return cond(lo, node, known, then, orelse)


@statement(gast.Assert)
def lower_assert(lo: Lowering, node: Any) -> None:
    """A failing assert leaves the graph, so that the user's own AssertionError is raised by the eager run."""
    if not __debug__:
        return
    known = truth(lo, lo.expr(node.test))
    if isinstance(known, bool):
        if not known:
            raise lo.refuse(codes.RAISES, "this assert fails")
        return
    lo.check("true", (known.value,), lo.site(node, "Assert"), lo.span())
