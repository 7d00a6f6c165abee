"""Asserts before what would have to be undone; cheap guards first.

In a body an assert, with the host nodes it depends on, moves above the first write, draw or save that it does not
depend on. Only what follows from its inputs alone moves: what a write might change is asserted where it stands. Failing
earlier than some other node would have is as good as failing later: either way the call runs eagerly.

Before::

    save tensor(%0)
    %4: tensor = method.write add_(%0, %1)
    %5: torch.Size = attribute shape(%1)
    assert equals(%5, (4,))
    return (%4)

After::

    %5: torch.Size = attribute shape(%1)
    assert equals(%5, (4,))
    save tensor(%0)
    %4: tensor = method.write add_(%0, %1)
    return (%4)

In the guards each assert moves up to the last read it needs, and the cheapest goes first. A read never moves above an
assert that stood before it: reading from an object of another class could run anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from janusc.lowering.effects import is_barrier, is_fixed
from janusc.lowering.ir import Effect, Graph, Node, Segment, Value
from janusc.lowering.rewrite import Fuel, keep_if_same, rewrite_graph

ASSERT_COST = {"empty": 3, "equals": 2, "length": 2, "absent": 2}
SLOW_OPS = {"torch": 4, "method": 4, "attribute": 3, "builtin": 2}


def hoist_asserts(segment: Segment, fuel: Fuel) -> Segment:
    """The segment with asserts as early as they can stand."""

    def hoist(graph: Graph) -> Graph:
        return _hoist(graph, fuel)

    return replace(segment, guards=_cheapest_first(segment.guards, fuel), body=rewrite_graph(segment.body, hoist))


def _hoist(graph: Graph, fuel: Fuel) -> Graph:
    """Between two barriers is a stretch; an assert moves to the end of the first stretch that has all it needs."""
    stretch = 0
    here: list[int] = []  # the stretch each node is in
    earliest: dict[Value, int] = dict.fromkeys(graph.params, 0)  # the first stretch at whose end a value can be there
    makers: dict[Value, int] = {}
    for index, node in enumerate(graph.nodes):
        if is_barrier(node):
            stretch += 1
        here.append(stretch)
        first = _first_stretch(node, earliest) if is_fixed(node) else stretch
        earliest.update(dict.fromkeys(node.outputs, first))
        makers.update(dict.fromkeys(node.outputs, index))
    if stretch == 0:
        return graph
    place = list(here)
    for index, node in enumerate(graph.nodes):
        if node.op.effect is Effect.ASSERT and is_fixed(node):
            first = _first_stretch(node, earliest)
            if first < here[index] and fuel.spend():
                place[index] = first
                _move_inputs(graph, node, first, place, makers)
    return keep_if_same(graph, replace(graph, nodes=_placed(graph, here, place)))


def _first_stretch(node: Node, earliest: dict[Value, int]) -> int:
    return max((earliest[v] for v in node.inputs), default=0)


def _move_inputs(graph: Graph, node: Node, stretch: int, place: list[int], makers: dict[Value, int]) -> None:
    """Put what a hoisted node depends on into its stretch at the latest."""
    pending = [node]
    while pending:
        for value in pending.pop().inputs:
            index = makers.get(value)
            if index is not None and place[index] > stretch:
                place[index] = stretch
                pending.append(graph.nodes[index])


def _placed(graph: Graph, here: list[int], place: list[int]) -> tuple[Node, ...]:
    """The nodes by stretch; those that came from later ones stand at its end, before the next barrier."""
    order = sorted(range(len(here)), key=lambda i: (place[i], place[i] != here[i], i))
    return tuple(graph.nodes[i] for i in order)


def _cheapest_first(graph: Graph, fuel: Fuel) -> Graph:
    """The guards with each assert right after the last read it needs, the cheapest first; unneeded reads come last."""
    needs = _needs(graph)
    cost: list[int] = []
    last_read: list[int] = []  # of what a node needs; -1 for a node that needs the parameters only
    for index, node in enumerate(graph.nodes):
        cost.append(_own_cost(node) + sum(map(cost.__getitem__, needs[index])))
        own = index if node.op.effect is Effect.READ else -1
        last_read.append(max(own, *map(last_read.__getitem__, needs[index]), -1))
    asserts = [i for i, node in enumerate(graph.nodes) if node.op.effect is Effect.ASSERT]
    order = _with_needs(sorted(asserts, key=lambda i: (last_read[i], cost[i])), needs)
    order = _with_needs(range(len(needs)), needs, order)
    if order == list(range(len(needs))) or not fuel.spend():
        return graph
    return replace(graph, nodes=tuple(graph.nodes[i] for i in order))


def _own_cost(node: Node) -> int:
    if node.op.effect is Effect.ASSERT:
        return ASSERT_COST.get(node.target, 1)
    return SLOW_OPS.get(node.op.name, 1)


def _with_needs(wanted: Iterable[int], needs: list[list[int]], order: Iterable[int] = ()) -> list[int]:
    """The indices in ``order``, then each wanted one after what it needs."""
    placed = dict.fromkeys(order)
    for index in wanted:
        pending = [index]
        while pending:
            missing = [i for i in needs[pending[-1]] if i not in placed]
            if missing:
                pending.extend(reversed(missing))
            else:
                placed[pending.pop()] = None
    return list(placed)


def _needs(graph: Graph) -> list[list[int]]:
    """For every node the nodes that must stand before it: its inputs, and the last assert about what it reads."""
    makers: dict[Value, int] = {}
    checked: dict[Value, int] = {}
    needs: list[list[int]] = []
    for index, node in enumerate(graph.nodes):
        before = {makers[v] for v in node.inputs if v in makers}
        is_assert = node.op.effect is Effect.ASSERT
        subjects = _subjects(graph, node.inputs, makers) if is_assert else set(node.inputs)
        before.update(checked[v] for v in subjects if v in checked)
        if is_assert:
            checked.update(dict.fromkeys(subjects, index))
        makers.update(dict.fromkeys(node.outputs, index))
        needs.append(sorted(before))
    return needs


def _subjects(graph: Graph, inputs: Iterable[Value], makers: dict[Value, int]) -> set[Value]:
    """What an assert on these values is about: they, and what they are a plain fact of (a length, a type, a sum)."""
    subjects: set[Value] = set()
    pending = list(inputs)
    while pending:
        value = pending.pop()
        if value in subjects:
            continue
        subjects.add(value)
        maker = graph.nodes[makers[value]] if value in makers else None
        if maker is not None and maker.op.name not in ("read.attr", "read.item"):
            pending.extend(maker.inputs)
    return subjects
