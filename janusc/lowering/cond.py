"""Both ways of a branch in the graph, as a ``cond``, and what the two sides leave joined.

Each side has its own types; what the sides set differently becomes an output of the node.
"""

from __future__ import annotations

import types as pytypes
from collections.abc import Callable, Mapping
from typing import Any

import torch

from janusc.frontend import names
from janusc.lowering import codes, examples, ops
from janusc.lowering.abstract import (
    UNKNOWN,
    BoundV,
    DictV,
    Frame,
    FunctionV,
    IterableV,
    Known,
    ListV,
    Live,
    Sym,
    TupleV,
    Unbound,
)
from janusc.lowering.builder import Region
from janusc.lowering.classes import class_lookup
from janusc.lowering.ir import Arg, Value
from janusc.lowering.kinds import ChoiceV, is_code, note_kinds
from janusc.lowering.lowering import Lowering, Unconvertible, Unreached
from janusc.lowering.operands import escape, is_plain, realise, sample_type
from janusc.lowering.store import is_leaf, own_dict, parts
from janusc.sentinels import UNBOUND
from janusc.types import ANY, TensorType


def freeze_containers(lo: Lowering, roots: Any) -> None:
    """Make real what is followed item by item and may be changed inside a region."""
    for root in roots:
        for part in list(parts(root)):
            if isinstance(part, FunctionV):
                frame = part.frame
                for slot in [s for s in lo.store if s[0] == "local" and s[1] == frame.id]:
                    if lo.store[slot] is not root and isinstance(lo.store[slot], (ListV, DictV)):
                        realise(lo, lo.store[slot])
            elif _is_followed(part) and _is_realisable(part):
                realise(lo, part)


def _is_followed(abstract: Any) -> bool:
    """Whether it is known item by item."""
    return isinstance(abstract, TupleV) or (isinstance(abstract, (ListV, DictV)) and abstract.real is None)


def _is_realisable(abstract: Any) -> bool:
    return not any(isinstance(p, (FunctionV, BoundV, IterableV)) for p in parts(abstract))


def reachable(lo: Lowering, statements: Any) -> list[Any]:
    """What the statements of a region may change of what is followed: by name here, by closure, or as an own write."""
    roots = [v for s, v in lo.store.items() if s[0] != "local"]
    frames = set()
    frame: Frame | None = lo.frame
    while frame is not None:
        frames.add(frame.id)
        frame = frame.parent
    held = [(s[2], v) for s, v in lo.store.items() if s[0] == "local" and s[1] in frames and not is_leaf(v)]
    if held:
        loaded = names.loads(statements)
        roots += [v for name, v in held if name in loaded]
    return [r for r in roots if r is not Unbound]


def cond(
    lo: Lowering, node: Any, predicate: Sym, then: Callable[[], Any], orelse: Callable[[], Any], objects: bool = True
) -> Any:
    """A ``cond`` node with both sides in the graph; ``objects``: they may come out with different objects."""
    freeze_containers(lo, reachable(lo, node))
    before, last_frame, point = lo.store.snapshot(), lo.frames, lo.mark()
    sides: list[tuple[Region, dict[Any, Any], Any]] = []
    going = examples.outcomes(lo, predicate) if lo.worlds.active else {}
    for direction, side in ((True, then), (False, orelse)):
        try:
            sides.append(lower_side(lo, predicate, going, direction, side))
        except Unconvertible as error:
            found = unreached(lo, error, going, direction)
            lo.rewind(point)
            lo.check("false" if direction else "true", (predicate.value,), found.site, lo.span())
            with examples.narrowed(lo, going, not direction):
                return orelse() if direction else then()
        lo.store.restore(before)
    (first, left, a), (second, right, b) = sides
    slots = [s for s in {**left, **right} if left.get(s) is not right.get(s) or left.get(s) is not before.get(s)]
    slots = [s for s in slots if s[0] != "local" or s[1] <= last_frame]
    if [s for s in _made(left, before) if s in right] != [s for s in _made(right, before) if s in left]:
        raise lo.refuse(codes.PARTIAL_WRITE, "what is assigned is in another order on each path")
    merge = Merge(lo, first, second, objects, going, predicate)
    for slot in slots:
        merged = merge.values(
            left[slot] if slot in left else held_before(lo, slot, before),
            right[slot] if slot in right else held_before(lo, slot, before),
        )
        if merged is Unbound:
            lo.store.pop(slot, None)
        else:
            lo.store[slot] = merged
    result = None if a is None and b is None else merge.values(a, b)
    free = list(
        dict.fromkeys([*lo.builder.free_values(first, merge.left()), *lo.builder.free_values(second, merge.right())])
    )
    graphs = (lo.builder.close(first, merge.left(), free), lo.builder.close(second, merge.right(), free))
    lo.builder.place(ops.COND, "if", (predicate.value, *free), tuple(merge.outputs), graphs, lo.span())
    return result


def unreached(lo: Lowering, error: Unconvertible, going: Mapping[int, bool], direction: bool) -> Unreached:
    """Why a side is taken not to be taken: it can't be converted, and no activation at hand goes there."""
    if isinstance(error, Unreached):
        if direction in going.values() and all(routine.drafted for routine in lo.routines):
            raise Unconvertible(error.diagnostic)
        return error
    site = lo.site(lo.node, f"side {direction}")
    everywhere = lo.worlds.active <= going.keys()
    if not lo.routines or not everywhere or direction in going.values() or lo.profile.is_refuted(site):
        raise error
    return Unreached(error.diagnostic, site)


def lower_side(
    lo: Lowering, predicate: Sym, going: Mapping[int, bool], direction: bool, side: Callable[[], Any]
) -> tuple[Region, dict[Any, Any], Any]:
    """One side in a region of its own, and what it leaves in the store."""
    region = lo.builder.open_region()
    if direction and predicate.value in lo.worlds.tested:
        value, cls = lo.worlds.tested[predicate.value]
        lo.worlds.claims[value] = cls, region
    try:
        with examples.narrowed(lo, going, direction):
            result = side()
    finally:
        lo.builder.pop_region()
    return region, lo.store.snapshot(), result


def _made(after: dict[Any, Any], before: dict[Any, Any]) -> list[Any]:
    """The attributes and globals first assigned on one side, in order."""
    return [s for s in after if s[0] in ("attr", "global") and s not in before]


def held_before(lo: Lowering, slot: Any, before: dict[Any, Any]) -> Any:
    """What a slot held where only the other side wrote it: for an object's attribute, what was read from outside."""
    if slot[0] == "local":
        return Unbound  # never bound, or deleted
    if slot in before:
        return before[slot]
    owner = lo.written.get(slot)
    if owner is None:
        raise lo.refuse(codes.PARTIAL_WRITE, f"{slot[2]} is written on one path only")
    lo.store.pop(slot, None)
    from janusc.lowering.lower_state import note_read, raw_attr, read

    own = own_dict(owner.sample)
    if slot[0] == "attr" and own is not None and slot[2] in own:  # not of the class, or it would become the object's
        note_read(lo, slot, owner)
        return read(lo, raw_attr(lo, owner.value, "__dict__"), "item", slot[2], own[slot[2]], slot[2])
    if slot[0] == "attr" and _is_kept_elsewhere(owner.sample, slot[2]):
        from janusc.lowering.lower_attr import live_attribute

        return live_attribute(lo, owner, slot[2])

    if slot[0] == "global" and slot[2] in owner.sample:
        return read(lo, owner.value, "item", slot[2], owner.sample[slot[2]], slot[2])
    raise lo.refuse(codes.PARTIAL_WRITE, f"{slot[2] or 'a variable'} is written on one path only")


def _is_kept_elsewhere(obj: Any, name: str) -> bool:
    """Whether an attribute is a registered buffer or in a slot of its object."""
    state = own_dict(obj)
    if issubclass(type(obj), torch.nn.Module):
        return state is not None and name in state.get("_buffers", ())
    return isinstance(class_lookup(type(obj), name), pytypes.MemberDescriptorType)


class Merge:
    """Joins what two sides left behind; the outputs of the ``cond`` pile up here."""

    def __init__(
        self, lo: Lowering, first: Region, second: Region, objects: bool, going: Mapping[int, bool], predicate: Sym
    ) -> None:
        self.lo, self.objects, self.going, self.predicate = lo, objects, going, predicate
        self.regions = (first, second)
        self.outputs: list[Value] = []
        self.pairs: list[tuple[Arg, Arg]] = []
        self.tuples: list[tuple[TupleV, TupleV, TupleV]] = []

    def left(self) -> tuple[Arg, ...]:
        return tuple(a for a, _ in self.pairs)

    def right(self) -> tuple[Arg, ...]:
        return tuple(b for _, b in self.pairs)

    def values(self, a: Any, b: Any) -> Any:
        if a is b:
            return a
        if isinstance(a, Known) and isinstance(b, Known) and type(a.value) is type(b.value) and a.value is b.value:
            return a
        if isinstance(a, TupleV) and isinstance(b, TupleV) and len(a.items) == len(b.items):
            for left, right, merged in self.tuples:  # of two tuples that are one on each side comes one
                if left is a and right is b:
                    return merged
            merged = TupleV(tuple(self.values(x, y) for x, y in zip(a.items, b.items)))
            self.tuples.append((a, b, merged))
            return merged
        return self.output(a, b)

    def output(self, a: Any, b: Any) -> Sym:
        if not self.objects and any(isinstance(v, Live) or (isinstance(v, Known) and not is_plain(v)) for v in (a, b)):
            raise self.lo.refuse(codes.FUNCTION_VALUE, "another object on each path")
        args = tuple(self._escape(region, value) for region, value in zip(self.regions, (a, b)))
        sample, pytype = merged_kind(a, b)
        type_ = sample_type(sample) if sample is not UNKNOWN and pytype is not None else ANY
        if pytype in (torch.Tensor, torch.nn.Parameter):
            type_ = TensorType()
        outer = self.lo.builder.value(type_)
        examples.note_merged(self.lo, outer, self.going, a, b)
        if pytype is None:
            note_kinds(self.lo, outer, a, b)
        self.outputs.append(outer)
        self.pairs.append((args[0], args[1]))
        unbound = any(v is Unbound or (isinstance(v, Sym) and v.maybe_unbound) for v in (a, b))
        fresh = all(isinstance(v, Sym) and v.fresh or isinstance(v, Known) for v in (a, b))
        element = next((v.element for v in (a, b) if isinstance(v, Sym) and v.element is not None), None)
        plain = all(v is not Unbound and is_plain(v) for v in (a, b))
        if is_code(self.lo, a) and is_code(self.lo, b):
            return ChoiceV(outer, UNKNOWN, predicate=self.predicate, then=a, orelse=b)
        return Sym(outer, sample, fresh=fresh, pytype=pytype, maybe_unbound=unbound, element=element, plain=plain)

    def _escape(self, region: Region, value: Any) -> Arg:
        if value is Unbound:
            return self.lo.builder.ref(UNBOUND, "UNBOUND")
        if isinstance(value, Sym):
            return value.value  # possibly unbound, which the merged value says too
        self.lo.builder.regions.append(region)
        try:
            return escape(self.lo, value)
        finally:
            self.lo.builder.regions.pop()


def merged_kind(a: Any, b: Any) -> tuple[Any, type | None]:
    """A sample that may stand for either value, and their exact type where it is the same."""
    kinds = [kind_of(v) for v in (a, b) if v is not Unbound]
    samples = [v for v in (a, b) if v is not Unbound]
    if not kinds:
        return UNKNOWN, None
    if len(set(kinds)) == 1 and kinds[0] is not None:
        alike = len({item_kinds(v) for v in samples}) == 1
        return _sample(samples[0]) if alike else UNKNOWN, kinds[0]
    if all(isinstance(v, Sym) and v.is_tensor for v in samples):
        return _sample(samples[0]), torch.Tensor
    for v in samples:  # a number that may become a tensor is best stood for by the tensor
        if isinstance(v, Sym) and v.is_tensor:
            return v.sample, None
    return UNKNOWN, None


def kind_of(value: Any) -> type | None:
    if isinstance(value, Known):
        return type(value.value)
    if isinstance(value, Sym):
        return value.pytype
    if isinstance(value, (ListV, DictV)):
        return list if isinstance(value, ListV) else dict
    return tuple if isinstance(value, TupleV) else None


def item_kinds(value: Any) -> Any:
    """The kind of a value, for a tuple those of its items: a sample may stand for values of the same ones only."""
    if isinstance(value, TupleV):
        return tuple(map(item_kinds, value.items))
    if isinstance(value, Sym) and isinstance(value.sample, tuple):
        return sample_kinds(value.sample)
    return kind_of(value)


def sample_kinds(sample: Any) -> Any:
    """The same for a sample."""
    if isinstance(sample, tuple) and type(sample) is not torch.Size:
        kinds = tuple(map(sample_kinds, sample))
        return kinds if type(sample) is tuple else (type(sample), kinds)
    return torch.Tensor if isinstance(sample, torch.Tensor) else None if sample is UNKNOWN else type(sample)


def _sample(value: Any) -> Any:
    if isinstance(value, Known):
        return value.value
    return value.sample if isinstance(value, Sym) else UNKNOWN
