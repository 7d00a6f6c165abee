"""``in``: folded, asked of an existing container, or computed at run time."""

from __future__ import annotations

import operator
from collections import deque
from typing import Any

from janusc.lowering import codes, ops
from janusc.lowering.abstract import DictV, IterableV, Known, ListV, Live, Sym, TupleV
from janusc.lowering.containers import KINDS
from janusc.lowering.examples import derive
from janusc.lowering.inert import compares_inertly, is_inert
from janusc.lowering.keys import check_key
from janusc.lowering.lower_operator import computed, fold, is_mutated
from janusc.lowering.lower_state import note_read
from janusc.lowering.lowering import Lowering
from janusc.lowering.members import is_choice_of_members, refuse_other_than_members
from janusc.lowering.operands import arg, emit, escape, exact_type


def membership(lo: Lowering, item: Any, container: Any, negate: bool) -> Any:
    """Whether a container has an item, or has it not."""
    from janusc.lowering.lower_expr import literal_key

    result: Any
    if isinstance(container, IterableV) and container.kind == "view":
        container = container.operands[0]
    if isinstance(item, Known) and isinstance(container, Known):
        result = fold(lo, "contains", container.value, item.value)
    elif isinstance(item, Known) and isinstance(container, DictV) and container.real is None:
        result = Known(literal_key(lo, item) in container.items)
    elif (
        isinstance(item, Known)
        and isinstance(container, (TupleV, ListV))
        and getattr(container, "real", None) is None
        and all(isinstance(x, Known) for x in container.items)
    ):
        result = fold(lo, "contains", [x.value for x in container.items], item.value)
    elif isinstance(item, Sym) and is_choice_of_members(container):
        refuse_other_than_members(lo, item, {type(x.value) for x in container.items})
        result = emit(lo, ops.OPERATOR_READ, "contains", (arg(lo, container), item.value), False)
        result = derive(lo, result, operator.contains, Known(tuple(x.value for x in container.items)), item)
    elif isinstance(container, Live) and type(container.sample) in (dict, list, set, tuple) and isinstance(item, Known):
        refuse_user_comparison(lo, container.sample, item)
        note_read(lo, ("content", id(container.sample), ""), container)
        sample = item.value in container.sample
        stable = not is_mutated(lo, container) and lo.loop_depth == 0
        result = emit(lo, ops.OPERATOR_READ, "contains", (container.value, arg(lo, item)), sample, stable=stable)
    elif exact_type(container) is deque:
        from janusc.lowering.lower_container import refuse_comparing

        refuse_comparing(lo, container, [item])
        result = emit(lo, ops.OPERATOR_READ, "contains", (container.value, arg(lo, item)), False)
    elif exact_type(container) in (dict, *KINDS) and not isinstance(container, Live):
        check_key(lo, item)  # another key would be asked only if it had the same hash
        result = emit(lo, ops.OPERATOR_READ, "contains", (escape(lo, container), arg(lo, item)), False)
        result = derive(lo, result, operator.contains, container, item)
    else:
        result = computed(lo, "contains", container, item)
    if not negate:
        return result
    return Known(not result.value) if isinstance(result, Known) else computed(lo, "not_", result)


def refuse_user_comparison(lo: Lowering, container: Any, item: Known) -> None:
    """Looking for a fixed item in an existing container may ask what the container holds."""
    from janusc.lowering.lower_expr import literal_key

    if not (is_inert(item.value) and compares_inertly(container)):
        raise lo.refuse(codes.OPERATOR, "a search among objects that decide what they are equal to")
    if isinstance(container, (dict, set)):
        literal_key(lo, item)
