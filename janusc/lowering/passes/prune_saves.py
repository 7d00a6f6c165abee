"""Undo copies that no failure can need go.

A ``save`` keeps what a rollback would restore. After the last node that may fail nothing rolls back, and what has been
saved once in the same graph needs no second copy: the older one is restored last. A write that takes effect at commit
counts as a node that may fail here: a setter may refuse.

Before::

    save tensor(%0)
    %4: any = method.write add_(%0, %2)
    save tensor(%0)
    %5: any = method.write mul_(%0, 2)
    save list(%1)
    return ()

After::

    save tensor(%0)
    %4: any = method.write add_(%0, %2)
    %5: any = method.write mul_(%0, 2)
    return ()
"""

from __future__ import annotations

from dataclasses import replace

from janusc.lowering.effects import COMMIT_WRITES, may_fail
from janusc.lowering.ir import Graph, Node, Segment, Value
from janusc.lowering.rewrite import Fuel, keep_if_same


def prune_saves(segment: Segment, fuel: Fuel) -> Segment:
    """The segment without saves that are never restored."""
    return replace(segment, body=_prune(segment.body, False, fuel))


def _prune(graph: Graph, fails_later: bool, fuel: Fuel) -> Graph:
    """``fails_later``: whether something may fail after this graph has run, or when it runs again."""
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.op.name == "save" and not fails_later and fuel.spend():
            continue
        if node.regions:
            inside = fails_later or node.op.name != "cond"  # the next round, or the manager's exit, may fail
            node = _with_regions(node, tuple(_prune(r, inside, fuel) for r in node.regions))
        fails_later = fails_later or may_fail(node) or node.op.name in COMMIT_WRITES
        kept.append(node)
    return keep_if_same(graph, replace(graph, nodes=tuple(_first_saves(kept[::-1], fuel))))


def _with_regions(node: Node, regions: tuple[Graph, ...]) -> Node:
    return node if all(a is b for a, b in zip(regions, node.regions)) else replace(node, regions=regions)


def _first_saves(nodes: list[Node], fuel: Fuel) -> list[Node]:
    """The nodes without saves of what has been saved as a whole before."""
    saved: set[Value] = set()
    kept = []
    for node in nodes:
        if node.op.name == "save" and "." not in node.target:
            value = node.args[0]
            if isinstance(value, Value):
                if value in saved and fuel.spend():
                    continue
                saved.add(value)
        kept.append(node)
    return kept
