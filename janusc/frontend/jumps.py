"""Make jumps structured: no ``break``, no ``continue``, one ``return`` at the very end.

Before::                              After::

    for x in xs:                          _jc_value = None
        if x < 0:                         _jc_returned = False
            return x                      for x in xs:        # stops once _jc_returned holds
        total += x                            if x < 0:
    return total                                  _jc_value = x
                                                  _jc_returned = True
                                              else:
                                                  total += x
                                          if not _jc_returned:
                                              _jc_value = total
                                          return _jc_value

Where a branch always jumps, the rest of its block moves into the other branch and no flag is needed; a flag that nobody
reads is not kept. A loop that a jump may end carries the name of its flag in ``_jc_stop``: it ends before its next item
once the flag is true, as by ``if flag: break`` as the last statement of its body.

A jump out of a ``with`` or ``try`` inside another one is made only after the inner one has been left, since leaving it
may raise and the outer one may catch that: then the jump has not taken place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import gast

from janusc.frontend import names
from janusc.frontend.nodes import nodes_of

VALUE = "_jc_value"
RETURNED = "_jc_returned"

_RETURN, _BREAK, _CONTINUE, _FALL = "return", "break", "continue", "fall"
_Outcomes = frozenset[str]
_TRIES = (gast.Try, gast.TryStar)


@dataclass(frozen=True)
class _Target:
    """What a jump of each kind sets here, and which flag says that the rest of the block is skipped.

    ``value`` is the name a returned value is put in, ``protected`` whether a ``with`` or ``try`` is around.
    """

    sets: dict[str, tuple[str, ...]]
    guard: str
    value: str = VALUE
    protected: bool = False


def structure(statements: list[Any]) -> list[Any]:
    """The statements of a function body with structured jumps; the nodes given are changed and used again."""
    ways = outcomes(statements)
    returns = list(_own_nodes(statements, gast.Return))
    jumps = [*returns, *_own_nodes(statements, (gast.Break, gast.Continue))]
    single = len(returns) == 1 and statements[-1] is returns[0]
    if not jumps or (single and len(jumps) == 1):
        return statements
    numbering = _Numbering()
    target = _Target({_RETURN: (RETURNED,)}, RETURNED)
    if not returns or single:
        # the return stays as it is: nothing jumps over it
        rest = statements[:-1] if returns else statements
        return drop_unread_flags(numbering.block(rest, target) + returns)
    first, last = statements[0], returns[-1]
    start = [_assign(RETURNED, False, first)]
    nested = any(_is_nested(node, statements) for node in returns)
    body = numbering.block(statements, target)
    if _FALL in ways or nested:
        start.insert(0, _assign(VALUE, None, first))
    end = _placed(gast.Return(value=_name(VALUE)), last, "end")
    return drop_unread_flags([*start, *body, end])


def finally_jump(statements: list[Any]) -> Any | None:
    """A jump that leaves a ``finally`` block, or None."""
    for node in _own_nodes(statements, _TRIES):
        if outcomes(node.finalbody) - {_FALL}:
            jumps = _own_nodes(node.finalbody, (gast.Return, gast.Break, gast.Continue))
            return next(iter(jumps), node)
    return None


def outcomes(statements: Iterable[Any]) -> _Outcomes:
    """The ways in which a block may be left: by falling off its end, or by which jumps."""
    found: set[str] = set()
    for node in statements:
        ways = _outcomes_of(node)
        found |= ways - {_FALL}
        if _FALL not in ways:
            return frozenset(found)
    return frozenset(found | {_FALL})


def _outcomes_of(node: Any) -> _Outcomes:
    if isinstance(node, gast.Return):
        return frozenset({_RETURN})
    if isinstance(node, gast.Break):
        return frozenset({_BREAK})
    if isinstance(node, gast.Continue):
        return frozenset({_CONTINUE})
    if isinstance(node, gast.Raise):
        return frozenset()
    if isinstance(node, gast.If):
        return outcomes(node.body) | outcomes(node.orelse)
    if isinstance(node, (gast.For, gast.While)):
        body = outcomes(node.body)
        ways = (body & {_RETURN}) | outcomes(node.orelse)
        if _is_forever(node):
            # left by break only
            return (body & {_RETURN}) | ({_FALL} if _BREAK in body else frozenset())
        return ways | {_FALL} if _BREAK in body else ways
    if isinstance(node, gast.With):
        # the manager may swallow an exception
        return outcomes(node.body) | {_FALL}
    if isinstance(node, _TRIES):
        body = outcomes(node.body)
        ways = (body - {_FALL}) | outcomes(node.orelse) if _FALL in body else body
        return ways.union(*(outcomes(handler.body) for handler in node.handlers))
    if isinstance(node, gast.Match):
        return frozenset({_FALL}).union(*(outcomes(case.body) for case in node.cases))
    return frozenset({_FALL})


def _is_forever(node: Any) -> bool:
    return isinstance(node, gast.While) and isinstance(node.test, gast.Constant) and bool(node.test.value)


class _Numbering:
    """Restructures blocks; numbers the loops and protected statements of one function."""

    def __init__(self) -> None:
        self.loops = 0
        self.leaves = 0

    def block(self, statements: list[Any], target: _Target) -> list[Any]:
        """The block with every jump as assignments to flags, the rest behind it guarded."""
        result: list[Any] = []
        for index, node in enumerate(statements):
            rest = statements[index + 1 :]
            ways = _outcomes_of(node)
            jumps = ways - {_FALL}
            if isinstance(node, (gast.Return, gast.Break, gast.Continue)):
                return result + self._jump(node, target)
            if isinstance(node, gast.If) and jumps:
                return result + self._branch(node, rest, target)
            if isinstance(node, (gast.For, gast.While)):
                return result + self._loop(node, rest, target)
            if isinstance(node, gast.With):
                new = self._leave(node, jumps, target, self._with)
            elif isinstance(node, _TRIES):
                new = self._leave(node, jumps, target, self._try)
            elif isinstance(node, gast.Match):
                for case in node.cases:
                    case.body = self._filled(case.body, target)
                new = [node]
            elif isinstance(node, gast.If):
                node.body = self._filled(node.body, target)
                node.orelse = self.block(node.orelse, target)
                new = [node]
            else:
                new = [node]
            result += new
            if _FALL not in ways:
                # what follows is never reached
                return result
            if jumps:
                return result + self._guarded(rest, target)
        return result

    def _filled(self, statements: list[Any], target: _Target) -> list[Any]:
        return self.block(statements, target) or [_placed(gast.Pass(), statements[0], "pass")]

    def _guarded(self, rest: list[Any], target: _Target) -> list[Any]:
        body = self.block(rest, target)
        return [_unless(target.guard, body)] if body else []

    def _jump(self, node: Any, target: _Target) -> list[Any]:
        if isinstance(node, gast.Return):
            value = node.value or _placed(gast.Constant(value=None, kind=None), node, "none")
            assign = gast.Assign(targets=[_name(target.value, gast.Store())], value=value, type_comment=None)
            kind, result = _RETURN, [_placed(assign, node, "value")]
        else:
            kind, result = (_BREAK if isinstance(node, gast.Break) else _CONTINUE), []
        result += [_assign(flag, True, node) for flag in target.sets[kind]]
        return result

    def _branch(self, node: Any, rest: list[Any], target: _Target) -> list[Any]:
        """An ``if`` with a jump in it: the rest goes into the branch that goes on, where only one does."""
        then_falls = _FALL in outcomes(node.body)
        else_falls = _FALL in outcomes(node.orelse)
        guarded: list[Any] = []
        if then_falls and else_falls:
            guarded = self._guarded(rest, target)
        elif else_falls:
            node.orelse = [*node.orelse, *rest]
        elif then_falls:
            node.body = [*node.body, *rest]
        node.body = self._filled(node.body, target)
        node.orelse = self.block(node.orelse, target)
        return [node, *guarded]

    def _loop(self, node: Any, rest: list[Any], target: _Target) -> list[Any]:
        """The loop with its flags, and the rest of the block after it, with the loop's ``else`` in front."""
        kinds = outcomes(node.body) - {_FALL}
        forever = _is_forever(node)
        orelse, node.orelse = ([] if forever else node.orelse), []
        if not kinds:
            node._jc_stop = None
            node.body = self._filled(node.body, target)
            return [node] if forever else [node, *self.block([*orelse, *rest], target)]
        self.loops += 1
        broken, skipped = f"_jc_break_{self.loops}", f"_jc_continue_{self.loops}"
        outer = target.sets.get(_RETURN, ())
        stop = broken if _BREAK in kinds else outer[0] if _RETURN in kinds else None
        guard = skipped if _CONTINUE in kinds or stop is None else stop
        flags = [*([stop] if stop else []), guard]
        sets = {_RETURN: (*outer, *flags), _BREAK: tuple(flags), _CONTINUE: (guard,)}
        sets = {kind: tuple(dict.fromkeys(names_set)) for kind, names_set in sets.items()}
        body = self._filled(node.body, replace(target, sets=sets, guard=guard))
        node.body = [_assign(skipped, False, node), *body] if guard == skipped else body
        node._jc_stop = stop
        new = [_assign(broken, False, node), node] if stop == broken else [node]
        if forever and _BREAK not in kinds:
            return new
        after = [*([_unless(stop, orelse)] if orelse and stop else orelse), *rest]
        return new + (self._guarded(after, target) if _RETURN in kinds else self.block(after, target))

    def _leave(self, node: Any, jumps: _Outcomes, target: _Target, convert: Any) -> list[Any]:
        """A ``with`` or ``try``; inside another one its jumps are made after it has been left."""
        if not target.protected or not jumps:
            convert(node, replace(target, protected=True))
            return [node]
        self.leaves += 1
        number = self.leaves
        flags = {kind: f"_jc_leave_{kind}_{number}" for kind in sorted(jumps)}
        guard = f"_jc_leave_{number}" if len(flags) > 1 else next(iter(flags.values()))
        value = f"{VALUE}_{number}"
        sets = {kind: tuple(dict.fromkeys([flag, guard])) for kind, flag in flags.items()}
        convert(node, _Target(sets, guard, value, protected=True))
        start = [_assign(flag, False, node) for flag in dict.fromkeys([*flags.values(), guard])]
        end = []
        for kind, flag in flags.items():
            body = [_assign(name, True, node) for name in target.sets[kind]]
            if kind == _RETURN:
                start.append(_assign(value, None, node))
                copy = gast.Assign(targets=[_name(target.value, gast.Store())], value=_name(value), type_comment=None)
                body.insert(0, _placed(copy, node, value))
            end.append(_placed(gast.If(test=_name(flag), body=body, orelse=[]), node, flag))
        return [*start, node, *end]

    def _with(self, node: Any, target: _Target) -> None:
        node.body = self._filled(node.body, target)

    def _try(self, node: Any, target: _Target) -> None:
        # the else clause runs only where the body was not left by a jump
        ways = outcomes(node.body)
        node.body = self._filled(node.body, target)
        if _FALL not in ways:
            node.orelse = []
        else:
            node.orelse = (self._guarded if ways - {_FALL} else self.block)(node.orelse, target)
        for handler in node.handlers:
            handler.body = self._filled(handler.body, target)
        node.finalbody = self.block(node.finalbody, target)


def drop_unread_flags(statements: list[Any]) -> list[Any]:
    """The statements without assignments to flags that nothing reads."""
    read: set[str] = set()
    for statement in statements:
        for node in nodes_of(statement):
            if isinstance(node, gast.Name) and isinstance(node.ctx, gast.Load):
                read.add(node.id)
            stop = getattr(node, "_jc_stop", None)
            if stop:
                read.add(stop)
    return _without(statements, read)


def _without(statements: list[Any], read: set[str]) -> list[Any]:
    result = []
    for node in statements:
        if getattr(node, "_jc_flag", None) is not None and node._jc_flag not in read:
            continue
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block and not isinstance(node, (*names.FUNCTIONS, gast.ClassDef)):
                kept = _without(block, read)
                if not kept and field == "body":
                    kept = [_placed(gast.Pass(), block[0], "pass")]
                setattr(node, field, kept)
        for child in [*(getattr(node, "handlers", None) or []), *(getattr(node, "cases", None) or [])]:
            child.body = _without(child.body, read) or [_placed(gast.Pass(), child.body[0], "pass")]
        result.append(node)
    return result


def _own_nodes(statements: Iterable[Any], kinds: Any) -> list[Any]:
    """The nodes of these kinds in the function's own scope, in the order of the text."""
    found = []
    for node in statements:
        if isinstance(node, kinds):
            found.append(node)
        if isinstance(node, (*names.FUNCTIONS, gast.ClassDef)) or not isinstance(node, gast.AST):
            continue
        for _, value in gast.iter_fields(node):
            if isinstance(value, list):
                found += _own_nodes(value, kinds)
    return found


def _is_nested(node: Any, statements: list[Any]) -> bool:
    """Whether a return stands inside a loop, with, try or match: there, its value needs a start value."""
    kinds = (gast.For, gast.While, gast.With, gast.Match, *_TRIES)
    return any(node in _own_nodes([outer], gast.Return) for outer in _own_nodes(statements, kinds))


def _placed(new: Any, where: Any, role: str) -> Any:
    """A made node at the place of the user's, under a site of its own."""
    for node in nodes_of(new):
        if not hasattr(node, "lineno") and "lineno" in node._attributes:
            gast.copy_location(node, where)
            node._jc_site = f"{getattr(where, '_jc_site', None) or where.lineno}~{role}"
    return new


def _name(name: str, ctx: Any | None = None) -> Any:
    return gast.Name(id=name, ctx=ctx or gast.Load(), annotation=None, type_comment=None)


def _assign(name: str, value: Any, where: Any) -> Any:
    constant = gast.Constant(value=value, kind=None)
    node = gast.Assign(targets=[_name(name, gast.Store())], value=constant, type_comment=None)
    node._jc_flag = name
    return _placed(node, where, f"{name}={value}")


def _unless(flag: str, body: list[Any]) -> Any:
    test = gast.UnaryOp(op=gast.Not(), operand=_name(flag))
    return _placed(gast.If(test=test, body=body, orelse=[]), body[0], f"unless {flag}")
