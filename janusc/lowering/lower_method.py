"""Methods of tensors, host values and containers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import UNKNOWN, DictV, IterableV, Known, ListV, Live, Sym, TupleV
from janusc.lowering.assign import extend_list, real_of, refuse_cycle, write_container
from janusc.lowering.containers import METHODS
from janusc.lowering.ir import Op
from janusc.lowering.keys import check_key
from janusc.lowering.kinds import by_kind, classes_met, has_kinds, several_of
from janusc.lowering.lower_autograd import call_backward, require_gradient
from janusc.lowering.lower_container import container_method
from janusc.lowering.lower_expr import literal_key
from janusc.lowering.lower_operator import compares_plainly, get_item, is_mutated, refuse_deciding_keys
from janusc.lowering.lower_state import note_read
from janusc.lowering.lower_torch import flag_truth, node, profiled_sample, protect_all, sample_call, settle_kind
from janusc.lowering.lowering import Lowering
from janusc.lowering.mutation import change
from janusc.lowering.operands import HOST_VALUES, arg, emit, escape, is_plain, is_stable, sample_of, sym, typed_item
from janusc.lowering.order import is_list, sort_list
from janusc.typeinfer import torch_table
from janusc.typeinfer.profile import KINDS

_LIST_WRITES = frozenset({"append", "extend", "insert", "pop", "remove", "clear", "reverse"})
_DICT_WRITES = frozenset({"update", "pop", "setdefault", "clear"})
_VIEWS = ("keys", "values", "items")
_READS = frozenset({"index", "count", "copy", "get", "keys", "values", "items", "union", "intersection", "issubset"})


def call_method(lo: Lowering, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    from janusc.lowering.lower_attr import get_attribute
    from janusc.lowering.lower_call import call

    if has_kinds(lo, owner) or (isinstance(owner, Sym) and owner.pytype is None and classes_met(lo)):
        given = [*args, *kwargs.values()]
        return by_kind(lo, owner, name, lambda one: call(lo, get_attribute(lo, one, name), args, kwargs), given)
    if isinstance(owner, Sym) and owner.is_tensor:
        return tensor_method(lo, owner, name, args, kwargs)
    if name == "sort" and is_list(owner):
        return sort_list(lo, owner, args, kwargs)
    if name == "_replace" and isinstance(owner, Sym) and not args:
        from janusc.lowering.lower_instance import replaced

        return replaced(lo, owner, kwargs)
    if isinstance(owner, Sym) and owner.pytype in METHODS:
        return container_method(lo, owner, name, args, kwargs)
    if kwargs and not isinstance(owner, Known) and not (isinstance(owner, DictV) and name == "update"):
        raise lo.refuse_call(codes.METHOD, f"{name} with keyword arguments")
    if isinstance(owner, ListV):
        return list_method(lo, owner, name, args, kwargs)
    if isinstance(owner, DictV):
        return dict_method(lo, owner, name, args, kwargs)
    if isinstance(owner, Live):
        return live_method(lo, owner, name, args, kwargs)
    if isinstance(owner, Sym) and owner.pytype in (list, dict):
        return real_method(lo, owner, name, args)
    if isinstance(owner, (Known, Sym, TupleV)) and is_plain(owner):
        return host_method(lo, owner, name, args, kwargs)
    raise lo.refuse_call(codes.METHOD, f"method {name}")


# ---- tensors


def tensor_method(lo: Lowering, owner: Sym, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if name == "requires_grad_" and not kwargs:
        return require_gradient(lo, owner, args)
    if name == "backward":
        return call_backward(lo, owner, args, kwargs)
    if name in torch_table.HOST_METHODS or not torch_table.is_tensor_method(name):
        raise lo.refuse_call(codes.METHOD, f"Tensor.{name}")
    operands = [owner, *args]
    for value in [*args, *kwargs.values()]:
        if isinstance(value, Live) and type(value.sample) not in (list, tuple):
            raise lo.refuse_call(codes.OPAQUE_CALL, f"{name} gets an object of class {type(value.sample).__qualname__}")
    if name in ("item", "tolist"):
        return value_of(lo, owner, name)
    if name == "size" and not kwargs:
        return size(lo, owner, args)
    if name == "dim" and not args:
        return emit(lo, ops.ATTRIBUTE, "ndim", (owner.value,), owner.sample.ndim, stable=True)
    method = getattr(torch.Tensor, name)
    operands, kwargs = settle_kind(lo, method, operands, kwargs)
    written = torch_table.written_arguments(method, name, tuple(operands), kwargs, lambda flag: flag_truth(lo, flag))
    sample = sample_call(lo, lambda *a, **k: getattr(a[0], name)(*a[1:], **k), name, operands, kwargs)
    if sample is UNKNOWN:
        sample = profiled_sample(lo)
    op: Op = ops.METHOD_RANDOM if torch_table.is_random(name, kwargs) else ops.METHOD
    if written:
        op = ops.METHOD_WRITE
        protect_all(lo, written, operands)
    return node(lo, op, name, name, operands, kwargs, sample, written)


def value_of(lo: Lowering, owner: Sym, name: str) -> Any:
    """``item`` and ``tolist``: the data leave the tensor; nothing is known of them but their type."""
    sample: Any = UNKNOWN
    if name == "item" and isinstance(owner.sample, torch.Tensor):
        dtype = owner.sample.dtype
        sample = True if dtype == torch.bool else 1.0 if dtype.is_floating_point else 1
    if name == "item" and isinstance(owner.sample, torch.Tensor) and owner.sample.dtype.is_complex:
        sample = 1j
    result = emit(lo, ops.METHOD, name, (owner.value,), UNKNOWN)
    if name == "tolist":
        typed = typed_item(lo, result.value, Sym(result.value, UNKNOWN, pytype=list))
        return Sym(result.value, UNKNOWN, fresh=True, pytype=typed.pytype)
    if sample is UNKNOWN:
        return Sym(result.value, plain=True)
    return typed_item(lo, result.value, sym(result.value, sample))  # which type it is, no guard on the tensor says


def size(lo: Lowering, owner: Sym, args: list[Any]) -> Any:
    shape = emit(lo, ops.ATTRIBUTE, "shape", (owner.value,), owner.sample.shape, stable=lo.loop_depth == 0)
    return get_item(lo, shape, args[0]) if args else shape


# ---- containers made inside the call


def list_method(lo: Lowering, owner: ListV, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    refuse_cycle(lo, owner, args)
    if owner.real is not None:
        return real_method(lo, owner.real, name, args, owner)
    if name == "append" and len(args) == 1:
        owner.items.append(args[0])
        return Known(None)
    if name == "extend" and len(args) == 1:
        extend_list(lo, owner, args[0])
        return Known(None)
    if name == "pop" and owner.items and all(isinstance(a, Known) for a in args):
        try:
            return owner.items.pop(*(a.value for a in args))
        except (IndexError, TypeError) as error:
            raise lo.refuse(codes.RAISES, f"{type(error).__name__}: {error}") from None
    if name == "insert" and len(args) == 2 and isinstance(args[0], Known) and type(args[0].value) is int:
        owner.items.insert(args[0].value, args[1])
        return Known(None)
    if name == "reverse" and not args:
        owner.items.reverse()
        return Known(None)
    if name == "copy" and not args:
        return ListV(list(owner.items))
    return real_method(lo, real_of(lo, owner), name, args, owner)


def dict_method(lo: Lowering, owner: DictV, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    refuse_cycle(lo, owner, [*args, *kwargs.values()])
    if owner.real is None:
        if name in _VIEWS and not args:
            return views(owner, name, [Known(k) for k in owner.items], list(owner.items.values()))
        if name == "get" and args and isinstance(args[0], Known):
            return owner.items.get(literal_key(lo, args[0]), args[1] if len(args) > 1 else Known(None))
        if name == "update" and not args:
            owner.items.update(kwargs)
            return Known(None)
    if kwargs:
        raise lo.refuse_call(codes.METHOD, f"{name} with keyword arguments")
    return real_method(lo, real_of(lo, owner), name, args, owner)


def real_method(lo: Lowering, owner: Sym, name: str, args: list[Any], holder: Any = None) -> Any:
    """A method of a run-time list or dict."""
    writes = _LIST_WRITES if owner.pytype is list else _DICT_WRITES
    if owner.pytype is dict and args and name in ("get", "pop", "setdefault"):
        check_key(lo, args[0])
    operands = (owner.value, *(escape(lo, a) for a in args))
    if name in writes:
        change(lo, owner, name)
        sample = owner.element.sample if name == "pop" and isinstance(owner.element, Sym) else UNKNOWN
        result = emit(lo, ops.METHOD_WRITE, name, operands, sample)
        if name == "append" and owner.element is None and holder is not None and isinstance(args[0], Sym):
            holder.real = Sym(owner.value, UNKNOWN, fresh=owner.fresh, pytype=owner.pytype, element=args[0])
        if name in ("append", "extend", "insert", "clear", "reverse", "remove", "update"):
            return Known(None)
        return typed_item(lo, result.value, owner.element) if name == "pop" else result
    if name in _READS:
        result = emit(lo, ops.METHOD_READ, name, operands, UNKNOWN)
        return replace(result, element=_view_element(result.value, name, owner)) if name in _VIEWS else result
    raise lo.refuse_call(codes.METHOD, f"method {name} of a {owner.pytype.__name__ if owner.pytype else 'value'}")


def _view_element(value: Any, name: str, owner: Sym) -> Any:
    """What a view of a run-time dict gives, where something is known of its values; keys are most often text."""
    key = sym(value, "")
    return {"keys": key, "values": owner.element, "items": owner.element and TupleV((key, owner.element))}[name]


# ---- objects that existed before


def live_method(lo: Lowering, owner: Live, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    from janusc.lowering.iterate import keys_site, live_dict_items, module_children

    sample = owner.sample
    if issubclass(type(sample), (torch.nn.ModuleDict, torch.nn.Sequential)) and name in _VIEWS:
        labels, children = module_children(lo, owner)
        return views(owner, name, [Known(n) for n in labels], children)
    if type(sample) is dict and name in _VIEWS and not args and keys_vary(lo, sample, keys_site(lo)):
        return varying_view(lo, owner, name)
    if type(sample) is dict and name in _VIEWS and not is_mutated(lo, owner):
        items = live_dict_items(lo, owner)
        return views(owner, name, [Known(k) for k in items], list(items.values()))
    note_read(lo, ("content", id(sample), ""), owner)
    refuse_deciding_keys(lo, owner)
    if isinstance(sample, (list, tuple)) and name in ("index", "count", "remove") and not compares_plainly(owner):
        raise lo.refuse_call(codes.METHOD, f"{name} among objects that decide what they are equal to")
    if type(sample) is dict and name == "get" and args and isinstance(args[0], Known) and not is_mutated(lo, owner):
        return live_get(lo, owner, args)
    if type(sample) is set and name in METHODS[set].writes | METHODS[set].reads:
        if name in METHODS[set].writes:
            write_container(lo, owner, method=name)
        saved = Sym(owner.value, fresh=name in METHODS[set].writes, pytype=set)
        return container_method(lo, saved, name, args, {})
    writes = _LIST_WRITES if type(sample) is list else _DICT_WRITES if type(sample) is dict else frozenset()
    if name in writes:
        operands = tuple(escape(lo, a) for a in args)
        write_container(lo, owner, args[0] if name in ("pop", "setdefault") and args else None, name)
        result = emit(lo, ops.METHOD_WRITE, name, (owner.value, *operands), UNKNOWN)
        return Known(None) if name not in ("pop", "setdefault") else result
    if name in _READS and type(sample) in (list, dict, tuple):
        return emit(lo, ops.METHOD_READ, name, (owner.value, *(escape(lo, a) for a in args)), UNKNOWN)
    raise lo.refuse_call(codes.METHOD, f"method {name} of a {type(sample).__qualname__}")


def keys_vary(lo: Lowering, sample: dict[Any, Any], site: str) -> bool:
    """Whether a dict has other keys from call to call; one of modules or functions is taken to differ by its owner."""
    return lo.profile.is_refuted(site) or (
        site in lo.of_any_keys and all(type(value) in KINDS for value in sample.values())
    )


def varying_view(lo: Lowering, owner: Live, name: str) -> Any:
    """A view of an existing dict whose keys vary from call to call: taken at run time, of values like those at hand."""
    sample = owner.sample
    note_read(lo, ("content", id(sample), ""), owner)
    refuse_deciding_keys(lo, owner)
    result = emit(lo, ops.METHOD_READ, name, (owner.value,), UNKNOWN)
    value, samples = several_of(result.value, list(sample.values()))
    if len(samples) > 1:
        lo.worlds.note(result.value, dict(enumerate(samples)))  # for the items; of the view itself nothing is asked
    key = sym(result.value, next(iter(sample), ""))
    element = {"keys": key, "values": value, "items": TupleV((key, value))}[name]
    return replace(result, element=element)


def live_get(lo: Lowering, owner: Live, args: list[Any]) -> Any:
    from janusc.lowering.lower_state import check_once

    key = args[0].value
    literal_key(lo, args[0])
    if key in owner.sample:
        return get_item(lo, owner, args[0])
    check_once(lo, "absent", (owner.value, arg(lo, args[0])), f"key {key!r}")
    return args[1] if len(args) > 1 else Known(None)


def views(owner: Any, name: str, keys: list[Any], values: list[Any]) -> IterableV:
    """A view of a dict as it is now; one that is kept would have to follow its changes."""
    pairs = {"keys": keys, "values": values, "items": [TupleV(pair) for pair in zip(keys, values)]}
    return IterableV("view", (TupleV(tuple(pairs[name])), owner))


# ---- host values


def host_method(lo: Lowering, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method of a number, text or size: computed now on known values, else a node."""
    if isinstance(owner, TupleV) or kwargs:
        raise lo.refuse_call(codes.METHOD, f"method {name}")
    if name == "join":
        args = [a.operands[0] if isinstance(a, IterableV) and a.kind == "view" else a for a in args]
    if isinstance(owner, Known) and all(isinstance(a, Known) for a in args):
        try:
            result = getattr(owner.value, name)(*(a.value for a in args))
        except Exception as error:
            raise lo.refuse(codes.RAISES, f"{type(error).__name__} at conversion") from None
        if type(result) in HOST_VALUES:
            return Known(result)
        if type(result) in (tuple, list):
            items = [Known(x) for x in result]
            return ListV(items) if type(result) is list else TupleV(tuple(items))
        raise lo.refuse_call(codes.METHOD, f"method {name}")
    if name == "numel" and isinstance(owner, Sym) and isinstance(owner.sample, torch.Size):
        return emit(lo, ops.METHOD, name, (owner.value,), owner.sample.numel(), stable=owner.stable)
    try:
        sample = getattr(sample_of(owner), name)(*(sample_of(a) for a in args))
    except Exception:  # a sample that the method does not take: only the kind of the result is missing
        sample = UNKNOWN
    if name in ("join",) and args and not is_plain(args[0]):
        sample = ""
    stable = is_stable(owner, *args) and not isinstance(sample, torch.Tensor)
    return emit(lo, ops.METHOD, name, tuple(arg(lo, v) for v in (owner, *args)), sample, stable=stable)
