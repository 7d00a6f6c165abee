"""Host arithmetic on literals is done here instead of at run time; asserts on literals that hold go.

Only operators and builtins on ints, floats, strings and tuples of these, never one that raises, warns or makes
something large: those stay, and happen at run time as in eager mode.

Before::

    %4: int = operator add(2, 3)
    %5: int = builtin len((4, %0))
    assert equals(%4, 5)
    %6: tensor = torch torch.sum(%0, %5)
    return (%6)

After::

    %6: tensor = torch torch.sum(%0, 2)
    return (%6)
"""

from __future__ import annotations

import builtins
import operator
from dataclasses import replace
from typing import Any

from janusc.lowering.ir import Arg, Const, Graph, Node, Segment, Tup, Value
from janusc.lowering.passes.constants import SINGLETONS
from janusc.lowering.rewrite import Fuel, keep_if_same, substitute, substitute_all

LARGE = 256  # characters, items or bits; beyond it a result is cheaper made at run time than kept
ARITHMETIC = frozenset("add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor".split())
UNARY = frozenset("neg pos invert not_ abs".split())
COMPARISONS = frozenset("lt le eq ne gt ge contains not_in getitem".split())
OPERATORS = ARITHMETIC | UNARY | COMPARISONS | {"is_", "is_not"}
BUILTINS = frozenset("len abs min max sum int float bool str repr round divmod tuple ord chr".split())
PLAIN = (int, float, bool, str, type(None))


class _Unfoldable(Exception):
    """This is for run time."""


def folding(segment: Segment, fuel: Fuel) -> Segment:
    """The segment with operations on literals done, in guards, body and regions."""
    return replace(segment, guards=_fold_graph(segment.guards, {}, fuel), body=_fold_graph(segment.body, {}, fuel))


def _fold_graph(graph: Graph, bindings: dict[Value, Arg], fuel: Fuel) -> Graph:
    nodes: list[Node] = []
    for node in graph.nodes:
        node = substitute(node, bindings)
        if node.regions:
            regions = tuple(_fold_graph(r, {}, fuel) for r in node.regions)
            node = node if all(a is b for a, b in zip(regions, node.regions)) else replace(node, regions=regions)
        elif node.op.name == "assert":
            if _holds(node) and fuel.spend():
                continue
        elif node.op.name in ("operator", "builtin") and len(node.outputs) == 1:
            try:
                result = _literal(_compute(node))
            except (_Unfoldable, ArithmeticError, LookupError, TypeError, ValueError):
                result = None
            if result is not None and fuel.spend():
                bindings[node.outputs[0]] = result
                continue
        nodes.append(node)
    outputs = substitute_all(graph.outputs, bindings) if bindings else graph.outputs
    return keep_if_same(graph, replace(graph, nodes=tuple(nodes), outputs=outputs))


def _known(arg: Arg) -> Any:
    """The host value that an argument stands for."""
    if isinstance(arg, Const) and type(arg.value) in PLAIN:
        return arg.value
    if isinstance(arg, Tup):
        return tuple(_known(item) for item in arg.items)
    raise _Unfoldable


def _literal(value: Any) -> Arg:
    """The argument for a result; a tuple stays at run time, where it is one object for all its users."""
    if type(value) not in PLAIN or (isinstance(value, str) and len(value) > LARGE):
        raise _Unfoldable
    if type(value) is int and value.bit_length() > LARGE:
        raise _Unfoldable
    return Const(value)


def _compute(node: Node) -> Any:
    if node.kwargs:
        raise _Unfoldable
    if node.op.name == "builtin":
        return _call_builtin(node)
    if node.target in ("is_", "is_not"):
        return _same_singleton(node.args) == (node.target == "is_")
    if node.target not in OPERATORS:
        raise _Unfoldable
    values = [_known(arg) for arg in node.args]
    if _may_be_large(node.target, values) or (node.target == "invert" and type(values[0]) is bool):
        raise _Unfoldable
    if node.target == "not_in":
        return not operator.contains(*values)
    return getattr(operator, node.target)(*values)


def _call_builtin(node: Node) -> Any:
    if node.target not in BUILTINS:
        raise _Unfoldable
    if node.target == "len" and len(node.args) == 1 and isinstance(node.args[0], Tup):
        return len(node.args[0].items)
    return getattr(builtins, node.target)(*(_known(arg) for arg in node.args))


def _may_be_large(target: str, values: list[Any]) -> bool:
    """Whether the result may be large, before it is computed."""
    ints = [abs(v) for v in values if isinstance(v, int)]
    if target == "mod" and isinstance(values[0], str):
        return True  # a format may ask for any width
    if target == "pow":
        return len(values) == 2 and all(type(v) is int for v in values) and values[1] * ints[0].bit_length() > LARGE
    if target == "lshift":
        return len(ints) == 2 and ints[1] > LARGE
    if target == "mul" and len(ints) == 1:
        return any(isinstance(v, (str, tuple)) and len(v) * ints[0] > LARGE for v in values)
    return False


def _same_singleton(args: tuple[Arg, ...]) -> bool:
    """Identity of two literals, where it does not depend on who made them."""
    left, right = args
    if not (isinstance(left, Const) and isinstance(right, Const)):
        raise _Unfoldable
    if type(left.value) not in SINGLETONS and type(right.value) not in SINGLETONS:
        raise _Unfoldable
    return left.value is right.value


def _holds(node: Node) -> bool:
    """Whether an assert is certain to hold."""
    args = node.args
    try:
        if node.target in ("true", "false"):
            return bool(_known(args[0])) == (node.target == "true")
        if node.target in ("is", "is_not"):
            return _same_singleton(args) == (node.target == "is")
        if node.target == "equals":
            left, right = _known(args[0]), _known(args[1])
            return type(left) is type(right) and repr(left) == repr(right)
        if node.target == "length":
            return isinstance(args[0], Tup) and len(args[0].items) == _known(args[1])
    except _Unfoldable:
        pass
    return False
