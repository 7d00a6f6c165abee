"""What an assert says is a literal is that literal from there on, in the body and in regions too.

Only literals that are one object wherever they come from, so that nobody can tell: None, booleans, small integers,
dtypes and their like. The assert itself stays.

Before::

    assert equals(%3, False)
    %4: tensor = torch torch.nn.functional.relu(%0, inplace=%3)
    return (%4)

After::

    assert equals(%3, False)
    %4: tensor = torch torch.nn.functional.relu(%0, inplace=False)
    return (%4)

A guarded flag is such a literal: where the guards ask for the type of a boolean and then for its truth, they ask once
which of the two it is.

Before::

    %2: bool = read.item [training](%1)
    assert type(%2, &bool)
    assert true(%2, site='f')

After::

    %2: bool = read.item [training](%1)
    assert is(%2, True, site='f')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from janusc.lowering.ir import Arg, Const, Graph, Node, Segment, Tup, Value, values_of
from janusc.lowering.rewrite import Fuel, keep_if_same, substitute, substitute_all
from janusc.types import HostType

SINGLETONS = (bool, type(None), type(Ellipsis), torch.dtype, torch.layout, torch.memory_format)
SMALL_INTEGERS = range(-5, 257)  # CPython keeps one object for each
Known = dict[Value, Arg]
_BOOL = HostType("bool")


def constants(segment: Segment, fuel: Fuel) -> Segment:
    """The segment with asserted literals in place of the values they were asserted of."""
    guards = _propagate(_flags(segment.guards, fuel), {}, fuel)
    known = _bound(segment.body, zip(segment.body.params, guards.outputs), fuel)
    return replace(segment, guards=guards, body=_propagate(segment.body, known, fuel))


def _flags(graph: Graph, fuel: Fuel) -> Graph:
    """The truth of a boolean asserted where its type is, so that nothing sees another object in between."""
    typed = {node.args[0] for node in graph.nodes if node.op.name == "assert" and node.target == "type"}
    truths: dict[Arg, Node] = {}
    merged: set[int] = set()
    for node in graph.nodes:
        if node.op.name == "assert" and node.target in ("true", "false") and node.args[0] in typed:
            value = node.args[0]
            first = truths.get(value, node)
            if isinstance(value, Value) and value.type == _BOOL and first.target == node.target and fuel.spend():
                truths[value] = first
                merged.add(id(node))
    if not truths:
        return graph
    nodes = [node for node in graph.nodes if id(node) not in merged]
    for index, node in enumerate(nodes):
        truth = truths.get(node.args[0]) if node.op.name == "assert" and node.target == "type" else None
        if truth is not None:
            nodes[index] = replace(truth, target="is", args=(node.args[0], Const(truth.target == "true")))
    return replace(graph, nodes=tuple(nodes))


def _propagate(graph: Graph, known: Known, fuel: Fuel) -> Graph:
    uses = _last_uses(graph)
    nodes = []
    for index, node in enumerate(graph.nodes):
        if node.op.name == "assert":
            fact = _fact(node)
            if fact is not None and fact[0] not in known and uses.get(fact[0], -1) > index and fuel.spend():
                known[fact[0]] = fact[1]
        else:
            node = substitute(node, known)
            if node.regions:
                regions = tuple(_propagate(r, _bound(r, _inputs(node, r), fuel), fuel) for r in node.regions)
                same = all(a is b for a, b in zip(regions, node.regions))
                node = node if same else replace(node, regions=regions)
        nodes.append(node)
    outputs = substitute_all(graph.outputs, known) if known else graph.outputs
    return keep_if_same(graph, replace(graph, nodes=tuple(nodes), outputs=outputs))


def _last_uses(graph: Graph) -> dict[Value, int]:
    """The index of the last node that reads a value, asserts aside, which are kept as they are."""
    uses: dict[Value, int] = {}
    for index, node in enumerate(graph.nodes):
        if node.op.name != "assert":
            uses.update(dict.fromkeys(node.inputs, index))
    uses.update(dict.fromkeys(values_of(graph.outputs), len(graph.nodes)))
    return uses


def _fact(node: Node) -> tuple[Value, Const] | None:
    """What an assert fixes: a value and the literal it is."""
    if node.target not in ("equals", "is") or len(node.args) != 2:
        return None
    value, literal = node.args
    if isinstance(value, Value) and isinstance(literal, Const) and is_one_object(literal.value):
        return value, literal
    return None


def is_one_object(value: object) -> bool:
    """Whether every equal literal of this type is the same object."""
    return type(value) in SINGLETONS or (type(value) is int and value in SMALL_INTEGERS)


def _inputs(node: Node, region: Graph) -> Iterable[tuple[Value, Arg]]:
    """The parameters of a region that keep the value they are bound to, and what that is."""
    if node.op.name == "define":
        return zip(region.params[len(region.params) - len(node.args) :], node.args)
    if node.op.name != "loop":
        return zip(region.params, node.args[1:])
    invariant = node.args[2]
    assert isinstance(invariant, Tup)
    count = len(invariant.items)
    return zip(region.params[len(region.params) - count :], invariant.items)


def _bound(graph: Graph, pairs: Iterable[tuple[Value, Arg]], fuel: Fuel) -> Known:
    """The parameters of a graph that are literals and are read there."""
    literals = {param: arg for param, arg in pairs if isinstance(arg, Const)}
    uses = _last_uses(graph) if literals else {}
    return {param: arg for param, arg in literals.items() if param in uses and fuel.spend()}
