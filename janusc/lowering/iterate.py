"""What a loop or a star runs over: items known one by one, or one run-time iterable with a kind of item."""

from __future__ import annotations

from dataclasses import replace
from enum import EnumMeta
from typing import Any

import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import UNKNOWN, DictV, IterableV, Known, ListV, Live, PartsV, Sym, TupleV
from janusc.lowering.classes import MODULE_CONTAINERS, is_sequence, keeps_method
from janusc.lowering.containers import KINDS
from janusc.lowering.examples import derive
from janusc.lowering.inert import is_plain_enum
from janusc.lowering.ir import Const
from janusc.lowering.lower_object import is_plain_class
from janusc.lowering.lower_state import check_once, module_entry, note_read, read
from janusc.lowering.lowering import Lowering
from janusc.lowering.members import is_members_class
from janusc.lowering.operands import emit, sym
from janusc.typeinfer import transfer

UNROLL_BUDGET = 400  # statements; above it a loop stays a loop


def static_items(lo: Lowering, iterable: Any, node: Any = None) -> list[Any] | None:
    """The items where their number is fixed by the program or by guards on an existing container; else None."""
    if isinstance(iterable, (TupleV, ListV)):
        return list(iterable.items) if getattr(iterable, "real", None) is None else None
    if isinstance(iterable, PartsV):
        return list(iterable.items)
    if isinstance(iterable, DictV):
        return [Known(k) for k in iterable.items] if iterable.real is None else None
    if isinstance(iterable, Known):
        return _known_items(lo, iterable.value)
    if isinstance(iterable, Live):
        return None if node is not None and varies(lo, iterable, lo.site(node, "length")) else live_items(lo, iterable)
    if isinstance(iterable, IterableV):
        return _combined_items(lo, iterable)
    if isinstance(iterable, Sym) and iterable.pytype is torch.Size and iterable.stable:
        site = lo.site(lo.node, "rank")
        if lo.profile.is_refuted(site):
            return None
        lo.check("length", (iterable.value, Const(len(iterable.sample))), site, lo.span())
        return unpack(lo, iterable, len(iterable.sample))
    if isinstance(iterable, Sym):
        check_repeatable(lo, iterable)
    return None


def varies(lo: Lowering, owner: Live, site: str, objects: bool = False) -> bool:
    """Whether an existing list or tuple had another length at this place when the function was converted before.

    Only where it holds plain values of one type can it stay what it is, whatever its length; or ``objects``, where it
    is only copied.
    """
    sample = owner.sample
    if type(sample) not in (list, tuple):
        return False
    length, before = lo.lengths.setdefault(site, len(sample)), lo.profile.trip_count(site)
    if before not in (None, length):
        lo.of_any_length.add(id(sample))
    classes = {type(x) for x in sample}
    plain = len(classes) <= 1 and all(cls in _PLAIN_ITEMS or is_members_class(cls) for cls in classes)
    return (plain or (objects and all(map(is_plain_class, classes)))) and id(sample) in lo.of_any_length


_PLAIN_ITEMS = (torch.Tensor, int, float, bool, str)
_REPEATABLE = (list, tuple, dict, frozenset, str, bytes, range, torch.Size, torch.Tensor, *KINDS)


ITERATORS: tuple[type, ...] = (
    *map(type, (iter([]), iter(()), iter({}), iter({}.values()), iter({}.items()), iter(set()), iter(""), iter(b""))),
    *map(type, (iter(range(0)), reversed([]), reversed({}), reversed(range(0)), (0 for _ in range(0)))),
    *(zip, enumerate, map, filter),
)


def check_repeatable(lo: Lowering, iterable: Sym) -> None:
    """An iterator gives its items once, so what comes after a rollback would find none: only containers are read."""
    if iterable.is_tensor or iterable.pytype in _REPEATABLE or type(iterable.sample) in _REPEATABLE:
        return
    if isinstance(iterable.sample, tuple) and iterable.pytype is type(iterable.sample):  # a result such as max's
        return
    site = lo.site(lo.node, "container")
    if iterable.pytype in ITERATORS or lo.profile.is_refuted(site):
        raise lo.refuse(codes.ITERATION, "this may be an iterator, which can't be read a second time")
    lo.check("container", (iterable.value,), site, lo.span())


def _known_items(lo: Lowering, value: Any) -> list[Any] | None:
    if isinstance(value, (tuple, list, str, range, dict, frozenset)):
        return [Known(v) for v in value] if len(value) <= UNROLL_BUDGET else None
    if isinstance(value, EnumMeta) and is_plain_enum(value):
        members: list[Any] = list(value)
        return [Known(m) for m in members]
    raise lo.refuse(codes.ITERATION, f"iteration over {type(value).__name__}")


def _combined_items(lo: Lowering, iterable: IterableV) -> list[Any] | None:
    kind, operands = iterable.kind, iterable.operands
    if kind in ("view", "generated"):
        return list(operands[0].items)
    if kind == "range":
        if all(isinstance(x, Known) for x in operands):
            return _known_items(lo, range(*(x.value for x in operands)))
        return None
    sequences = [static_items(lo, x) for x in (operands[:1] if kind in ("enumerate", "reversed") else operands)]
    if any(s is None for s in sequences):
        return None
    known = [s for s in sequences if s is not None]
    if kind == "enumerate":
        start = operands[1] if len(operands) > 1 else Known(0)
        if not isinstance(start, Known):
            return None
        return [TupleV((Known(start.value + i), x)) for i, x in enumerate(known[0])]
    if kind == "reversed":
        return known[0][::-1]
    return [TupleV(tuple(row)) for row in zip(*known)]


def live_items(lo: Lowering, owner: Live) -> list[Any] | None:
    """The items of an existing container, read by path under a guard on their number or keys."""
    from janusc.lowering.lower_operator import is_mutated

    sample = owner.sample
    if is_mutated(lo, owner):
        return None
    if is_sequence(lo, owner, "__iter__"):
        site = lo.site(lo.node, "length") if lo.node is not None else ""
        known = len(sample) <= UNROLL_BUDGET and not _all_tensors(sample) and not lo.profile.is_refuted(site)
        return live_sequence(lo, owner, site) if known else None
    if type(sample) is dict:
        return [Known(k) for k in live_dict_items(lo, owner)]
    if keeps_method(lo, type(sample), "__iter__", MODULE_CONTAINERS[:3]):
        names, children = module_children(lo, owner)
        return [Known(n) for n in names] if issubclass(type(sample), torch.nn.ModuleDict) else children
    if keeps_method(lo, type(sample), "__iter__", MODULE_CONTAINERS[3:]):
        return parameter_items(lo, owner)
    if keeps_method(lo, type(sample), "__iter__", (torch.nn.ParameterDict,)):
        return [Known(k) for k in parameter_entries(lo, owner)]
    raise lo.refuse(codes.ITERATION, f"iteration over {type(sample).__qualname__}")


def _all_tensors(sample: Any) -> bool:
    """Lists of tensors of this length are better left to a run-time loop."""
    return len(sample) > 8 and all(type(v) is torch.Tensor for v in sample)


def refuse_changed(lo: Lowering, owner: Live) -> None:
    """What is read by path is what was there before the transaction."""
    from janusc.lowering.lower_operator import is_mutated

    if is_mutated(lo, owner):
        raise lo.refuse(codes.ITERATION, "a container that was changed is read item by item")


def live_sequence(lo: Lowering, owner: Live, site: str = "") -> list[Any]:
    sample = owner.sample
    refuse_changed(lo, owner)
    note_read(lo, ("content", id(sample), ""), owner)
    what = site or f"the length of a {type(sample).__name__}"
    check_once(lo, "length", (owner.value, Const(len(sample))), what)
    return [read(lo, owner.value, "item", i, v, f"item {i}") for i, v in enumerate(sample)]


def live_dict_items(lo: Lowering, owner: Live) -> dict[Any, Any]:
    """The items of an existing dict with text keys, under a guard on its keys and their order."""
    sample = owner.sample
    refuse_changed(lo, owner)
    note_read(lo, ("content", id(sample), ""), owner)
    if not all(type(k) is str for k in sample):
        raise lo.refuse(codes.ITERATION, "iteration over a dict with keys other than text")
    guard_keys(lo, owner.value, sample, keys_site(lo))
    return {k: read(lo, owner.value, "item", k, v, f"item {k!r}") for k, v in sample.items()}


def keys_site(lo: Lowering) -> str:
    """The place of an assumption about which keys a dict has."""
    return lo.site(lo.node, "keys") if lo.node is not None else "the keys of a dict"


def guard_keys(lo: Lowering, value: Any, sample: Any, site: str = "the keys of a dict") -> None:
    memo = (value, "keys", "")
    if memo not in lo.memo:
        lo.memo[memo] = True
        if not sample:
            lo.check("empty", (value,), site, lo.span())
            return
        if "" in sample:
            lo.check("length", (value, Const(len(sample))), site, lo.span())
        joined = lo.builder.guard(ops.METHOD, "join", (Const("\0"), value), span=lo.span())
        lo.check("equals", (joined, Const("\0".join(sample))), site, lo.span())


def module_children(lo: Lowering, owner: Live) -> tuple[list[str], list[Any]]:
    """Names and submodules of a module container, under a guard on the names."""
    entries = owner.sample._modules
    table = module_entry(lo, owner.value, "_modules")
    guard_keys(lo, table, entries)
    return list(entries), [read(lo, table, "item", k, v, f"module {k}") for k, v in entries.items()]


def parameter_items(lo: Lowering, owner: Live) -> list[Any]:
    """The parameters of a ParameterList, under a guard on their number."""
    from janusc.lowering.lower_attr import live_attribute
    from janusc.lowering.truth import concretise

    concretise(lo, live_attribute(lo, owner, "_size"))
    return [live_attribute(lo, owner, str(i)) for i in range(len(owner.sample))]


def parameter_entries(lo: Lowering, owner: Live) -> dict[str, Any]:
    """The entries of a ParameterDict, under a guard on its keys."""
    from janusc.lowering.lower_attr import live_attribute

    keys = owner.sample._keys
    if not all(type(k) is str for k in keys):
        raise lo.refuse(codes.ITERATION, "a ParameterDict with keys other than text")
    guard_keys(lo, module_entry(lo, owner.value, "_keys"), keys)
    return {k: live_attribute(lo, owner, k) for k in keys}


# ---- run-time iterables


def item_sample(lo: Lowering, iterable: Any) -> Any:
    """An abstract template of an item (its IR values are placeholders), or None where nothing is known of it."""
    if isinstance(iterable, Sym) and iterable.is_tensor:
        try:
            item = transfer.apply(_first_row, (iterable.sample,), {}, lo.grad)
        except transfer.NoSample:
            raise lo.refuse(codes.ITERATION, "iteration over a tensor that may have no dimensions") from None
        return replace(iterable, sample=item, stable=False, pytype=torch.Tensor)
    if isinstance(iterable, IterableV):
        return _combined_sample(lo, iterable)
    if isinstance(iterable, ListV) and iterable.real is not None:
        return iterable.real.element
    if isinstance(iterable, (ListV, TupleV)):
        kinds = {x.pytype if isinstance(x, Sym) else None for x in iterable.items}
        return iterable.items[0] if len(kinds) == 1 and None not in kinds else None
    if isinstance(iterable, Sym) and iterable.pytype is str:
        return sym(iterable.value, "")
    if isinstance(iterable, Sym) and isinstance(iterable.sample, (tuple, list)) and len(iterable.sample) > 0:
        return sym(iterable.value, iterable.sample[0], fresh=iterable.fresh)
    if isinstance(iterable, Sym):
        return iterable.element
    if isinstance(iterable, Live) and type(iterable.sample) in (list, tuple) and _same_type(iterable.sample):
        note_read(lo, ("content", id(iterable.sample), ""), iterable)
        first = iterable.sample[0]
        if type(first) in (torch.Tensor, int, float, bool, str):
            value = transfer.stand_in(first) if isinstance(first, torch.Tensor) else first
            return sym(iterable.value, value)
    return None


def _same_type(values: Any) -> bool:
    return len({type(v) for v in values}) == 1


def _first_row(tensor: torch.Tensor) -> torch.Tensor:
    """A row of a tensor, or one like those that it has none of in the call at hand."""
    if tensor.ndim and not tensor.shape[0]:
        return tensor.sum(0).to(tensor.dtype)
    return tensor[0]


def _combined_sample(lo: Lowering, iterable: IterableV) -> Any:
    if iterable.kind == "range":
        return sym(lo.builder.value(), 0)
    if iterable.kind == "enumerate":
        return TupleV((sym(lo.builder.value(), 0), item_sample(lo, iterable.operands[0])))
    parts = tuple(item_sample(lo, _as_runtime(lo, x)) for x in iterable.operands)
    return parts[0] if iterable.kind == "reversed" else TupleV(parts)


def _as_runtime(lo: Lowering, iterable: Any) -> Any:
    if isinstance(iterable, Known) and isinstance(iterable.value, (range, list, tuple, str)) and len(iterable.value):
        return sym(lo.builder.value(), tuple(iterable.value))
    return iterable


def unpack(lo: Lowering, value: Any, count: int) -> list[Any]:
    """A run-time value taken apart into exactly ``count`` items, as Python's own unpacking does."""
    from janusc.lowering.operands import arg, sample_type

    samples: list[Any] = [UNKNOWN] * count
    template = (
        item_sample(lo, value) if not (isinstance(value, Sym) and isinstance(value.sample, (tuple, list))) else None
    )
    if isinstance(value, Sym) and isinstance(value.sample, (tuple, list)) and len(value.sample) == count:
        samples = list(value.sample)
    elif isinstance(template, Sym):
        samples = [template.sample] * count
    stable = isinstance(value, Sym) and value.stable
    if stable and lo.builder.is_early(value.value):
        check_once(lo, "length", (value.value, Const(count)), "the length of a size")
        return [
            emit(lo, ops.OPERATOR, "getitem", (value.value, Const(i)), s, stable=True) for i, s in enumerate(samples)
        ]
    types = tuple(sample_type(s) for s in samples)
    values = lo.builder.emit(ops.UNPACK, "", (arg(lo, value),), (), types, lo.span())
    fresh = isinstance(value, Sym) and value.fresh and value.pytype not in (list, dict, set)
    items = [sym(v, s, stable=stable, fresh=fresh) for v, s in zip(values, samples)]
    return [derive(lo, item, lambda held, i=i: held[i], value) for i, item in enumerate(items)]
