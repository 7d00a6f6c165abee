"""The calls by which a function calls itself, as its source says and as the profile saw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gast
import torch

from janusc.frontend.nodes import nodes_of
from janusc.frontend.parse import ParsedFunction, site
from janusc.lowering.classes import class_lookup
from janusc.lowering.lowering import Lowering
from janusc.types import HostType, Type, type_name


def own_calls(tree: Any) -> list[tuple[Any, list[Any]]]:
    """The calls by which a function calls itself by its own name, each with all that it gives by position."""
    if not hasattr(tree, "_jc_own_calls"):  # asked for at each call of the function
        tree._jc_own_calls = list(_own_calls(tree))
    found: list[tuple[Any, list[Any]]] = tree._jc_own_calls
    return found


def _own_calls(tree: Any) -> Iterator[tuple[Any, list[Any]]]:
    parameters = [p.id for p in [*tree.args.posonlyargs, *tree.args.args]]
    own = getattr(tree, "name", None)  # a lambda has none
    for node in nodes_of(tree):
        if not isinstance(node, gast.Call):
            continue
        called = node.func.id if isinstance(node.func, gast.Name) else None
        if isinstance(node.func, gast.Attribute) and node.func.attr == own:
            yield node, [node.func.value, *node.args]
        elif own in ("forward", "__call__") and parameters and called == parameters[0]:
            yield node, [node.func, *node.args]
        elif called is not None and called == own:
            yield node, list(node.args)


def is_seen_recursive(lo: Lowering, parsed: ParsedFunction, first: Any) -> bool:
    """Whether a function has called itself in some call, if not in the one at hand; ``first`` is its first argument.

    The method of a module that calls that of another one, which it holds, ends where the modules do.
    """
    if parsed.key in lo.profile.recursive:
        return True
    cls = type(getattr(first, "sample", None))
    is_method = getattr(class_lookup(cls, parsed.name), "__code__", None) is parsed.code
    for node, given in own_calls(parsed.tree):
        by_name = isinstance(node.func, gast.Name) and node.func.id == parsed.name
        of_itself = bool(given) and isinstance(given[0], gast.Name) and given[0].id in parsed.parameters[:1]
        owner = getattr(node.func, "value", None)
        of_another = owner is not None and _is_of_another(lo.profile.type_at(site(parsed, owner)), cls)
        if by_name or (is_method and not of_another and (of_itself or not issubclass(cls, torch.nn.Module))):
            if lo.profile.type_at(site(parsed, node)) is not None:
                return True
    return False


def _is_of_another(seen: Type | None, cls: type) -> bool:
    """Whether the objects whose method is called were all of one other class: an optimiser's step is no trainer's."""
    return isinstance(seen, HostType) and seen.name != type_name(cls)


def invariants(tree: Any) -> frozenset[str]:
    """The parameters that every call of the function by its own name hands on as they are."""
    parameters = [p.id for p in [*tree.args.posonlyargs, *tree.args.args]]
    kept = (gast.Load, gast.Param)
    rebound = {n.id for n in nodes_of(tree) if isinstance(n, gast.Name) and not isinstance(n.ctx, kept)}
    same = set(parameters) - rebound
    calls = 0
    for node, given in own_calls(tree):
        calls += 1
        keywords = {k.arg: k.value for k in node.keywords}
        for index, name in enumerate(parameters):
            handed = given[index] if index < len(given) else keywords.get(name)
            if not (isinstance(handed, gast.Name) and handed.id == name):
                same.discard(name)
    return frozenset(same) if calls else frozenset()
