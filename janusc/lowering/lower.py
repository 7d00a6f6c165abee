"""From a parsed function and the arguments of a call to a chain of transactions.

The statements of the function are an agenda: a branch that is decided puts its statements in front, so that what is
left is at any moment a list of statements, the rest of the function. A statement that can't stand in a graph becomes a
host range; what comes before and after it are transactions of their own. The walk starts anew with what it learned,
which is simple and cheap.
"""

from __future__ import annotations

import time
import types as pytypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gast

from janusc.diagnostics import Diagnostic, Refusal
from janusc.frontend import names
from janusc.frontend.parse import ParsedFunction
from janusc.lowering import (  # noqa: F401  (each registers its constructs)
    assign,
    codes,
    comprehension,
    loops,
    lower_call,
    lower_expr,
    lower_operator,
    lower_state,
    lower_stmt,
    ops,
)
from janusc.lowering.abstract import (
    UNKNOWN,
    BoundV,
    DictV,
    FunctionV,
    Known,
    ListV,
    Live,
    MethodV,
    SuperV,
    Sym,
    TupleV,
    Unbound,
)
from janusc.lowering.branch import decide, specialise, truth
from janusc.lowering.ir import FUNCTION, Arg, Chain, Graph, HostRange, Segment, walk
from janusc.lowering.lower_torch import sample_from_type
from janusc.lowering.lowering import Lowering, Unconvertible
from janusc.lowering.operands import SCALARS, escape, is_code_like, lift, sample_type, sym
from janusc.lowering.split import split
from janusc.lowering.store import parts
from janusc.types import TensorType, TupleType, Type, join_all

_MANY_WALKS, _MOST_SECONDS = 16, 5.0  # each walk begins anew; a function that needs more is left to ordinary Python


@dataclass(frozen=True)
class HostStatements:
    """A host range before it is outlined."""

    key: str
    statements: tuple[Any, ...]
    live_ins: tuple[str, ...]
    live_outs: tuple[str, ...] | None


@dataclass(frozen=True)
class Lowered:
    """The chain, what has to be outlined for it, and why statements run on the host."""

    chain: Chain
    hosts: tuple[HostStatements, ...]
    notes: tuple[Diagnostic, ...]


def lower(
    parsed: ParsedFunction,
    function: pytypes.FunctionType,
    arguments: Mapping[str, Any],
    profile: Any,
    original: Callable[[Any], Any],
    is_opaque: Callable[[Any], bool],
) -> Lowered:
    """Convert a function, with the arguments of the call at hand as samples; Refusal where nothing can be converted."""
    hosts: dict[int, Diagnostic | None] = {}
    pieces: dict[int, list[Any]] = {}
    loaded: dict[int, frozenset[str]] = {}
    started = time.perf_counter()
    walks = 0
    while True:
        walks += 1
        walk_ = Walk(
            parsed, function, arguments, Lowering(profile, original, is_opaque), hosts, pieces, profile, loaded
        )
        try:
            lowered = walk_.run()
        except Unconvertible as error:
            if error.culprits and not any(id(s) in hosts for s in error.culprits):
                hosts.update((id(s), error.diagnostic) for s in error.culprits)
                continue
            if walk_.current is None or id(walk_.current) in hosts:
                raise Refusal(error.diagnostic) from None
            late = walks >= _MANY_WALKS and time.perf_counter() - started > _MOST_SECONDS
            if parsed.captured_writes or late:
                raise Refusal(error.diagnostic, final=late) from None
            split_off(walk_.current, error, hosts, pieces, walk_.stable_names())
            continue
        if walk_.idle:  # a transaction without tensor work is better run as it is
            for statement in walk_.idle:
                hosts.setdefault(id(statement), None)
            continue
        return lowered


def split_off(
    statement: Any,
    error: Unconvertible,
    hosts: dict[int, Diagnostic | None],
    pieces: dict[int, list[Any]],
    stable: tuple[frozenset[str], frozenset[str]],
) -> None:
    """Run a statement on the host, or only the opaque call in it where what is around can stand in a graph."""
    parts = split(statement, error.call, *stable) if error.call is not None and id(statement) not in pieces else None
    if parts is None:
        hosts[id(statement)] = error.diagnostic
        return
    pieces[id(statement)] = parts
    hosts[id(parts[-2])] = error.diagnostic  # the call alone, right before what is left of the statement


class Walk:
    """One walk over the agenda under a fixed set of host statements."""

    def __init__(
        self,
        parsed: ParsedFunction,
        function: pytypes.FunctionType,
        arguments: Mapping[str, Any],
        lo: Lowering,
        hosts: dict[int, Diagnostic | None],
        pieces: dict[int, list[Any]],
        profile: Any,
        loaded: dict[int, frozenset[str]],
    ) -> None:
        self.parsed, self.function, self.arguments = parsed, function, arguments
        self.lo, self.host_ids, self.pieces, self.profile = lo, hosts, pieces, profile
        self.current: Any = None
        self.agenda: list[Any] = list(parsed.body)
        self.steps: list[Segment | HostRange] = []
        self.outlined: list[HostStatements] = []
        self.notes: list[Diagnostic] = []
        self.segment_statements: list[Any] = []
        self.idle: list[Any] = []
        self.useful = False
        self.loaded: dict[int, frozenset[str]] = loaded
        self.segment_agenda: list[Any] = list(self.agenda)
        self.live_ins: tuple[str, ...] = ()

    def run(self) -> Lowered:
        self.open_first()
        returned = False
        while self.agenda and not returned:
            statement = self.agenda.pop(0)
            if id(statement) in self.pieces:
                self.agenda[:0] = self.pieces[id(statement)]
                continue
            self.current = statement
            if id(statement) in self.host_ids:
                returned = self.run_on_host(statement)
            elif isinstance(statement, gast.Return):
                self.finish(Known(None) if statement.value is None else self.lo.expr(statement.value))
                returned = True
            else:
                self.step(statement)
        self.current = None
        if not returned:
            self.finish(Known(None))
        return self.result()

    def stable_names(self) -> tuple[frozenset[str], frozenset[str]]:
        """The locals that no call can rebind, and the global names of modules."""
        names_of_modules = (n for n, v in self.function.__globals__.items() if isinstance(v, pytypes.ModuleType))
        return self.parsed.local_names - self.parsed.cell_names, frozenset(names_of_modules) - self.parsed.local_names

    def result(self) -> Lowered:
        if not self.useful and not self.idle:
            notes = self.notes or [Diagnostic(codes.NO_WORK, "there is no tensor work to convert", self.parsed.span)]
            raise Refusal(notes[0])
        chain = Chain(self.parsed.name, tuple(self.steps), self.lo.builder.objects)
        return Lowered(chain, tuple(self.outlined), tuple(self.notes))

    # ---- segments

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
        for name in self.parsed.parameters:
            sample = self.arguments[name]
            if name in self._star_parameters():
                lo.bind(name, self.star(name, sample))
            else:
                parameter = builder.parameter(sample_type(sample))
                lo.bind(name, lift(lo, sample, parameter, name))
        lo.node = None
        self.live_ins = (FUNCTION, *self.parsed.parameters)

    def _star_parameters(self) -> tuple[str, ...]:
        extra = self.parsed.tree.args
        return tuple(p.id for p in (extra.vararg, extra.kwarg) if p is not None)

    def star(self, name: str, sample: Any) -> Any:
        """``*args`` and ``**kwargs``: fresh containers of a guarded length, item by item."""
        from janusc.lowering.iterate import live_dict_items, live_sequence

        owner = Live(self.lo.builder.parameter(), sample)
        if isinstance(sample, tuple):
            return TupleV(tuple(live_sequence(self.lo, owner)))
        return DictV(live_dict_items(self.lo, owner))

    def step(self, statement: Any) -> None:
        """One statement of the agenda; a decided ``if`` hands over its statements."""
        lo = self.lo
        self.segment_statements.append(statement)
        if not isinstance(statement, gast.If) or getattr(statement, "_jc_host", False):
            lo.stmt(statement)
            return
        lo.node = statement
        predicate = lo.expr(statement.test)
        known = truth(lo, predicate)
        if not isinstance(known, bool):
            direction = decide(lo, statement.test, known, statement)
            if direction is None:
                self.both(statement, known)
                return
            known = direction
        self.agenda[:0] = statement.body if known else statement.orelse
        lo.node = None

    def both(self, statement: Any, predicate: Any) -> None:
        lo = self.lo
        if predicate.stable and predicate.sample is not UNKNOWN and type(predicate.sample) in SCALARS:
            specialise(lo, statement, predicate, lambda: lo.block(statement.body), lambda: lo.block(statement.orelse))
        else:
            from janusc.lowering.branch import cond

            cond(lo, statement, predicate, lambda: lo.block(statement.body), lambda: lo.block(statement.orelse))
        lo.node = None

    def finish(self, result: Any) -> None:
        """The last segment: what the call returns, then the commit."""
        lo = self.lo
        lo.node = self.current if self.current is not None else self.parsed.tree
        value = escape(lo, result)
        lower_state.commit(lo)
        guards, body = lo.builder.finish((value,))
        self.add_segment(Segment(self.live_ins, guards, body, (), True, self.resume()))

    def resume(self) -> str:
        """The rest of the function from the start of this segment, outlined; for the first, the function itself."""
        if not self.steps:
            return ""
        key = f"rest_{len(self.outlined)}"
        rest = tuple(self.segment_agenda)
        self.outlined.append(HostStatements(key, rest, self.live_ins[1:], None))
        return key

    def add_segment(self, segment: Segment) -> None:
        worth = is_worth(segment.body)
        self.useful = self.useful or worth
        branched = any(isinstance(s, gast.If) for s in self.segment_statements)
        if worth or branched or not self.segment_statements:
            self.steps.append(segment)
        else:
            self.idle.extend(self.segment_statements)

    # ---- host ranges

    def run_on_host(self, statement: Any) -> bool:
        """Close the segment, run this statement and the host statements after it; whether that was the end."""
        rest_before = [statement, *self.agenda]
        statements = [statement]
        while self.agenda and (id(self.agenda[0]) in self.host_ids or _is_bare_return(self.agenda[0])):
            statements.append(self.agenda.pop(0))
        reasons = [d for d in (self.host_ids.get(id(s)) for s in statements) if d is not None]
        self.notes.extend(d for d in reasons if d not in self.notes)
        needed = self.loads(rest_before)
        self.close_segment(needed)
        lo = self.lo
        bound = self.bound_names()
        inputs = tuple(n for n in sorted(names.loads(statements) | names.deletes(statements)) if n in bound)
        final = not self.agenda
        later = self.loads(self.agenda)
        changed = self.locals_among(names.stores(statements) | names.deletes(statements))
        outputs = None if final else tuple(sorted(changed & later))
        key = f"host_{len(self.outlined)}"
        inputs = inputs if final else tuple(sorted({*inputs, *(n for n in outputs or () if n in bound)}))
        self.outlined.append(HostStatements(key, tuple(statements), inputs, outputs))
        reason = reasons[0].message if reasons else "no tensor work"
        span = lo.span(statement)
        self.steps.append(HostRange(key, inputs, outputs or (), final, reason, span))
        if final:
            return True
        self.reopen(later, changed, statements)
        return False

    def loads(self, statements: list[Any]) -> frozenset[str]:
        """The names that statements read; asked for the rest of the function again and again, so kept per statement."""
        found: set[str] = set()
        for statement in statements:
            key = id(statement)
            if key not in self.loaded:
                self.loaded[key] = names.loads([statement])
            found |= self.loaded[key]
        return frozenset(found)

    def locals_among(self, found: frozenset[str]) -> frozenset[str]:
        """The names that are variables of the function: neither global nor nonlocal."""
        return frozenset(n for n in found if n in self.parsed.local_names or n.startswith("_jc_"))

    def bound_names(self) -> frozenset[str]:
        lo = self.lo
        return frozenset(s[2] for s, v in lo.store.items() if s[:2] == ("local", lo.frame.id) and v is not Unbound)

    def close_segment(self, needed: frozenset[str]) -> None:
        """End the transaction before a host range; what is needed later becomes Python locals."""
        lo = self.lo
        if not self.segment_statements:
            return
        lo.node = self.segment_statements[-1]
        live = sorted(needed & self.bound_names())
        values: tuple[Arg, ...] = tuple(self.exported(name) for name in live)
        lower_state.commit(lo)
        guards, body = lo.builder.finish(values)
        self.add_segment(Segment(self.live_ins, guards, body, tuple(live), False, self.resume()))
        lo.node = None

    def exported(self, name: str) -> Arg:
        value = self.lo.store[self.lo.local(name)]
        if any(isinstance(p, (FunctionV, BoundV, MethodV, SuperV)) for p in parts(value)):
            error = self.lo.refuse(
                codes.FUNCTION_VALUE, f"{name}, a function made inside the call, is needed by ordinary Python"
            )
            error.culprits = [s for s in self.segment_statements if name in names.stores([s])]
            raise error
        return value.value if isinstance(value, Sym) else escape(self.lo, value)

    def reopen(self, later: frozenset[str], changed: frozenset[str], statements: list[Any]) -> None:
        """A new segment after a host range: every local it needs is a live-in, of the kind known or profiled."""
        lo = self.lo
        held = {s[2]: v for s, v in lo.store.items() if s[:2] == ("local", lo.frame.id)}
        lo.store.clear()
        lo.start_segment()
        function = lo.builder.parameter()
        lo.frame.function = Live(function, self.function)
        lo.node = statements[0]
        lo.segment_site = lo.site(statements[0], "after")
        live_ins = [FUNCTION]
        seen = assigned_types(self.parsed, statements, self.profile)
        for name in sorted((later & frozenset(held)) | (later & changed)):
            if name in changed:
                abstract = self.after_host(name, seen.get(name))
            elif held[name] is Unbound:
                continue
            else:
                abstract = self.carry_over(name, held[name])
            lo.bind(name, abstract)
            live_ins.append(name)
        lo.node = None
        self.live_ins = tuple(live_ins)
        self.segment_statements = []
        self.segment_agenda = list(self.agenda)

    def after_host(self, name: str, seen: Type | None) -> Any:
        """A local that the host range may have set: of the type the profile saw there."""
        lo = self.lo
        sample = sample_from_type(seen)
        value = lo.builder.parameter(sample_type(sample))
        abstract = sym(value, sample)
        if isinstance(seen, TensorType):
            import torch

            lo.check("type", (value, lo.builder.ref(torch.Tensor)), f"{name} after ordinary Python", lo.span())
        elif sample is not UNKNOWN and type(sample) in SCALARS:
            lo.check("type", (value, lo.builder.ref(type(sample))), f"{name} after ordinary Python", lo.span())
        else:
            return Sym(value, UNKNOWN, maybe_unbound=True)
        return abstract

    def carry_over(self, name: str, held: Any) -> Any:
        """A local that the host range did not touch."""
        lo = self.lo
        if isinstance(held, Live):
            return lift(lo, held.sample, lo.builder.parameter(), name)
        if isinstance(held, Known):
            return self.carry_known(name, held)
        if isinstance(held, Sym):
            value = lo.builder.parameter(held.value.type)
            if held.is_tensor or (held.pytype is not None and held.pytype in SCALARS):
                lo.check("type", (value, lo.builder.ref(held.pytype)), name, lo.span())
            return Sym(
                value,
                held.sample,
                stable=held.stable and not held.is_tensor,
                pytype=held.pytype,
                element=held.element,
                maybe_unbound=held.maybe_unbound,
            )
        kind = {TupleV: tuple, ListV: list, DictV: dict}.get(type(held))
        element = next((p for p in parts(held) if isinstance(p, Sym)), None)
        same = isinstance(held, (TupleV, ListV)) and all(isinstance(x, Sym) for x in held.items)
        return Sym(lo.builder.parameter(), UNKNOWN, pytype=kind, element=element if same else None)

    def carry_known(self, name: str, held: Known) -> Any:
        lo = self.lo
        value = lo.builder.parameter(sample_type(held.value))
        if type(held.value) in SCALARS and not isinstance(held.value, bool):
            lo.check("type", (value, lo.builder.ref(type(held.value))), name, lo.span())
            return sym(value, held.value, stable=True)
        if held.value is None or is_code_like(held.value):
            return lift(lo, held.value, value, name)
        return held  # computed from literals


def _is_bare_return(statement: Any) -> bool:
    return isinstance(statement, gast.Return) and (
        statement.value is None or isinstance(statement.value, (gast.Constant, gast.Name))
    )


def assigned_types(parsed: ParsedFunction, statements: list[Any], profile: Any) -> dict[str, Type | None]:
    """The profiled types of the names that plain assignments among host statements set; others are left out."""
    from janusc.frontend import parse

    plain: dict[str, list[Type | None]] = {}
    count: dict[str, int] = {}
    for node in (n for s in statements for n in gast.walk(s)):
        if isinstance(node, gast.Name) and isinstance(node.ctx, (gast.Store, gast.Del)):
            count[node.id] = count.get(node.id, 0) + 1
        if isinstance(node, gast.Assign) and len(node.targets) == 1:
            seen = profile.type_at(parse.site(parsed, node))
            seen = profile.type_at(parse.site(parsed, node.value)) if seen is None else seen
            for name, part in _targets(node.targets[0], seen):
                plain.setdefault(name, []).append(part)
    return {
        name: join_all([t for t in types if t is not None])
        for name, types in plain.items()
        if len(types) == count.get(name) and any(t is not None for t in types)
    }


def _targets(target: Any, seen: Type | None) -> list[tuple[str, Type | None]]:
    if isinstance(target, gast.Name):
        return [(target.id, seen)]
    if isinstance(target, gast.Tuple) and isinstance(seen, TupleType) and len(seen.items) == len(target.elts):
        pairs = zip(target.elts, seen.items)
        return [(t.id, part) for t, part in pairs if isinstance(t, gast.Name)]
    return []


def is_worth(body: Graph) -> bool:
    """Whether a transaction does any tensor work."""
    tensor_ops = (ops.TORCH, ops.TORCH_RANDOM, ops.TORCH_WRITE, ops.METHOD_RANDOM, ops.MODULE_CALL)
    for node in walk(body):
        if node.op in tensor_ops or (node.op in (ops.METHOD, ops.METHOD_WRITE) and _yields_tensor(node)):
            return True
        if node.op in (ops.OPERATOR, ops.OPERATOR_READ, ops.OPERATOR_WRITE, ops.ATTRIBUTE) and _yields_tensor(node):
            return True
    return False


def _yields_tensor(node: Any) -> bool:
    return any(isinstance(v.type, TensorType) for v in (*node.outputs, *(a for a in node.args if hasattr(a, "type"))))
