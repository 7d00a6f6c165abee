"""Python's own generator: functions of the module ``random`` draw in order, and what they drew is given back."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from janusc.lowering import codes, ops
from janusc.lowering.abstract import UNKNOWN, ListV, Live, Sym, TupleV
from janusc.lowering.iterate import item_sample
from janusc.lowering.lower_builtin import builtin
from janusc.lowering.lower_state import note_read
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import emit, escape, exact_type, is_plain, typed_item
from janusc.typeinfer import callees

_FLOATS = frozenset({"random", "uniform", "triangular", "gauss", "normalvariate", "expovariate", "betavariate"})


def _drawing(function: Any) -> Any:
    """The handler of one function of the module."""
    name = function.__name__
    sample: Any = 0.5 if name in _FLOATS else 0

    def lower(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not all(map(is_plain, [*args, *kwargs.values()])):
            raise lo.refuse_call(codes.OPAQUE_CALL, f"random.{name} of objects")
        operands = tuple(escape(lo, a) for a in args)
        named = tuple((k, escape(lo, v)) for k, v in kwargs.items())
        drawn = emit(lo, ops.BUILTIN_RANDOM, f"random.{name}", operands, UNKNOWN, kwargs=named)
        return typed_item(lo, drawn.value, Sym(drawn.value, sample, pytype=type(sample)))

    return lower


@builtin(random.choice)
def lower_choice(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """One item of a list or tuple."""
    (given,) = [*args, *kwargs.values()]
    if isinstance(given, Live) and type(given.sample) in (list, tuple):
        note_read(lo, ("content", id(given.sample), ""), given)
    elif not isinstance(given, (ListV, TupleV)) and getattr(given, "pytype", None) not in (list, tuple, range, deque):
        raise lo.refuse_call(codes.OPAQUE_CALL, "random.choice from an object")
    element = item_sample(lo, given)
    drawn = emit(lo, ops.BUILTIN_RANDOM, "random.choice", (escape(lo, given),), UNKNOWN)
    return typed_item(lo, drawn.value, element)


@builtin(random.sample)
def lower_sample(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Some items of a list, tuple or deque, as a new list."""
    if len(args) != 2 or kwargs or not is_plain(args[1]):
        raise lo.refuse_call(codes.OPAQUE_CALL, "random.sample with weights or of an unusual number")
    given = args[0]
    if isinstance(given, Live) and type(given.sample) in (list, tuple):
        note_read(lo, ("content", id(given.sample), ""), given)
    elif exact_type(given) not in (list, tuple, range, deque):
        raise lo.refuse_call(codes.OPAQUE_CALL, "random.sample from an object")
    element = item_sample(lo, given)
    drawn = emit(lo, ops.BUILTIN_RANDOM, "random.sample", (escape(lo, given), escape(lo, args[1])), UNKNOWN)
    held = element if isinstance(element, Sym) else None
    return Sym(drawn.value, UNKNOWN, fresh=True, pytype=list, element=held)


for _function in callees.PYTHON_RANDOM:
    if _function not in (random.choice, random.sample):
        builtin(_function)(_drawing(_function))
