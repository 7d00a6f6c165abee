"""An assert on the type of a value goes where another one, on the same value, says which literal it is.

Before::

    assert type(%1, &bool, site='m.inplace')
    assert is(%1, False, site='f')
    return (%0)

After::

    assert is(%1, False, site='f')
    return (%0)
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from janusc.lowering.ir import Const, Graph, Node, Segment, Value
from janusc.lowering.rewrite import Fuel, keep_if_same

_ONE_OBJECT = (bool, type(None))


def implied_asserts(segment: Segment, fuel: Fuel) -> Segment:
    """The segment without the asserts on types that others imply."""
    return replace(segment, guards=_without_implied(segment.guards, fuel), body=_without_implied(segment.body, fuel))


def _without_implied(graph: Graph, fuel: Fuel) -> Graph:
    fixed = {node.args[0] for node in graph.nodes if _fixes_literal(node)}
    if not fixed:
        return graph
    nodes = tuple(n for n in graph.nodes if not (_is_type_assert(n, fixed) and fuel.spend()))
    return keep_if_same(graph, replace(graph, nodes=nodes))


def _fixes_literal(node: Node) -> bool:
    """``equals`` compares the type too; ``is`` does for literals of which there is one object."""
    if node.op.name != "assert" or not isinstance(node.args[0], Value):
        return False
    if node.target == "equals":
        return True
    literal = node.args[1] if node.target == "is" and len(node.args) == 2 else None
    return isinstance(literal, Const) and isinstance(literal.value, _ONE_OBJECT)


def _is_type_assert(node: Node, fixed: Set[object]) -> bool:
    return node.op.name == "assert" and node.target == "type" and node.args[0] in fixed
