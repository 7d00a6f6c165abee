"""``for`` and ``while``: unrolled where the trip count is stable and small, else a loop node with a compiled body."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gast
import torch

from janusc.frontend.nodes import weight
from janusc.lowering import codes, ops
from janusc.lowering.abstract import UNKNOWN, DictV, IterableV, Known, ListV, Live, Sym, TupleV
from janusc.lowering.assign import assign
from janusc.lowering.ir import Const
from janusc.lowering.iterate import UNROLL_BUDGET, static_items, unpack
from janusc.lowering.loop_node import Loop
from janusc.lowering.lower_operator import is_mutated
from janusc.lowering.lower_state import note_read
from janusc.lowering.lowering import Lowering, Unconvertible, Unreached, statement
from janusc.lowering.operands import emit
from janusc.lowering.store import parts
from janusc.lowering.truth import test_site, truth

FEW = 4
"""The items of a run-time iterable that a loop is unrolled over at most."""


@statement(gast.For)
def lower_for(lo: Lowering, node: Any) -> None:
    if _varies(lo, node) and getattr(node, "_jc_stop", None) is None:
        lo.of_any_keys.add(lo.site(node.iter, "keys"))  # if it is a view of a dict, that had other keys
    run_for(lo, node, lo.expr(node.iter))
    otherwise(lo, node)


def otherwise(lo: Lowering, node: Any) -> None:
    """The ``else`` of a loop that nothing breaks; one with a flag has been written as an ``if``."""
    if node.orelse and getattr(node, "_jc_stop", None) is not None:
        raise lo.refuse(codes.ITERATION, "a loop with else and a break")
    lo.block(node.orelse)


def run_for(lo: Lowering, node: Any, iterable: Any) -> None:
    stop = getattr(node, "_jc_stop", None)
    if lo.profile.trip_count(lo.site(node)) == "varies" and _is_uniform(lo, iterable):
        point = lo.mark()
        try:
            keep_loop(lo, node, iterable, stop)
            return
        except Unconvertible:
            lo.rewind(point)
    items = static_items(lo, iterable, node)
    if items is None:
        items = stable_items(lo, node, iterable)
    if items is not None and len(items) * weight(node.body) <= UNROLL_BUDGET:
        point = lo.mark()
        try:
            with unchanged(lo, iterable):
                unroll(lo, node, items, stop)
            return
        except Unconvertible:
            if not _may_loop(items):
                raise
            lo.rewind(point)
    elif items is not None and not _may_loop(items):
        raise lo.refuse(
            codes.ITERATION, f"{len(items)} iterations over different objects", "put the loop body into a function"
        )
    keep_loop(lo, node, iterable, stop)


def keep_loop(lo: Lowering, node: Any, iterable: Any, stop: str | None) -> None:
    """The loop as a loop; one that no call has reached the inside of is assumed to have nothing to run over."""
    point = lo.mark()
    try:
        Loop(lo, node, iterable, stop).lower()
    except Unreached as found:
        if not isinstance(iterable, (Sym, Live)):
            raise
        lo.rewind(point)
        lo.check("empty", (iterable.value,), found.site, lo.span())


def _is_uniform(lo: Lowering, iterable: Any) -> bool:
    """Whether a loop can run over existing lists or tuples as they are, whatever their lengths."""
    if isinstance(iterable, IterableV):
        lists = [x for x in iterable.operands if not isinstance(x, Known)]
        return iterable.kind not in ("view", "generated") and bool(lists) and all(_is_uniform(lo, x) for x in lists)
    if not isinstance(iterable, Live) or type(iterable.sample) not in (list, tuple) or is_mutated(lo, iterable):
        return False
    note_read(lo, ("content", id(iterable.sample), ""), iterable)
    return not any(issubclass(type(x), torch.nn.Module) for x in iterable.sample)


@contextmanager
def unchanged(lo: Lowering, iterable: Any) -> Iterator[None]:
    """A container that is followed item by item must not change while it is iterated."""
    lists = [p for p in parts(iterable) if isinstance(p, (ListV, DictV))]
    outside = [p for p in parts(iterable) if isinstance(p, Live)]
    before = [(list(p.items), p.real) for p in lists]
    yield
    written = any(p.sample is w.sample for p in outside for w in lo.written_containers)
    if written or any((list(p.items), p.real) != held for p, held in zip(lists, before)):
        raise lo.refuse(codes.LOOP, "a list changes while it is iterated")


def _may_loop(items: list[Any]) -> bool:
    return all(isinstance(x, (Sym, Known)) for x in items)


def stable_items(lo: Lowering, node: Any, iterable: Any) -> list[Any] | None:
    """The items of a run-time iterable whose trip count was always the same and is small, under an assert."""
    site = lo.site(node)
    trips = lo.profile.trip_count(site)
    if lo.profile.is_refuted(site) or trips == "varies":
        return None
    if isinstance(iterable, IterableV):
        return _stable_rows(lo, iterable, site)
    count = _sample_length(iterable)
    if count is None or count > FEW or (trips is not None and trips > count):
        return None
    if isinstance(iterable, Sym) and iterable.is_tensor and lo.loop_depth:  # its size may be another in each turn
        return None
    return _counted_items(lo, iterable, count, site)


def _counted_items(lo: Lowering, iterable: Any, count: int, site: str) -> list[Any]:
    length = emit(lo, ops.BUILTIN_READ, "len", (iterable.value,), count)
    lo.assume("equals", (length.value, Const(count)), site, lo.span())
    return unpack(lo, iterable, count) if count else []


def _stable_rows(lo: Lowering, iterable: IterableV, site: str) -> list[Any] | None:
    """What ``enumerate``, ``zip`` or ``reversed`` make of a few run-time items, such as a state of two tensors."""
    counts = [_row_length(operand) for operand in iterable.operands]
    if not any(counts) or any(count is not None and count > FEW for count in counts):
        return None
    operands = [
        operand if count is None else TupleV(tuple(_counted_items(lo, operand, count, site)))
        for operand, count in zip(iterable.operands, counts)
    ]
    return static_items(lo, IterableV(iterable.kind, tuple(operands)))


def _row_length(operand: Any) -> int | None:
    return None if isinstance(operand, Sym) and operand.is_tensor else _sample_length(operand)


def _sample_length(iterable: Any) -> int | None:
    if isinstance(iterable, Sym) and isinstance(iterable.sample, torch.Tensor) and iterable.is_tensor:
        return int(iterable.sample.shape[0]) if iterable.sample.ndim else None
    if isinstance(iterable, Sym) and isinstance(iterable.sample, tuple) and type(iterable.sample) is not torch.Size:
        return len(iterable.sample)
    return None


def unroll(lo: Lowering, node: Any, items: list[Any], stop: str | None) -> None:
    """The body once for each item; a stop flag that can't be decided guards the rest of the iterations."""
    for i, item in enumerate(items):
        assign(lo, node.target, item)
        lo.block(node.body)
        if stop is None or i == len(items) - 1:
            continue
        flag = truth(lo, lo.fetch(lo.local(stop)))
        if flag is True:
            return
        if flag is not False:
            rest = items[i + 1 :]
            run_rest(lo, node, flag, lambda rest=rest: unroll(lo, node, rest, stop))  # type: ignore[misc]
            return


def run_rest(lo: Lowering, node: Any, flag: Any, rest: Callable[[], None]) -> None:
    """The remaining iterations, unless the flag says that the loop has ended."""
    from janusc.lowering.cond import cond

    cond(lo, [node], flag, lambda: None, rest)


@statement(gast.While)
def lower_while(lo: Lowering, node: Any) -> None:
    run_while(lo, node)
    otherwise(lo, node)


def run_while(lo: Lowering, node: Any) -> None:
    stop = getattr(node, "_jc_stop", None)
    point = lo.mark()
    failed: Unconvertible | None = None
    if _varies(lo, node):  # by what is at hand it may be certain how often it runs, yet other calls differ
        try:
            Loop(lo, node, None, stop).lower()
            return
        except Unconvertible as error:
            if not lo.profile.may_unroll(lo.site(node)):
                raise
            failed = error
        lo.rewind(point)
    try:
        if unroll_while(lo, node, stop):
            return
    except Unconvertible:
        pass
    if failed is not None:
        raise failed
    lo.rewind(point)
    Loop(lo, node, None, stop).lower()


def unroll_while(lo: Lowering, node: Any, stop: str | None) -> bool:
    """Iterate as long as the test is certain or always went one way; False where the loop must stay a loop."""
    budget = UNROLL_BUDGET // max(1, weight(node.body))
    site = test_site(lo, node.test)
    for _ in range(budget):
        known = truth(lo, lo.expr(node.test))
        if not isinstance(known, bool):
            if not known.stable or known.sample is UNKNOWN or lo.profile.is_refuted(site) or _varies(lo, node):
                return False
            lo.assume("true" if known.sample else "false", (known.value,), site, lo.span())
            known = bool(known.sample)
        if not known:
            return True
        lo.block(node.body)
        if stop is not None:
            flag = truth(lo, lo.fetch(lo.local(stop)))
            if not isinstance(flag, bool):
                return False
            if flag:
                return True
    return False


def _varies(lo: Lowering, node: Any) -> bool:
    return bool(lo.profile.trip_count(lo.site(node)) == "varies")
