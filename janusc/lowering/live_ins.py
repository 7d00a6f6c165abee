"""What a segment after a host range knows of its live-ins: what was known before, or what the profile saw."""

from __future__ import annotations

from typing import Any

import gast
from torch.nn import Parameter

from janusc.frontend import parse
from janusc.frontend.nodes import nodes_of
from janusc.frontend.parse import ParsedFunction
from janusc.lowering.abstract import UNKNOWN, DictV, Known, ListV, Live, Sym, TupleV
from janusc.lowering.containers import KINDS
from janusc.lowering.ir import Tup, Value
from janusc.lowering.iterate import ITERATORS
from janusc.lowering.lower_torch import sample_from_type
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import SCALARS, is_code_like, lift, sample_type, sym
from janusc.types import Constant, HostType, TensorType, TupleType, Type, join_all, type_name

NUMBER = HostType("a number")
"""The type of what is an int or a float, in the course of a loop."""

_ARITHMETIC = frozenset({gast.Add, gast.Sub, gast.Mult, gast.Div, gast.FloorDiv, gast.Mod})
_KINDS = {type_name(cls): cls for cls in (list, dict, *KINDS, *ITERATORS)}


def after_host(lo: Lowering, name: str, seen: Type | None) -> Any:
    """A local that the host range may have set: of the type the profile saw there."""
    sample = sample_from_type(seen)
    value = lo.builder.parameter(sample_type(sample))
    abstract = sym(value, sample)
    if isinstance(seen, TensorType):
        import torch

        lo.check("type", (value, lo.builder.ref(torch.Tensor)), f"{name} after ordinary Python", lo.span())
    elif sample is not UNKNOWN and type(sample) in SCALARS:
        lo.check("type", (value, lo.builder.ref(type(sample))), f"{name} after ordinary Python", lo.span())
    elif seen == NUMBER:
        return _number(lo, f"{name} after ordinary Python", value)
    elif isinstance(seen, HostType) and seen.name in _KINDS:
        kind = _KINDS[seen.name]
        lo.check("type", (value, lo.builder.ref(kind)), f"{name} after ordinary Python", lo.span())
        return Sym(value, UNKNOWN, pytype=kind)
    else:
        return Sym(value, UNKNOWN, maybe_unbound=True)
    return abstract


def _number(lo: Lowering, what: str, value: Value) -> Sym:
    """An int or a float."""
    kinds = Tup((lo.builder.ref(int), lo.builder.ref(float)))
    lo.check("among", (value, kinds), what, lo.span())
    return Sym(value, UNKNOWN, plain=True, number=True)


def carry_over(lo: Lowering, name: str, held: Any) -> Any:
    """A local that the host range did not touch."""
    if isinstance(held, Live):
        return lift(lo, held.sample, lo.builder.parameter(), name)
    if isinstance(held, Known):
        return carry_known(lo, name, held)
    if isinstance(held, Sym) and held.value in lo.open:
        return lo.left_open(lo.builder.parameter(), name, lo.open[held.value][1])
    if isinstance(held, Sym):
        value = lo.builder.parameter(held.value.type)
        if held.number:
            return _number(lo, name, value)
        if held.is_tensor or (held.pytype is not None and held.pytype in SCALARS):
            lo.check("type", (value, lo.builder.ref(held.pytype)), name, lo.span())
        if held.is_tensor and held.pytype is not Parameter and getattr(held.sample, "requires_grad", True):
            lo.histories.add(value)  # it may come from what was computed in the segment before
        return Sym(
            value,
            held.sample,
            stable=held.stable and not held.is_tensor,
            pytype=held.pytype,
            element=held.element,
            maybe_unbound=held.maybe_unbound,
        )
    kind = {TupleV: tuple, ListV: list, DictV: dict}.get(type(held))
    items = held.items if isinstance(held, (TupleV, ListV)) else ()
    same = bool(items) and all(isinstance(x, Sym) for x in items)
    return Sym(lo.builder.parameter(), UNKNOWN, pytype=kind, element=items[0] if same else None)


def carry_known(lo: Lowering, name: str, held: Known) -> Any:
    value = lo.builder.parameter(sample_type(held.value))
    if type(held.value) in SCALARS and not isinstance(held.value, bool):
        lo.check("type", (value, lo.builder.ref(type(held.value))), name, lo.span())
        return sym(value, held.value, stable=True)
    if held.value is None or is_code_like(held.value):
        return lift(lo, held.value, value, name)
    return held  # computed from literals


def assigned_types(parsed: ParsedFunction, statements: tuple[Any, ...], profile: Any) -> dict[str, Type | None]:
    """The profiled types of the names that assignments and loops in host statements set; others are left out."""
    plain: dict[str, list[Type | None]] = {}
    added: dict[str, list[tuple[Any, Type | None]]] = {}
    count: dict[str, int] = {}
    for node in nodes_of(statements):
        if isinstance(node, gast.Name) and isinstance(node.ctx, (gast.Store, gast.Del)):
            count[node.id] = count.get(node.id, 0) + 1
        if isinstance(node, gast.Assign) and len(node.targets) == 1:
            seen = profile.type_at(parse.site(parsed, node))
            seen = profile.type_at(parse.site(parsed, node.value)) if seen is None else seen
            for name, part in _targets(node.targets[0], seen):
                plain.setdefault(name, []).append(part)
        if isinstance(node, gast.For):
            for name, part in _targets(node.target, profile.type_at(parse.site(parsed, node, "Item"))):
                plain.setdefault(name, []).append(part)
        if isinstance(node, gast.AugAssign) and isinstance(node.target, gast.Name):
            seen = profile.type_at(parse.site(parsed, node))
            added.setdefault(node.target.id, []).append((type(node.op), seen))
    return {
        name: _joined([t for t in types if t is not None], added.get(name, []))
        for name, types in plain.items()
        if len(types) + len(added.get(name, ())) == count.get(name) and any(t is not None for t in types)
    }


def _joined(assigned: list[Type], added: list[tuple[Any, Type | None]]) -> Type | None:
    """What a variable is that is set to such values, and that others of such types are added to, by some operator."""
    known = join_all(assigned)
    if not added or isinstance(known, TensorType):
        return known
    kinds = set(map(_host, assigned))
    for _ in range(2):  # an int may become a float, and no more than that
        kinds |= {_result(op, kind, _host(value)) for kind in kinds for op, value in added}
    if not kinds <= {"int", "float"}:
        return None
    return NUMBER if len(kinds) > 1 else HostType("int" if "int" in kinds else "float")


def _result(op: Any, kind: str | None, other: str | None) -> str | None:
    """The type of a number to which an operator adds another one; None where that is not certain."""
    if op not in _ARITHMETIC or kind not in ("int", "float") or other not in ("int", "float", "bool"):
        return None
    return "float" if op is gast.Div or "float" in (kind, other) else "int"


def _host(seen: Type | None) -> str | None:
    return seen.host if isinstance(seen, Constant) else seen.name if isinstance(seen, HostType) else None


def _targets(target: Any, seen: Type | None) -> list[tuple[str, Type | None]]:
    if isinstance(target, gast.Name):
        return [(target.id, seen)]
    if isinstance(target, gast.Tuple) and isinstance(seen, TupleType) and len(seen.items) == len(target.elts):
        pairs = zip(target.elts, seen.items)
        return [found for t, part in pairs for found in _targets(t, part)]
    return []
