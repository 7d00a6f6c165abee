"""Which way a test goes: certain, or always the same so far and so assumed under an assert, or neither."""

from __future__ import annotations

from typing import Any

import gast
import torch

from janusc.lowering import codes, examples, ops
from janusc.lowering.abstract import UNKNOWN, BoundV, DictV, FunctionV, Known, ListV, Live, PartsV, Sym, TupleV
from janusc.lowering.classes import MODULE_CONTAINERS, check_lacks
from janusc.lowering.containers import is_truthful
from janusc.lowering.inert import is_inert
from janusc.lowering.ir import Const, Value
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import SCALARS, check_bound


def test_site(lo: Lowering, node: Any) -> str:
    """The site of a test, as the instrumented function records it; of torch's code there is one for each call."""
    return lo.site(node, f"{lo.frame.called_at}{type(node).__name__}Test")


def truth(lo: Lowering, value: Any) -> bool | Any:
    """The truth of a value where it is certain, else the run-time value that has it."""
    if isinstance(value, Known):
        if not is_inert(value.value):
            raise lo.refuse(codes.TRUTH, f"{type(value.value).__qualname__} decides its own truth")
        return bool(value.value)
    if isinstance(value, (TupleV, PartsV)):
        return bool(value.items)
    if isinstance(value, (ListV, DictV)):
        return bool(value.items) if value.real is None else value.real
    if isinstance(value, (FunctionV, BoundV)):
        return True
    if isinstance(value, Live):
        return live_truth(lo, value)
    if isinstance(value, Sym):
        check_bound(lo, value)
        if value.is_tensor or value.plain or value.pytype is None or is_truthful(value.pytype):
            return value
    raise lo.refuse(codes.TRUTH, f"the truth of a {type(value).__name__}")


def live_truth(lo: Lowering, value: Live) -> bool | Any:
    cls = type(value.sample)
    if cls in (list, dict, tuple, set):
        from janusc.lowering.lower_builtin import length

        return length(lo, value)
    if hasattr(cls, "__bool__") or hasattr(cls, "__len__"):
        if cls in MODULE_CONTAINERS:
            from janusc.lowering.lower_builtin import length

            return truth(lo, length(lo, value))
        raise lo.refuse(codes.TRUTH, f"{cls.__qualname__} decides its own truth")
    check_lacks(lo, cls, "__bool__", "__len__")
    return True


def decide(lo: Lowering, node: Any, predicate: Sym, statement: Any = None) -> bool | None:
    """The side that was always taken, under an assert; None where both sides are needed.

    ``statement`` is the ``if`` around the test: where nothing was seen, the side that does not raise is the one to
    expect.
    """
    site = test_site(lo, node)
    seen = lo.profile.outcomes(site)
    if lo.worlds.active:
        seen = seen | set(examples.outcomes(lo, predicate).values())
    direction: bool | None = None
    if predicate.stable and predicate.sample is not UNKNOWN and not isinstance(predicate.sample, torch.Tensor):
        direction = bool(predicate.sample)
        lo.profile.branch(site, direction)
        seen = seen | {direction}
    elif len(seen) == 1:
        (direction,) = seen
    elif not seen and isinstance(statement, gast.If) and _raises(statement.body) != _raises(statement.orelse):
        direction = not _raises(statement.body)
    if direction is None or len(seen) > 1 or lo.profile.is_refuted(site) or goes_both_ways(lo, predicate):
        return None
    assume(lo, predicate, direction, site)
    return direction


def check_raise(lo: Lowering, predicate: Sym, statement: Any) -> bool | None:
    """Where one side ends with ``raise``: the other, under a check like that of an assert, unless it was caught."""
    if not isinstance(statement, gast.If) or _raises(statement.body) == _raises(statement.orelse):
        return None
    site, direction = lo.site(statement, "Raise"), not _raises(statement.body)
    if lo.profile.is_refuted(f"{site}:caught"):
        return None
    kind, value = _asked(lo, predicate.value, direction)
    lo.check(kind, (value,), site, lo.span())
    return direction


def goes_both_ways(lo: Lowering, predicate: Sym) -> bool:
    """Whether a test of the kind of a value, such as that it is None, tells kinds apart that were both seen."""
    return not lo.routines and len(set(examples.outcomes(lo, predicate).values())) > 1


def _raises(block: Any) -> bool:
    return bool(block) and isinstance(block[-1], gast.Raise)


def assume(lo: Lowering, predicate: Sym, direction: bool, site: str) -> None:
    kind, value = _asked(lo, predicate.value, direction)
    lo.assume(kind, (value,), site, lo.span())
    going = examples.outcomes(lo, predicate)
    if direction in going.values() and not lo.routines:  # from here on, in this region
        lo.worlds.active = frozenset(w for w in lo.worlds.active if going.get(w, direction) is direction)


def _asked(lo: Lowering, value: Value, direction: bool) -> tuple[str, Value]:
    """The assert that a value has this truth: of the tensor itself that was asked for it just before, or for ``not``.

    A tensor's truth is nothing that a kernel could compute with, but it can say whether it is the expected one.
    """
    nodes = lo.builder.regions[-1].nodes
    for node in reversed(nodes[-2:]):
        if node.outputs != (value,) or len(node.args) != 1 or not isinstance(node.args[0], Value):
            break
        if node.op is ops.OPERATOR and node.target == "not_":
            direction = not direction
        elif not (node.op is ops.BUILTIN and node.target == "bool"):
            break
        value = node.args[0]
    return "true" if direction else "false", value


def concretise(lo: Lowering, value: Sym) -> Any:
    """The value of the call at hand as a constant, under an assert; the Sym itself where that was refuted."""
    if not value.stable or value.sample is UNKNOWN or type(value.sample) not in SCALARS:
        return value
    site = lo.site(lo.node, "value")
    if lo.profile.is_refuted(site):
        return value
    kind = "is" if isinstance(value.sample, bool) else "equals"
    lo.assume(kind, (value.value, Const(value.sample)), site, lo.span())
    return Known(value.sample)


def guess(lo: Lowering, value: Any) -> Any:
    """The truth of a tensor in code of torch's, of which there is no profile: true until that was refuted, then false.

    The value itself where both were, or where torch is to warn.
    """
    if not isinstance(value, Sym) or not value.is_tensor or value.sample is UNKNOWN or value.sample.requires_grad:
        return value
    for direction in (True, False):
        site = lo.site(lo.node, str(direction))
        if not lo.profile.is_refuted(site):
            assume(lo, value, direction, site)
            return Known(direction)
    return value
