"""The largest of positive parts is the positive part of the largest, at a quarter of the work.

Before::

    %2: tensor = torch torch.relu(%1)
    %3: tensor = torch torch.nn.functional.max_pool2d(%2, 2)

After::

    %2: tensor = torch torch.nn.functional.max_pool2d(%1, 2)
    %3: tensor = torch torch.relu(%2)

Results and gradients are the same: where a window has positive numbers the first of the largest ones gets the gradient
either way, and where it has none nothing does; a number that is not one wins either way.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from janusc.lowering.ir import Const, Graph, Node, Value, values_of
from janusc.types import TensorType

_POOLS = frozenset(f"torch.nn.functional.max_pool{dims}d" for dims in (1, 2, 3))


def pool_first(graph: Graph) -> Graph:
    """The graph of a block with relus behind the pools that alone read them."""
    uses = Counter(v for node in graph.nodes for v in node.inputs)
    uses.update(values_of(graph.outputs))
    seen = set(values_of(graph.outputs))  # with the name of the last node of their history
    relus: dict[Value, Node] = {}
    late: dict[int, tuple[Node, ...]] = {}  # what stands in place of a node
    for node in graph.nodes:
        relu = relus.get(node.args[0]) if _is_pool(node) else None  # type: ignore[arg-type]
        if relu is not None and uses[relu.outputs[0]] == 1 and node.outputs[0] not in seen:
            pooled = Value(relu.outputs[0].id, node.outputs[0].type)
            late[id(relu)] = ()
            late[id(node)] = (
                replace(node, args=(relu.args[0], *node.args[1:]), outputs=(pooled,)),
                replace(relu, args=(pooled,), outputs=node.outputs),
            )
        elif node.op.name == "torch" and node.target == "torch.relu" and len(node.args) == 1 and not node.kwargs:
            relus[node.outputs[0]] = node
    if not late:
        return graph
    return replace(graph, nodes=tuple(new for node in graph.nodes for new in late.get(id(node), (node,))))


def _is_pool(node: Node) -> bool:
    """Whether a node is a pool that gives the largest numbers alone."""
    if node.op.name != "torch" or node.target not in _POOLS or not node.args or len(node.outputs) != 1:
        return False
    options = dict(node.kwargs)
    plain = len(node.args) < 7 and options.get("return_indices", Const(False)) == Const(False)
    return plain and isinstance(node.args[0], Value) and isinstance(node.outputs[0].type, TensorType)
