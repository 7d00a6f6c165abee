"""The parts of module containers: picked, sliced, and called as the new container that a slice is."""

from __future__ import annotations

from typing import Any

import torch

from janusc import torch_private
from janusc.lowering import codes
from janusc.lowering.abstract import (
    BoundV,
    DictV,
    FunctionV,
    IterableV,
    Known,
    Live,
    MethodV,
    PartsV,
    SliceV,
    Sym,
    TupleV,
)
from janusc.lowering.classes import class_function, class_lookup, keeps_method
from janusc.lowering.ir import Value
from janusc.lowering.kinds import PickV
from janusc.lowering.lower_state import check_once, module_entry, read
from janusc.lowering.lowering import Lowering

_MOST_OPTIONS = 16
_PLAIN_CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ParameterList)


def module_item(lo: Lowering, owner: Live, key: Any) -> Any:
    """``ModuleList[i]``, ``Sequential[i]``, ``ModuleDict[k]``, ``ParameterList[i]``."""
    from janusc.lowering.iterate import module_children, parameter_items
    from janusc.lowering.truth import concretise

    if issubclass(type(owner.sample), torch.nn.ParameterList):
        names: list[str] = []
        children = parameter_items(lo, owner)
    else:
        names, children = module_children(lo, owner)
    if issubclass(type(owner.sample), torch.nn.ModuleDict):
        key = concretise(lo, key) if isinstance(key, Sym) else key
        if not isinstance(key, Known):
            return picked_part(lo, key, dict(zip(names, children)), str)
        return children[names.index(key.value)] if key.value in names else _no_key(lo, key.value)
    return pick_part(lo, type(owner.sample), tuple(children), key)


def pick_part(lo: Lowering, cls: type, items: tuple[Any, ...], key: Any) -> Any:
    """One of the parts of a module container, or a slice of them, which is a new container."""
    from janusc.lowering.truth import concretise

    if isinstance(key, SliceV):
        bounds = [concretise(lo, b) if isinstance(b, Sym) else b for b in (key.lower, key.upper, key.step)]
        key = Known(slice(*(b.value for b in bounds))) if all(isinstance(b, Known) for b in bounds) else key
    key = concretise(lo, key) if isinstance(key, Sym) else key
    if not isinstance(key, Known):
        return picked_part(lo, key, dict(enumerate(items)), int)
    if isinstance(key.value, slice) and cls not in _PLAIN_CONTAINERS:
        raise lo.refuse(codes.SUBSCRIPT, f"a slice of a {cls.__qualname__} makes another one")
    try:
        picked = items[key.value]
    except (IndexError, TypeError, ValueError) as error:
        raise lo.refuse(codes.RAISES, f"{type(error).__name__}: {error}") from None
    return PartsV(cls, picked) if isinstance(key.value, slice) else picked


def picked_part(lo: Lowering, key: Any, options: dict[Any, Any], kind: type) -> PickV:
    """A part that is picked at run time: there is a way for each of them."""
    live = all(isinstance(part, Live) for part in options.values())
    if not (live and isinstance(key, Sym) and key.pytype is kind and 0 < len(options) <= _MOST_OPTIONS):
        raise lo.refuse(codes.SUBSCRIPT, "a module picked by something that varies")
    return PickV(key, tuple(options.items()))


def holds_code(owner: Any) -> bool:
    """Whether what is picked decides what is done, as a function or a module does, and isn't just computed with."""
    if getattr(owner, "real", None) is not None:
        return False
    items = owner.items.values() if isinstance(owner, DictV) else owner.items
    return any(
        isinstance(x, (FunctionV, BoundV, MethodV))
        or (isinstance(x, (Known, Live)) and callable(x.value if isinstance(x, Known) else x.sample))
        for x in items
    )


def _no_key(lo: Lowering, key: Any) -> Any:
    raise lo.refuse(codes.RAISES, f"KeyError: {key!r}")


def call_parts(lo: Lowering, parts: PartsV, value: Any) -> Any:
    """A new ``Sequential``, called: it has no hooks of its own, and its forward is that of the class."""
    from janusc.lowering.lower_call import call, guard_global_hooks

    for name, holder in (("__call__", torch.nn.Module), ("forward", torch.nn.Sequential)):
        if class_lookup(parts.cls, name) is not holder.__dict__[name]:
            raise lo.refuse_call(codes.OPAQUE_CALL, f"torch.nn.Sequential.{name} is replaced")
        class_function(lo, parts.cls, name, holder.__dict__[name])
    if torch_private.has_global_hooks():
        raise lo.refuse_call(codes.HOOKS, "there are hooks for all modules")
    guard_global_hooks(lo)
    for part in parts.items:
        value = call(lo, part, [value], {})
    return value


# ---- parameters

_WALKS = ("named_parameters", "named_modules", "_named_members")
_MODULE = torch.nn.Module.__dict__
PARAMETER_VIEWS: Any = (
    *(_MODULE[name] for name in ("parameters", "named_parameters")),
    *(torch.nn.ParameterDict.__dict__[name] for name in ("items", "values")),
)
"""Generators of torch's that give the parameters of a module one by one."""


def parameter_view(lo: Lowering, owner: Live, function: Any) -> IterableV:
    """What one of these generators gives, to be used up at once."""
    from janusc.lowering.iterate import parameter_entries

    found = parameter_entries(lo, owner) if function.__name__ in ("items", "values") else module_parameters(lo, owner)
    pairs = function.__name__ in ("items", "named_parameters")
    items = (TupleV((Known(k), v)) if pairs else v for k, v in found.items())
    return IterableV("generated", (TupleV(tuple(items)), owner))


def module_parameters(lo: Lowering, owner: Live) -> dict[str, Any]:
    """The parameters of a module and its parts by name, under guards on the names, and that no two are one object."""
    found: dict[str, Any] = {}
    modules: list[Value] = []
    samples: list[Any] = []

    def visit(module: Live, prefix: str) -> None:
        if not all(keeps_method(lo, type(module.sample), name, (torch.nn.Module,)) for name in _WALKS):
            raise lo.refuse_call(codes.OPAQUE_CALL, f"{type(module.sample).__qualname__} lists its parameters itself")
        modules.append(module.value)
        samples.append(module.sample)
        for name, value in entries(lo, module, "_parameters").items():
            if isinstance(value, Sym):
                found[prefix + name] = value
                samples.append(module.sample._parameters[name])
        for name, part in entries(lo, module, "_modules").items():
            if isinstance(part, Live):
                visit(part, f"{prefix}{name}.")

    visit(owner, "")
    if len({id(s) for s in samples}) != len(samples):
        raise lo.refuse_call(codes.OPAQUE_CALL, "parameters of a module that shares some of its parts")
    for values in (modules, [v.value for v in found.values()]):
        if len(values) > 1:
            check_once(lo, "distinct", tuple(values), f"the parts of a {type(owner.sample).__qualname__}")
    return found


def entries(lo: Lowering, module: Live, name: str) -> dict[str, Any]:
    """One of the tables of a module, under a guard on its keys."""
    from janusc.lowering.iterate import guard_keys

    held, table = module.sample.__dict__[name], module_entry(lo, module.value, name)
    if type(held) is not dict:
        raise lo.refuse_call(codes.OPAQUE_CALL, f"{name} is no plain dictionary")
    guard_keys(lo, table, held)
    return {k: read(lo, table, "item", k, v, f"{type(module.sample).__qualname__}.{k}") for k, v in held.items()}
