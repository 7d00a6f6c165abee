"""The state of one lowering: graph under construction, abstract store, frames; and the dispatch over node kinds.

The families of constructs are in the ``lower_*`` files, each registering its node kinds in STATEMENTS or EXPRESSIONS.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gast

from janusc.diagnostics import Diagnostic
from janusc.frontend import parse
from janusc.lowering import codes
from janusc.lowering.abstract import DictV, Frame, ListV, Live, Sym, Unbound
from janusc.lowering.builder import OF_A_SEGMENT, Builder
from janusc.lowering.ir import Arg, Value
from janusc.lowering.store import Slot, Store, is_leaf, parts
from janusc.lowering.worlds import OUTSIDE, Worlds
from janusc.registry import Registry
from janusc.source import Span, span_of

EXPRESSIONS: Registry[type, Callable[[Lowering, Any], Any]] = Registry("expressions")
STATEMENTS: Registry[type, Callable[[Lowering, Any], None]] = Registry("statements")


_OF_A_SEGMENT = (
    "memo", "reads", "written", "written_containers", "tuples", "written_lists", "written_keys", "holders",
    "module_reads", "differentiates", "endable", "histories", "object_reads", "made", "set_at_run_time", "open",
    "handed_on",
)  # fmt: skip


def _copy(held: Any) -> Any:
    """A copy of a collection, and of those that a dictionary or a pair holds."""
    if type(held) is dict:
        return {k: _copy(v) if type(v) in (dict, set, tuple) else v for k, v in held.items()}
    if type(held) is tuple:
        return tuple(_copy(v) if type(v) is dict else v for v in held)
    return held.copy()


class Unconvertible(Exception):
    """This statement can't stand in a graph; the diagnostic says why."""

    def __init__(self, diagnostic: Diagnostic, call: Any = None) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic
        self.call = call  # the opaque call that could run on its own, in the root frame
        self.may_enter = False  # what is called may have graphs of its own, or an equivalent
        self.has_equivalent = False  # it has: what calls it gains by that, be there graphs or not
        self.may_end = False  # the other statements to blame may stay, each as the end of its segment
        self.works = False  # it was seen to make tensors, so that there may be graphs
        self.culprits: list[Any] = []  # other statements to run on the host, if not the one at hand


class Unreached(Unconvertible):
    """No call got here yet, and what is needed to go on is not known; the branch to it is taken not to be taken."""

    def __init__(self, diagnostic: Diagnostic, site: str) -> None:
        super().__init__(diagnostic)
        self.site = site


class Lowering:
    """One walk over a function's source with the arguments of the call at hand as samples."""

    def __init__(self, profile: Any, original: Callable[[Any], Any], is_opaque: Callable[[Any], bool]) -> None:
        self.profile = profile
        self.original = original  # a janusc-compiled function → the function it was made from
        self.is_opaque = is_opaque
        self.builder = Builder()
        self.store = Store()
        self.frame: Frame = None  # type: ignore[assignment]  # set by the first activation
        self.frames = 0
        self.node: Any = None
        self.spans: dict[int, tuple[Any, Span]] = {}  # by the identity of the node, which is kept with it
        self.has_spurious = bool(profile.spurious())
        self.statement: Any = None  # of the function itself, whatever it leads to
        self.grad = True
        self.open: dict[
            Value, tuple[str, Any, Any]
        ] = {}  # parameters of which only a recursion may ask: see ``lifted``
        self.handed_on: set[int] = set()  # the arguments of calls of user code, of which nothing need be known yet
        self.segment_site = ""  # where this segment starts; "" for the first one
        self.loop_depth = 0
        self.worlds = Worlds()
        self.lengths: dict[str, int] = {}  # of existing lists and tuples, by place, as first met in this conversion
        self.of_any_length: set[int] = set()  # those of which another length was met before, by identity
        self.of_any_keys: set[str] = set()  # views of dicts, by place, that gave other numbers of items before
        self.routines: list[Any] = []  # of the recursive functions being lowered
        self.recursive: set[Any] = set()  # the functions that are routines
        self.endings: set[int] = set()  # the statements that end their segments, by identity
        self.inlined: set[Any] = set()  # the recursive functions that can't be
        self.start_segment()

    def start_segment(self) -> None:
        """Forget what was read and written: after a boundary everything is read, and guarded, again."""
        self.builder.start_segment()
        self.memo: dict[tuple[Any, Any, Any], Any] = {}
        self.reads: dict[tuple[str, Any], dict[Any, Live]] = {}
        self.written: dict[Slot, Live] = {}
        self.written_containers: list[Live] = []
        self.tuples: dict[int, tuple[Any, Any]] = {}  # those that were built, by the identity of what is known of them
        self.written_lists: list[Any] = []  # changed too, and known at run time only
        self.written_keys: dict[Any, set[str]] = {}
        self.holders: dict[Slot, Live] = {}  # of every slot written so far, also in a part of the walk that was undone
        self.module_reads: dict[str, dict[int, Any]] = {}
        self.differentiates: list[Any] = []  # the statements of the function in which a gradient is taken
        self.endable: list[Any] = []  # those of them that could end their segments
        self.ends = False  # with the statement at hand, which makes a step that can't be taken back
        self.histories: set[Value] = set()  # tensors read from outside that have a history or hooks
        self.set_at_run_time: dict[str, set[type]] = {}  # attributes of older objects, and the classes of these
        self.made: dict[Value, tuple[Any, dict[str, Any]]] = {}  # objects made in it: where, and what they were given
        self.object_reads: set[str] = set()  # attributes read of objects that are known at run time only

    # ---- places and refusals

    def span(self, node: Any = None) -> Span:
        node = self.node if node is None else node
        filename = self.frame.parsed.filename
        known = self.spans.get(id(node))
        if known is None or known[0] is not node or known[1].filename != filename:
            known = self.spans[id(node)] = node, span_of(node, filename)
        return known[1]

    def site(self, node: Any, kind: str | None = None) -> str:
        return parse.site(self.frame.parsed, node, kind)

    def refuse_call(self, code: str, message: str, hint: str = "") -> Unconvertible:
        """The same for an opaque call: what is around it may still be converted."""
        error = self.refuse(code, message, hint)
        in_root = self.frame.caller is None and self.frame.parent is None
        error.call = self.node if in_root and isinstance(self.node, gast.Call) else None
        return error

    def refuse(self, code: str, message: str, hint: str = "", node: Any = None) -> Unconvertible:
        """The exception to raise for a construct that can't stand in a graph."""
        effect = "this statement runs eagerly; results unaffected"
        return Unconvertible(Diagnostic(code, message, self.span(node), effect, hint))

    def check(
        self, kind: str, args: tuple[Arg, ...], site: str, span: Span | None = None, retractable: bool = False
    ) -> None:
        """An assert; of the state that ordinary Python left, it is refuted by place and not assumed again."""
        if self.segment_site and "@" not in site:
            site = f"{self.segment_site}|{site}|{self.span().line}"
            if self.profile.is_refuted(site):
                raise self.refuse(codes.CHANGED, "what is read here changed in ordinary Python before it")
        self.builder.check(kind, args, site, span, retractable)

    def assume(self, kind: str, args: tuple[Arg, ...], site: str, span: Span | None = None) -> None:
        """An assert that the walk from here on rests on; where that part of the walk is undone, it is too."""
        self.check(kind, args, site, span, retractable=True)

    # ---- dispatch

    def expr(self, node: Any) -> Any:
        """The abstract value of an expression."""
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            raise self.refuse(codes.SYNTAX, f"{type(node).__name__} expressions are not converted", node=node)
        outer, self.node = self.node, node
        try:
            return self.settled(handler(self, node))
        finally:
            self.node = outer

    def settled(self, value: Any) -> Any:
        """The value, of the type that all its examples here have."""
        if not self.worlds.examples:
            return value
        if id(self.node) in self.handed_on:
            return value
        if self.open and isinstance(value, Sym) and value.value in self.open:
            return self.lifted(value.value)
        from janusc.lowering.examples import settle

        return settle(self, value)

    def left_open(self, value: Value, name: str, sample: Any) -> Sym:
        """A parameter of which nothing is assumed before it is asked about."""
        self.open[value] = name, sample, None
        self.worlds.note(value, {OUTSIDE: sample})
        return Sym(value)

    def lifted(self, value: Value) -> Any:
        """What an open parameter is in the call at hand, under a guard: more than handing it on is done with it."""
        name, sample, known = self.open[value]
        if known is None:
            from janusc.lowering.operands import lift

            known = lift(self, sample, value, name)
            self.open[value] = name, sample, known
        return known

    def stmt(self, node: Any) -> None:
        """The effect of a statement on the store and the graph."""
        handler = STATEMENTS.get(type(node))
        if handler is None or getattr(node, "_jc_host", False):
            raise self.refuse(codes.SYNTAX, f"{type(node).__name__} statements are not converted", node=node)
        self.within(node, lambda: handler(self, node))

    def within(self, node: Any, work: Callable[[], Any]) -> Any:
        """Do something for a statement, which is then the place of what is refused and emitted."""
        outer, self.node = self.node, node
        self.check_history(node)
        try:
            return work()
        finally:
            self.node = outer

    def check_history(self, node: Any) -> None:
        """Refuse a statement whose graph kept raising what its eager run did not."""
        if not self.has_spurious:
            return
        last = (
            node.lineno if hasattr(node, "body") and not isinstance(node, gast.Try) else node.end_lineno or node.lineno
        )
        name = self.span(node).filename
        if any(self.profile.is_refuted(f"host:{Span(name, line)}") for line in range(node.lineno, last + 1)):
            raise self.refuse(codes.SPURIOUS, "an error was raised here in the graph, and not in the eager run")

    def block(self, statements: Any) -> None:
        for statement in statements:
            self.stmt(statement)

    # ---- going back

    def mark(self) -> tuple[Any, ...]:
        """A point of the walk that ``rewind`` returns to."""
        held = (v for v in self.store.values() if not is_leaf(v))
        followed = {id(p): p for v in held for p in parts(v) if isinstance(p, (ListV, DictV))}
        contents = [(p, copy.copy(p.items), p.real) for p in followed.values()]
        place = self.frame, self.loop_depth, self.worlds.active, len(self.builder.assumed)
        state = dict(self.written), list(self.written_containers), dict(self.tuples), *place
        return self.store.snapshot(), self.builder.mark(), contents, state

    def rewind(self, point: tuple[Any, ...]) -> None:
        """Undo a part of the walk; reads and guards of kinds that it made stay, and do no harm."""
        store, nodes, contents, (written, containers, tuples, *place) = point
        self.frame, self.loop_depth, self.worlds.active, assumed = place
        self.builder.retract(assumed)
        self.written, self.written_containers, self.tuples = dict(written), list(containers), dict(tuples)
        self.store.restore(store)
        self.worlds.settled.clear()  # the asserts may be among what is undone
        for container, items, real in contents:
            container.items, container.real = copy.copy(items), real
        self.builder.rewind(nodes)
        self.made.clear()

    def checkpoint(self) -> tuple[Any, ...]:
        """A point at the top level of a segment, to go back to as if nothing had been lowered since."""
        state = {name: _copy(getattr(self, name)) for name in _OF_A_SEGMENT}
        return self.mark(), state, {name: _copy(getattr(self.builder, name)) for name in OF_A_SEGMENT}

    def return_to(self, checkpoint: tuple[Any, ...]) -> None:
        """Undo a part of the walk, with all that it read and asked; a checkpoint is good for once."""
        point, state, built = checkpoint
        self.rewind(point)
        vars(self).update(state)
        vars(self.builder).update(built)

    # ---- frames and locals

    def new_frame(self, **fields: Any) -> Frame:
        self.frames += 1
        return Frame(id=self.frames, **fields)

    def local(self, name: str) -> Slot:
        return ("local", self.frame.id, name)

    def bind(self, name: str, abstract: Any) -> None:
        self.store[self.local(name)] = abstract

    def fetch(self, slot: Slot) -> Any:
        """What a slot holds, or Unbound."""
        return self.store.get(slot, Unbound)


def statement(*kinds: type) -> Callable[[Callable[[Lowering, Any], None]], Callable[[Lowering, Any], None]]:
    """Register the lowering of statement kinds."""

    def register(handler: Callable[[Lowering, Any], None]) -> Callable[[Lowering, Any], None]:
        for kind in kinds:
            STATEMENTS.register(kind, handler)
        return handler

    return register


def expression(*kinds: type) -> Callable[[Callable[[Lowering, Any], Any]], Callable[[Lowering, Any], Any]]:
    """Register the lowering of expression kinds."""

    def register(handler: Callable[[Lowering, Any], Any]) -> Callable[[Lowering, Any], Any]:
        for kind in kinds:
            EXPRESSIONS.register(kind, handler)
        return handler

    return register
