"""A tree as Python compiles it: copied from ``gast`` to ``ast`` in one walk, with what a subclass puts in its place.

Nodes without a place of their own get that of the node around them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import gast

_SHARED = (gast.expr_context, gast.operator, gast.unaryop, gast.cmpop, gast.boolop)
_KINDS: dict[type, Any] = {
    kind: vars(ast)[name]
    for name, kind in vars(gast).items()
    if isinstance(kind, type) and issubclass(kind, gast.AST) and name in vars(ast)
}
_INSTANCES: dict[type, Any] = {kind: made() for kind, made in _KINDS.items() if issubclass(kind, _SHARED)}
_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")


class Translator:
    """One walk over a tree, which stays as it is; ``ways`` are the kinds of nodes that are more than copied."""

    def __init__(self) -> None:
        self.ways: dict[type, Callable[[Any, Any], Any]] = {
            gast.arguments: self._arguments,
            gast.ExceptHandler: self._handler,
        }

    def visit(self, value: Any, place: Any) -> Any:
        """What stands for a node, a list of nodes or a plain value; a list where that is several statements."""
        kind = type(value)
        if kind is list:
            found: list[Any] = []
            for item in value:
                made = self.visit(item, place)
                if type(made) is list:
                    found.extend(made)
                else:
                    found.append(made)
            return found
        shared = _INSTANCES.get(kind)
        if shared is not None:
            return shared
        if kind not in _KINDS:
            return value
        way = self.ways.get(kind)
        return self.copy(value, place) if way is None else way(value, place)

    def copy(self, node: Any, place: Any, **instead: Any) -> Any:
        """The node in ``ast``, its parts visited but those that are given."""
        kind = _KINDS[type(node)]
        held = vars(node)
        here = node if "lineno" in held else place
        made = kind.__new__(kind)
        fields = vars(made)
        for name, value in held.items():
            if name in instead:
                fields[name] = instead[name]
            else:
                fields[name] = self.visit(value, here) if isinstance(value, (gast.AST, list)) else value
        if here is place and "lineno" in kind._attributes:
            locate(made, place)
        return made

    def _arguments(self, node: Any, place: Any) -> Any:
        def parameter(name: Any) -> Any:
            if name is None:
                return None
            here = name if hasattr(name, "lineno") else place
            annotation = self.visit(name.annotation, here)
            return locate(ast.arg(arg=name.id, annotation=annotation, type_comment=name.type_comment), here)

        lists = {field: list(map(parameter, getattr(node, field))) for field in ("posonlyargs", "args", "kwonlyargs")}
        extra = {field: parameter(getattr(node, field)) for field in ("vararg", "kwarg")}
        return self.copy(node, place, **lists, **extra)

    def _handler(self, node: Any, place: Any) -> Any:
        return self.copy(node, place, name=node.name and node.name.id)


def translate(tree: Any) -> Any:
    """The tree, or a list of trees, as Python compiles it."""
    return Translator().visit(tree, None)


def locate(node: Any, place: Any) -> Any:
    """The node at the place of another one, of either kind."""
    fields, known = vars(node), vars(place)
    for name in _PLACE:
        if name in known:
            fields[name] = known[name]
    return node
