"""The step of an optimizer under a condition: what is around it stays in graphs, and the step ends one where it is due.

Before::                              After::

    if (i + 1) % 4 == 0:                  _jc_when = not not (i + 1) % 4 == 0
        losses.append(loss)               if _jc_when: losses.append(loss)
        optimizer.step()                  if _jc_when: optimizer.step()
        optimizer.zero_grad()             if _jc_when: optimizer.zero_grad()
"""

from __future__ import annotations

from typing import Any

import gast
import torch

from janusc.frontend.nodes import nodes_of
from janusc.lowering import codes, ops
from janusc.lowering.abstract import Live
from janusc.lowering.branch import both_ways
from janusc.lowering.lower_optimizer import stepped
from janusc.lowering.lowering import Lowering, Unconvertible
from janusc.lowering.operands import arg

WHEN = "_jc_when_"
"""The names of conditions that were found beforehand begin so."""


def is_part(statement: Any) -> bool:
    """Whether this is one of the parts that stand for another statement: which way it goes is not asked anew."""
    return getattr(statement, "_jc_part", False)


def lower_both(lo: Lowering, statement: Any, predicate: Any) -> list[Any] | None:
    """An ``if`` that may go both ways; where it makes a step, nothing, and the statements that stand for it."""
    if getattr(statement, "_jc_step", False):
        _step_if(lo, statement, predicate)
        return None
    parts = split_at_step(lo, statement)
    if parts is None:
        both_ways(lo, statement, predicate)
    return parts


def split_at_step(lo: Lowering, statement: Any) -> list[Any] | None:
    """What stands for an ``if`` whose body makes a step of an optimizer; None for any other."""
    if not isinstance(statement, gast.If) or is_part(statement):
        return None
    if any(isinstance(n, (gast.Return, gast.NamedExpr)) for n in nodes_of(statement)):
        return None
    body = statement.body
    places = [i for i, inner in enumerate(body) if _is_step(lo, inner)]
    if len(places) != 1:
        return None
    (place,) = places
    flag = f"{WHEN}{statement.lineno}_{statement.col_offset}"
    parts = [_found(flag, statement.test)]
    if body[:place] or statement.orelse:
        parts.append(_under(flag, body[:place] or [_nothing(statement)], statement.orelse, statement))
    parts.append(_under(flag, [body[place]], [], statement))
    parts[-1]._jc_step = True
    if body[place + 1 :]:
        parts.append(_under(flag, body[place + 1 :], [], statement))
    return parts


def _step_if(lo: Lowering, statement: Any, condition: Any) -> None:
    """A step behind the transaction, if its condition holds; it ends the segment."""
    optimizer = _optimizer(lo, statement.body[0])
    if optimizer is None:
        raise lo.refuse_call(codes.OPAQUE_CALL, "the step of something else than one of torch's optimizers")
    lo.builder.emit(ops.STEP, "", (optimizer.value, arg(lo, condition)), (), (), lo.span())
    lo.ends = True


def _is_step(lo: Lowering, statement: Any) -> bool:
    try:
        return _optimizer(lo, statement) is not None
    except Unconvertible:
        return False


def _optimizer(lo: Lowering, statement: Any) -> Live | None:
    """The optimizer that a statement steps: by what torch's class does, or a scheduler has put in its place."""
    call = statement.value if isinstance(statement, gast.Expr) else None
    if not isinstance(call, gast.Call) or call.args or call.keywords or not isinstance(call.func, gast.Attribute):
        return None
    if call.func.attr != "step" or not isinstance(call.func.value, (gast.Name, gast.Attribute)):
        return None
    owner = lo.within(statement, lambda: lo.expr(call.func.value))
    if not isinstance(owner, Live) or not isinstance(owner.sample, torch.optim.Optimizer):
        return None
    return stepped(owner, lo.within(statement, lambda: lo.expr(call.func)))


def _found(flag: str, test: Any) -> Any:
    """The truth of a test, asked for once, under a name."""
    value = test
    for _ in range(2):
        value = gast.copy_location(gast.UnaryOp(op=gast.Not(), operand=value), test)
    target = _name(flag, gast.Store(), test)
    return gast.copy_location(gast.Assign(targets=[target], value=value, type_comment=None), test)


def _under(flag: str, body: list[Any], orelse: list[Any], where: Any) -> Any:
    made = gast.copy_location(gast.If(test=_name(flag, gast.Load(), where.test), body=body, orelse=orelse), where)
    made._jc_part = True
    return made


def _name(flag: str, context: Any, where: Any) -> Any:
    return gast.copy_location(gast.Name(id=flag, ctx=context, annotation=None, type_comment=None), where)


def _nothing(where: Any) -> Any:
    return gast.copy_location(gast.Pass(), where)
