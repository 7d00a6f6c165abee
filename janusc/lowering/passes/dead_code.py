"""What nobody uses goes: nodes, outputs and inputs of regions, parameters of the body, guards' reads.

A node goes only where nobody can tell: it neither changes anything nor may raise, since an unused ``torch.mm`` raises
in eager mode too. In the guards, where reads are made for asserts, unused reads go as well.

Before::

    %4: any = attribute shape(%0)
    %5: any = torch torch.mm(%0, %0)
    %6: any, %7: any = cond if(%3, %0, %1) {
      region(%8: any, %9: any):
        return (%8, %9)
      region(%10: any, %11: any):
        return (%10, 1)
    }
    return (%6)

After::

    %5: any = torch torch.mm(%0, %0)
    %6: any = cond if(%3, %0) {
      region(%8: any):
        return (%8)
      region(%10: any):
        return (%10)
    }
    return (%6)
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from typing import TypeVar

from janusc.lowering.effects import is_droppable
from janusc.lowering.ir import Arg, Graph, Node, Segment, Tup, Value, values_of
from janusc.lowering.rewrite import Fuel, keep_if_same, used_values

T = TypeVar("T")
GUARD_READS = frozenset({"read.attr", "read.item"})


def dead_code(segment: Segment, fuel: Fuel) -> Segment:
    """The segment without unused nodes and slots."""
    body = _sweep(segment.body, fuel, is_droppable)
    used = used_values(body)
    dead = [i for i, p in enumerate(body.params) if p not in used]
    guards = segment.guards
    if dead and fuel.spend():
        body = replace(body, params=_without(body.params, dead))
        guards = replace(guards, outputs=_without(guards.outputs, dead))
    return replace(segment, body=body, guards=_sweep(guards, fuel, _is_droppable_in_guards))


def _is_droppable_in_guards(node: Node) -> bool:
    return node.op.name in GUARD_READS or is_droppable(node)


def _sweep(graph: Graph, fuel: Fuel, droppable: Callable[[Node], bool]) -> Graph:
    """One backward walk; a node with regions is trimmed as a whole, for one unit of fuel."""
    used = set(values_of(graph.outputs))
    asked = {n.args[0] for n in graph.nodes if n.op.name == "assert" and n.target in ("true", "false")}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        idle = not any(v in used for v in node.outputs) and (droppable(node) or _is_asked_again(node, asked))
        if idle and fuel.spend():
            continue
        if node.regions:
            trimmed = trim(node, used)
            if trimmed is not node and fuel.spend():
                node = trimmed
        used.update(node.inputs)
        kept.append(node)
    return keep_if_same(graph, replace(graph, nodes=tuple(reversed(kept))))


def _is_asked_again(node: Node, asked: Set[Arg]) -> bool:
    """Whether all that a node may do is to find no truth in what an assert asks for its truth."""
    is_truth = (node.op.name, node.target) in (("operator", "not_"), ("builtin", "bool"))
    return is_truth and len(node.args) == 1 and node.args[0] in asked


def trim(node: Node, used: set[Value]) -> Node:
    """The node with regions without the outputs, inputs and inner nodes that nobody uses."""
    if node.op.name == "loop":
        return _trim_loop(node, used)
    if node.op.name == "define":
        return _trim_function(node)
    dead = [i for i, v in enumerate(node.outputs) if v not in used]
    regions = [_trim_graph(r, _without(r.outputs, dead)) for r in node.regions]
    needed = [used_values(r) for r in regions]
    idle = [i for i in range(len(node.args) - 1) if not any(r.params[i] in n for r, n in zip(regions, needed))]
    regions = [replace(r, params=_without(r.params, idle)) for r in regions]
    args = (node.args[0], *_without(node.args[1:], idle))
    return _rebuilt(node, args, _without(node.outputs, dead), regions)


def _trim_function(node: Node) -> Node:
    """Its parameters stay, which calls give; inputs that nobody uses go."""
    region = _trim_graph(node.regions[0], node.regions[0].outputs)
    first, needed = len(region.params) - len(node.args), used_values(region)
    idle = [i for i in range(len(node.args)) if region.params[first + i] not in needed]
    region = replace(region, params=_without(region.params, [first + i for i in idle]))
    return _rebuilt(node, _without(node.args, idle), node.outputs, [region])


def _rebuilt(node: Node, args: tuple[Arg, ...], outputs: tuple[Value, ...], regions: list[Graph]) -> Node:
    if all(keep_if_same(a, b) is a for a, b in zip(node.regions, regions)):
        return node  # a slot that went took a parameter or an output of a region along
    return replace(node, args=args, outputs=outputs, regions=tuple(regions))


def _trim_graph(graph: Graph, outputs: tuple[Arg, ...]) -> Graph:
    """The region with these outputs, without the nodes that this leaves unused."""
    return _sweep(replace(graph, outputs=outputs), Fuel(), is_droppable)


def _trim_loop(node: Node, used: set[Value]) -> Node:
    region, (iterable, carried, invariant) = node.regions[0], node.args
    assert isinstance(carried, Tup) and isinstance(invariant, Tup)
    first = 1 if node.target == "for" else 0
    count = len(carried.items)
    slots = {region.params[first + i]: i for i in range(count)}
    live = _live_slots(region, slots, {i for i, v in enumerate(node.outputs) if v in used})
    dead = [i for i in range(count) if i not in live]
    region = _trim_graph(region, (region.outputs[0], *_without(region.outputs[1:], dead)))
    needed = used_values(region)
    idle = [i for i in range(len(invariant.items)) if region.params[first + count + i] not in needed]
    gone = [first + i for i in dead] + [first + count + i for i in idle]
    region = replace(region, params=_without(region.params, gone))
    args = (iterable, Tup(_without(carried.items, dead)), Tup(_without(invariant.items, idle)))
    return _rebuilt(node, args, _without(node.outputs, dead), [region])


def _live_slots(region: Graph, slots: dict[Value, int], live: set[int]) -> set[int]:
    """The carried values that matter: used after the loop, or needed inside for one that is or for what must run."""
    makers = {v: n for n in region.nodes for v in n.outputs}
    seen: set[Value] = set()
    pending = list(values_of(region.outputs[0]))
    for node in region.nodes:
        if not is_droppable(node):
            pending.extend(node.inputs)
    for i in live:
        pending.extend(values_of(region.outputs[1 + i]))
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        slot = slots.get(value)
        if slot is not None and slot not in live:
            live.add(slot)
            pending.extend(values_of(region.outputs[1 + slot]))
        if value in makers:
            pending.extend(makers[value].inputs)
    return live


def _without(items: tuple[T, ...], dead: list[int]) -> tuple[T, ...]:
    gone = set(dead)
    return tuple(item for i, item in enumerate(items) if i not in gone)
