"""What run-time values were in the call at hand: one example for each *world* in which a routine or loop body ran.

A function that calls itself is lowered once for all its activations. Each activation that the arguments at hand lead to
is a world; a value that is read from existing objects has an example in each. A test on such values splits the worlds,
so that on either side only those are left that go there, and what all of them agree on is worth an assert::

    def visit(t):                  # worlds: t is (a, b), a, b       with tensors a and b
        if isinstance(t, tuple):   # (a, b) here ...
            return visit(t[0]) + visit(t[1])
        return t * 2               # ... a and b here: t is a tensor
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from janusc.lowering.abstract import UNKNOWN, Known, Live, Sym
from janusc.lowering.classes import MISSING, class_lookup
from janusc.lowering.ir import Const, Value
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import SCALARS
from janusc.lowering.worlds import NO_EXAMPLE
from janusc.typeinfer import transfer

_CONTAINERS = (list, tuple, dict)
_MOST_ITEMS = 32


def of(lo: Lowering, abstract: Any) -> dict[int, Any]:
    """The examples of an abstract value in the active worlds."""
    worlds = lo.worlds
    if isinstance(abstract, Known):
        return dict.fromkeys(worlds.active, abstract.value)
    if isinstance(abstract, Live):
        return dict.fromkeys(worlds.active, abstract.sample)
    if not isinstance(abstract, Sym) or abstract.value not in worlds.examples:
        return {}
    found = {w: worlds.example(abstract.value, w) for w in worlds.active}
    return {w: e for w, e in found.items() if e is not NO_EXAMPLE}


def has_examples(lo: Lowering, abstract: Any) -> bool:
    """Whether a value is a run-time one with examples."""
    return isinstance(abstract, Sym) and abstract.value in lo.worlds.examples


def derive(lo: Lowering, result: Any, function: Callable[..., Any], *operands: Any) -> Any:
    """Note what a function of immutable values and containers' own facts makes of the examples; the result itself."""
    if not lo.worlds.active or not isinstance(result, Sym):
        return result
    columns = [of(lo, operand) for operand in operands]
    examples = {}
    for world in lo.worlds.active:
        row = [column.get(world, NO_EXAMPLE) for column in columns]
        if all(map(_is_harmless, row)):
            try:
                examples[world] = function(*row)
            except Exception:  # this world raises here; others need not
                continue
    lo.worlds.note(result.value, examples)
    return result


def _is_harmless(value: Any) -> bool:
    """Whether a builtin function of this runs no user code and computes no tensor."""
    return value is None or type(value) in (*SCALARS, slice) or type(value) in _CONTAINERS


def note_identity(lo: Lowering, result: Any, name: str, left: Any, right: Any) -> Any:
    """Note how ``left is right`` goes where one of them is None."""
    if lo.worlds.active and any(isinstance(x, Known) and x.value is None for x in (left, right)):
        a, b = of(lo, left), of(lo, right)
        same = name == "is_"
        lo.worlds.note(result.value, {w: (a[w] is b[w]) is same for w in a.keys() & b.keys()})
    return result


def note_merged(lo: Lowering, value: Value, going: Mapping[int, bool], then: Any, orelse: Any) -> None:
    """Note the examples of what is one of two values, depending on which way each world goes."""
    if going:
        a, b = of(lo, then), of(lo, orelse)
        lo.worlds.note(value, {w: (a if way else b)[w] for w, way in going.items() if w in (a if way else b)})


def enter_items(lo: Lowering, iterable: Any, item: Value) -> None:
    """In the body of a loop there is a world for each iteration, in which the item is an item of the example."""
    held = {}
    for world, container in of(lo, iterable).items():
        if type(container) in _CONTAINERS:
            for example in list(container)[:_MOST_ITEMS]:
                inner = lo.worlds.spawn(world)
                if inner is not None:
                    held[inner] = example
    lo.worlds.note(item, held)
    if held:
        lo.worlds.active = frozenset(held)


# ---- kinds


def settle(lo: Lowering, abstract: Any) -> Any:
    """A value of no certain type, where all its examples here are of one type: of that type, under an assert."""
    if not isinstance(abstract, Sym) or abstract.pytype is not None or abstract.maybe_unbound:
        return abstract
    worlds = lo.worlds
    if abstract.value not in worlds.examples:
        return abstract
    known = worlds.settled.get(abstract.value)
    if known is not None and any(region is known[1] for region in lo.builder.regions):
        return known[0]
    examples = list(of(lo, abstract).values()) or list(worlds.examples[abstract.value].values())
    classes = {type(e) for e in examples}
    site = lo.site(lo.node, "type") if lo.node is not None else ""
    if len(classes) != 1 or not site or lo.profile.is_refuted(site):
        return abstract
    settled = _assert_type(lo, abstract, examples[0], site)
    worlds.settled[abstract.value] = settled, lo.builder.regions[-1]
    return settled


def _assert_type(lo: Lowering, abstract: Sym, example: Any, site: str) -> Any:
    cls, value = type(example), abstract.value
    if example is None:
        lo.check("is", (value, Const(None)), site, lo.span())
        return Known(None)
    if issubclass(cls, (torch.nn.Module, type)) or callable(example):
        return abstract
    if issubclass(cls, torch.Tensor):
        if cls not in (torch.Tensor, torch.nn.Parameter):
            return abstract
        try:
            sample: Any = transfer.stand_in(example)
        except transfer.NoSample:
            return abstract
    else:
        sample = example if cls in SCALARS else UNKNOWN
    lo.check("type", (value, lo.builder.ref(cls)), site, lo.span())
    return Sym(value, sample, pytype=cls)


# ---- tests


def outcomes(lo: Lowering, predicate: Any) -> dict[int, bool]:
    """Which way a test goes in each active world, as far as that can be told without running user code."""
    found = {}
    for world, example in of(lo, predicate).items():
        cls = type(example)
        if _is_harmless(example):
            found[world] = bool(example)
        elif all(class_lookup(cls, name) is MISSING for name in ("__bool__", "__len__")):
            found[world] = True
    return found


@contextmanager
def narrowed(lo: Lowering, going: Mapping[int, bool], side: bool) -> Iterator[None]:
    """On one side of a test only the worlds that go there, and those that can't be told, are active."""
    outer = lo.worlds.active
    lo.worlds.active = frozenset(w for w in outer if going.get(w, side) is side)
    try:
        yield
    finally:
        lo.worlds.active = outer


@contextmanager
def inside(lo: Lowering, active: frozenset[int]) -> Iterator[None]:
    """These worlds are active for a while."""
    outer, lo.worlds.active = lo.worlds.active, active
    try:
        yield
    finally:
        lo.worlds.active = outer
