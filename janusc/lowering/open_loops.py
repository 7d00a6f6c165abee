"""Loops that can't be a node, kept as a loop of steps: each pass runs the transactions and host ranges of the body.

Before::                                     After, as steps of the chain::

    for x in xs:                                 it = iter(xs)             host range
        y = net(x)                               start
        obs = env.step(int(y))                   more, x = next of it      host range
        ys.append(y)                             test                      left here where there is no more
                                                 y = net(x)                transaction
                                                 obs = env.step(int(y))    host range
                                                 ys.append(y)              transaction
                                                 end                       once more

So ordinary Python in a loop costs only itself, and runs once whatever fails: what is left of a call after a failure in
the middle of a pass is the rest of that pass, and then the loop over the same iterator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from janusc.diagnostics import Diagnostic
from janusc.frontend import liveness, names
from janusc.frontend.loop_parts import LoopParts, take_apart, targets
from janusc.lowering.agenda import After, HostStatements
from janusc.lowering.ir import HostRange, Mark, Segment
from janusc.lowering.segments import Walk
from janusc.lowering.worth import amount_of_work

LEAST_WORK = 4
"""The tensor operations of a pass from which on a loop is taken to be worth what its steps cost."""


@dataclass(frozen=True)
class _Entered:
    """Where the walk entered a loop: the steps before it, its locals, and what may be set in it."""

    steps: int
    held: Mapping[str, Any]
    changed: frozenset[str]
    locals: tuple[str, ...]


class Opening:
    """A loop that the walk goes through as steps; closed again where that turns out not to be worth it."""

    def __init__(self, walk: Walk, loop: LoopParts, reason: Diagnostic) -> None:
        self.walk, self.loop, self.reason = walk, loop, reason
        self.entered: _Entered | None = None
        walk.pieces[id(loop.loop)] = [*loop.start, loop.head[0], *loop.loop.body, loop.tail]
        walk.host_ids.update((id(s), None) for s in loop.start)
        walk.marks[id(loop.head[0])] = self.enter
        walk.marks[id(loop.tail)] = self.leave

    def enter(self) -> None:
        """Before the first pass, and at each next one: ask whether there is one."""
        walk, loop = self.walk, self.loop
        walk.current = loop.loop
        following = walk.loads([*loop.head, *walk.agenda])
        if not walk.close_segment(following):
            return
        bound, held, steps = walk.bound_names(), walk.held(), len(walk.steps)
        changed = walk.locals_among(targets(loop.loop)) | {loop.more}
        later = liveness.live_in(walk.agenda)
        after_a_pass = next(i for i, s in enumerate(walk.agenda) if s is loop.tail)
        own = walk.parsed.local_names  # which live to the end of the call, or until they are set again
        kept = tuple(sorted(changed & (own | later | liveness.live_in(walk.agenda[after_a_pass:]))))
        found = walk.locals_among(names.stores(loop.head)) & (own | later | {loop.more})
        inputs = tuple(sorted(found | (names.loads(loop.head) & (bound | changed))))
        key = f"host_{len(walk.outlined)}"
        span = walk.lo.span(loop.loop)
        walk.outlined.append(HostStatements(key, loop.head, inputs, tuple(sorted(found))))
        walk.steps.append(Mark("start", kept, span=span))
        walk.steps.append(
            HostRange(key, inputs, tuple(sorted(found)), False, "the loop goes on in ordinary Python", span)
        )
        walk.steps.append(Mark("test", kept, loop.more, span))
        self.entered = _Entered(steps, held, changed, kept)
        # what a local is at the start of a pass was assigned before the loop, or anywhere in it
        walk.begin_after(After(held, later, changed, (loop.loop, *walk.parsed.body), "inside"))

    def leave(self) -> None:
        """After a pass."""
        walk, loop, entered = self.walk, self.loop, self.entered
        assert entered is not None
        walk.current = loop.loop
        following = [loop.tail, *loop.after, *walk.agenda]
        if not walk.close_segment(walk.loads(following)):
            return
        bodies = [step.body for step in walk.steps[entered.steps :] if isinstance(step, Segment)]
        if sum(map(amount_of_work, bodies)) < LEAST_WORK:
            self.close()
            return
        walk.steps.append(Mark("end", entered.locals, loop.stop or "", walk.lo.span(loop.loop)))
        walk.agenda[:0] = loop.after
        held = {name: value for name, value in entered.held.items() if name not in entered.changed}
        walk.begin_after(After(held, walk.loads(walk.agenda), entered.changed, (loop.loop,)))

    def close(self) -> None:
        """Run the loop as one statement of ordinary Python after all."""
        walk, loop = self.walk, self.loop
        del walk.pieces[id(loop.loop)]
        walk.host_ids[id(loop.loop)] = self.reason
        before = [i for i, start in enumerate(walk.starts) if any(s is loop.loop for s in start.agenda)]
        walk.go_back(before[-1] if before else 0)


def open_up(walk: Walk, statement: Any, reason: Diagnostic) -> bool:
    """Go through a loop as steps from now on; False where the statement is none, or was tried before."""
    known = walk.openings.get(id(statement))
    if known is not None:
        if id(statement) in walk.pieces:
            del walk.pieces[id(statement)]
        return False
    loop = take_apart(statement)
    if loop is not None:
        walk.openings[id(statement)] = Opening(walk, loop, reason)
    return loop is not None
