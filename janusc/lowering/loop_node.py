"""A loop kept as a loop: a ``loop`` node that carries every slot its body changes; what it only reads is invariant.

Kinds are found by lowering the body until nothing changes: a slot that starts as a number and becomes a tensor is
carried as a value of no fixed kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import gast
import torch

from janusc.frontend import names
from janusc.lowering import codes, ops
from janusc.lowering.abstract import UNKNOWN, IterableV, Known, Live, Sym, TupleV, Unbound
from janusc.lowering.assign import assign
from janusc.lowering.builder import Region
from janusc.lowering.cond import freeze_containers, item_kinds, kind_of, merged_kind, reachable, sample_kinds
from janusc.lowering.examples import enter_items, has_examples
from janusc.lowering.ir import Arg, Const, Tup, Value
from janusc.lowering.iterate import item_sample, live_sequence
from janusc.lowering.kinds import has_kinds, note_kinds, shows_more
from janusc.lowering.lower_object import is_object
from janusc.lowering.lower_state import find_slot
from janusc.lowering.lower_torch import sample_from_type
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import SCALARS, escape, sample_type, sym, typed_item
from janusc.lowering.profiled import expect_parts
from janusc.lowering.truth import truth
from janusc.sentinels import UNBOUND
from janusc.typeinfer.instrument import item_site
from janusc.types import ANY, HostType, TensorType, Type

_ATTEMPTS = 6


@dataclass
class Carried:
    """A slot that changes in the loop: its initial value, and the kind it is carried with."""

    slot: Any
    initial: Any
    kind: type | None
    sample: Any
    element: Any = None
    fresh: bool = False
    unbound: bool = False
    width: tuple[Any, ...] | None = None  # the parts of a tuple carried item by item
    value: Value | None = None
    kinds: list[Any] = field(default_factory=list)  # where it is of several: values of each

    def type(self) -> Any:
        if self.kind in (torch.Tensor, torch.nn.Parameter):
            return TensorType()
        return sample_type(self.sample) if self.kind is not None and self.sample is not UNKNOWN else ANY


class Loop:
    """One loop node under construction."""

    def __init__(self, lo: Lowering, node: Any, iterable: Any, stop: str | None) -> None:
        self.lo, self.node, self.iterable, self.stop = lo, node, iterable, stop
        self.carried: dict[Any, Carried] = {}
        self.written: list[Live] = []  # containers that the body changes: what it reads of them varies from the start

    def lower(self) -> None:
        lo, node = self.lo, self.node
        freeze_containers(lo, reachable(lo, node))
        item: Any = None
        source: Arg = Const(None)
        if self.iterable is not None:
            item = self.loosened(item_sample(lo, self.iterable) or self.seen_item(), node.target)
            source = escape(lo, self.iterable)
        enter: Any = None
        if self.iterable is None:
            enter = self.enter()
        for slot in self.assigned():
            self.add(slot)
        start = lo.mark()
        for _ in range(_ATTEMPTS):
            done = self.attempt(item, source, enter)
            if done:
                return
            lo.rewind(start)
        raise lo.refuse(codes.LOOP, "the kinds of the loop's variables don't settle")

    def seen_item(self) -> Any:
        """What the items of a container are like of which this call shows none: like those seen before."""
        target = self.node.target
        if not isinstance(target, gast.Name) or not self.is_container(self.iterable):
            return None
        sample = sample_from_type(self.lo.profile.type_at(item_site(self.lo.frame.parsed, target)))
        plain = isinstance(sample, torch.Tensor) or type(sample) in SCALARS
        return sym(self.lo.builder.value(), sample) if plain else None

    def loosened(self, item: Any, target: Any) -> Any:
        """The same without the type of what was seen to be of several: mostly, of a tensor that may be missing."""
        if isinstance(item, TupleV) and isinstance(target, gast.Tuple) and len(item.items) == len(target.elts):
            return TupleV(tuple(self.loosened(*pair) for pair in zip(item.items, target.elts)))
        if not (isinstance(item, Sym) and isinstance(target, gast.Name)):
            return item
        if self.lo.profile.type_at(item_site(self.lo.frame.parsed, target)) != ANY or item.pytype is None:
            return item
        value = self.lo.builder.value()
        self.lo.worlds.note(value, dict(enumerate([item.sample, None])))
        return Sym(value)

    def enter(self) -> Arg:
        lo = self.lo
        predicate = truth(lo, lo.expr(self.node.test))
        return Const(predicate) if isinstance(predicate, bool) else predicate.value

    def assigned(self) -> list[Any]:
        lo = self.lo
        stored = names.stores([self.node])
        slots = (find_slot(lo, name) for name in sorted(stored))
        return [slot for slot in slots if slot is not None and slot[1] == lo.frame.id]

    def add(self, slot: Any) -> None:
        initial = self.lo.fetch(slot)
        if initial is Unbound and slot[0] != "local":
            from janusc.lowering.cond import held_before

            initial = held_before(self.lo, slot, {})
        if isinstance(initial, Sym) and initial.value in self.lo.open:
            initial = self.lo.lifted(initial.value)
        carried = Carried(slot, initial, None, UNKNOWN)
        if initial is Unbound:
            carried.unbound = True
        elif isinstance(initial, TupleV):
            carried.kind, carried.width = tuple, initial.items
        elif isinstance(initial, Live) and type(initial.sample) is tuple:  # one that was made before the call
            carried.kind, carried.width = tuple, tuple(live_sequence(self.lo, initial))
        else:
            carried.kind = kind_of(initial)
            carried.sample = initial.value if isinstance(initial, Known) else getattr(initial, "sample", UNKNOWN)
            carried.element = getattr(initial, "element", None) or getattr(
                getattr(initial, "real", None), "element", None
            )
            carried.fresh = (
                getattr(initial, "fresh", isinstance(initial, Known)) or getattr(initial, "real", None) is not None
            )
            carried.unbound = getattr(initial, "maybe_unbound", False)
            carried.kinds = [initial] if has_kinds(self.lo, initial) else []
        if (isinstance(initial, Live) and carried.width is None) or (
            isinstance(initial, Known) and not _is_carriable(initial)
        ):
            carried.kind = type(initial)  # must not change
        self.carried[slot] = carried

    def attempt(self, item: Any, source: Arg, enter: Any) -> bool:
        """Lower the body once under the present kinds; False where a kind had to be widened or a slot added."""
        lo, node = self.lo, self.node
        initial = self.initial_args()
        lo.written_containers.extend(self.written)
        known = len(lo.written_containers)
        before, last_frame = lo.store.snapshot(), lo.frames
        region = lo.builder.open_region()
        lo.loop_depth += 1
        outer = lo.worlds.active
        params = self.open(region)
        try:
            if item is not None or self.iterable is not None:
                self.bind_item(region, item)
            inside = lo.store.snapshot()
            lo.block(node.body)
            go_on = self.go_on()
            after = lo.store.snapshot()
            outputs = self.close(region, after)
            changed = [s for s in lo.store.changes(inside, last_frame) if s not in self.carried]
        finally:
            lo.worlds.active = outer
            lo.loop_depth -= 1
            lo.builder.pop_region()
        written = [w for w in lo.written_containers[known:] if not _among(w, lo.written_containers[:known])]
        self.written.extend(written)
        if changed or outputs is None or written:
            lo.store.restore(before)
            for slot in changed:
                lo.store.restore(before)
                self.add(slot)
            return False
        lo.store.restore(before)
        self.finish(region, params, initial, source, enter, (go_on, *outputs))
        return True

    def leaves(self) -> list[Carried]:
        return [c for c in self.carried.values() if not self.is_fixed(c)]

    def is_fixed(self, carried: Carried) -> bool:
        return carried.kind is Live or carried.kind is Known

    def initial_args(self) -> list[Arg]:
        lo = self.lo
        args: list[Arg] = []
        for c in self.leaves():
            if c.initial is Unbound:
                args.append(lo.builder.ref(UNBOUND, "UNBOUND"))
            elif isinstance(c.initial, Sym):
                args.append(c.initial.value)
            else:
                args.append(escape(lo, c.initial))
        return args

    def open(self, region: Region) -> list[Value]:
        """Bind every carried slot to a parameter of the region."""
        lo = self.lo
        values = []
        for c in self.leaves():
            c.value = lo.builder.value(c.type())
            values.append(c.value)
            lo.store[c.slot] = self.abstract(c, c.value)
        region.params.extend(values)
        return values

    def abstract(self, c: Carried, value: Value) -> Any:
        if c.kind is type(None) and not c.unbound:
            return Known(None)
        if c.width is not None:
            sample: Any = tuple(
                getattr(x, "value", None) if isinstance(x, Known) else getattr(x, "sample", UNKNOWN) for x in c.width
            )
            if any(s is UNKNOWN for s in sample):
                sample = UNKNOWN
            return Sym(value, sample, pytype=tuple, maybe_unbound=c.unbound)
        element = c.element
        if c.kind is None and c.kinds:
            note_kinds(self.lo, value, *c.kinds)
        return Sym(value, c.sample, fresh=c.fresh, pytype=c.kind, element=element, maybe_unbound=c.unbound)

    def bind_item(self, region: Region, item: Any) -> None:
        lo = self.lo
        type_: Type = ANY
        if isinstance(item, Sym):
            type_ = HostType("int") if type(item.sample) is int else sample_type(item.sample)
        value = lo.builder.value(type_)
        region.params.insert(0, value)
        if has_examples(lo, self.iterable) or isinstance(self.iterable, Live):
            enter_items(lo, [(self.iterable, value)])
        self.bind_target(self.item(value, item))

    def bind_target(self, item: Any) -> None:
        """Assign an item to the loop's target; where nothing else says of what type it is, the profile does."""
        lo, target = self.lo, self.node.target
        site = lo.site(self.node, "Item")
        assign(lo, target, expect_parts(lo, target, item, lo.profile.type_at(site), f"{site}:seen"))

    def item(self, value: Value, item: Any) -> Any:
        """The item in the body of the loop, given what is known of one."""
        lo = self.lo
        if item is not None and self.is_container(self.iterable):
            return typed_item(lo, value, item)
        if isinstance(item, TupleV):
            parts = lo.builder.emit(
                ops.UNPACK, "", (value,), (), tuple(sample_type(_item(x)) for x in item.items), lo.span()
            )
            sources = self.iterable.operands if isinstance(self.iterable, IterableV) else ()
            if isinstance(self.iterable, IterableV) and self.iterable.kind in ("zip", "enumerate"):
                enter_items(lo, list(zip(sources, parts[self.iterable.kind == "enumerate" :])))
            return TupleV(tuple(self._parts(parts, item.items, sources)))
        return self._part(value, item)

    def is_container(self, iterable: Any) -> bool:
        """Whether items come out of a list or tuple, so that their types may differ."""
        if isinstance(iterable, IterableV) and iterable.kind == "reversed":
            return self.is_container(iterable.operands[0])
        of_one_type = isinstance(iterable, Sym) and (iterable.is_tensor or iterable.pytype is str)
        return not (isinstance(iterable, IterableV) or of_one_type)

    def _parts(self, values: Any, items: Any, sources: Any) -> Iterator[Any]:
        assert isinstance(self.iterable, IterableV)
        if self.iterable.kind == "enumerate":
            sources = (None, sources[0])
        for value, item, source in zip(values, items, sources):
            container = source is not None and not isinstance(source, Known) and self.is_container(source)
            yield typed_item(self.lo, value, item) if container else self._part(value, item)

    def _part(self, value: Value, item: Any) -> Any:
        if isinstance(item, Sym):
            return Sym(value, item.sample, fresh=item.fresh, pytype=item.pytype, element=item.element)
        if isinstance(item, Known):
            return sym(value, item.value)
        if isinstance(item, TupleV):
            sample = tuple(_item(x) for x in item.items)
            return Sym(value, UNKNOWN if any(s is UNKNOWN for s in sample) else sample, pytype=tuple)
        return Sym(value)

    def go_on(self) -> Arg:
        """Whether there is a next iteration: the stop flag is down, and for ``while`` the test holds."""
        lo = self.lo

        def proceed() -> Any:
            if self.iterable is not None:
                return Known(True)
            return lo.expr(self.node.test)

        if self.stop is None:
            result = proceed()
        else:
            flag = truth(lo, lo.fetch(lo.local(self.stop)))
            if isinstance(flag, bool):
                result = Known(False) if flag else proceed()
            else:
                from janusc.lowering.cond import cond

                result = cond(
                    lo, [self.node.test] if self.iterable is None else [], flag, lambda: Known(False), proceed
                )
        known = truth(lo, result)
        return Const(known) if isinstance(known, bool) else known.value

    def close(self, region: Region, after: dict[Any, Any]) -> list[Arg] | None:
        """The carried values at the end of the body; None where a kind had to be widened."""
        lo = self.lo
        read = {value for node in region.nodes for value in node.inputs}
        settled = True
        outputs: list[Arg] = []
        for c in self.carried.values():
            value = after.get(c.slot, Unbound)
            if self.is_fixed(c):
                if value is c.initial:
                    continue
                if not (isinstance(c.initial, Live) and is_object(type(c.initial.sample))):
                    raise lo.refuse(codes.LOOP, f"{c.slot[2]} becomes another object in the loop")
                c.kind, c.sample, settled = None, UNKNOWN, False  # an object of the user's now, any value then
                continue
            if c.value not in read and self.takes_kind(c, value):
                pass  # the body sets it before it reads it, so nothing depended on what it was
            elif not self.fits(c, value):
                settled = False
            if settled:
                outputs.append(self.output(value))
        return outputs if settled else None

    def takes_kind(self, c: Carried, value: Any) -> bool:
        """Give a variable that was unbound before the loop the kind of what the body left in it, if it left any."""
        kind = kind_of(value) if c.initial is Unbound and c.kind is None and c.sample is UNKNOWN else None
        if kind is None or has_kinds(self.lo, value):
            return False
        c.kind, c.sample, c.element = kind, _item(value), getattr(value, "element", None)
        return True

    def fits(self, c: Carried, value: Any) -> bool:
        """Widen a carried slot to cover what the body leaves in it; whether that was not needed."""
        widened = False
        unbound = value is Unbound or (isinstance(value, Sym) and value.maybe_unbound)
        if unbound and not c.unbound:
            c.unbound = widened = True
        if value is Unbound:
            return not widened
        kind = kind_of(value)
        if c.width is not None and (not isinstance(value, (TupleV, Sym)) or kind is not tuple):
            c.width, c.kind, widened = None, None, True
        elif c.initial is Unbound and c.sample is UNKNOWN and c.kind is None and kind is not None:
            c.kind, c.sample, widened = kind, _item(value), True
        elif c.kind is not None and kind is not c.kind:
            held = Sym(c.value or self.lo.builder.value(), c.sample, pytype=c.kind)
            c.sample, c.kind = merged_kind(held, value)
            c.kinds.extend((c.initial, value))
            widened = True
        elif self.items_vary(c, value):
            c.width, c.sample, widened = None, UNKNOWN, True
        elif c.kind is None and c.kinds and shows_more(self.lo, c.kinds, value):
            c.kinds.append(value)
            widened = True
        if not getattr(value, "fresh", True) and c.fresh:
            c.fresh, widened = False, True
        element = getattr(value, "element", None)
        if element is not None and c.element is None:
            c.element, widened = element, True
        return not widened

    def items_vary(self, c: Carried, value: Any) -> bool:
        """Whether the items of a carried tuple change their kinds, so that the first ones stand for nothing."""
        if c.width is not None:
            return bool(item_kinds(TupleV(c.width)) != item_kinds(value))
        return isinstance(c.sample, tuple) and bool(sample_kinds(c.sample) != item_kinds(value))

    def output(self, value: Any) -> Arg:
        if value is Unbound:
            return self.lo.builder.ref(UNBOUND, "UNBOUND")
        return value.value if isinstance(value, Sym) else escape(self.lo, value)

    def finish(
        self, region: Region, params: list[Value], initial: list[Arg], source: Arg, enter: Any, outputs: tuple[Arg, ...]
    ) -> None:
        lo, builder = self.lo, self.lo.builder
        free = builder.free_values(region, outputs)
        graph = builder.close(region, outputs, free)
        leaves = self.leaves()
        outs = tuple(builder.value(c.type()) for c in leaves)
        kind = "while" if self.iterable is None else "for"
        args = (source, Tup(tuple(initial)), Tup(tuple(free)))
        kwargs = (("enter", enter),) if enter is not None else ()
        builder.place(ops.LOOP, kind, args, outs, (graph,), lo.span(self.node), kwargs)
        for c, out in zip(leaves, outs):
            self.lo.store[c.slot] = self.abstract(c, out)


def _among(container: Live, others: list[Live]) -> bool:
    return any(o.sample is container.sample for o in others)


def _item(value: Any) -> Any:
    if isinstance(value, Known):
        return value.value
    return value.sample if isinstance(value, Sym) else UNKNOWN


def _is_carriable(known: Known) -> bool:
    return known.value is None or type(known.value) in (bool, int, float, str, complex)
