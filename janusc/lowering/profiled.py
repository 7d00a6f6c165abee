"""Kinds that only the profile knows: of items, results and assigned values that were of one type in all calls seen.

Each is taken under an assert, and once that was refuted nothing is assumed there again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gast
import torch

from janusc.lowering.abstract import UNKNOWN, Known, Sym, TupleV
from janusc.lowering.containers import KINDS
from janusc.lowering.ir import Const
from janusc.lowering.iterate import unpack
from janusc.lowering.kinds import has_kinds
from janusc.lowering.lower_object import is_object, is_plain_class
from janusc.lowering.lower_torch import sample_from_type
from janusc.lowering.lowering import Lowering
from janusc.lowering.members import is_members_class
from janusc.lowering.operands import SCALARS
from janusc.types import TensorType, TupleType, Type, type_name

_CLASSES: dict[str, type] = {type_name(cls): cls for cls in (*SCALARS, list, dict, tuple, *KINDS)}


def expect(lo: Lowering, abstract: Any, node: Any = None) -> Any:
    """The value of a node, else of the one at hand; where its type is not certain, of the one it had in other calls."""
    if not isinstance(abstract, Sym) or abstract.pytype is not None or abstract.maybe_unbound:
        return abstract
    node = lo.node if node is None else node
    return assume_kind(lo, abstract, lo.profile.type_at(lo.site(node)), lo.site(node, "seen"))


def expect_parts(lo: Lowering, target: Any, abstract: Any, seen: Type | None, site: str) -> Any:
    """What is bound to a target, part by part where the target has parts."""
    parts = target.elts if isinstance(target, (gast.Tuple, gast.List)) else None
    if parts is None or not isinstance(seen, TupleType) or any(isinstance(p, gast.Starred) for p in parts):
        return assume_kind(lo, abstract, seen, site)
    items = list(abstract.items) if isinstance(abstract, TupleV) else None
    if items is None and isinstance(abstract, Sym) and abstract.sample is UNKNOWN and not abstract.maybe_unbound:
        if abstract.pytype in (None, tuple) and len(parts) == len(seen.items):
            items = unpack(lo, abstract, len(parts))
    if items is None or not len(items) == len(parts) == len(seen.items):
        return abstract
    rows = enumerate(zip(parts, items, seen.items))
    return TupleV(tuple(expect_parts(lo, part, item, kind, f"{site}.{i}") for i, (part, item, kind) in rows))


def assume_kind(lo: Lowering, abstract: Any, seen: Type | None, site: str) -> Any:
    """A value of no certain type as one of the type seen, under an assert."""
    if not isinstance(abstract, Sym) or abstract.pytype is not None or abstract.maybe_unbound or seen is None:
        return abstract
    cls = class_of(lo, seen)
    if cls is None or lo.profile.is_refuted(site) or has_kinds(lo, abstract):  # then each kind has its own way
        return abstract
    if cls is type(None):
        lo.check("is", (abstract.value, Const(None)), site, lo.span())
        return Known(None)
    lo.check("type", (abstract.value, lo.builder.ref(cls)), site, lo.span())
    known = type(abstract.sample) is cls
    sample = abstract.sample if known else UNKNOWN if cls is tuple or is_object(cls) else sample_from_type(seen)
    return replace(abstract, sample=sample, pytype=cls, stable=abstract.stable and known)


def class_of(lo: Lowering, seen: Type) -> type | None:
    """The class that values of a type have: one of Python's own, a plain tensor's, or one of the user's objects."""
    if isinstance(seen, TensorType):
        return torch.Tensor if seen.dtype is not None and seen.shape is not None else None
    if isinstance(seen, TupleType):
        return tuple
    name = str(getattr(seen, "host", None) or getattr(seen, "name", None))
    if name == "NoneType":
        return type(None)
    met = None if lo.routines else lo.profile.class_named(name)  # there, the worlds tell of what classes objects are
    known = met is not None and (is_plain_class(met) or is_members_class(met))
    return met if known else _CLASSES.get(name)
