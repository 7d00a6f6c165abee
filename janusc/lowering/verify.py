"""The rules of the IR: what every graph and chain must keep, checked after each pass.

Scope: every value is defined once in the whole chain, before its use, in its own graph (regions are closed).
Shape: each op's rule, a table by op name, says how many arguments and outputs a node has and what its target may be.
Order: writes to attributes, items and cells follow every node that may raise, outside all regions, so that a body that
fails has changed nothing; guards read and assert only.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from janusc.diagnostics import JanusError
from janusc.lowering.effects import COMMIT_WRITES, ENDINGS, may_fail
from janusc.lowering.ir import FUNCTION, Arg, Chain, Const, Effect, Graph, Mark, Node, Ref, Segment, Value, walk_args
from janusc.lowering.op_rules import RULES
from janusc.lowering.ops import OPS
from janusc.lowering.printer import print_node
from janusc.sentinels import UNBOUND

LITERALS = frozenset((type(None), bool, int, float, complex, str, bytes, type(Ellipsis)))
TORCH_LITERALS = frozenset((torch.dtype, torch.device, torch.layout, torch.memory_format))
GUARD_EFFECTS = (Effect.READ, Effect.ASSERT, Effect.PURE)
GUARD_TORCH_PREFIXES = ("is_", "get_", "are_", "_")  # questions about modes and settings, not computation


class VerifyError(JanusError):
    """A graph that breaks a rule of the IR; the message holds the rule and the node."""


def verify(item: Chain | Graph) -> None:
    """Raise VerifyError unless a chain, or a graph taken as a body, keeps every rule."""
    if isinstance(item, Graph):
        _verify_graph(item, set(), None)
        _verify_commit_order(item)
        return
    defined: set[Value] = set()
    for step in item.steps:
        if isinstance(step, Segment) and step.live_ins[:1] != (FUNCTION,):
            raise VerifyError(f"{item.name}: the first live-in of a segment is {FUNCTION}")
    open_: list[str] = []  # the kinds of marks that end the loops and blocks around
    for number, step in enumerate(item.steps):
        if isinstance(step, Mark):
            if step.kind in _ENDS:
                open_.append(_ENDS[step.kind])
            elif open_[-1:] != ["end" if step.kind == "test" else step.kind]:
                raise VerifyError(f"{item.name}: step {number} is not in a loop")
            elif step.kind != "test":
                open_.pop()
        if step.returns and open_:
            raise VerifyError(f"{item.name}: step {number} returns in the middle of a loop")
        if step.returns and number != len(item.steps) - 1:
            raise VerifyError(f"{item.name}: step {number} returns but is not the last")
        if isinstance(step, Segment):
            if number > 0 and not step.resume:
                raise VerifyError(f"{item.name}: step {number} does not say where the call goes on if it fails")
            _verify_segment(step, defined, frozenset(item.objects))
    if open_:
        raise VerifyError(f"{item.name}: a loop has no end")


_ENDS = {"start": "end", "enter": "leave"}


def _verify_segment(segment: Segment, defined: set[Value], objects: frozenset[str]) -> None:
    counts = (
        ("live-ins", len(segment.live_ins), "parameters of the guards", len(segment.guards.params)),
        ("outputs of the guards", len(segment.guards.outputs), "parameters of the body", len(segment.body.params)),
        ("live-outs", len(segment.live_outs) + segment.returns, "outputs of the body", len(segment.body.outputs)),
    )
    for left, a, right, b in counts:
        if a != b:
            raise VerifyError(f"a segment has {a} {left} but {b} {right}")
    for node in segment.guards.nodes:
        _verify_guard(node)
    _verify_graph(segment.guards, defined, objects)
    _verify_graph(segment.body, defined, objects)
    _verify_commit_order(segment.body)


def _verify_guard(node: Node) -> None:
    if node.regions or node.op.effect not in GUARD_EFFECTS:
        raise VerifyError(f"a guard may only read, assert or compute host values: {print_node(node)}")
    if node.op.name == "torch" and not node.target.rpartition(".")[2].startswith(GUARD_TORCH_PREFIXES):
        raise VerifyError(f"a guard may not compute tensors: {print_node(node)}")


def _verify_graph(graph: Graph, defined: set[Value], objects: frozenset[str] | None) -> None:
    """Scope and shape of a graph and its regions; a worklist, since a region sees its own values only."""
    pending = [graph]
    while pending:
        current = pending.pop()
        visible: set[Value] = set()
        _define(current.params, visible, defined, None)
        for node in current.nodes:
            problem = next(_problems(node, visible, objects), None)
            if problem is not None:
                raise VerifyError(f"{problem}: {print_node(node)}")
            _define(node.outputs, visible, defined, node)
            pending.extend(node.regions)
        for problem in _argument_problems(current.outputs, visible, objects):
            raise VerifyError(f"output of a graph: {problem}")


def _define(values: tuple[Value, ...], visible: set[Value], defined: set[Value], node: Node | None) -> None:
    for value in values:
        if value in defined:
            where = "as a parameter" if node is None else print_node(node)
            raise VerifyError(f"{value!r} is defined a second time: {where}")
        defined.add(value)
        visible.add(value)


def _problems(node: Node, visible: set[Value], objects: frozenset[str] | None) -> Iterator[str]:
    """What is wrong with a node, given the values and objects it may name."""
    yield from _argument_problems(node.args, visible, objects)
    if node.kwargs:
        yield from _argument_problems(tuple(a for _, a in node.kwargs), visible, objects)
    known = OPS.get(node.op.name)
    if known is not node.op and known != node.op:
        yield f"op {node.op.name!r} is not in the table of ops"
    elif len(node.regions) != node.op.regions:
        yield f"{node.op.name} has {node.op.regions} regions, not {len(node.regions)}"
    elif len(node.kwargs) > 1 and len({k for k, _ in node.kwargs}) != len(node.kwargs):
        yield "a keyword argument is given twice"
    else:
        yield from RULES[node.op.name](node)


def _argument_problems(args: tuple[Arg, ...], visible: set[Value], objects: frozenset[str] | None) -> Iterator[str]:
    for arg in args:
        if (arg in visible) if type(arg) is Value else type(arg) is Const and type(arg.value) in LITERALS:
            continue
        for leaf in walk_args(arg):
            if isinstance(leaf, Value):
                if leaf not in visible:
                    yield f"{leaf!r} is not defined here"
            elif isinstance(leaf, Ref):
                if objects is not None and leaf.name not in objects and leaf.name != UNBOUND.name:
                    yield f"no object is named {leaf.name!r}"
            elif not isinstance(leaf, Const):
                yield f"{leaf!r} is not an argument"
            elif type(leaf.value) not in LITERALS and type(leaf.value) not in TORCH_LITERALS:
                yield f"a {type(leaf.value).__name__} is not a literal"


def _verify_commit_order(body: Graph) -> None:
    """Writes that take effect at commit come last, but for what ends the body; inside a region they could not."""
    written: Node | None = None
    for node in body.nodes:
        if node.op.name in ENDINGS and node is not body.nodes[-1]:
            raise VerifyError(f"not the last: {print_node(node)}")
        if node.op.name in COMMIT_WRITES:
            written = node
        elif written is not None and may_fail(node):
            raise VerifyError(f"may raise after {print_node(written)}: {print_node(node)}")
    pending = [region for node in body.nodes for region in node.regions]
    while pending:
        for node in pending.pop().nodes:
            if node.op.name in COMMIT_WRITES or node.op.name in ENDINGS:
                raise VerifyError(f"a write to state inside a region: {print_node(node)}")
            pending.extend(node.regions)
