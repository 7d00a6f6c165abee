"""``match``: the case that is taken is decided while lowering, under asserts on what the subject is.

A subject that decides nothing itself (a literal, a member of an enumeration, a list, a dict, an object of a plain
class) is taken apart by path like any other value; where that can't be done, the cases are tried at run time, see
``run_time_match``.
"""

from __future__ import annotations

from typing import Any

import gast

from janusc.lowering import codes
from janusc.lowering.abstract import UNKNOWN, DictV, Known, ListV, Live, Sym, TupleV
from janusc.lowering.classes import class_lookup
from janusc.lowering.introspection import lower_isinstance
from janusc.lowering.iterate import static_items
from janusc.lowering.lower_attr import get_attribute
from janusc.lowering.lower_compare import compare
from janusc.lowering.lower_expr import literal_key
from janusc.lowering.lower_operator import get_item
from janusc.lowering.lower_state import check_once, raw_attr, store_name
from janusc.lowering.lowering import Lowering, Unconvertible, statement
from janusc.lowering.membership import membership
from janusc.lowering.operands import HOST_VALUES, exact_type
from janusc.lowering.truth import decide, truth

MATCHED_WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
_Captures = list[tuple[str, Any]]


@statement(gast.Match)
def lower_match(lo: Lowering, node: Any) -> None:
    lo.block(taken_or_tried(lo, node))


def taken_or_tried(lo: Lowering, node: Any) -> list[Any]:
    """The statements that are left to be lowered: those of the case that is taken, none where each was tried."""
    from janusc.lowering.run_time_match import try_cases

    point = lo.mark()
    try:
        return taken(lo, node)
    except Unconvertible as error:
        lo.rewind(point)
        decided = error
    try:
        try_cases(lo, node, lo.expr(node.subject), node.cases)
    except Unconvertible as error:
        raise error if error.diagnostic.code != codes.SYNTAX else decided from None
    return []


def taken(lo: Lowering, node: Any) -> list[Any]:
    """The statements of the case that is taken, with its names bound; none where no case is."""
    subject = lo.expr(node.subject)
    for case in node.cases:
        captures: _Captures = []
        if not matches(lo, case.pattern, subject, captures):
            continue
        for name, value in captures:  # bound before the guard is asked
            store_name(lo, name, value)
        if case.guard is None or _holds(lo, case.guard):
            return list(case.body)
    return []


def _holds(lo: Lowering, guard: Any) -> bool:
    known = truth(lo, lo.expr(guard))
    direction = known if isinstance(known, bool) else decide(lo, guard, known)
    if direction is None:
        raise refuse(lo, guard)
    return direction


def refuse(lo: Lowering, node: Any) -> Exception:
    return lo.refuse(codes.SYNTAX, "a match on what varies", "if and elif are converted", node=node)


def matches(lo: Lowering, pattern: Any, subject: Any, captures: _Captures) -> bool:
    """Whether a pattern fits, under asserts; what it captures is added to ``captures``."""
    if isinstance(pattern, gast.MatchValue):
        return _certain(lo, pattern, compare(lo, "eq", subject, lo.expr(pattern.value)))
    if isinstance(pattern, gast.MatchSingleton):
        return _certain(lo, pattern, compare(lo, "is_", subject, Known(pattern.value)))
    if isinstance(pattern, gast.MatchOr):
        return any(matches(lo, p, subject, captures) for p in pattern.patterns)
    if isinstance(pattern, gast.MatchAs):
        if pattern.pattern is not None and not matches(lo, pattern.pattern, subject, captures):
            return False
        if pattern.name is not None:
            captures.append((pattern.name, subject))
        return True
    kinds = {
        gast.MatchSequence: _matches_sequence,
        gast.MatchMapping: _matches_mapping,
        gast.MatchClass: _matches_class,
    }
    return kinds[type(pattern)](lo, pattern, subject, captures)


def _certain(lo: Lowering, pattern: Any, answer: Any) -> bool:
    known = truth(lo, answer)
    if isinstance(known, bool):
        return known
    site = lo.site(pattern, "Pattern")
    if not known.stable or known.sample is UNKNOWN or lo.profile.is_refuted(site):
        raise refuse(lo, pattern)
    lo.check("true" if known.sample else "false", (known.value,), site, lo.span(pattern))
    return bool(known.sample)


def _is_scalar(subject: Any) -> bool:
    """Whether a subject is certainly no sequence and no mapping to ``match``: numbers, text and None."""
    kind = exact_type(subject)
    return kind is not None and kind in HOST_VALUES and not issubclass(kind, (tuple, range))


def _matches_sequence(lo: Lowering, pattern: Any, subject: Any, captures: _Captures) -> bool:
    kind = exact_type(subject)
    if _is_scalar(subject) or kind is dict:
        return False
    if not isinstance(subject, (TupleV, ListV, Live, Sym)) or kind is None or not issubclass(kind, (list, tuple)):
        raise refuse(lo, pattern)
    items = static_items(lo, subject)
    if items is None:
        raise refuse(lo, pattern)
    patterns = pattern.patterns
    stars = [i for i, p in enumerate(patterns) if isinstance(p, gast.MatchStar)]
    if len(items) < len(patterns) - len(stars) or (not stars and len(items) > len(patterns)):
        return False
    if not stars:
        return all(matches(lo, p, v, captures) for p, v in zip(patterns, items))
    (star,) = stars
    after = len(patterns) - star - 1
    end = len(items) - after
    if not all(matches(lo, p, v, captures) for p, v in zip(patterns[:star], items)):
        return False
    if not all(matches(lo, p, v, captures) for p, v in zip(patterns[star + 1 :], items[end:])):
        return False
    if patterns[star].name is not None:
        captures.append((patterns[star].name, ListV(items[star:end])))
    return True


def _matches_mapping(lo: Lowering, pattern: Any, subject: Any, captures: _Captures) -> bool:
    kind = exact_type(subject)
    if _is_scalar(subject) or kind in (list, tuple):
        return False
    if kind is not dict or not isinstance(subject, (DictV, Live)) or getattr(subject, "real", None) is not None:
        raise refuse(lo, pattern)
    keys = [Known(literal_key(lo, lo.expr(key))) for key in pattern.keys]
    for key, inner in zip(keys, pattern.patterns):
        if not _certain(lo, inner, membership(lo, key, subject, negate=False)):
            return False
        if not matches(lo, inner, get_item(lo, subject, key), captures):
            return False
    if pattern.rest is not None:
        if not isinstance(subject, DictV):
            raise refuse(lo, pattern)
        taken_keys = {key.value for key in keys}
        captures.append((pattern.rest, DictV({k: v for k, v in subject.items.items() if k not in taken_keys})))
    return True


def _matches_class(lo: Lowering, pattern: Any, subject: Any, captures: _Captures) -> bool:
    cls = lo.expr(pattern.cls)
    if not isinstance(cls, Known) or not isinstance(cls.value, type):
        raise refuse(lo, pattern)
    answer = lower_isinstance(lo, [subject, cls], {})
    if not isinstance(answer, Known):
        raise refuse(lo, pattern)
    if not answer.value:
        return False
    patterns = list(pattern.patterns)
    if patterns and any(cls.value is whole for whole in MATCHED_WHOLE):
        return len(patterns) == 1 and matches(lo, patterns[0], subject, captures)
    rows = attribute_patterns(lo, pattern, cls.value)
    return all(matches(lo, p, get_attribute(lo, subject, name), captures) for name, p in rows)


def attribute_patterns(lo: Lowering, pattern: Any, cls: type) -> list[tuple[str, Any]]:
    """The attributes that a pattern of a class looks at, each with its pattern."""
    patterns = list(pattern.patterns)
    names = [*_positions(lo, pattern, cls)[: len(patterns)], *pattern.kwd_attrs]
    inner = [*patterns, *pattern.kwd_patterns]
    if len(names) != len(inner) or len(set(names)) != len(names):
        raise refuse(lo, pattern)  # a TypeError
    return list(zip(names, inner))


def _positions(lo: Lowering, pattern: Any, cls: type) -> tuple[str, ...]:
    """The names that a class gives to positional patterns."""
    found = class_lookup(cls, "__match_args__")
    if not pattern.patterns:
        return ()
    if type(found) is not tuple:
        raise refuse(lo, pattern)
    held = raw_attr(lo, lo.builder.ref(cls), "__match_args__")
    check_once(lo, "is", (held, lo.builder.ref(found)), f"{cls.__qualname__}.__match_args__")
    return found
