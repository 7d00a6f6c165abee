"""The graph of a block and its gradients, cut in two: what runs forward, and what runs backward later.

Before::

    %x, %w = inputs
    %h = aten.mm(%x, %w)
    %y = aten.tanh(%h)
    %g = a tangent
    %d = aten.tanh_backward(%g, %y)
    %t = aten.t(%x)
    return %y, %g, aten.mm(%t, %d)

After::

    %x, %w = inputs                     %x, %y, %g = inputs
    return aten.tanh(aten.mm(%x, %w))   return aten.mm(aten.t(%x), aten.tanh_backward(%g, %y))

What goes from one to the other is what autograd keeps in eager mode, since the graph has the operations that autograd
does: so a tensor that is changed in between is missed just where eager misses it. torch's own partitioner keeps other
tensors, by what they cost. Views are made again behind the cut, of what they are views of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from janusc.runtime.kernels.functional import Unfit

INPUT, OUTPUT, EXTRA = "input", "output", "extra"

Source = tuple[str, int]
"""Where a kept tensor is found: among the inputs, by its number there, the outputs, or what else is made forward."""


@dataclass(frozen=True)
class Results:
    """The results of a traced graph: outputs, new contents of what is written, a truth of demands, tangents, gradients.

    The tangents are not computed: they stand for what comes from outside. ``inputs``: how many there are, behind which
    more is drawn. ``written``: those with new contents, by number.
    """

    inputs: int
    outputs: Sequence[torch.fx.Node]
    contents: Sequence[torch.fx.Node]
    met: Sequence[torch.fx.Node]
    tangents: Sequence[torch.fx.Node]
    gradients: Sequence[torch.fx.Node]
    written: frozenset[int]


@dataclass(frozen=True)
class Halves:
    """A graph that was cut: what is kept for the second half comes before its tangents, with these strides.

    The first half gives outputs, new contents, what else is kept, and the truth.
    """

    forward: torch.fx.GraphModule
    backward: torch.fx.GraphModule
    kept: tuple[Source, ...]
    strides: tuple[tuple[int, ...], ...]


def cut(module: torch.fx.GraphModule, results: Results) -> Halves:
    """Cut a traced graph without writes at its first tangent; raises Unfit. The module is not compiled again."""
    behind = _Behind(module.graph, results)
    behind.make()
    module.graph.output_node().args = ([*results.outputs, *results.contents, *behind.extras, *results.met],)
    for node in behind.nodes():
        if not node.users:
            module.graph.erase_node(node)
    return Halves(module, torch.fx.GraphModule(module, behind.graph), tuple(behind.kept), tuple(behind.strides))


class _Behind:
    """What stands behind the cut, as a graph in the making."""

    def __init__(self, graph: torch.fx.Graph, results: Results) -> None:
        self.graph = torch.fx.Graph()
        self.kept: list[Source] = []
        self.strides: list[tuple[int, ...]] = []
        self.extras: list[torch.fx.Node] = []
        self._results = results
        nodes = list(graph.nodes)
        inputs = [node for node in nodes if node.op == "placeholder"][: results.inputs]
        self._sources: dict[torch.fx.Node, Source] = {node: (INPUT, i) for i, node in enumerate(inputs)}
        for index, node in reversed([*enumerate(map(_same, results.outputs))]):
            self._sources.setdefault(node, (OUTPUT, index))
        first = min(map(nodes.index, results.tangents))
        self._before = set(nodes[:first])
        self._after: list[torch.fx.Node] = nodes[first:-1]
        self._not_kept = {*map(_same, results.contents), *(inputs[i] for i in results.written)}
        self._made: dict[torch.fx.Node, torch.fx.Node] = {}

    def make(self) -> None:
        """Find what is kept, and write the graph."""
        order = [node for node in self._needed() if node not in self._made]
        given = [node for node in order if self._is_given(node)]
        for node in given:
            self._place(node, self._source(node))
        for node in self._results.tangents:
            self._place(node, None)
        for node in order:
            if node not in self._made:
                self._made[node] = self.graph.node_copy(node, lambda argument: self._made[argument])
        self.graph.output(tuple(self._made[node] for node in self._results.gradients))

    def nodes(self) -> Iterator[torch.fx.Node]:
        """What stood behind the cut, users first."""
        return reversed(self._after)

    def _place(self, node: torch.fx.Node, source: Source | None) -> None:
        if source is not None:
            self.kept.append(source)
            self.strides.append(node.meta["val"].stride())
        name = f"tangent_{len(self._made)}" if source is None else f"kept_{len(self._made)}"
        self._made[node] = placeholder = self.graph.placeholder(name)
        placeholder.meta = dict(node.meta)

    def _needed(self) -> list[torch.fx.Node]:
        """All that the gradients are made from, arguments first."""
        found: dict[torch.fx.Node, None] = {}
        waiting = [(node, False) for node in reversed(self._results.gradients)]
        while waiting:
            node, is_ready = waiting.pop()
            if is_ready:
                found[node] = None
            elif node not in found and node not in self._results.tangents:
                waiting.append((node, True))
                if not self._is_given(node):
                    waiting += [(before, False) for before in node.all_input_nodes]
        return list(found)

    def _is_given(self, node: torch.fx.Node) -> bool:
        """Whether a node is not made again behind the cut."""
        if node not in self._before:
            return False
        if node in self._sources or node.op == "placeholder":
            return True
        return bool(node.all_input_nodes) and not _is_view(node)

    def _source(self, node: torch.fx.Node) -> Source:
        if node in self._not_kept:
            raise Unfit("its gradients need what it writes")
        if node not in self._sources:
            self._sources[node] = EXTRA, len(self.extras)
            self.extras.append(node)
        return self._sources[node]


def depends_on(nodes: Sequence[torch.fx.Node], others: Sequence[torch.fx.Node]) -> bool:
    """Whether nodes are made from any of the others."""
    seen, waiting = set(nodes), list(nodes)
    while waiting:
        for before in waiting.pop().all_input_nodes:
            if before not in seen:
                seen.add(before)
                waiting.append(before)
    return not seen.isdisjoint(others)


def _same(node: torch.fx.Node) -> torch.fx.Node:
    """What a node is but another name for."""
    while node.target in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
        node = node.all_input_nodes[0]
    return node


def _is_view(node: torch.fx.Node) -> bool:
    if getattr(node.target, "__name__", "") == "getitem" and getattr(node.target, "__module__", "") == "_operator":
        return _is_view(node.all_input_nodes[0])
    schema: Any = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or len(node.all_input_nodes) != 1:
        return False
    return any(given.alias_info is not None and not given.alias_info.is_write for given in schema.returns)
