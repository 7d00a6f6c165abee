"""Blocks under a grad mode with ordinary Python in them: their statements are steps between two marks.

Before::                                     After, as steps of the chain::

    with torch.no_grad():                        manager = ... no_grad()     host range
        y = net(x)                               enter by manager
        obs = env.step(int(y))                   y = net(x)                  transaction
        total = total + obs                      obs = env.step(int(y))      host range
                                                 total = total + obs         transaction
                                                 leave

What is left of a call after a failure in the block is the rest of the block under the same ``with``, and then what
comes after it. Other managers are asked to leave with the exception that ends their block, which ordinary Python alone
can do.
"""

from __future__ import annotations

import types
from typing import Any

import gast

from janusc.diagnostics import Diagnostic
from janusc.frontend import names
from janusc.frontend.outline import BLOCK
from janusc.lowering.agenda import After, HostStatements
from janusc.lowering.ir import HostRange, Mark, Segment
from janusc.lowering.lower_stmt import GRAD_MODES
from janusc.lowering.segments import Walk
from janusc.lowering.worth import amount_of_work

_LEAST_WORK = 2


class OpenBlock:
    """A block that the walk goes through as steps; closed again where that turns out not to be worth it."""

    def __init__(self, walk: Walk, statement: Any, grad: bool, reason: Diagnostic) -> None:
        self.walk, self.statement, self.grad, self.reason = walk, statement, grad, reason
        self.name = f"_jc_manager_{statement.lineno}_{statement.col_offset}"
        call = gast.Call(func=_name(BLOCK), args=[statement.items[0].context_expr], keywords=[])
        self.made = gast.Assign(targets=[_name(self.name, gast.Store())], value=call, type_comment=None)
        self.first, self.last = gast.Pass(), gast.Expr(value=_name(self.name))  # what is left needs the manager
        for node in (self.made, self.made.targets[0], call, call.func, self.first, self.last, self.last.value):
            gast.copy_location(node, statement)
        self.steps = 0
        walk.pieces[id(statement)] = [self.first, *statement.body, self.last]
        walk.marks[id(self.first)] = self.enter
        walk.marks[id(self.last)] = self.leave
        walk.blocks[id(self.last)] = self

    def enter(self) -> None:
        """Before the first statement."""
        walk = self.walk
        walk.current = self.statement
        if not walk.close_segment(walk.loads([self.made, *walk.agenda])):
            return
        held, span = walk.held(), walk.lo.span(self.statement)
        inputs = tuple(sorted(names.loads([self.made]) & walk.bound_names()))
        key = f"host_{len(walk.outlined)}"
        self.steps = len(walk.steps)
        walk.outlined.append(HostStatements(key, (self.made,), inputs, (self.name,)))
        walk.steps.append(HostRange(key, inputs, (self.name,), False, "the block begins in ordinary Python", span))
        walk.steps.append(Mark("enter", (), self.name, span))
        walk.begin_after(After(held, walk.loads(walk.agenda), frozenset({self.name}), (self.statement,), "inside"))

    def leave(self) -> None:
        """After the last statement."""
        walk = self.walk
        walk.current = self.statement
        if not walk.close_segment(walk.loads(walk.agenda)):
            return
        bodies = [step.body for step in walk.steps[self.steps :] if isinstance(step, Segment)]
        if sum(map(amount_of_work, bodies)) < _LEAST_WORK:
            self.close()
            return
        walk.steps.append(Mark("leave", (), span=walk.lo.span(self.statement)))
        walk.begin_after(After(walk.held(), walk.loads(walk.agenda), frozenset(), (self.statement,)))

    def close(self) -> None:
        """Run the block as one statement of ordinary Python after all."""
        walk = self.walk
        del walk.pieces[id(self.statement)]
        walk.host_ids[id(self.statement)] = self.reason
        before = [i for i, start in enumerate(walk.starts) if any(s is self.statement for s in start.agenda)]
        walk.go_back(before[-1] if before else 0)

    def around(self, statements: list[Any]) -> list[Any]:
        """What is left of the block, under its manager again."""
        if not statements:
            return []
        manager = gast.copy_location(_name(self.name), self.statement)
        items = [gast.withitem(context_expr=manager, optional_vars=None)]
        return [gast.copy_location(gast.With(items=items, body=statements, type_comment=None), self.statement)]


def _name(name: str, ctx: Any = None) -> Any:
    return gast.Name(id=name, ctx=ctx or gast.Load(), annotation=None, type_comment=None)


def open_block(walk: Walk, statement: Any, reason: Diagnostic) -> bool:
    """Go through a block as steps from now on; False where the statement is none, or was tried before."""
    if id(statement) in walk.openings:
        walk.pieces.pop(id(statement), None)
        return False
    grad = grad_mode(walk, statement)
    if grad is None:
        return False
    walk.openings[id(statement)] = OpenBlock(walk, statement, grad, reason)
    return True


def grad_mode(walk: Walk, statement: Any) -> bool | None:
    """The grad mode of a block of nothing else; None for any other statement."""
    if not isinstance(statement, gast.With) or len(statement.items) != 1:
        return None
    (item,) = statement.items
    call = item.context_expr
    if item.optional_vars is not None or not isinstance(call, gast.Call) or call.args or call.keywords:
        return None
    manager = fixed(walk, call.func)
    return next((grad for mode, grad in GRAD_MODES.items() if mode is manager), None)


def fixed(walk: Walk, node: Any) -> Any:
    """What a global name, or an attribute of a module, is now; None for anything else."""
    if isinstance(node, gast.Name):
        return None if node.id in walk.parsed.local_names else walk.function.__globals__.get(node.id)
    if isinstance(node, gast.Attribute):
        owner = fixed(walk, node.value)
        return vars(owner).get(node.attr) if type(owner) is types.ModuleType else None
    return None
