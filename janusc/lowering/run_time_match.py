"""Cases of a ``match`` that are tried at run time: each a test, and a branch on it in which its names are bound.

A test reads what the pattern looks at, and where it holds, the names are bound by reading that once more: nothing of
the user's runs in either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gast

from janusc.frontend.nodes import nodes_of
from janusc.lowering.abstract import Known, Sym
from janusc.lowering.branch import branch_on, lower_and, lower_or
from janusc.lowering.cond import cond
from janusc.lowering.introspection import lower_isinstance
from janusc.lowering.lower_attr import get_attribute
from janusc.lowering.lower_builtin import length
from janusc.lowering.lower_compare import compare
from janusc.lowering.lower_match import MATCHED_WHOLE, attribute_patterns, refuse
from janusc.lowering.lower_operator import get_item
from janusc.lowering.lower_state import store_name
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import exact_type
from janusc.lowering.truth import truth

Test = Callable[[], Any]


def try_cases(lo: Lowering, node: Any, subject: Any, cases: Sequence[Any]) -> None:
    """The first of the cases whose pattern fits and whose guard holds."""
    if not cases:
        return
    case, rest = cases[0], cases[1:]

    def otherwise() -> None:
        try_cases(lo, node, subject, rest)

    def run() -> None:
        bind(lo, case.pattern, subject)
        if case.guard is None:
            lo.block(case.body)
        else:
            branch_on(lo, case.guard, lambda: lo.block(case.body), otherwise, node)

    known = truth(lo, fits(lo, case.pattern, subject))
    if isinstance(known, bool):
        run() if known else otherwise()
    else:
        cond(lo, node, known, run, otherwise)


def fits(lo: Lowering, pattern: Any, subject: Any) -> Any:
    """Whether a pattern fits, as a value."""
    if isinstance(pattern, gast.MatchValue):
        return compare(lo, "eq", subject, lo.expr(pattern.value))
    if isinstance(pattern, gast.MatchSingleton):
        return compare(lo, "is_", subject, Known(pattern.value))
    if isinstance(pattern, gast.MatchAs):
        return Known(True) if pattern.pattern is None else fits(lo, pattern.pattern, subject)
    if isinstance(pattern, gast.MatchOr):
        return lower_or(lo, [_later(lo, p, lambda: subject) for p in pattern.patterns], pattern)
    if isinstance(pattern, gast.MatchClass):
        return _fits_class(lo, pattern, subject)
    if isinstance(pattern, gast.MatchSequence):
        return _fits_sequence(lo, pattern, subject)
    raise refuse(lo, pattern)


def _later(lo: Lowering, pattern: Any, part: Callable[[], Any]) -> Test:
    return lambda: fits(lo, pattern, part())


def _fits_class(lo: Lowering, pattern: Any, subject: Any) -> Any:
    cls = lo.expr(pattern.cls)
    if not isinstance(cls, Known) or not isinstance(cls.value, type):
        raise refuse(lo, pattern)
    tests: list[Test] = [lambda: lower_isinstance(lo, [subject, cls], {})]
    tests += [_later(lo, p, part) for p, part in _parts(lo, pattern, cls.value, subject)]
    return lower_and(lo, tests, pattern)


def _parts(lo: Lowering, pattern: Any, cls: type, subject: Any) -> list[tuple[Any, Callable[[], Any]]]:
    """The patterns inside one of a class, and what each looks at."""

    def attribute(name: str, inner: Any) -> Callable[[], Any]:
        def read() -> Any:
            owner = lo.within(pattern, lambda: lo.settled(subject))
            return lo.within(inner, lambda: lo.settled(get_attribute(lo, owner, name)))

        return read

    if pattern.patterns and any(cls is whole for whole in MATCHED_WHOLE):
        if len(pattern.patterns) != 1 or pattern.kwd_attrs:
            raise refuse(lo, pattern)
        return [(pattern.patterns[0], lambda: subject)]
    return [(inner, attribute(name, inner)) for name, inner in attribute_patterns(lo, pattern, cls)]


def _fits_sequence(lo: Lowering, pattern: Any, subject: Any) -> Any:
    if exact_type(subject) not in (list, tuple) or any(isinstance(p, gast.MatchStar) for p in pattern.patterns):
        raise refuse(lo, pattern)
    tests: list[Test] = [lambda: compare(lo, "eq", length(lo, subject), Known(len(pattern.patterns)))]
    tests += [_later(lo, p, _item(lo, subject, i, p)) for i, p in enumerate(pattern.patterns)]
    return lower_and(lo, tests, pattern)


def _item(lo: Lowering, subject: Any, index: int, inner: Any) -> Callable[[], Any]:
    return lambda: lo.within(inner, lambda: lo.settled(get_item(lo, subject, Known(index))))


def bind(lo: Lowering, pattern: Any, subject: Any) -> None:
    """Bind the names of a pattern that fits."""
    captures = [n for n in nodes_of(pattern) if isinstance(n, gast.MatchAs) and n.name is not None]
    if not captures:
        return
    if isinstance(pattern, gast.MatchAs):
        if pattern.pattern is not None:
            bind(lo, pattern.pattern, subject)
        store_name(lo, pattern.name, subject)
    elif isinstance(pattern, gast.MatchClass):
        cls = lo.expr(pattern.cls)
        if isinstance(subject, Sym):
            lo.worlds.claims[subject.value] = cls.value, lo.builder.regions[-1]
        for inner, part in _parts(lo, pattern, cls.value, subject):
            bind(lo, inner, part())
    elif isinstance(pattern, gast.MatchSequence):
        for index, inner in enumerate(pattern.patterns):
            bind(lo, inner, _item(lo, subject, index, inner)())
    else:  # one of several patterns, with names
        raise refuse(lo, pattern)
