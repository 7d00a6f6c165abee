"""The walk over a function's statements: segments, and the host ranges between them.

The statements of the function are an agenda: a branch that is decided puts its statements in front, so that what is
left is at any moment a list of statements, the rest of the function. Where a segment starts, that list and what is
known of the locals are all there is to know, so that the walk can return there with what it learned since.
"""

from __future__ import annotations

import types as pytypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gast

from janusc import torch_private
from janusc.diagnostics import Diagnostic, Refusal
from janusc.frontend import names
from janusc.frontend.iteration import PREFIX
from janusc.frontend.nodes import nodes_of
from janusc.frontend.outline import PART
from janusc.frontend.parse import ParsedFunction
from janusc.lowering import codes, lower_state, ops
from janusc.lowering.abstract import (
    UNKNOWN,
    BoundV,
    FunctionV,
    Known,
    Live,
    MethodV,
    PartsV,
    SuperV,
    Sym,
    TupleV,
    Unbound,
)
from janusc.lowering.agenda import After, HostStatements, Lowered, Start, in_blocks, is_bare_return
from janusc.lowering.conditional_step import is_part, lower_both
from janusc.lowering.ir import FUNCTION, Arg, Chain, Const, Graph, HostRange, Mark, Segment, Step
from janusc.lowering.live_ins import after_host, assigned_types, carry_over
from janusc.lowering.lower_autograd import check_sources, put_last
from janusc.lowering.lower_match import taken_or_tried
from janusc.lowering.lowering import Lowering, Unconvertible
from janusc.lowering.operands import arg, escape, is_plain, lift, realise
from janusc.lowering.own_calls import invariants, is_seen_recursive
from janusc.lowering.parameters import parameter, star, star_parameters
from janusc.lowering.routine import Recursive, call_routine
from janusc.lowering.store import parts
from janusc.lowering.truth import decide, truth
from janusc.lowering.worlds import OUTSIDE
from janusc.lowering.worth import hands_on_tensor, has_ending, is_worth
from janusc.types import HostType


class Walk:
    """The walk over the agenda; what it learns to run on the host lets it go back to the start of a segment."""

    def __init__(
        self,
        parsed: ParsedFunction,
        function: pytypes.FunctionType,
        arguments: Mapping[str, Any],
        profile: Any,
        begin: Callable[[], Lowering],
    ) -> None:
        self.parsed, self.function, self.arguments, self.profile = parsed, function, arguments, profile
        self.begin = begin
        self.recursive: set[Any] = set()  # functions that call themselves, to be routines
        self.inlined: set[Any] = set()  # and those that can't be
        self.lengths: dict[str, int] = {}  # see ``Lowering``
        self.endings: set[int] = set()  # the statements that end their segments
        self.host_ids: dict[int, Diagnostic | None] = {}
        self.pieces: dict[int, list[Any]] = {}
        self.loaded: dict[int, frozenset[str]] = {}
        self.openings: dict[int, Any] = {}  # the loops that are gone through as steps, or were
        self.blocks: dict[int, Any] = {}  # what is gone through as steps under a grad mode, by its last statement
        self.marks: dict[int, Callable[[], None]] = {}  # what is done at a statement that stands for a place
        self.steps: list[Step] = []
        self.outlined: list[HostStatements] = []
        self.notes: list[Diagnostic] = []
        self.starts = [Start(tuple(parsed.body), 0, 0, 0)]
        self.go_back(0)

    def go_back(self, index: int) -> None:
        """Return to the start of a segment, and forget what came after it."""
        del self.starts[index + 1 :]
        start = self.starts[index]
        del self.steps[start.steps :], self.outlined[start.outlined :], self.notes[start.notes :]
        self.agenda = list(start.agenda)
        self.segment_statements: list[Any] = []
        self.current: Any = None
        self.is_open = False
        self.closed: Mapping[str, Any] | None = None  # the locals, where the segment is in the steps already
        self.point: tuple[Any, ...] | None = None  # before the statement that is lowered now

    def reconsider(self) -> None:
        """Walk this segment again, which less belongs to; where it begins with less, it is the host range before it."""
        first, after = self.in_pieces(self.starts[-1].agenda)[:1], self.starts[-1].after
        if not first or id(first[0]) not in self.host_ids or len(self.starts) == 1:
            self.go_back(len(self.starts) - 1)
        elif after is None or after.before is None:
            self.go_back(len(self.starts) - 2)
        else:
            self.starts[-1] = after.before
            self.go_back(len(self.starts) - 1)
            self.starts.pop()
            self.is_open, self.closed = True, after.held

    def stop_before(self) -> bool:
        """Go on right before the statement at hand, which belongs to the segment no longer; False where there is none.

        Nothing that came before depends on it.
        """
        if self.point is None or not self.segment_statements[: self.point[2]]:
            return False
        checkpoint, rest, done = self.point
        self.lo.return_to(checkpoint)
        del self.segment_statements[done:]
        self.agenda = [self.current, *rest]
        self.point = None
        return True

    def in_pieces(self, statements: Sequence[Any]) -> list[Any]:
        """The statements, the first of them in the parts that it is in by now."""
        found = list(statements)
        while found and id(found[0]) in self.pieces:
            found[:1] = self.pieces[id(found[0])]
        return found

    def run(self) -> Lowered:
        returned = False
        while not returned:
            if not self.is_open:
                self.open()
            self.point = None
            if not self.agenda:
                self.current = None
                returned = self.finish(self.result_of_itself)
                continue
            statement = self.agenda.pop(0)
            if id(statement) in self.marks:
                self.marks[id(statement)]()
                continue
            if id(statement) in self.pieces:
                self.agenda[:0] = self.pieces[id(statement)]
                continue
            self.current = self.lo.statement = statement
            if id(statement) in self.host_ids:
                returned = self.run_on_host(statement)
                continue
            rest, done = list(self.agenda), len(self.segment_statements)
            self.point = self.lo.checkpoint(), rest, done
            if isinstance(statement, gast.Return):
                returned = self.finish(Known(None) if statement.value is None else self.lo.expr(statement.value))
            else:
                self.step(statement)
                if self.lo.ends:
                    self.end_with(statement)
        return self.result()

    def stable_names(self) -> tuple[frozenset[str], frozenset[str]]:
        """The locals that no call can rebind, and the global names of modules."""
        names_of_modules = (n for n, v in self.function.__globals__.items() if issubclass(type(v), pytypes.ModuleType))
        return self.parsed.local_names - self.parsed.cell_names, frozenset(names_of_modules) - self.parsed.local_names

    def result(self) -> Lowered:
        bodies = [step.body for step in self.steps if isinstance(step, Segment)]
        hands_on = not self.notes and any(hands_on_tensor(body) for body in bodies)
        idle = None
        if not hands_on and not any(is_worth(body) for body in bodies):
            notes = self.notes or [Diagnostic(codes.NO_WORK, "there is no tensor work to convert", self.parsed.span)]
            idle = None if any(_calls(host, "_jc_works") for host in self.outlined) else notes[0]
            if idle is not None and not any(_calls(host, "_jc_equivalent") for host in self.outlined):
                raise Refusal(idle)
        chain = Chain(self.parsed.name, tuple(self.steps), self.lo.builder.objects)
        return Lowered(chain, tuple(self.outlined), tuple(self.notes), idle)

    # ---- segments

    def open(self) -> None:
        """The segment that starts where the walk went back to."""
        self.is_open = True
        self.result_of_itself: Any = Known(None)
        after = self.starts[-1].after
        if after is None:
            self.lo = self.begin()
            self.lo.recursive, self.lo.inlined, self.lo.lengths = self.recursive, self.inlined, self.lengths
            self.lo.endings = self.endings
            self.open_first()
        else:
            self.reopen(after)

    def open_first(self) -> None:
        lo = self.lo
        builder = lo.builder
        value = builder.parameter()
        live = Live(value, self.function)
        lo.frame = lo.new_frame(
            parsed=self.parsed,
            function=live,
            is_library=False,
            locals=self.parsed.local_names,
            global_names=self.parsed.global_names,
            nonlocal_names=self.parsed.nonlocal_names,
        )
        lo.node = self.parsed.tree
        code = builder.guard(ops.READ_ATTR, "__code__", (value,))
        builder.check(
            "is", (code, builder.ref(self.function.__code__, "own_code")), "the function's own code", lo.span()
        )
        self.own_guards = len(builder.guards)
        self.live_ins = (FUNCTION, *self.parsed.parameters)
        if self.function in self.recursive:
            self.call_itself(live)
            return
        first = Known(None) if not self.arguments else Live(value, next(iter(self.arguments.values())))
        if self.profile.varies():  # the graph is for all calls by now
            self.profile.vary_noted()
        if self.function not in self.inlined and is_seen_recursive(lo, self.parsed, first):
            raise Recursive(self.function)
        for name in self.parsed.parameters:
            sample = self.arguments[name]
            if name in star_parameters(self.parsed):
                lo.bind(name, star(lo, self.parsed, sample))
            else:
                lo.bind(name, parameter(lo, self.parsed, name, sample))
        lo.node = None

    def call_itself(self, function: Live) -> None:
        """All of a recursive function is a call of it, with arguments of which nothing is assumed beforehand."""
        lo = self.lo
        if star_parameters(self.parsed):
            raise lo.refuse(codes.RECURSION, f"recursion of {self.parsed.name}, with *args or **kwargs")
        constant = invariants(self.parsed.tree)
        given = {}
        for name in self.parsed.parameters:
            value, sample = lo.builder.parameter(), self.arguments[name]
            lo.worlds.note(value, {OUTSIDE: sample})
            given[name] = lift(lo, sample, value, name) if name in constant else Sym(value)
        lo.worlds.settled.clear()
        lo.node = None
        self.agenda = []
        frame = replace(lo.frame, id=lo.frame.id)
        self.result_of_itself = call_routine(lo, frame, lambda: list(given.items()))

    def step(self, statement: Any) -> None:
        """One statement of the agenda; a decided ``if`` hands over its statements."""
        lo = self.lo
        self.segment_statements.append(statement)
        if isinstance(statement, gast.Match):
            self.agenda[:0] = lo.within(statement, lambda: taken_or_tried(lo, statement))
            return
        if not isinstance(statement, gast.If) or getattr(statement, "_jc_host", False):
            lo.stmt(statement)
            return
        lo.node = statement
        predicate = lo.expr(statement.test)
        known = truth(lo, predicate)
        if not isinstance(known, bool):
            direction = None if is_part(statement) else decide(lo, statement.test, known, statement)
            if direction is None:
                self.both(statement, known)
                return
            known = direction
        self.agenda[:0] = statement.body if known else statement.orelse
        lo.node = None

    def both(self, statement: Any, predicate: Any) -> None:
        pieces = lower_both(self.lo, statement, predicate)
        if pieces is not None:
            self.pieces[id(statement)] = pieces
            if not self.stop_before():
                self.reconsider()
        self.lo.node = None

    def finish(self, result: Any) -> bool:
        """The last segment: what the call returns, then the commit; False where it is not worth one."""
        lo = self.lo
        lo.node = self.current if self.current is not None else self.parsed.tree
        if isinstance(result, TupleV) and not lower_state.is_kept(lo, result):
            result = TupleV(tuple(realise(lo, x) for x in result.items))
            value = arg(lo, result)
        else:
            value = escape(lo, result)
        self.commit()
        guards, body = lo.builder.finish((value,))
        return self.add_segment(Segment(self.live_ins, guards, body, (), True, self.resume()))

    def end_with(self, statement: Any) -> None:
        """The segment ends behind a statement that can't be taken back; the next one begins there."""
        later = self.loads(self.agenda)
        if self.close_segment(later):
            self.begin_after(After(self.held(), later, frozenset(), (statement,)))

    def commit(self) -> None:
        """The end of the body; where it can't be made, the statements of the segment run as they are."""
        try:
            lower_state.commit(self.lo)
            put_last(self.lo)
            check_sources(self.lo)
        except Unconvertible as error:
            error.culprits = error.culprits or list(self.segment_statements)
            raise

    def resume(self) -> str:
        """The rest of the function from the start of this segment, outlined; for the first, the function itself."""
        if not self.steps:
            return ""
        key = f"rest_{len(self.outlined)}"
        self.outlined.append(
            HostStatements(key, in_blocks(self.blocks, self.starts[-1].agenda), self.live_ins[1:], None)
        )
        return key

    def add_segment(self, segment: Segment) -> bool:
        """A transaction without tensor work is better run as it is: its statements go to the host, and False."""
        branched = any(isinstance(s, gast.If) for s in self.segment_statements)
        # what is known of a local that is set without a call helps the passes of a loop, and costs next to nothing
        known = self.openings and not any(
            isinstance(n, gast.Call) for s in self.segment_statements for n in nodes_of(s)
        )
        ends = has_ending(segment.body) and all(isinstance(s, Segment) for s in self.steps[-1:])  # no generator for it
        if is_worth(segment.body) or branched or known or ends or not self.segment_statements:
            self.steps.append(segment)
            return True
        for statement in self.segment_statements:
            self.host_ids.setdefault(id(statement), None)
        self.reconsider()
        return False

    # ---- host ranges

    def run_on_host(self, statement: Any) -> bool:
        """Close the segment, run this statement and the host statements after it; whether that was the end."""
        held = self.closed
        if held is None:
            if not self.close_segment(self.loads([statement, *self.agenda])):
                return False
            held = self.held()
        self.closed = None
        before = Start((statement, *self.agenda), len(self.steps), len(self.outlined), len(self.notes))
        statements = [statement]
        while self.agenda:
            self.agenda = self.in_pieces(self.agenda)
            if id(self.agenda[0]) not in self.host_ids and not is_bare_return(self.agenda[0]):
                break
            statements.append(self.agenda.pop(0))
        reasons = [d for d in (self.host_ids.get(id(s)) for s in statements) if d is not None]
        self.notes.extend(d for d in reasons if d not in self.notes)
        bound = frozenset(n for n, v in held.items() if v is not Unbound)
        loops = frozenset(n for n in bound if n.startswith(PREFIX))  # which end where the statements raise
        used = names.names_of(statements)
        inputs = tuple(sorted((used.loads | used.deletes | loops) & bound))
        final = not self.agenda
        later = self.loads(self.agenda)
        changed = self.locals_among(used.stores | used.deletes)
        outputs = None if final else tuple(sorted(changed & (later | self.parsed.local_names)))
        key = f"host_{len(self.outlined)}"
        inputs = inputs if final else tuple(sorted({*inputs, *(n for n in outputs or () if n in bound)}))
        self.outlined.append(HostStatements(key, tuple(statements), inputs, outputs))
        reason = reasons[0].message if reasons else "no tensor work"
        span = self.lo.span(statement)
        self.steps.append(HostRange(key, inputs, outputs or (), final, reason, span))
        if final:
            return True
        self.begin_after(After(held, later, changed, tuple(statements), before=before))
        return False

    def kept(self) -> frozenset[str]:
        """The locals that ordinary Python has set: they live to the end of the call, whether they are read or not."""
        found: set[str] = set()
        for step in self.steps:
            if isinstance(step, HostRange):
                found.update(step.live_outs)
            elif isinstance(step, Mark):
                found.update(step.locals)
        return self.parsed.local_names & found

    def given_up(self) -> frozenset[str]:
        """Those that this segment has deleted or set to a constant: what they held may go."""
        store, local = self.lo.store, self.lo.local
        return frozenset(n for n in self.kept() if store.get(local(n)) is Unbound or type(store.get(local(n))) is Known)

    def handed_over(self) -> frozenset[str]:
        """The locals that hold what ordinary Python has made in a part of a statement: it lives as long as they do."""
        made = {p for name, p in zip(self.live_ins, self.lo.builder.params) if name.startswith(PART)}
        found = ((n, v) for n, v in self.held().items() if isinstance(v, Sym) and v.value in made and not is_plain(v))
        return frozenset(n for n, _ in found) & self.parsed.local_names

    def held(self) -> Mapping[str, Any]:
        """The locals as they are now."""
        return {s[2]: v for s, v in self.lo.store.items() if s[:2] == ("local", self.lo.frame.id)}

    def begin_after(self, after: After) -> None:
        """A new segment, which the walk can return to."""
        self.starts.append(Start(tuple(self.agenda), len(self.steps), len(self.outlined), len(self.notes), after))
        self.go_back(len(self.starts) - 1)

    def loads(self, statements: list[Any]) -> frozenset[str]:
        """The names that statements read; asked for the rest of the function again and again, so kept per statement."""
        found: set[str] = set()
        for statement in statements:
            key = id(statement)
            if key not in self.loaded:
                used = names.names_of(statement)
                self.loaded[key] = used.loads | used.deletes
            found |= self.loaded[key]
        return frozenset(found)

    def locals_among(self, found: frozenset[str]) -> frozenset[str]:
        """The names that are variables of the function: neither global nor nonlocal."""
        return frozenset(n for n in found if n in self.parsed.local_names or n.startswith("_jc_"))

    def bound_names(self) -> frozenset[str]:
        lo = self.lo
        return frozenset(s[2] for s, v in lo.store.items() if s[:2] == ("local", lo.frame.id) and v is not Unbound)

    def close_segment(self, needed: frozenset[str]) -> bool:
        """End the transaction before a host range; what is needed later becomes Python locals."""
        lo = self.lo
        if not self.segment_statements:
            if not self.steps:
                self.steps.append(self.own_code_guard())
            return True
        lo.node = self.segment_statements[-1]
        needed |= self.handed_over()
        live = sorted(needed & self.bound_names())
        given_up = self.given_up() - needed
        values: tuple[Arg, ...] = tuple(self.exported(name) for name in live) + (Const(None),) * len(given_up)
        live += sorted(given_up)
        self.commit()
        guards, body = lo.builder.finish(values)
        lo.node = None
        return self.add_segment(Segment(self.live_ins, guards, body, tuple(live), False, self.resume()))

    def own_code_guard(self) -> Segment:
        """Before ordinary Python that comes first: all that it assumes is that the function has the code it had."""
        builder = self.lo.builder
        guards = Graph(tuple(builder.params), tuple(builder.guards[: self.own_guards]), ())
        return Segment(self.live_ins, guards, Graph((), (), ()), (), False, "")

    def exported(self, name: str) -> Arg:
        value = self.lo.store[self.lo.local(name)]
        if isinstance(value, BoundV) and isinstance(value.function, Live) and isinstance(value.owner, Live):
            method = value.function.value, value.owner.value
            return self.lo.builder.one(ops.BUILTIN, "types.MethodType", *method, span=self.lo.span())
        if any(isinstance(p, (FunctionV, BoundV, MethodV, PartsV, SuperV)) for p in parts(value)):
            error = self.lo.refuse(
                codes.FUNCTION_VALUE, f"{name}, a function made inside the call, is needed by ordinary Python"
            )
            error.culprits = [s for s in self.segment_statements if name in names.stores([s])]
            raise error
        return value.value if isinstance(value, Sym) else escape(self.lo, value)

    def live_in(self, assume: Callable[[Lowering, str, Any], Any], name: str, known: Any) -> Any:
        """A live-in as it is assumed to be; of one that turned out to be otherwise, nothing is assumed."""
        builder = self.lo.builder
        params, guards = len(builder.params), len(builder.guards)
        try:
            return assume(self.lo, name, known)
        except Unconvertible:
            del builder.params[params:], builder.guards[guards:]
            return Sym(builder.parameter(), UNKNOWN, maybe_unbound=True)

    def reopen(self, after: After) -> None:
        """A new segment after a host range: every local it needs is a live-in, of the kind known or profiled."""
        lo = self.lo
        lo.store.clear()
        lo.start_segment()
        lo.frame.function = Live(lo.builder.parameter(), self.function)
        lo.node = after.statements[0]
        lo.segment_site = lo.site(lo.node, after.kind)
        watched = lo.builder.guard(ops.BUILTIN_READ, torch_private.WATCHED_QUERY, (), HostType("bool"), lo.span())
        lo.check("false", (watched,), "nobody watches torch", lo.span())
        block = next((self.blocks[id(s)] for s in self.agenda if id(s) in self.blocks), None)
        lo.grad = True if block is None else block.grad
        if block is not None:
            mode = lo.builder.guard(ops.BUILTIN_READ, "torch.is_grad_enabled", (), HostType("bool"), lo.span())
            lo.check("true" if lo.grad else "false", (mode,), "the grad mode of the block", lo.span())
        live_ins = [FUNCTION]
        seen = assigned_types(self.parsed, after.statements, self.profile)
        for name in sorted((after.later | self.kept()) & (after.changed | after.held.keys())):
            if name not in after.later:
                lo.bind(name, Sym(lo.builder.parameter(), UNKNOWN, maybe_unbound=True))
            elif name in after.changed:
                lo.bind(name, self.live_in(after_host, name, seen.get(name)))
            elif after.held[name] is Unbound:
                continue
            else:
                lo.bind(name, self.live_in(carry_over, name, after.held[name]))
            live_ins.append(name)
        lo.node = None
        self.live_ins = tuple(live_ins)


def _calls(host: HostStatements, mark: str) -> bool:
    return any(getattr(node, mark, False) for node in nodes_of(host.statements))
