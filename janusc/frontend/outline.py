"""A range of statements as a function of its live-ins.

The statements are the user's own, under the user's file name, lines and function name; loops end by a real ``break``
where ``_jc_stop`` names a flag. Names may be unbound, on the way in and on the way out: ``UNBOUND`` stands for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gast

from janusc.frontend import build, names
from janusc.frontend.duplicate import duplicate
from janusc.frontend.iteration import PREFIX, iterator_of
from janusc.frontend.modes import Block
from janusc.frontend.nodes import nodes_of
from janusc.frontend.parse import ParsedFunction
from janusc.sentinels import UNBOUND

ITER = "_jc_iter_of"
"""The name under which outlined statements find what begins a loop."""

BLOCK = "_jc_block"
"""The name under which they find what a block of steps stands under."""

PART = "_jc_part_"
"""The names of parts of statements begin so: in the statements as written they have no name, and go when used."""

ENTER = "_jc_enter"
"""The name under which they find what looks for graphs of a function that they call."""

_EXTRA: Mapping[str, object] = {
    "_jc_unbound": UNBOUND,
    "_jc_name_error": NameError,
    "_jc_any_error": BaseException,
    ITER: iterator_of,
    BLOCK: Block,
}


def outline(
    parsed: ParsedFunction,
    statements: Sequence[Any],
    live_ins: tuple[str, ...],
    live_outs: tuple[str, ...] | None,
    name: str,
    enter: Callable[[Any], Any] | None = None,
) -> build.Template:
    """A template that runs desugared statements from live-ins.

    With ``live_outs`` the function returns a tuple of them; with None the statements reach the end of the user's
    function, and the result is that of the call. ``name`` is for display; tracebacks show the user's function.
    ``enter`` is given what is called where the lowering has marked the call, and says what to call instead.
    """
    where = statements[0] if statements else parsed.tree
    # an unbound live-in was passed as UNBOUND, which must not be seen by the statements
    body = [_forget(live, where) for live in live_ins]
    body += _ending_loops(_dropping_parts(with_breaks(statements), live_outs or ()), live_ins, where)
    if enter is not None:
        _enter_callees(body)
    if live_outs is not None:
        last = statements[-1] if statements else where
        body += [_read(live, index, last) for index, live in enumerate(live_outs)]
        items = [_name(f"_jc_out_{index}", gast.Load()) for index in range(len(live_outs))]
        body.append(_at(gast.Return(value=gast.Tuple(elts=items, ctx=gast.Load())), last))
    parameters = [_at(_name(live, gast.Param()), where) for live in live_ins]
    arguments = gast.arguments(
        args=parameters, posonlyargs=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )
    tree = gast.FunctionDef(
        name=parsed.name,
        args=arguments,
        body=body or [_at(gast.Pass(), where)],
        decorator_list=[],
        returns=None,
        type_comment=None,
        type_params=[],
    )
    gast.copy_location(tree, parsed.tree)
    extra = _EXTRA if enter is None else {**_EXTRA, ENTER: enter}
    return build.compile_function(parsed, tree, extra, signature=False, name=name)


def _dropping_parts(statements: list[Any], live_outs: tuple[str, ...]) -> list[Any]:
    """The statements, each followed by the end of the parts that only it still needed."""
    found: list[Any] = []
    needed = set(live_outs)
    for statement in reversed(statements):
        used = {n for n in names.loads([statement]) if n.startswith(PART)}
        if used - needed and not isinstance(statement, gast.Return):
            dropped = [_name(n, gast.Del()) for n in sorted(used - needed)]
            found.append(_at(gast.Delete(targets=dropped), statement))
        needed |= used
        found.append(statement)
    return found[::-1]


def with_breaks(statements: Sequence[Any]) -> list[Any]:
    """A copy of desugared statements that plain Python runs as meant: ``_jc_stop`` as a ``break``."""
    result: list[Any] = duplicate(list(statements))
    stack = list(result)
    while stack:
        node = stack.pop()
        if isinstance(node, (*names.FUNCTIONS, gast.ClassDef)):
            continue
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            stack.extend(getattr(node, field, None) or [])
        stop = getattr(node, "_jc_stop", None)
        if stop:
            leave = gast.If(test=_name(stop, gast.Load()), body=[gast.Break()], orelse=[])
            node.body = [*node.body, _at(leave, node)]
    return result


def _enter_callees(body: list[Any]) -> None:
    """``f(x)`` as ``_jc_enter(f)(x)`` where ``f`` may have graphs of its own."""
    for node in nodes_of(body):
        if isinstance(node, gast.Call) and getattr(node, "_jc_enter", False):
            node.func = _at(gast.Call(func=_name(ENTER, gast.Load()), args=[node.func], keywords=[]), node.func)


def _ending_loops(body: list[Any], live_ins: tuple[str, ...], where: Any) -> list[Any]:
    """Statements of a pass: an exception that leaves them ends the loops around, and so the life of their iterators.

    ``try: ...`` / ``except BaseException: iterators.clear(); raise``, the innermost first.
    """
    held = sorted((n for n in live_ins if n.startswith(PREFIX)), key=_place_in_name)
    if not held or not body:
        return body
    cleared = [
        gast.Expr(
            value=gast.Call(
                func=gast.Attribute(value=_name(name, gast.Load()), attr="clear", ctx=gast.Load()), args=[], keywords=[]
            )
        )
        for name in reversed(held)
    ]
    handler = gast.ExceptHandler(
        type=_name("_jc_any_error", gast.Load()), name=None, body=[*cleared, gast.Raise(exc=None, cause=None)]
    )
    return [_at(gast.Try(body=body, handlers=[handler], orelse=[], finalbody=[]), where)]


def _place_in_name(iterator: str) -> list[int]:
    return [int(part) for part in iterator.removeprefix(PREFIX).split("_") if part]


def _forget(live: str, where: Any) -> Any:
    """``if x is UNBOUND: del x``."""
    test = gast.Compare(left=_name(live, gast.Load()), ops=[gast.Is()], comparators=[_name("_jc_unbound", gast.Load())])
    return _at(gast.If(test=test, body=[gast.Delete(targets=[_name(live, gast.Del())])], orelse=[]), where)


def _read(live: str, index: int, where: Any) -> Any:
    """``try: out = x`` / ``except NameError: out = UNBOUND``."""
    target = f"_jc_out_{index}"
    missing = _assign(target, "_jc_unbound")
    handler = gast.ExceptHandler(type=_name("_jc_name_error", gast.Load()), name=None, body=[missing])
    return _at(gast.Try(body=[_assign(target, live)], handlers=[handler], orelse=[], finalbody=[]), where)


def _assign(target: str, value: str) -> Any:
    return gast.Assign(targets=[_name(target, gast.Store())], value=_name(value, gast.Load()), type_comment=None)


def _name(name: str, ctx: Any) -> Any:
    return gast.Name(id=name, ctx=ctx, annotation=None, type_comment=None)


def _at(new: Any, where: Any) -> Any:
    for node in nodes_of(new):
        if not hasattr(node, "lineno") and "lineno" in node._attributes:
            gast.copy_location(node, where)
    return new
