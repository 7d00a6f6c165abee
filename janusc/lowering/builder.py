"""Builds the two graphs of a segment, node by node, with nested regions."""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from janusc.lowering import ops
from janusc.lowering.effects import METADATA
from janusc.lowering.ir import Arg, Const, Effect, Graph, Node, Op, Ref, Value, values_of
from janusc.lowering.rewrite import substitute, substitute_all
from janusc.source import Span
from janusc.types import ANY, HostType, Type

_EARLY_OPS = frozenset(op.name for op in (ops.OPERATOR, ops.BUILTIN))
_NEVER_RAISE = frozenset(
    {"add", "sub", "mul", "lt", "le", "eq", "ne", "gt", "ge", "not_", "is_", "is_not", "len", "bool"}
)


def is_short_lived(obj: Any) -> bool:
    """A class or function that isn't there for the whole life of its module: a graph must not keep it alive."""
    if not isinstance(obj, (type, types.FunctionType)):
        return False
    return "<locals>" in obj.__qualname__ or obj.__module__ == "__main__"


@dataclass
class Region:
    """A graph under construction; a value that it does not define itself is free and becomes a parameter."""

    params: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)


OF_A_SEGMENT = ("guards", "params", "early", "late", "assumed")
"""What of a builder belongs to the segment at hand, beside its nodes."""


class Builder:
    """The guards and the body of the segment at hand, and the objects the chain refers to."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # alive while lowering, so that identities stay theirs
        self._count = 0
        self.start_segment()

    def start_segment(self) -> None:
        self.guards: list[Node] = []
        self.params: list[Value] = []
        self.early: set[Value] = set()
        self.late: set[Value] = set()  # there before the body too, but of a kind that varies
        self.assumed: list[Node] = []  # guards that a part of the walk rests on, and nothing else
        self.regions: list[Region] = [Region()]

    @property
    def top_level(self) -> bool:
        """Whether nodes go straight into the body, outside every region."""
        return len(self.regions) == 1

    def value(self, type_: Type = ANY) -> Value:
        self._count += 1
        return Value(self._count, type_)

    def parameter(self, type_: Type = ANY) -> Value:
        """A live-in of the segment: available to the guards."""
        value = self.value(type_)
        self.params.append(value)
        self.early.add(value)
        return value

    def ref(self, obj: Any, name: str | None = None) -> Ref:
        """A reference to an object by a readable unique name."""
        key = id(obj)
        if key not in self._names:
            base = name or getattr(obj, "__name__", None) or type(obj).__name__
            base = "".join(c if c.isalnum() or c == "_" else "_" for c in str(base)) or "object"
            unique, n = base, 1
            while unique in self.objects:
                n += 1
                unique = f"{base}_{n}"
            self.objects[unique] = weakref.ref(obj) if is_short_lived(obj) else obj
            self._kept.append(obj)
            self._names[key] = unique
        return Ref(self._names[key])

    def is_early(self, *args: Any) -> bool:
        return self.early.issuperset(values_of(args))

    def is_visible(self, value: Value) -> bool:
        """Whether a value is known to the whole segment, and not to a region alone."""
        known = value in self.early or value in self.late
        return known or any(value in node.outputs for node in self.regions[0].nodes)

    def postpone(self, value: Value) -> None:
        """What is asked of this value in one branch is not asked in the guards, where it may be of another kind."""
        self.early.discard(value)
        self.late.add(value)

    def is_within(self, value: Value) -> bool:
        """Whether a value is known where the walk is."""
        if value in self.early or value in self.late:
            return True
        return any(value in r.params or any(value in n.outputs for n in r.nodes) for r in self.regions)

    def guard(self, op: Op, target: str, args: tuple[Arg, ...], type_: Type = ANY, span: Span | None = None) -> Value:
        """A read in the guards; returns its value."""
        out = self.value(type_)
        self.guards.append(Node(op, target, args, (), (out,), (), span))
        self.early.add(out)
        return out

    def check(
        self, kind: str, args: tuple[Arg, ...], site: str, span: Span | None = None, retractable: bool = False
    ) -> None:
        """An assert: a guard where all it needs is there before the body, else a node of the body.

        ``retractable``: it goes with what was lowered under it, also as a guard.
        """
        node = Node(ops.ASSERT, kind, args, (("site", Const(site)),), (), (), span)
        # the grad mode that a write meets is that of its place, and what was saved is known at the end
        early = self.is_early(*args) and (kind != "plain_write" or self.top_level) and kind != "unsaved"
        (self.guards if early else self.regions[-1].nodes).append(node)
        if early and retractable:
            self.assumed.append(node)

    def retract(self, count: int) -> None:
        """Drop the assumptions after the first ``count``: the walk went back to before they were made."""
        gone = set(map(id, self.assumed[count:]))
        del self.assumed[count:]
        if gone:
            self.guards = [node for node in self.guards if id(node) not in gone]

    def emit(
        self,
        op: Op,
        target: str,
        args: tuple[Arg, ...] = (),
        kwargs: tuple[tuple[str, Arg], ...] = (),
        types: Iterable[Type] = (ANY,),
        span: Span | None = None,
        regions: tuple[Graph, ...] = (),
    ) -> tuple[Value, ...]:
        """A node of the body; host arithmetic on what the guards already have goes to the guards."""
        outs = tuple(self.value(t) for t in types)
        node = Node(op, target, args, kwargs, outs, regions, span)
        if op.effect is Effect.PURE and self.is_early(args, *(a for _, a in kwargs)) and self._is_host_stage(node):
            self.guards.append(node)
            self.early.update(outs)
        else:
            self.regions[-1].nodes.append(node)
        return outs

    def one(self, op: Op, target: str, *args: Arg, type_: Type = ANY, span: Span | None = None, **kwargs: Arg) -> Value:
        """A node with a single output."""
        return self.emit(op, target, args, tuple(kwargs.items()), (type_,), span)[0]

    def _is_host_stage(self, node: Node) -> bool:
        """Whether a node works on immutable host values alone: it may run before the body and be asserted on there."""
        if node.op is ops.ATTRIBUTE:
            return node.target in METADATA
        if not self.top_level and node.target not in _NEVER_RAISE:
            return False
        return node.op.name in _EARLY_OPS and all(isinstance(v.type, HostType) for v in values_of(node.args))

    def place(
        self,
        op: Op,
        target: str,
        args: tuple[Arg, ...],
        outputs: tuple[Value, ...],
        regions: tuple[Graph, ...],
        span: Span,
        kwargs: tuple[tuple[str, Arg], ...] = (),
    ) -> None:
        """A node whose outputs were made beforehand."""
        self.regions[-1].nodes.append(Node(op, target, args, kwargs, outputs, regions, span))

    def mark(self) -> tuple[int, ...]:
        """A point to go back to."""
        return tuple(len(r.nodes) for r in self.regions)

    def rewind(self, mark: tuple[int, ...]) -> None:
        """Drop the body nodes since a mark; what was read in the guards stays, it does no harm."""
        del self.regions[len(mark) :]
        for region, length in zip(self.regions, mark):
            del region.nodes[length:]

    def open_region(self, params: Iterable[Value] = ()) -> Region:
        region = Region(list(params))
        self.regions.append(region)
        return region

    def pop_region(self) -> Region:
        return self.regions.pop()

    def free_values(self, region: Region, outputs: tuple[Arg, ...]) -> list[Value]:
        """What a region uses and does not define, in order of first use."""
        defined: set[Value] = set(region.params)
        free: dict[Value, None] = {}
        for node in region.nodes:
            free.update((v, None) for v in node.inputs if v not in defined)
            defined.update(node.outputs)
        free.update((v, None) for v in values_of(outputs) if v not in defined)
        return list(free)

    def close(self, region: Region, outputs: tuple[Arg, ...], free: Sequence[Value]) -> Graph:
        """The closed graph of a region: its own parameters, then one for each of the free values."""
        renamed = {v: self.value(v.type) for v in free}
        nodes = tuple(substitute(node, renamed) for node in region.nodes)
        return Graph((*region.params, *renamed.values()), nodes, substitute_all(outputs, renamed))

    def finish(self, outputs: tuple[Arg, ...]) -> tuple[Graph, Graph]:
        """The guards and the closed body of the segment; the guards hand over exactly what the body needs."""
        (region,) = self.regions
        needed = self.free_values(region, outputs)
        return Graph(tuple(self.params), tuple(self.guards), tuple(needed)), self.close(region, outputs, needed)
