"""Values of several kinds: what depends on the kind of a value is done for each of them, each under its own test.

Where two ways meet, or a loop goes round, a variable may hold a number on one way and a tensor on the other, None or a
tensor, this object or that one. The kinds are kept as examples, one world each, so that a test of the program's own
(``is None``, ``isinstance``) leaves those that pass it; see ``examples``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import gast
import torch

from janusc.lowering import codes, examples, ops
from janusc.lowering.abstract import UNKNOWN, DictV, Known, ListV, Live, Sym, TupleV, Unbound
from janusc.lowering.classes import MISSING, class_lookup
from janusc.lowering.containers import KINDS as CONTAINERS
from janusc.lowering.ir import Arg, Tup, Value
from janusc.lowering.lower_object import is_plain_class
from janusc.lowering.lower_torch import sample_from_type
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import SCALARS, emit, sym
from janusc.lowering.store import own_dict
from janusc.typeinfer import transfer
from janusc.typeinfer.profile import KINDS
from janusc.types import TensorType, Type, type_name


@dataclass(frozen=True, eq=False)
class PickV:
    """One of the parts of a module container, picked by a key that is known at run time."""

    key: Sym
    options: tuple[tuple[Any, Any], ...]


_MOST_COMBINATIONS = 64


@dataclass(frozen=True, eq=False)
class ChoiceV(Sym):
    """One of two objects that decide what is done, and the test that says which."""

    predicate: Any = None
    then: Any = None
    orelse: Any = None


def samples_of(lo: Lowering, abstract: Any) -> list[Any] | None:
    """A sample of each kind that a value may be of; None where that is not known."""
    if abstract is Unbound:
        return []
    if isinstance(abstract, Known):
        return [abstract.value] if abstract.value is None or type(abstract.value) in SCALARS else None
    if isinstance(abstract, (ListV, DictV, TupleV)):
        return [{ListV: [], DictV: {}, TupleV: ()}[type(abstract)]]
    if not isinstance(abstract, Sym):
        return None
    if abstract.pytype is None:
        held = examples.of(lo, abstract).values() or lo.worlds.examples.get(abstract.value, {}).values()
        return list(held) or None
    if abstract.pytype in (list, dict, tuple, *CONTAINERS):
        return [abstract.pytype()]
    return None if abstract.sample is UNKNOWN else [abstract.sample]


def note_kinds(lo: Lowering, value: Value, *parts: Any) -> None:
    """A value is one of these: a world for each kind that no world shows yet."""
    if lo.routines:  # there, the worlds are the activations
        return
    found = [samples_of(lo, part) for part in parts]
    if any(samples is None for samples in found):
        return
    known = lo.worlds.examples.get(value, {})
    classes = {_class(e): e for samples in found for e in samples or ()}
    missing = [e for cls, e in classes.items() if cls not in set(map(_class, known.values()))]
    if known and missing:  # some worlds tell which it is, so the others are apart from them
        apart = dict(zip(iter(lo.worlds.spawn, None), missing))
        lo.worlds.note(value, {**known, **apart})
        lo.worlds.active |= apart.keys()
    elif not known and len(classes) > 1:
        split(lo, value, list(classes.values()))


def shows_more(lo: Lowering, parts: list[Any], value: Any) -> bool:
    """Whether a value may be of a kind that none of these is of."""
    known = {_class(e) for part in parts for e in samples_of(lo, part) or ()}
    return not known >= set(map(_class, samples_of(lo, value) or ()))


def split(lo: Lowering, value: Value, samples: list[Any]) -> None:
    """Every world becomes as many as there are kinds, while they are few: what is computed has all combinations."""
    worlds = lo.worlds
    outer = sorted(worlds.active) or [0]
    many = len(outer) * len(samples) > _MOST_COMBINATIONS
    found: dict[int, Any] = dict.fromkeys(outer[:1] if many else outer, samples[0])
    for sample in samples[1:]:
        for parent in [None] if many else outer:
            world = worlds.spawn(parent)
            if world is not None:
                found[world] = sample
    worlds.note(value, found)
    worlds.active |= found.keys()


def several(lo: Lowering, sample: Any, value: Value, what: str) -> Sym:
    """What is read from outside and was of different classes: a run-time value, of one of these."""
    kinds = lo.profile.kinds_at(what)
    lo.check("among", (value, Tup(tuple(_named(lo, cls) for cls in kinds))), what, lo.span())
    lo.builder.postpone(value)
    at_hand = transfer.stand_in(sample) if isinstance(sample, torch.Tensor) else sample
    split(lo, value, [at_hand, *(_example(cls, seen) for cls, seen in kinds.items() if cls is not type(sample))])
    return Sym(value, plain=not any(cls in (list, tuple, dict) for cls in kinds))


def several_of(value: Value, held: list[Any]) -> tuple[Sym, list[Any]]:
    """What an item of an existing container is like, of a certain type or of none; and a sample of each kind."""
    kinds = {type(item): item for item in held}
    samples = [transfer.stand_in(e) if isinstance(e, torch.Tensor) else e for e in kinds.values()]
    if not kinds or not all(cls in KINDS for cls in kinds):
        return Sym(value), []
    return (sym(value, samples[0]) if len(kinds) == 1 else Sym(value)), samples


def _named(lo: Lowering, cls: type) -> Arg:
    return lo.builder.ref(cls)


def _example(cls: type, seen: Type | None) -> Any:
    if issubclass(cls, torch.Tensor):
        return sample_from_type(seen if isinstance(seen, TensorType) else TensorType())
    return None if cls is type(None) else cls()


def _class(sample: Any) -> type:
    return torch.Tensor if isinstance(sample, torch.Tensor) else type(sample)


def has_kinds(lo: Lowering, abstract: Any) -> bool:
    """Whether a value is of no certain type, and the types are known that it may have."""
    return isinstance(abstract, Sym) and abstract.pytype is None and abstract.value in lo.worlds.examples


def by_kind(lo: Lowering, owner: Sym, name: str, use: Callable[[Any], Any], given: Any = ()) -> Any:
    """``use`` of a value with an attribute ``name``, for each kind of it that has one.

    ``given`` is what it is used with: lists and dicts among it become real, for each way may change them.
    """
    shown = examples.of(lo, owner) or lo.worlds.examples.get(owner.value, {})
    kinds: dict[type, Any] = {}
    for example in shown.values():
        if _has(example, name):
            kinds.setdefault(type(example), example)
    note_classes(lo, kinds)
    for cls in classes_met(lo):
        kinds.setdefault(cls, UNKNOWN)
    if not kinds:
        raise lo.refuse(codes.ATTRIBUTE, f"attribute {name} of a value that is known at run time only")
    freeze(lo, given)
    return _chain(lo, owner, list(kinds.items()), use, f"kind {len(kinds)}")


def note_classes(lo: Lowering, classes: Collection[type]) -> None:
    """Remember for other conversions of what classes the owner of the attribute at hand was."""
    site = _site_of_owner(lo)
    for cls in filter(is_plain_class, classes):
        lo.profile.meet(type_name(cls), cls, site)


def classes_met(lo: Lowering) -> list[type]:
    """The classes of objects that the owner of the attribute at hand was of in the calls seen so far."""
    return [cls for cls in lo.profile.classes_at(_site_of_owner(lo)) if is_plain_class(cls)]


def _site_of_owner(lo: Lowering) -> str:
    node = lo.node.func if isinstance(lo.node, gast.Call) else lo.node
    return lo.site(node.value) if isinstance(node, gast.Attribute) else ""


def freeze(lo: Lowering, given: Any) -> None:
    from janusc.lowering.cond import freeze_containers

    freeze_containers(lo, given)


def _has(example: Any, name: str) -> bool:
    return class_lookup(type(example), name) is not MISSING or name in (own_dict(example) or {})


def _chain(lo: Lowering, owner: Sym, kinds: list[tuple[type, Any]], use: Callable[[Any], Any], last: str) -> Any:
    from janusc.lowering.cond import cond

    (cls, example), *rest = kinds
    if not rest:
        site = lo.site(lo.node, last)  # another one where more classes are known
        if lo.profile.is_refuted(site):
            raise lo.refuse(codes.ATTRIBUTE, "an attribute of a value that is known at run time only")
        lo.check("type", (owner.value, lo.builder.ref(cls)), site, lo.span())
        return use(_typed(lo, owner, cls, example))
    test = is_of(lo, owner, cls)
    return cond(lo, [], test, lambda: use(_typed(lo, owner, cls, example)), lambda: _chain(lo, owner, rest, use, last))


def is_of(lo: Lowering, owner: Sym, cls: type) -> Sym:
    """Whether a value is of this very type, as a test that its examples decide."""
    kind = lo.builder.one(ops.BUILTIN, "type", owner.value, span=lo.span())
    test = emit(lo, ops.OPERATOR, "is_", (kind, lo.builder.ref(cls)), False)
    lo.worlds.note(test.value, {w: type(e) is cls for w, e in examples.of(lo, owner).items()})
    return test


def _typed(lo: Lowering, owner: Sym, cls: type, example: Any) -> Any:
    if example is None:
        return Known(None)
    if issubclass(cls, torch.Tensor):
        try:
            return Sym(owner.value, transfer.stand_in(example), pytype=cls)
        except transfer.NoSample:
            raise lo.refuse(codes.TENSOR_KIND, f"a tensor of layout {example.layout}") from None
    return Sym(owner.value, example if cls in SCALARS else UNKNOWN, pytype=cls)


def is_code(lo: Lowering, abstract: Any) -> bool:
    """Whether a value is a module or function from before the call, or a choice of such that can be made here."""
    if isinstance(abstract, ChoiceV):
        parts = is_code(lo, abstract.then) and is_code(lo, abstract.orelse)
        return parts and lo.builder.is_within(abstract.predicate.value)
    return isinstance(abstract, Live) and callable(abstract.sample) and lo.builder.is_early(abstract.value)


def choose(lo: Lowering, choice: ChoiceV | PickV, use: Callable[[Any], Any], given: Any = ()) -> Any:
    """``use`` of one object or another, with what is ``given``."""
    from janusc.lowering.cond import cond

    freeze(lo, given)
    if isinstance(choice, PickV):
        return _pick(lo, choice.key, list(choice.options), use)
    return cond(lo, [], choice.predicate, lambda: use(choice.then), lambda: use(choice.orelse))


def _pick(lo: Lowering, key: Sym, options: list[tuple[Any, Any]], use: Callable[[Any], Any]) -> Any:
    from janusc.lowering.cond import cond
    from janusc.lowering.lower_compare import compare

    (name, part), *rest = options
    test = compare(lo, "eq", key, Known(name))
    if not rest:
        site = lo.site(lo.node, "pick")
        if lo.profile.is_refuted(site):
            raise lo.refuse(codes.SUBSCRIPT, "a part picked by something that is none of its keys")
        lo.check("true", (test.value,), site, lo.span())
        return use(part)
    return cond(lo, [], test, lambda: use(part), lambda: _pick(lo, key, rest, use))
