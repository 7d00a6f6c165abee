"""A loop taken apart: what begins it, what asks for its next item, and what is left of it after a pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gast

from janusc.frontend import names
from janusc.frontend.duplicate import duplicate
from janusc.frontend.iteration import PREFIX
from janusc.frontend.outline import ITER


@dataclass(frozen=True, eq=False)
class LoopParts:
    """A loop taken apart.

    ``start`` are statements before the first pass; ``head`` says in the local ``more`` whether there is another pass,
    and sets the targets. ``tail`` is the loop from the next pass on, for the rest of a call that failed in a pass;
    ``after`` are statements after the last pass, which ``tail`` includes. ``stop`` names the flag of a jump out.
    """

    loop: Any
    more: str
    start: tuple[Any, ...]
    head: tuple[Any, ...]
    tail: Any
    after: tuple[Any, ...]
    stop: str | None


def take_apart(loop: Any) -> LoopParts | None:
    """The parts of a ``for`` or ``while`` after desugaring, or None for any other statement."""
    place = f"{loop.lineno}_{loop.col_offset}" if hasattr(loop, "lineno") else ""
    more, stop = f"_jc_more_{place}", getattr(loop, "_jc_stop", None)
    if isinstance(loop, gast.For):
        iterator = f"{PREFIX}{place}"
        # in a list, which gives it away: an iterator ends with its loop, though others hold what they were given
        made = gast.Call(func=_name(ITER), args=[loop.iter], keywords=[])
        start: tuple[Any, ...] = (_assign(iterator, gast.List(elts=[made], ctx=gast.Load())),)
        found = gast.For(
            target=duplicate(loop.target),
            iter=gast.Subscript(value=_name(iterator), slice=_constant(0), ctx=gast.Load()),
            body=[_assign(more, _constant(True)), gast.Break()],
            orelse=[],
            type_comment=None,
        )
        tail: Any = gast.For(
            target=loop.target, iter=_given(iterator), body=loop.body, orelse=loop.orelse, type_comment=None
        )
    elif isinstance(loop, gast.While):
        start = ()  # the test is part of the head
        found = gast.If(test=loop.test, body=[_assign(more, _constant(True))], orelse=[])
        tail = gast.While(test=loop.test, body=loop.body, orelse=loop.orelse)
    else:
        return None
    head = (_assign(more, _constant(False)), found)
    after: tuple[Any, ...] = tuple(loop.orelse)
    if stop is not None:
        tail._jc_stop = stop
        dropped = [gast.Expr(value=_given(iterator))] if isinstance(loop, gast.For) else []
        tail = gast.If(test=_negated(stop), body=[tail], orelse=dropped)
        after = (gast.If(test=_negated(stop), body=loop.orelse, orelse=[]),) if loop.orelse else ()
    for node in (*start, *head, tail, *after):
        _place(node, loop)
    return LoopParts(loop, more, start, head, tail, after, stop)


def targets(loop: Any) -> frozenset[str]:
    """The names that a loop may set: by its target, its test and its body, though not in its ``else``."""
    parts: Sequence[Any] = [loop.target, *loop.body] if isinstance(loop, gast.For) else [loop.test, *loop.body]
    found = names.names_of(parts)
    return found.stores | found.deletes


def _given(iterator: str) -> Any:
    pop = gast.Attribute(value=_name(iterator), attr="pop", ctx=gast.Load())
    return gast.Call(func=pop, args=[], keywords=[])


def _negated(flag: str) -> Any:
    return gast.UnaryOp(op=gast.Not(), operand=_name(flag))


def _assign(name: str, value: Any) -> Any:
    target = gast.Name(id=name, ctx=gast.Store(), annotation=None, type_comment=None)
    return gast.Assign(targets=[target], value=value, type_comment=None)


def _name(name: str) -> Any:
    return gast.Name(id=name, ctx=gast.Load(), annotation=None, type_comment=None)


def _constant(value: int) -> Any:
    return gast.Constant(value=value, kind=None)


def _place(node: Any, where: Any) -> None:
    for inner in _new_nodes(node):
        gast.copy_location(inner, where)


def _new_nodes(node: Any) -> Iterator[Any]:
    """The nodes made here, which have no place yet; those of the user's keep theirs."""
    stack = [node]
    while stack:
        item = stack.pop()
        if "lineno" in item._attributes and hasattr(item, "lineno"):
            continue
        yield item
        stack.extend(gast.iter_child_nodes(item))
