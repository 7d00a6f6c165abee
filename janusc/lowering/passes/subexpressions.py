"""What is computed twice is computed once: host values, guards' reads and asserts, small facts about tensors.

Never merged: a floating-point tensor (gradients would add up in another order), a fresh mutable object, a tensor that
somebody changes or that leaves the graph. Whatever depends on state is forgotten at every write.

Before::

    %4: torch.Size = attribute shape(%0)
    %5: int = operator getitem(%4, 0)
    %6: torch.Size = attribute shape(%0)
    %7: int = operator getitem(%6, 0)
    return (%5, %7)

After::

    %4: torch.Size = attribute shape(%0)
    %5: int = operator getitem(%4, 0)
    return (%5, %5)
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from janusc.lowering.effects import arg_type, host_name, is_barrier, is_fixed, is_immutable
from janusc.lowering.ir import (
    Arg,
    Const,
    Dct,
    Effect,
    Graph,
    Lst,
    Node,
    Ref,
    Segment,
    Slc,
    Tup,
    Value,
    values_of,
)
from janusc.lowering.rewrite import Fuel, keep_if_same, rewrite_graph, substitute, substitute_all
from janusc.types import TensorType

HOST_OPS = frozenset({"attribute", "operator", "builtin", "format", "method", "unpack", "torch"})
READS = frozenset({"read.attr", "read.item", "method.read", "operator.read", "builtin.read"})
TENSOR_OPS = frozenset({"torch", "method", "operator"})
HARMLESS = (Effect.PURE, Effect.READ, Effect.ASSERT)
SMALL_DTYPES = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64"})


def subexpressions(segment: Segment, fuel: Fuel) -> Segment:
    """The segment with equal computations merged, each graph and region by itself."""

    def merge(graph: Graph) -> Graph:
        return _merge(graph, fuel)

    return replace(segment, guards=merge(segment.guards), body=rewrite_graph(segment.body, merge))


def _merge(graph: Graph, fuel: Fuel) -> Graph:
    exposed = exposed_values(graph)
    bindings: dict[Value, Arg] = {}
    fixed: dict[Hashable, Node] = {}
    volatile: dict[Hashable, Node] = {}  # results that a write may change
    nodes: list[Node] = []
    for node in graph.nodes:
        node = substitute(node, bindings)
        if is_barrier(node):
            volatile = {}
        elif _is_mergeable(node, exposed):
            table = fixed if is_fixed(node) else volatile
            first = table.setdefault(_key(node), node)
            if first is not node and fuel.spend():
                bindings.update(zip(node.outputs, first.outputs))
                continue
        nodes.append(node)
    outputs = substitute_all(graph.outputs, bindings) if bindings else graph.outputs
    return keep_if_same(graph, replace(graph, nodes=tuple(nodes), outputs=outputs))


def exposed_values(graph: Graph) -> set[Value]:
    """The values whose identity or memory somebody may see change: written, kept, handed out, or a base of such."""
    exposed = set(values_of(graph.outputs))
    for node in reversed(graph.nodes):
        keeps = node.regions or node.op.effect not in HARMLESS or node.op.name in ("build", "make")
        if keeps or any(v in exposed and not is_immutable(v.type) for v in node.outputs):
            exposed.update(node.inputs)
    return exposed


def _is_mergeable(node: Node, exposed: set[Value]) -> bool:
    if node.op.effect is Effect.ASSERT:
        return node.target != "plain_write"
    if node.regions or not node.outputs:
        return False
    if node.op.name in ("read.attr", "read.item"):
        return node.op.name == "read.attr" or _is_plain_key(node.args[1])
    if node.op.name in HOST_OPS | READS and all(is_immutable(v.type) for v in node.outputs):
        return True
    return node.op.name in TENSOR_OPS and all(_is_small(v) and v not in exposed for v in node.outputs)


def _is_small(value: Value) -> bool:
    return isinstance(value.type, TensorType) and str(value.type.dtype).removeprefix("torch.") in SMALL_DTYPES


def _is_plain_key(key: Arg) -> bool:
    """Whether an item read by this key is the item itself, not a fresh slice."""
    return isinstance(key, (Const, Ref)) or host_name(arg_type(key)) in ("int", "str", "bool")


def _key(node: Node) -> Hashable:
    """Equal for nodes that compute the same; the site of an assert says where, not what."""
    kwargs = () if node.op.name == "assert" else tuple((k, _arg_key(a)) for k, a in node.kwargs)
    return node.op.name, node.target, len(node.outputs), tuple(map(_arg_key, node.args)), kwargs


def _arg_key(arg: Arg) -> Hashable:
    """``Const`` compares 1, 1.0 and True as equal; here they are not, nor are 0.0 and -0.0."""
    if type(arg) is Value:
        return arg
    if isinstance(arg, Const):
        return "const", type(arg.value), repr(arg.value)
    if isinstance(arg, (Tup, Lst)):
        return type(arg), tuple(map(_arg_key, arg.items))
    if isinstance(arg, Dct):
        return Dct, tuple(map(_arg_key, arg.keys)), tuple(map(_arg_key, arg.values))
    if isinstance(arg, Slc):
        return Slc, _arg_key(arg.lower), _arg_key(arg.upper), _arg_key(arg.step)
    return arg  # a Ref by name
