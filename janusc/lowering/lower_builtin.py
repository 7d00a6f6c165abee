"""Builtin functions and classes: computed on known values, nodes on run-time ones, opaque where they run user code."""

from __future__ import annotations

import math
import types as pytypes
from collections.abc import Callable
from typing import Any

import gast
import torch

from janusc.lowering import codes, examples, ops
from janusc.lowering.abstract import (
    UNKNOWN,
    DictV,
    IterableV,
    Known,
    ListV,
    Live,
    MethodV,
    PartsV,
    Sym,
    TupleV,
)
from janusc.lowering.classes import (
    special_method,
)
from janusc.lowering.containers import KINDS, MAPPINGS
from janusc.lowering.inert import is_inert
from janusc.lowering.iterate import item_sample, live_sequence, module_children, parameter_items, static_items, varies
from janusc.lowering.lower_expr import _check_formattable
from janusc.lowering.lower_operator import binary, computed, is_mutated, refuse_raising
from janusc.lowering.lower_state import note_read
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import HOST_VALUES, aged, arg, emit, exact_type, is_plain, is_stable, sample_of
from janusc.lowering.order import foremost_item, sorted_items
from janusc.lowering.truth import guess, truth
from janusc.ordering import PLAIN_QUERY
from janusc.registry import Registry
from janusc.typeinfer import callees, torch_table, transfer
from janusc.types import HostType

BUILTINS: Registry[Any, Callable[[Lowering, list[Any], dict[str, Any]], Any]] = Registry("builtins")
# fmt: off
_PURE = (
    int, float, bool, complex, str, abs, round, min, max, sum, pow, divmod, repr, ord, chr, hex, bin, slice,
    math.sqrt, math.log, math.exp, math.ceil, math.floor, math.prod, math.isnan, math.isinf, math.cos, math.sin,
    math.log2,
)
# fmt: on


def builtin(*functions: Any) -> Callable[[Any], Any]:
    def register(handler: Any) -> Any:
        for f in functions:
            BUILTINS.register(f, handler)
        return handler

    return register


def call_special(lo: Lowering, function: Any, node: Any) -> Any:
    """Calls whose arguments are not simply evaluated: ``super`` written out, consumers of a generator expression."""
    from janusc.lowering.comprehension import consume, take_in
    from janusc.lowering.lower_call import call_super

    if isinstance(function, MethodV) and len(node.args) == 1 and isinstance(node.args[0], gast.GeneratorExp):
        return None if node.keywords else take_in(lo, function, node.args[0])
    if not isinstance(function, Known):
        return None
    if function.value is super and len(node.args) == 2:
        return call_super(lo, node)
    if len(node.args) >= 1 and isinstance(node.args[0], gast.GeneratorExp):
        return consume(lo, function.value, node)
    return None


def call_known(lo: Lowering, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A builtin, class or library function that is no torch function."""
    from janusc.lowering.lower_call import call_function

    if isinstance(function, Callable) and lo.is_opaque(function):  # type: ignore[arg-type]
        raise lo.refuse_call(codes.OPAQUE_CALL, f"{callees.describe(function)} is marked opaque")
    if any(function is f for f in torch_table.NEVER_TRACED):
        return Known(False)
    try:
        handler = BUILTINS.get(function)
    except TypeError:
        handler = None
    if handler is not None:
        return handler(lo, args, kwargs)
    if isinstance(function, pytypes.FunctionType) and lo.frame.is_library:
        if function.__name__.startswith("has_torch_function"):
            return Known(False)
        return call_function(lo, Live(None, function, fixed=True), args, kwargs)  # type: ignore[arg-type]
    if getattr(function, "__name__", "").startswith("has_torch_function"):
        return Known(False)
    if any(function is f for f in _PURE):
        return pure(lo, function, args, kwargs)
    if isinstance(function, type):
        from janusc.lowering.lower_instance import is_made_here, make_instance

        if is_made_here(function):
            return make_instance(lo, function, args, kwargs)
    raise lo.refuse_call(codes.OPAQUE_CALL, f"a call of {callees.describe(function)}")


def pure(lo: Lowering, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A builtin without effects: folded on known values, else a node."""
    if all(isinstance(a, Known) for a in [*args, *kwargs.values()]):
        if not all(is_inert(a.value) for a in [*args, *kwargs.values()]):
            raise lo.refuse_call(codes.OPAQUE_CALL, f"{function.__name__} of an object")
        try:
            return Known(function(*(a.value for a in args), **{k: a.value for k, a in kwargs.items()}))
        except Exception as error:
            raise lo.refuse(codes.RAISES, f"{type(error).__name__} at conversion") from None
    if function is bool and lo.frame.is_library and args:
        known = guess(lo, args[0])
        if isinstance(known, Known):
            return known
    if function is sum:
        return summed(lo, args, kwargs)
    if function in (min, max) and len(args) == 1 and kwargs:
        return foremost_item(lo, function is max, args[0], kwargs)
    if function in (min, max) and len(args) == 1:
        items = static_items(lo, args[0])
        if items:
            args = items
            if len(args) == 1:
                return args[0]
        elif exact_type(args[0]) in KINDS and isinstance(args[0], Sym) and not kwargs:
            check_plain_items(lo, args[0], function)
            return Sym(emit(lo, ops.BUILTIN_READ, function.__name__, (arg(lo, args[0]),), UNKNOWN).value, plain=True)
    for a in [*args, *kwargs.values()]:
        if not (is_plain(a) or isinstance(a, (ListV, DictV)) or (isinstance(a, Sym) and a.pytype in (list, dict))):
            raise lo.refuse_call(codes.OPAQUE_CALL, f"{function.__name__} of an object")
    if function in (str, repr):
        for a in args:
            _check_formattable(lo, a)
    return host_node(lo, function, args, kwargs)


def host_node(lo: Lowering, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A builtin at run time, with the builtin's own result on the samples as sample."""
    sample = builtin_sample(lo, function, args, kwargs)
    stable = is_stable(*args, *kwargs.values()) and type(sample) in HOST_VALUES
    op = ops.BUILTIN if all(is_plain(a) for a in [*args, *kwargs.values()]) else ops.BUILTIN_READ
    target = function.__name__ if function.__module__ == "builtins" else f"{function.__module__}.{function.__name__}"
    named = tuple((k, arg(lo, v)) for k, v in kwargs.items())
    result = emit(lo, op, target, tuple(arg(lo, a) for a in args), sample, kwargs=named, stable=stable)
    if function in (min, max, pow, round, abs, sum):  # the type of the result depends on values
        return Sym(result.value, sample, stable=stable, plain=op is ops.BUILTIN)
    return result


_CONVERSIONS = {int: 1, float: 1.0, bool: True, str: "", complex: 1j, repr: ""}


def builtin_sample(lo: Lowering, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        samples = [sample_of(a) for a in args]
        if function in _CONVERSIONS and any(isinstance(s, torch.Tensor) for s in samples):
            if any(isinstance(s, torch.Tensor) and s.requires_grad for s in samples):
                # torch warns at the user's line, which emitted code would not name
                raise lo.refuse_call(codes.OPAQUE_CALL, f"{function.__name__} of a tensor that requires grad")
            return _CONVERSIONS[function]
        return transfer.apply(function, tuple(samples), {k: sample_of(v) for k, v in kwargs.items()}, lo.grad)
    except transfer.NoSample as error:
        refuse_raising(lo, error, *args, *kwargs.values())
        return _CONVERSIONS.get(function, UNKNOWN)


def summed(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``sum``: the same additions in the same order."""
    start = args[1] if len(args) > 1 else kwargs.get("start", Known(0))
    items = static_items(lo, args[0], lo.node)
    if items is None and (isinstance(args[0], Live) or exact_type(args[0]) in KINDS):
        return summed_at_run_time(lo, args[0], start)
    if items is None:
        if not isinstance(args[0], (Sym, ListV)):
            raise lo.refuse_call(codes.OPAQUE_CALL, "sum of an object")
        element = args[0].element if isinstance(args[0], Sym) else args[0].real and args[0].real.element
        sample = element.sample if isinstance(element, Sym) else UNKNOWN
        if isinstance(args[0], Sym) and args[0].is_tensor:
            raise lo.refuse_call(codes.OPAQUE_CALL, "sum over a tensor")
        return emit(lo, ops.BUILTIN_READ, "sum", (arg(lo, args[0]), arg(lo, start)), sample)
    if not _adds_exactly([start, *items]):
        return host_node(lo, sum, [TupleV(tuple(items)), start], {})
    total = start
    for item in items:
        total = binary(lo, "add", total, item)
    return total


def summed_at_run_time(lo: Lowering, items: Live | Sym, start: Any) -> Any:
    """The sum of an existing list of any length: of numbers and tensors, or it is for Python to make."""
    if not is_plain(start):
        raise lo.refuse_call(codes.OPAQUE_CALL, "sum of objects")
    check_plain_items(lo, items, sum)
    total = emit(lo, ops.BUILTIN_READ, "sum", (items.value, arg(lo, start)), UNKNOWN)
    return Sym(total.value, UNKNOWN, plain=True)


def check_plain_items(lo: Lowering, items: Live | Sym, function: Any) -> None:
    """What a container holds are numbers, text and tensors, whose operators are nobody's own."""
    if isinstance(items, Live):
        note_read(lo, ("content", id(items.sample), ""), items)
    site = lo.site(lo.node, "items")
    if lo.profile.is_refuted(site):
        raise lo.refuse_call(codes.OPAQUE_CALL, f"{function.__name__} of objects")
    plain = emit(lo, ops.BUILTIN_READ, PLAIN_QUERY, (items.value,), True)
    lo.check("true", (plain.value,), site, lo.span())


def _adds_exactly(items: list[Any]) -> bool:
    """Whether ``sum`` adds these one by one: floats before the first tensor are summed with compensation since 3.12."""
    for item in items:
        if isinstance(item, Sym) and item.is_tensor:
            return True
        if exact_type(item) not in (int, bool):
            return False
    return True


@builtin(len)
def lower_len(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    (value,) = args
    return length(lo, value)


def length(lo: Lowering, value: Any) -> Any:
    if isinstance(value, IterableV) and value.kind == "view":
        value = value.operands[0]
    if isinstance(value, Known) and is_inert(value.value):
        try:
            return Known(len(value.value))
        except TypeError:
            raise lo.refuse(codes.RAISES, "TypeError: this has no len()") from None
    if isinstance(value, (TupleV, ListV, DictV, PartsV)) and getattr(value, "real", None) is None:
        return Known(len(value.items))
    if isinstance(value, (ListV, DictV)) and value.real is not None:
        return emit(lo, ops.BUILTIN_READ, "len", (value.real.value,), 1)
    if isinstance(value, Sym):
        if value.is_tensor:
            shape = emit(lo, ops.ATTRIBUTE, "shape", (value.value,), value.sample.shape, stable=lo.loop_depth == 0)
            return computed(lo, "getitem", shape, Known(0))
        sample = len(value.sample) if isinstance(value.sample, (str, tuple, list)) else UNKNOWN
        op = ops.BUILTIN if is_plain(value) else ops.BUILTIN_READ
        sample = 1 if sample is UNKNOWN and value.pytype in (list, tuple, dict, *KINDS) else sample
        return examples.derive(lo, emit(lo, op, "len", (value.value,), sample, stable=value.stable), len, value)
    if isinstance(value, Live):
        return live_length(lo, value)
    raise lo.refuse_call(codes.OPAQUE_CALL, "len of an object")


def live_length(lo: Lowering, value: Live) -> Any:
    sample = value.sample
    if type(sample) in (list, tuple, dict, set):
        note_read(lo, ("content", id(sample), ""), value)
        mutated = is_mutated(lo, value)
        if mutated:
            return emit(lo, ops.BUILTIN_READ, "len", (value.value,), 1)
        memo = (value.value, "len", "")
        if memo not in lo.memo:
            read = lo.builder.guard(ops.BUILTIN_READ, "len", (value.value,), HostType("int"), lo.span())
            lo.memo[memo] = Sym(read, len(sample), stable=True, pytype=int)
        return lo.memo[memo]
    if type(sample) is torch.nn.ParameterList:
        return Known(len(parameter_items(lo, value)))
    if type(sample) in (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict):
        return Known(len(module_children(lo, value)[0]))
    method = special_method(lo, value, "__len__")
    if method is not None:
        from janusc.lowering.lower_call import call

        return call(lo, method, [], {})
    raise lo.refuse_call(codes.OPAQUE_CALL, f"len of a {type(sample).__qualname__}")


def _iterable(kind: str) -> Callable[[Lowering, list[Any], dict[str, Any]], Any]:
    def lower(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
        operands = [*args, *kwargs.values()]
        if kwargs and not (kind == "enumerate" and set(kwargs) == {"start"}):
            raise lo.refuse_call(codes.OPAQUE_CALL, f"{kind} with keywords")
        if kind == "range" and all(isinstance(a, Known) for a in operands):
            return Known(range(*(a.value for a in operands)))
        return IterableV(kind, tuple(operands))

    return lower


def _sequence(cls: type) -> Callable[[Lowering, list[Any], dict[str, Any]], Any]:
    def lower(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not args:
            return TupleV(()) if cls is tuple else ListV([])
        if isinstance(args[0], Live) and is_mutated(lo, args[0]):
            copy = emit(lo, ops.BUILTIN_READ, cls.__name__, (arg(lo, args[0]),), UNKNOWN)
            return Sym(copy.value, fresh=True, pytype=cls)
        several = isinstance(args[0], Live) and varies(lo, args[0], lo.site(lo.node, "length"), objects=True)
        if several:
            items: list[Any] | None = None
        elif isinstance(args[0], Live) and type(args[0].sample) in (list, tuple) and len(args[0].sample) <= 64:
            items = live_sequence(lo, args[0])
        else:
            items = static_items(lo, args[0])
        if items is not None:
            return TupleV(tuple(items)) if cls is tuple else ListV(items)
        sample: Any = (
            sample_of(args[0]) if isinstance(args[0], Sym) and isinstance(args[0].sample, (tuple, list)) else UNKNOWN
        )
        result = emit(lo, ops.BUILTIN_READ, cls.__name__, (arg(lo, args[0]),), UNKNOWN)
        if sample is not UNKNOWN and cls is tuple:
            return Sym(result.value, tuple(sample), pytype=tuple)
        element = item_sample(lo, args[0])
        return Sym(result.value, UNKNOWN, fresh=True, pytype=cls, element=element if isinstance(element, Sym) else None)

    return lower


@builtin(sorted)
def lower_sorted(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) != 1:
        raise lo.refuse(codes.RAISES, "TypeError: sorted takes one argument")
    items = static_items(lo, args[0])
    if items is None or not all(isinstance(x, Known) and is_inert(x.value) for x in [*items, *kwargs.values()]):
        return sorted_items(lo, args[0], kwargs)
    key = kwargs.get("key", Known(None)).value
    if key is not None and not isinstance(key, pytypes.BuiltinFunctionType) and key not in (int, str, float):
        raise lo.refuse_call(codes.OPAQUE_CALL, "sorted by a class")
    try:
        result = sorted((x.value for x in items), **{k: v.value for k, v in kwargs.items()})
    except Exception as error:
        raise lo.refuse(codes.RAISES, f"{type(error).__name__} at conversion") from None
    return ListV([Known(x) for x in result])


@builtin(dict)
def lower_dict(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    from janusc.lowering.lower_expr import static_dict

    if len(args) == 1 and not kwargs and not isinstance(args[0], Live) and exact_type(args[0]) in (dict, *MAPPINGS):
        if not isinstance(args[0], DictV) or args[0].real is not None:
            held = getattr(args[0], "real", None) or args[0]
            copied = emit(lo, ops.BUILTIN_READ, "dict", (held.value,), UNKNOWN)
            return Sym(copied.value, UNKNOWN, fresh=True, pytype=dict, element=aged(held.element))
    items: dict[Any, Any] = dict(static_dict(lo, args[0])) if args else {}
    items.update(kwargs)
    return DictV(items)


def _quantifier(positive: bool) -> Callable[[Lowering, list[Any], dict[str, Any]], Any]:
    def lower(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
        items = static_items(lo, args[0])
        if items is None:
            name = "any" if positive else "all"
            return emit(lo, ops.BUILTIN_READ, name, (arg(lo, args[0]),), False)
        unknown: list[Any] = []
        for item in items:
            known = truth(lo, item)
            if known is positive:
                if not unknown:
                    return Known(positive)
            elif not isinstance(known, bool):
                unknown.append(known)
        if not unknown:
            return Known(not positive)
        name = "any" if positive else "all"
        return emit(lo, ops.BUILTIN_READ, name, (arg(lo, TupleV(tuple(items))),), False)

    return lower


@builtin(print)
def lower_print(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Deferred to the commit; the text is made where the print stands."""
    if not set(kwargs) <= {"sep", "end"}:
        raise lo.refuse_call(codes.PRINT, "print to a file, or with a flush")
    if not callees.prints_plainly():
        raise lo.refuse_call(codes.PRINT, "print to a stream of the program's own")
    for value in [*args, *kwargs.values()]:
        _check_formattable(lo, value)
    named = tuple((k, arg(lo, v)) for k, v in kwargs.items())
    lo.builder.emit(ops.PRINT, "", tuple(arg(lo, a) for a in args), named, (), lo.span())
    return Known(None)


for _function in (range, enumerate, zip, reversed):
    BUILTINS.register(_function, _iterable(_function.__name__))
BUILTINS.register(tuple, _sequence(tuple))
BUILTINS.register(list, _sequence(list))
BUILTINS.register(any, _quantifier(True))
BUILTINS.register(all, _quantifier(False))
