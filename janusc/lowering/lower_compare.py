"""Comparisons: chains of links, identity, and those that a user's class defines."""

from __future__ import annotations

from functools import partial
from typing import Any

import gast

from janusc.lowering import codes, ops
from janusc.lowering.abstract import UNKNOWN, DictV, Known, ListV, Live, Sym, TupleV
from janusc.lowering.classes import is_named_tuple
from janusc.lowering.examples import note_identity
from janusc.lowering.ir import Node, Op, Tup
from janusc.lowering.keys import ask
from janusc.lowering.lower_operator import computed, fold, is_container, is_untyped
from janusc.lowering.lower_state import check_once, raw_attr
from janusc.lowering.lowering import Lowering, expression
from janusc.lowering.members import compare_members
from janusc.lowering.membership import membership
from janusc.lowering.operands import HOST_VALUES, arg, check_bound, emit, exact_type
from janusc.ordering import PLAIN_QUERY
from janusc.types import TensorType

COMPARE: dict[type, str] = {
    gast.Eq: "eq", gast.NotEq: "ne", gast.Lt: "lt", gast.LtE: "le", gast.Gt: "gt", gast.GtE: "ge", gast.Is: "is_",
    gast.IsNot: "is_not", gast.In: "contains", gast.NotIn: "not_contains",
}  # fmt: skip
_DUNDER = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}

_MAKERS: dict[Op, frozenset[str]] = {
    ops.OPERATOR: frozenset("add sub mul truediv matmul neg pow".split()),
    ops.METHOD: frozenset("transpose permute view unsqueeze detach clone".split()),
    ops.TORCH: frozenset(f"torch.nn.functional.{name}" for name in ("linear", "embedding", "layer_norm")),
}
"""What makes a new tensor, of other tensors or as a view of one, whatever it is given."""


@expression(gast.Compare)
def lower_compare(lo: Lowering, node: Any) -> Any:
    """A chained comparison is the ``and`` of its links, each operand evaluated once."""
    from janusc.lowering.branch import lower_and

    left = lo.expr(node.left)
    if len(node.ops) == 1:
        return compare(lo, COMPARE[type(node.ops[0])], left, lo.expr(node.comparators[0]))
    operands = [left]

    def link(i: int) -> Any:
        operands.append(lo.expr(node.comparators[i]))
        return compare(lo, COMPARE[type(node.ops[i])], operands[i], operands[i + 1])

    return lower_and(lo, [partial(link, i) for i in range(len(node.ops))], node)


def compare(lo: Lowering, name: str, left: Any, right: Any) -> Any:
    if name in ("is_", "is_not"):
        same = identical(lo, left, right)
        if same is not None:
            return Known(same if name == "is_" else not same)
        check = [arg(lo, v) for v in (left, right)]
        # no profile says how it went in code of torch's: two tensors are seldom one
        known = lo.frame.is_library and all(isinstance(v, Sym) and v.is_tensor for v in (left, right))
        result = emit(lo, ops.OPERATOR, name, tuple(check), name == "is_not" and known, stable=known)
        return note_identity(lo, result, name, left, right)
    if isinstance(left, Known) and isinstance(right, Known) and name not in ("contains", "not_contains"):
        return fold(lo, name, left.value, right.value)
    if name in ("contains", "not_contains"):
        return membership(lo, left, right, name == "not_contains")
    if name in ("eq", "ne"):
        equal = compare_members(lo, name, left, right)
        if equal is not None:
            return equal
    if isinstance(left, Live) and not is_container(left) and name in _DUNDER:
        return user_comparison(lo, name, left, right)
    if name in _DUNDER and _has_named_tuple(left, right):
        ask(lo, PLAIN_QUERY, Tup((arg(lo, left), arg(lo, right))), "compared", "a comparison of tuples of objects")
        return emit(lo, ops.OPERATOR_READ, name, (arg(lo, left), arg(lo, right)), True)
    if isinstance(left, TupleV) and isinstance(right, TupleV) and name in ("eq", "ne"):
        if all(isinstance(x, Known) for x in (*left.items, *right.items)):
            return fold(lo, name, tuple(x.value for x in left.items), tuple(x.value for x in right.items))
    return computed(lo, name, left, right)


def _has_named_tuple(left: Any, right: Any) -> bool:
    """Whether one is a named tuple known at run time, and the other one that or a tuple."""
    kinds = [exact_type(left), exact_type(right)]
    named = [kind is not None and is_named_tuple(kind) for kind in kinds]
    symbolic = [isinstance(x, (Sym, TupleV)) for x in (left, right)]
    return any(named) and all(symbolic) and all(a or kind is tuple for a, kind in zip(named, kinds))


def identical(lo: Lowering, left: Any, right: Any) -> bool | None:
    """Whether two abstract values are one object, where that is certain."""
    if isinstance(left, Known) and isinstance(right, Known):
        if type(left.value) in HOST_VALUES and left.value is not None and not isinstance(left.value, bool):
            return None
        return left.value is right.value
    for a, b in ((left, right), (right, left)):
        if isinstance(a, Known) and a.value is None:
            if isinstance(b, Sym) and (b.pytype is None or b.maybe_unbound):
                check_bound(lo, b)
                return None
            return isinstance(b, Sym) and b.pytype is type(None)
    if isinstance(left, (ListV, DictV, TupleV)) or isinstance(right, (ListV, DictV, TupleV)):
        return left is right
    if left is right:
        return True
    return False if _are_two_tensors(lo, left, right) else None


def _are_two_tensors(lo: Lowering, left: Any, right: Any) -> bool:
    """Whether two tensors are two objects for certain: the later one was made by what always makes one."""
    if not all(isinstance(v, Sym) and v.is_tensor and not v.maybe_unbound for v in (left, right)):
        return False
    if left.value is right.value:
        return False
    later = max(left.value, right.value, key=lambda v: v.id)
    makers = (node for region in lo.builder.regions for node in region.nodes if later in node.outputs)
    return any(_makes(node) for node in makers)


def _makes(node: Node) -> bool:
    """Whether a node always makes a new tensor: an item of a tensor is one, of a tuple it is not."""
    of_tensor = node.target == "getitem" and isinstance(getattr(node.args[0], "type", None), TensorType)
    return node.target in _MAKERS.get(node.op, ()) or (node.op is ops.OPERATOR and of_tensor)


def user_comparison(lo: Lowering, name: str, left: Live, right: Any) -> Any:
    """A comparison defined by a user's class: its method is inlined, unless the other side has a say."""
    from janusc.lowering.classes import class_lookup, special_method
    from janusc.lowering.lower_call import call
    from janusc.lowering.truth import truth

    cls = type(left.sample)
    if class_lookup(cls, _DUNDER[name]) is getattr(object, _DUNDER[name]):
        guard_default(lo, cls, _DUNDER[name])
        if name == "ne" and class_lookup(cls, "__eq__") is not _OBJECT_EQUALITY:  # the default asks __eq__
            equal = truth(lo, user_comparison(lo, "eq", left, right))
            return Known(not equal) if isinstance(equal, bool) else computed(lo, "not_", equal)
        if isinstance(right, Live) and name in ("eq", "ne") and type(right.sample) is cls:
            guard_default(lo, cls, "__eq__")
            return emit(lo, ops.OPERATOR, "is_" if name == "eq" else "is_not", (left.value, right.value), UNKNOWN)
        raise lo.refuse(codes.OPERATOR, f"comparison of {cls.__qualname__} objects")
    if isinstance(right, Live) and type(right.sample) is not cls and isinstance(right.sample, cls):
        raise lo.refuse(codes.OPERATOR, "comparison with a subclass, which goes first")
    method = special_method(lo, left, _DUNDER[name])
    if method is None:
        raise lo.refuse(codes.OPERATOR, f"comparison of {cls.__qualname__} objects")
    result = call(lo, method, [right], {})
    if (isinstance(result, Known) and result.value is NotImplemented) or is_untyped(result):
        raise lo.refuse(codes.OPERATOR, "a comparison that may be NotImplemented")
    return result


def guard_default(lo: Lowering, cls: type, name: str) -> None:
    """The class still leaves a comparison to ``object``."""
    held = raw_attr(lo, lo.builder.ref(cls), name)
    check_once(lo, "is", (held, lo.builder.ref(getattr(object, name))), f"{cls.__qualname__}.{name}")


_OBJECT_EQUALITY: Any = object.__eq__
