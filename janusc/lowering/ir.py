"""The intermediate representation: immutable ops, values, nodes, graphs and the chain of a whole function.

Grammar::

    Chain     = (Segment | HostRange | Mark)*     one converted function
    Segment   = guards: Graph, body: Graph        one transaction
    Graph     = params: Value*, nodes: Node*, outputs: Arg*
    Node      = outputs: Value* "=" op target args kwargs regions
    Arg       = Value | Const | Ref | Tup | Lst | Dct | Slc

A region (the graph inside a ``cond``, ``loop`` or ``context`` node) is closed: it sees its own params only.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from janusc.derived import derived
from janusc.source import Span
from janusc.types import Type


class Effect(enum.Enum):
    """What a node does beside computing its outputs; the order is from harmless to boundary."""

    PURE = "pure"  # may be moved, merged, dropped
    READ = "read"  # reads state that a write may change
    ASSERT = "assert"  # may abort the transaction
    RANDOM = "random"  # draws from a generator, ordered
    WRITE = "write"  # changes state, ordered, never dead
    DEFER = "defer"  # an outside effect that runs at commit, in order
    OPAQUE = "opaque"  # never replayed


@dataclass(frozen=True)
class Op:
    """One kind of node; ``summary`` says what ``target`` and the arguments mean."""

    name: str
    effect: Effect
    summary: str
    regions: int = 0


@dataclass(frozen=True, eq=False)
class Value:
    """The result of a node or a parameter of a graph; compared by identity, numbered for printing."""

    id: int
    type: Type

    def __repr__(self) -> str:
        return f"%{self.id}"


@dataclass(frozen=True)
class Const:
    """A literal: None, bool, int, float, complex, str, bytes, Ellipsis, torch dtype, device, layout, memory format."""

    value: Any


@dataclass(frozen=True)
class Ref:
    """An object by name in the chain's object table: functions, classes, code; never tensors or module instances."""

    name: str


@dataclass(frozen=True)
class Tup:
    items: tuple[Arg, ...]


@dataclass(frozen=True)
class Lst:
    items: tuple[Arg, ...]


@dataclass(frozen=True)
class Dct:
    keys: tuple[Arg, ...]
    values: tuple[Arg, ...]


@dataclass(frozen=True)
class Slc:
    lower: Arg
    upper: Arg
    step: Arg


Arg = Union[Value, Const, Ref, Tup, Lst, Dct, Slc]
_LEAVES = frozenset((Value, Const, Ref))


@dataclass(frozen=True, eq=False)
class Node:
    """One operation; ``args`` of a node with regions are what the region's params are bound to (see ``ops``)."""

    op: Op
    target: str
    args: tuple[Arg, ...] = ()
    kwargs: tuple[tuple[str, Arg], ...] = ()
    outputs: tuple[Value, ...] = ()
    regions: tuple[Graph, ...] = ()
    span: Span | None = None

    @derived
    def inputs(self) -> tuple[Value, ...]:
        """Every Value that the node reads; regions are closed, so its arguments are all."""
        found = values_of(self.args)
        for _, arg in self.kwargs:
            found += values_of(arg)
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Graph:
    params: tuple[Value, ...] = ()
    nodes: tuple[Node, ...] = ()
    outputs: tuple[Arg, ...] = ()


@dataclass(frozen=True)
class Segment:
    """One transaction.

    ``live_ins`` names the locals bound to the params of ``guards``; the first one of a chain is the function itself,
    under the name ``ir.FUNCTION``. ``guards`` holds reads and asserts only; its outputs are bound to the params of
    ``body``.
    ``live_outs`` names the outputs of ``body``; ``returns`` says that the first output is the result of the call.
    """

    live_ins: tuple[str, ...]
    guards: Graph
    body: Graph
    live_outs: tuple[str, ...] = ()
    returns: bool = False
    resume: str = ""  # key of the outlined rest of the function in Chain.hosts; "" for the whole function


@dataclass(frozen=True)
class HostRange:
    """User statements that run as they are: outlined under ``key``, from live-ins to live-outs."""

    key: str
    live_ins: tuple[str, ...]
    live_outs: tuple[str, ...] = ()
    returns: bool = False
    reason: str = ""
    span: Span | None = None


@dataclass(frozen=True)
class Mark:
    """A place in a loop of steps, which are run again and again as they stand between its start and its end; or in a
    block of steps, which stand under a context manager between where they enter and where they leave it.

    ``kind``: "start"; "test", where the loop is left unless the local ``name`` is true; "end", where it is left if the
    local ``name`` is true, and goes on from its start otherwise or without a name. ``locals`` are those that a pass may
    set: what they are at an end or test is what they are at the start of the next pass and after the loop. "enter" by
    the manager that the local ``name`` holds, and "leave".
    """

    kind: str
    locals: tuple[str, ...]
    name: str = ""
    span: Span | None = None
    returns = False

    @property
    def live_ins(self) -> tuple[str, ...]:
        """The locals that are read here."""
        return (*self.locals, self.name) if self.name else self.locals


Step = Union[Segment, HostRange, Mark]


def end_of(steps: Sequence[Step], start: int) -> int:
    """The index of the end that belongs to the start of a loop."""
    depth = 0
    for index in range(start, len(steps)):
        step = steps[index]
        if isinstance(step, Mark):
            depth += {"start": 1, "end": -1}.get(step.kind, 0)
            if depth == 0:
                return index
    raise ValueError("a loop of steps without an end")


@dataclass(frozen=True)
class Chain:
    """A converted function: transactions and host ranges in order, and the objects they refer to by name."""

    name: str
    steps: tuple[Step, ...]
    objects: dict[str, Any] = field(default_factory=dict)


FUNCTION = "__function__"


def walk_args(arg: Any) -> Iterator[Arg]:
    """Every leaf (Value, Const, Ref) of an argument, left to right."""
    stack = [arg]
    while stack:
        item = stack.pop()
        if isinstance(item, (Tup, Lst)):
            stack.extend(reversed(item.items))
        elif isinstance(item, Dct):
            stack.extend(reversed([x for pair in zip(item.keys, item.values) for x in pair]))
        elif isinstance(item, Slc):
            stack.extend((item.step, item.upper, item.lower))
        elif isinstance(item, tuple):
            stack.extend(reversed(item))
        else:
            yield item


def values_of(arg: Any) -> list[Value]:
    """Every Value in an argument or a tuple of arguments."""
    found: list[Value] = []
    for item in arg if type(arg) is tuple else (arg,):
        kind = type(item)
        if kind is Value:
            found.append(item)
        elif kind is not Const and kind is not Ref:  # most arguments are leaves, which need no walk
            found.extend(leaf for leaf in walk_args(item) if isinstance(leaf, Value))
    return found


def map_arg(arg: Any, change: Any) -> Any:
    """The argument with ``change`` applied to every leaf."""
    if type(arg) in _LEAVES:
        return change(arg)
    if isinstance(arg, (Tup, Lst)):
        return type(arg)(tuple(map_arg(x, change) for x in arg.items))
    if isinstance(arg, Dct):
        return Dct(tuple(map_arg(x, change) for x in arg.keys), tuple(map_arg(x, change) for x in arg.values))
    if isinstance(arg, Slc):
        return Slc(map_arg(arg.lower, change), map_arg(arg.upper, change), map_arg(arg.step, change))
    return change(arg)


def walk(graph: Graph) -> Iterator[Node]:
    """Every node of a graph and of its regions, outer before inner, without recursion."""
    stack = [iter(graph.nodes)]
    while stack:
        for node in stack[-1]:
            yield node
            if node.regions:
                stack.extend(iter(r.nodes) for r in reversed(node.regions))
                break
        else:
            stack.pop()
