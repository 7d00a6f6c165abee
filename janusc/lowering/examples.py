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

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gast
import torch

from janusc.lowering.abstract import UNKNOWN, Known, Live, Sym
from janusc.lowering.classes import MISSING, class_lookup
from janusc.lowering.inert import is_plain_enum
from janusc.lowering.ir import Const, Value
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import SCALARS
from janusc.lowering.worlds import NO_EXAMPLE
from janusc.typeinfer import transfer
from janusc.types import ANY, HostType, TupleType

_CONTAINERS = (list, tuple, dict)
_CONTAINER_NAMES = {cls.__name__: cls for cls in _CONTAINERS}
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
    columns = [of(lo, operand) or _samples(lo, operand) for operand in operands]
    examples = {}
    for world in lo.worlds.active:
        row = [column.get(world, NO_EXAMPLE) for column in columns]
        try:
            if all(map(_is_harmless, row)):
                examples[world] = function(*row)
            elif result.pytype is None and all(_is_harmless(x) or isinstance(x, torch.Tensor) for x in row):
                stands = tuple(transfer.stand_in(x) if isinstance(x, torch.Tensor) else x for x in row)
                examples[world] = transfer.apply(function, stands, {}, lo.grad)
        except Exception:  # this world raises here; others need not
            continue
    lo.worlds.note(result.value, examples)
    return result


def _samples(lo: Lowering, abstract: Any) -> dict[int, Any]:
    """A tensor of a certain type is like its sample in all worlds."""
    is_tensor = isinstance(abstract, Sym) and abstract.is_tensor and isinstance(abstract.sample, torch.Tensor)
    return dict.fromkeys(lo.worlds.active, abstract.sample) if is_tensor else {}


def _is_harmless(value: Any) -> bool:
    """Whether a builtin function of this runs no user code and computes no tensor."""
    cls = type(value)
    return value is None or cls in (*SCALARS, slice) or cls in _CONTAINERS or is_member(cls)


def is_member(cls: type) -> bool:
    """Whether a class is an enumeration that defines no operators."""
    return issubclass(cls, enum.Enum) and is_plain_enum(cls)


def note_identity(lo: Lowering, result: Any, name: str, left: Any, right: Any) -> Any:
    """Note how ``left is right`` goes where one of them is None, a class, or a member of an enumeration."""
    fixed = [x.value for x in (left, right) if isinstance(x, Known)]
    if lo.worlds.active and any(x is None or isinstance(x, (type, enum.Enum)) for x in fixed):
        a, b = of(lo, left), of(lo, right)
        same = name == "is_"
        lo.worlds.note(result.value, {w: (a[w] is b[w]) is same for w in a.keys() & b.keys()})
    return result


def note_merged(lo: Lowering, value: Value, going: Mapping[int, bool], then: Any, orelse: Any) -> None:
    """Note the examples of what is one of two values, depending on which way each world goes."""
    if going:
        a, b = of(lo, then), of(lo, orelse)
        lo.worlds.note(value, {w: (a if way else b)[w] for w, way in going.items() if w in (a if way else b)})


def enter_items(lo: Lowering, columns: Sequence[tuple[Any, Value]]) -> None:
    """In the body of a loop there is a world for each iteration, in which each item is one of its container's example.

    ``columns``: the containers that are gone through together, and the item of each.
    """
    held: dict[Value, dict[int, Any]] = {item: {} for _, item in columns}
    found = [_containers(lo, iterable) for iterable, _ in columns]
    for world in dict.fromkeys(w for containers in found for w in containers):
        rows = [list(containers.get(world, ()))[:_MOST_ITEMS] for containers in found]
        for index in range(max(map(len, rows))):
            inner = lo.worlds.spawn(world)
            for (_, item), row in zip(columns, rows):
                if inner is not None and index < len(row):
                    held[item][inner] = row[index]
    for item, examples in held.items():
        lo.worlds.note(item, examples)
    inside = frozenset(w for examples in held.values() for w in examples)
    nobody = any(found) and not any(c for containers in found for c in containers.values())
    if inside or nobody:
        lo.worlds.active = inside


def _containers(lo: Lowering, iterable: Any) -> dict[int | None, Any]:
    """The examples of what a loop goes through; outside all worlds there is the call at hand."""
    found: dict[int | None, Any] = dict(of(lo, iterable).items())
    if isinstance(iterable, Live) and not lo.worlds.active:
        found[None] = iterable.sample
    return {world: c for world, c in found.items() if type(c) in _CONTAINERS}


# ---- kinds


def settle(lo: Lowering, abstract: Any) -> Any:
    """A value of no certain type, where all its examples here are of one type: of that type, under an assert."""
    if not isinstance(abstract, Sym) or abstract.pytype is not None or abstract.maybe_unbound:
        return abstract
    worlds = lo.worlds
    if abstract.value not in worlds.examples:
        return expected(lo, abstract)
    known = worlds.settled.get(abstract.value)
    if known is not None and any(region is known[1] for region in lo.builder.regions):
        return known[0]
    examples = list(of(lo, abstract).values())
    if not examples and claimed(lo, abstract.value) is not None:
        return expected(lo, abstract)
    examples = examples or list(worlds.examples[abstract.value].values())
    classes = {type(e) for e in examples}
    site = lo.site(lo.node, "type") if lo.node is not None else ""
    if len(classes) != 1 or not site or lo.profile.is_refuted(site) or lo.profile.type_at(lo.site(lo.node)) == ANY:
        return abstract
    return _assert_type(lo, abstract, type(examples[0]), examples[0], site)


def expected(lo: Lowering, abstract: Sym) -> Any:
    """A value that no world has an example of: of the class it was tested for, or of the type it had in other calls."""
    from janusc.lowering.lower_torch import sample_from_type

    if not lo.routines or not isinstance(lo.node, (gast.Attribute, gast.Name, gast.MatchClass)):
        return abstract
    known = lo.worlds.settled.get(abstract.value)
    if known is not None and any(region is known[1] for region in lo.builder.regions):
        return known[0]
    site = lo.site(lo.node, "type")
    if lo.profile.is_refuted(site):
        return abstract
    cls = claimed(lo, abstract.value)
    if cls is not None:
        return _assert_type(lo, abstract, cls, UNKNOWN, site)
    seen = lo.profile.type_at(lo.site(lo.node))
    name = seen.name if isinstance(seen, HostType) else getattr(seen, "host", None)
    if name == "NoneType":
        return _assert_type(lo, abstract, type(None), None, site)
    if isinstance(seen, TupleType) or name in _CONTAINER_NAMES:
        return _assert_type(lo, abstract, _CONTAINER_NAMES.get(str(name), tuple), UNKNOWN, site)
    sample = sample_from_type(seen)
    return abstract if sample is UNKNOWN else _assert_type(lo, abstract, type(sample), sample, site)


def claimed(lo: Lowering, value: Value) -> type | None:
    """The class that a value was tested for, and found of, on the way here."""
    claim = lo.worlds.claims.get(value)
    return claim[0] if claim is not None and any(r is claim[1] for r in lo.builder.regions) else None


def _assert_type(lo: Lowering, abstract: Sym, cls: type, example: Any, site: str) -> Any:
    settled = _of_type(lo, abstract, cls, example, site)
    lo.worlds.settled[abstract.value] = settled, lo.builder.regions[-1]
    return settled


def _of_type(lo: Lowering, abstract: Sym, cls: type, example: Any, site: str) -> Any:
    value = abstract.value
    if example is None:
        lo.check("is", (value, Const(None)), site, lo.span())
        return Known(None)
    if issubclass(cls, (torch.nn.Module, type)) or callable(example):
        return abstract
    if issubclass(cls, torch.Tensor):
        if cls not in (torch.Tensor, torch.nn.Parameter) or example is UNKNOWN:
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
