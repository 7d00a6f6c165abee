"""A comparison of tensors of which only the truth is asked becomes a test, which needs no tensor for its result.

Its truth is asked where it decides a ``cond`` or whether a loop goes on, where an assert or ``not`` takes it, and where
a region hands it out for such a place.

Before::

    %4: tensor = operator lt(%0, 0.5)
    assert false(%4)
    return (%0)

After::

    %4: tensor = test lt(%0, 0.5)
    assert false(%4)
    return (%0)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from janusc.lowering import ops
from janusc.lowering.ir import Const, Graph, Node, Segment, Value, values_of
from janusc.lowering.rewrite import Fuel, keep_if_same
from janusc.types import Constant, HostType, TensorType

COMPARISONS = frozenset({"lt", "le", "eq", "ne", "gt", "ge"})
_NUMBERS = frozenset({"int", "float"})


def truths(segment: Segment, fuel: Fuel) -> Segment:
    """The segment with its comparisons for the truth alone as tests."""
    return replace(segment, body=_rewrite(segment.body, (), fuel)[0])


def _rewrite(graph: Graph, truth_outputs: Collection[int], fuel: Fuel) -> tuple[Graph, set[Value]]:
    """The graph, and the values of it that more is asked of than their truth.

    ``truth_outputs``: the places of the outputs that no more is asked of.
    """
    asked: set[Value] = set()
    for place, output in enumerate(graph.outputs):
        if not (isinstance(output, Value) and place in truth_outputs):
            asked.update(values_of(output))
    nodes = []
    for node in reversed(graph.nodes):
        if node.regions:
            node = _with_regions(node, asked, fuel)
        elif _is_comparison(node) and not asked & set(node.outputs) and fuel.spend():
            node = replace(node, op=ops.TEST)
        if not node.regions:
            asked.update(node.inputs[1:] if _asks_truth(node) else node.inputs)
        nodes.append(node)
    return keep_if_same(graph, replace(graph, nodes=tuple(nodes[::-1]))), asked


def _with_regions(node: Node, asked: set[Value], fuel: Fuel) -> Node:
    """The node with its regions rewritten; adds to ``asked`` what more is asked of than its truth by it."""
    outputs = {place for place, value in enumerate(node.outputs) if value not in asked}
    handed = node.op.name == "cond"
    wanted = outputs if handed or node.op.name == "context" else {0} if node.op.name == "loop" else set()
    regions = []
    for region in node.regions:
        new, inside = _rewrite(region, wanted, fuel)
        regions.append(new)
        if handed:
            asked.update(v for p, a in zip(region.params, node.args[1:]) if p in inside for v in values_of(a))
    if not handed:
        asked.update(values_of(node.args))
    if all(a is b for a, b in zip(regions, node.regions)):
        return node
    return replace(node, regions=tuple(regions))


def _asks_truth(node: Node) -> bool:
    """Whether a node asks for the truth of its first argument."""
    name = node.op.name
    return (
        isinstance(node.args[0], Value)
        and (name == "assert" and node.target in ("true", "false") or name == "operator" and node.target == "not_")
        if node.args
        else False
    )


def _is_comparison(node: Node) -> bool:
    if node.op.name != "operator" or node.target not in COMPARISONS or len(node.outputs) != 1:
        return False
    kinds = [_kind(arg) for arg in node.args]
    return "tensor" in kinds and all(kinds)


def _kind(arg: object) -> str:
    if isinstance(arg, Const):
        return "number" if type(arg.value) in (int, float) else ""
    kind = arg.type if isinstance(arg, Value) else None
    if isinstance(kind, TensorType):
        return "tensor"
    name = kind.host if isinstance(kind, Constant) else kind.name if isinstance(kind, HostType) else ""
    return "number" if name in _NUMBERS else ""
