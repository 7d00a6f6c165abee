"""Split a statement around an opaque call, so that what is around the call can stand in a graph.

Before::                                   After::

    y = net(x) + env.step(net(x).argmax())     _jc_part_0 = net(x)
                                               _jc_part_1 = net(x).argmax()
                                               _jc_part_2 = env.step(_jc_part_1)
                                               y = _jc_part_0 + _jc_part_2

Only what is evaluated unconditionally, and in the same order: a call in one arm of a condition, in a comprehension or
in a lambda stays where it is.
"""

from __future__ import annotations

import copy
from typing import Any

import gast

from janusc.frontend.nodes import nodes_of
from janusc.frontend.outline import PART

_HEADS: dict[type, str] = {
    gast.Expr: "value",
    gast.Assign: "value",
    gast.Return: "value",
    gast.If: "test",
    gast.For: "iter",
}


def split(statement: Any, call: Any, local_names: frozenset[str], modules: frozenset[str]) -> list[Any] | None:
    """The statements that stand for ``statement``, or None where the call can't be taken out.

    What is evaluated before the call is named before it, but for constants and ``local_names``, which no call changes,
    and for what is called, where that is a global function or one of a module among ``modules``.
    """
    field = _HEADS.get(type(statement))
    if field is None or getattr(statement, field) is None:
        return None
    value = getattr(statement, field)
    if value is call and isinstance(statement, (gast.Expr, gast.Assign)) and not _has_call(call):
        return None  # it stands alone already
    parts = _Parts(local_names, modules)
    replaced = _take_out(value, call, parts)
    if replaced is None:
        return None
    if value is call and isinstance(statement, (gast.Expr, gast.Assign)) and len(parts) == 1:
        return None
    last = copy.copy(statement)
    setattr(last, field, replaced)
    return [*parts, last]


class _Parts(list[Any]):
    """The statements so far; ``local_names`` may be read later than they were."""

    def __init__(self, local_names: frozenset[str], modules: frozenset[str]) -> None:
        super().__init__()
        self.local_names = local_names
        self.modules = modules

    def hoist_callee(self, node: Any) -> Any:
        """What is called: a function that is looked up by name alone may be looked up later."""
        root = node
        while isinstance(root, gast.Attribute):
            root = root.value
        if isinstance(node, gast.Name) or (isinstance(root, gast.Name) and root.id in self.modules):
            return node
        return _hoist(node, self)


def _take_out(node: Any, call: Any, parts: _Parts) -> Any:
    """The expression with the call replaced by a name; what runs before goes into ``parts``. None if that can't be."""
    if node is call:
        inner = _hoist_arguments(call, parts)
        name = _name(call, parts)
        parts.append(_assign(name, inner, call))
        return _load(name, call)
    children = _operands(node)
    for index, (child, _) in enumerate(children):
        if not any(n is call for n in nodes_of(child)):
            continue
        before = [
            parts.hoist_callee(c) if place == ("func", None) else _hoist(c, parts) for c, place in children[:index]
        ]
        inside = _take_out(child, call, parts)
        if inside is None:
            return None
        new = copy.copy(node)
        after = [c for c, _ in children[index + 1 :]]
        for (_, place), value in zip(children, [*before, inside, *after]):
            _put(new, place, value)
        return new
    return None


def _operands(node: Any) -> list[tuple[Any, tuple[str, int | None]]]:
    """The operands of an expression that all run, in order, with their places."""
    if isinstance(node, gast.Call):
        operands: list[tuple[Any, tuple[str, int | None]]] = [(node.func, ("func", None))]
        operands += [(a, ("args", i)) for i, a in enumerate(node.args)]
        return operands + [(k.value, ("keywords", i)) for i, k in enumerate(node.keywords)]
    fields: dict[type, tuple[str, ...]] = {
        gast.BinOp: ("left", "right"),
        gast.UnaryOp: ("operand",),
        gast.Attribute: ("value",),
        gast.Subscript: ("value", "slice"),
        gast.Starred: ("value",),
        gast.IfExp: ("test",),
    }
    if type(node) in fields:
        return [(getattr(node, f), (f, None)) for f in fields[type(node)]]
    if isinstance(node, gast.Compare) and len(node.ops) == 1:
        return [(node.left, ("left", None)), (node.comparators[0], ("comparators", 0))]
    if isinstance(node, (gast.Tuple, gast.List)):
        return [(e, ("elts", i)) for i, e in enumerate(node.elts)]
    if isinstance(node, gast.BoolOp):
        return [(node.values[0], ("values", 0))]
    return []


def _put(node: Any, place: tuple[str, int | None], value: Any) -> None:
    field, index = place
    if index is None:
        setattr(node, field, value)
        return
    items = list(getattr(node, field))
    if field == "keywords":
        items[index] = copy.copy(items[index])
        items[index].value = value
    else:
        items[index] = value
    setattr(node, field, items)


def _hoist(node: Any, parts: _Parts) -> Any:
    """An operand that runs before the call, under a name of its own."""
    if isinstance(node, gast.Constant) or (isinstance(node, gast.Name) and node.id in parts.local_names):
        return node
    if isinstance(node, gast.Starred):
        new = copy.copy(node)
        new.value = _hoist(node.value, parts)
        return new
    name = _name(node, parts)
    parts.append(_assign(name, node, node))
    return _load(name, node)


def _hoist_arguments(call: Any, parts: _Parts) -> Any:
    """The call, with what is called and its arguments computed before it where some argument does work of its own."""
    if not _has_call(call) or any(isinstance(n, gast.Call) for n in nodes_of(call.func)):
        return call
    new = copy.copy(call)
    new.func = parts.hoist_callee(call.func)
    new.args = [_hoist(a, parts) for a in call.args]
    new.keywords = [copy.copy(k) for k in call.keywords]
    for keyword in new.keywords:
        keyword.value = _hoist(keyword.value, parts)
    return new


def _works(node: Any) -> bool:
    scopes = (gast.Lambda, gast.GeneratorExp, gast.NamedExpr)
    return any(isinstance(n, gast.Call) for n in nodes_of(node)) and not any(
        isinstance(n, scopes) for n in nodes_of(node)
    )


def _has_call(call: Any) -> bool:
    return any(_works(a) for a in [*call.args, *(k.value for k in call.keywords)])


def _name(node: Any, parts: _Parts) -> str:
    """The name of a part: the same in every conversion, since what is refuted of it is kept by name."""
    return f"{PART}{node.lineno}_{node.col_offset}_{node.end_lineno}_{node.end_col_offset}_{len(parts)}"


def _load(name: str, where: Any) -> Any:
    return gast.copy_location(gast.Name(id=name, ctx=gast.Load(), annotation=None, type_comment=None), where)


def _assign(name: str, value: Any, where: Any) -> Any:
    target = gast.copy_location(gast.Name(id=name, ctx=gast.Store(), annotation=None, type_comment=None), where)
    return gast.copy_location(gast.Assign(targets=[target], value=value, type_comment=None), where)
