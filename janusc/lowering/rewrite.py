"""Rebuilding graphs: what the passes share. Everything here is linear in the size of what it is given.

A graph is immutable, so a change is a new graph; nodes that need no change are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from janusc.lowering.ir import Arg, Graph, Node, Value, map_arg, values_of, walk

Bindings = Mapping[Value, Arg]


class Fuel:
    """How many single rewrites may still be done; None is no limit. For finding the rewrite that breaks a program."""

    def __init__(self, amount: int | None = None) -> None:
        self.left = amount
        self.spent = 0

    def spend(self) -> bool:
        """Take one unit if there is one."""
        if self.left == 0:
            return False
        if self.left is not None:
            self.left -= 1
        self.spent += 1
        return True


def substitute_arg(arg: Arg, bindings: Bindings) -> Arg:
    """The argument with bound values replaced."""

    if type(arg) is Value:
        return bindings.get(arg, arg)

    def change(leaf: Arg) -> Arg:
        return bindings.get(leaf, leaf) if isinstance(leaf, Value) else leaf

    changed: Arg = map_arg(arg, change)
    return changed


def substitute(node: Node, bindings: Bindings) -> Node:
    """The node with bound values replaced in its arguments; the node itself where none occurs."""
    if not bindings or bindings.keys().isdisjoint(node.inputs):
        return node
    args = tuple(substitute_arg(a, bindings) for a in node.args)
    return replace(node, args=args, kwargs=tuple((k, substitute_arg(a, bindings)) for k, a in node.kwargs))


def substitute_all(args: Iterable[Arg], bindings: Bindings) -> tuple[Arg, ...]:
    """The arguments with bound values replaced."""
    return tuple(substitute_arg(a, bindings) for a in args)


def rewrite_graph(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """The graph with ``change`` applied to it and to all its regions, inner ones first."""
    if any(node.regions for node in graph.nodes):
        nodes = [with_regions(node, change) if node.regions else node for node in graph.nodes]
        graph = keep_if_same(graph, replace(graph, nodes=tuple(nodes)))
    return change(graph)


def with_regions(node: Node, change: Callable[[Graph], Graph]) -> Node:
    """The node with ``change`` applied all through its regions."""
    regions = tuple(rewrite_graph(region, change) for region in node.regions)
    return node if all(a is b for a, b in zip(regions, node.regions)) else replace(node, regions=regions)


def keep_if_same(old: Graph, new: Graph) -> Graph:
    """The old graph where the new one has the very same nodes, outputs and parameters."""
    same_nodes = old.nodes == new.nodes  # by identity, as nodes compare
    return old if same_nodes and old.params == new.params and old.outputs == new.outputs else new


def inlined(graph: Graph, is_chosen: Callable[[Node, Graph], bool] = lambda node, graph: True) -> Graph:
    """The graph with the nodes of its ``with`` blocks, or the chosen ones, among its own: to be looked at, not run."""
    if not any(node.op.name == "context" for node in graph.nodes):
        return graph
    bindings: dict[Value, Arg] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = substitute(node, bindings)
        if node.op.name != "context" or not is_chosen(node, graph):
            nodes.append(node)
            continue
        region = inlined(node.regions[0], is_chosen)
        bindings.update(zip(region.params, node.args[1:]))
        nodes += [substitute(inner, bindings) for inner in region.nodes]
        bindings.update(zip(node.outputs, substitute_all(region.outputs, bindings)))
    return replace(graph, nodes=tuple(nodes), outputs=substitute_all(graph.outputs, bindings))


def used_values(graph: Graph) -> set[Value]:
    """Every value that a node or output of the graph names; its regions are closed and have their own."""
    used = set(values_of(graph.outputs))
    for node in graph.nodes:
        used.update(node.inputs)
    return used


def count_nodes(graph: Graph) -> int:
    """The number of nodes, those of regions included."""
    return sum(1 for _ in walk(graph))
