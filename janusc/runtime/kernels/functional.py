"""Writes in a traced graph as values: what is written in place becomes the result of the same operation out of place.

Before::

    %b = aten.clone(%a)
    %c = aten.add_(%b, 1)
    %d = aten.mul(%b, 2)

After::

    %b = aten.clone(%a)
    %c = aten.add(%b, 1)
    %d = aten.mul(%c, 2)

Only for tensors of which no view is used behind the write, and whose type and shape the operation keeps.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch

from janusc import torch_private


class Unfit(Exception):
    """A block that can't be one kernel for these inputs; the text says why."""


def make_functional(module: torch.fx.GraphModule) -> None:
    """Rewrite the graph of a module in place; raises Unfit where a write can't be a value."""
    nodes = list(module.graph.nodes)
    writes = {node: _written_by(node) for node in nodes if _is_write(node)}
    if not writes:
        return
    _check_views(nodes, writes)
    latest = {written: written for written in writes.values()}
    for node in nodes:
        if node.op == "placeholder":
            continue
        for known in {*node.all_input_nodes} & {*latest, *writes}:
            node.replace_input_with(known, latest[writes.get(known, known)])
        if node in writes:
            node.target = _out_of_place(node)
            latest[writes[node]] = node
    module.recompile()


def _check_views(nodes: list[torch.fx.Node], writes: dict[torch.fx.Node, torch.fx.Node]) -> None:
    """Nobody looks at what is written by another name: a view that was there before is not used behind the write."""
    places = {node: place for place, node in enumerate(nodes)}
    sharing: defaultdict[int, list[torch.fx.Node]] = defaultdict(list)
    for node in nodes:
        if isinstance(node.meta.get("val"), torch.Tensor):
            sharing[torch_private.storage_key(node.meta["val"])].append(node)
    for write, written in writes.items():
        for node in sharing[torch_private.storage_key(written.meta["val"])]:
            if node is written or writes.get(node) is written or places[node] > places[write]:
                continue
            if node.op == "placeholder" or any(places[user] > places[write] for user in node.users):
                raise Unfit("a tensor is written of which there is a view")


def _is_write(node: torch.fx.Node) -> bool:
    schema: Any = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and schema.is_mutable


def _written_by(node: torch.fx.Node) -> torch.fx.Node:
    schema: Any = getattr(node.target, "_schema", None)
    written = [
        i for i, given in enumerate(schema.arguments) if given.alias_info is not None and given.alias_info.is_write
    ]
    base = node.args[0]
    if written != [0] or not isinstance(base, torch.fx.Node) or base.op == "placeholder":
        raise Unfit(f"{node.target} writes what is no value of its own")
    before, after = base.meta["val"], node.meta["val"]
    if before.dtype != after.dtype or before.shape != after.shape:
        raise Unfit(f"{node.target} changes more than values")
    return base


def _out_of_place(node: torch.fx.Node) -> Any:
    target: Any = node.target
    packet = target.overloadpacket.__name__
    found = getattr(getattr(torch.ops.aten, packet.rstrip("_"), None), target._overloadname, None)
    if not packet.endswith("_") or found is None or found._schema.is_mutable:
        raise Unfit(f"there is no {target} out of place")
    return found
