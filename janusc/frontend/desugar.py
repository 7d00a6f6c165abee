"""Small rewritings that leave fewer forms for the stages after, none of which changes what the program does.

======================  =========================================
``x: int = v``          ``x = v``
``x: int``              ``pass`` (the name stays local)
``global g``            nothing; kept in ``ParsedFunction.global_names``
``super()``             ``super(__class__, self)``
======================  =========================================
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import gast

from janusc.frontend import names


def desugar(tree: Any, rewrite_super: bool = True) -> Any:
    """Rewrite the function in place, and return it."""
    first = names.parameter_names(tree.args)[:1]
    if rewrite_super and first and (tree.args.args or tree.args.posonlyargs):
        for statement in tree.body:
            _rewrite_super(statement, first[0])
    tree.body = _block(tree.body) or [gast.copy_location(gast.Pass(), tree)]
    return tree


def _block(statements: list[Any]) -> list[Any]:
    result = []
    for node in statements:
        if isinstance(node, (gast.Global, gast.Nonlocal)):
            continue
        if isinstance(node, gast.AnnAssign):
            node = _annotated(node)
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            children = getattr(node, field, None)
            if isinstance(node, names.FUNCTIONS) or isinstance(node, gast.ClassDef) or not children:
                continue
            if field in ("handlers", "cases"):
                for child in children:
                    child.body = _filled(_block(child.body), child.body)
            else:
                setattr(node, field, _filled(_block(children), children))
        result.append(node)
    return result


def _filled(block: list[Any], before: list[Any]) -> list[Any]:
    return block or [gast.copy_location(gast.Pass(), before[0])]


def _annotated(node: Any) -> Any:
    if node.value is not None:
        assign = gast.Assign(targets=[node.target], value=node.value, type_comment=None)
        return _replaced(assign, node)
    # the object and index of ``a[i]: int`` are evaluated, so only a plain name goes
    return _replaced(gast.Pass(), node) if isinstance(node.target, gast.Name) else node


def _replaced(new: Any, old: Any) -> Any:
    gast.copy_location(new, old)
    site = getattr(old, "_jc_site", None)
    if site is not None:
        new._jc_site = site
    return new


def _rewrite_super(node: Any, first: str) -> None:
    """Name what ``super()`` takes from its frame; inner functions have frames of their own."""
    if isinstance(node, (*names.FUNCTIONS, gast.ClassDef, gast.GeneratorExp)):
        return
    if isinstance(node, names.COMPREHENSIONS) and sys.version_info < (3, 12):
        return
    for child in gast.iter_child_nodes(node):
        _rewrite_super(child, first)
    if isinstance(node, gast.Call) and isinstance(node.func, gast.Name) and node.func.id == "super":
        if not node.args and not node.keywords:
            node.args = [
                gast.copy_location(gast.Name(id=name, ctx=gast.Load(), annotation=None, type_comment=None), node)
                for name in ("__class__", first)
            ]


def captured_writes(tree: Any, local_names: frozenset[str]) -> frozenset[str]:
    """The locals that an inner function captures and that may be assigned after that.

    A capture is safe where its name is assigned once, before it in the text, and not together with it in one loop.
    """
    captures: dict[str, list[_Place]] = {}
    writes: dict[str, list[_Place]] = {}
    rebound: set[str] = set()
    order = _Order()
    for statement in tree.body:
        _collect(statement, (), order, captures, writes, rebound)
    parameters = names.parameter_names(tree.args)
    unsafe = set(rebound)
    for name, places in captures.items():
        assigned = [*([(-1, ())] if name in parameters else []), *writes.get(name, [])]
        if not all(_before(write, place) for write in assigned for place in places):
            unsafe.add(name)
    return frozenset(unsafe & local_names)


_Place = tuple[int, tuple[int, ...]]


class _Order:
    """Numbers the statements of a function as they are written."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last


def _before(write: _Place, capture: _Place) -> bool:
    """Whether a write never follows a capture: earlier or the same statement, and no loop around both."""
    return write[0] <= capture[0] and not set(write[1]) & set(capture[1])


def _collect(
    node: Any,
    loops: tuple[int, ...],
    order: _Order,
    captures: dict[str, list[_Place]],
    writes: dict[str, list[_Place]],
    rebound: set[str],
) -> None:
    number = order.next()
    blocks = list(_child_blocks(node))
    found = names.names_of(node if not blocks else _headers(node))
    inside = (*loops, number) if isinstance(node, (gast.For, gast.While)) else loops
    rebound |= found.rebound
    for name in found.captured:
        captures.setdefault(name, []).append((number, inside))
    for name in found.stores | found.deletes:
        writes.setdefault(name, []).append((number, inside))
    for block in blocks:
        for child in block:
            _collect(child, inside, order, captures, writes, rebound)


def _child_blocks(node: Any) -> Iterator[list[Any]]:
    if isinstance(node, (*names.FUNCTIONS, gast.ClassDef)):
        return
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list) and block:
            yield block
    for field in ("handlers", "cases"):
        for child in getattr(node, field, None) or []:
            yield child.body


def _headers(node: Any) -> list[Any]:
    """What a compound statement evaluates or binds itself, outside its blocks."""
    found = []
    for name, value in gast.iter_fields(node):
        if name in ("handlers", "cases"):
            for child in value:
                found += [part for field, part in gast.iter_fields(child) if field != "body"]
        elif name not in ("body", "orelse", "finalbody"):
            found.append(value)
    return [part for part in found if isinstance(part, (list, gast.AST))]
