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
    BoundV,
    DictV,
    FunctionV,
    IterableV,
    Known,
    ListV,
    Live,
    PartsV,
    Sym,
    TupleV,
)
from janusc.lowering.classes import (
    MISSING,
    check_lacks,
    class_lookup,
    has_plain_class,
    is_module_getattr,
    overrides,
    special_method,
)
from janusc.lowering.inert import is_inert
from janusc.lowering.iterate import live_sequence, module_children, parameter_items, static_items
from janusc.lowering.lower_expr import _check_formattable
from janusc.lowering.lower_operator import binary, computed, is_mutated, refuse_raising
from janusc.lowering.lower_state import note_read
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import HOST_VALUES, arg, emit, is_plain, is_stable, sample_of
from janusc.lowering.store import own_dict, place_of
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
    from janusc.lowering.comprehension import consume
    from janusc.lowering.lower_call import call_super

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
    if function is sum:
        return summed(lo, args, kwargs)
    if function in (min, max) and len(args) == 1 and not kwargs:
        items = static_items(lo, args[0])
        if items:
            args = items
            if len(args) == 1:
                return args[0]
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
    stable = is_stable(*args, *kwargs.values()) and type(sample) in HOST_VALUES and lo.loop_depth == 0
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
    items = static_items(lo, args[0])
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
        return emit(lo, ops.BUILTIN_READ, "len", (value.real.value,), UNKNOWN)
    if isinstance(value, Sym):
        if value.is_tensor:
            shape = emit(lo, ops.ATTRIBUTE, "shape", (value.value,), value.sample.shape, stable=lo.loop_depth == 0)
            return computed(lo, "getitem", shape, Known(0))
        sample = len(value.sample) if isinstance(value.sample, (str, tuple, list)) else UNKNOWN
        op = ops.BUILTIN if is_plain(value) else ops.BUILTIN_READ
        sample = 1 if sample is UNKNOWN and value.pytype in (list, tuple, dict, set) else sample
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
            return emit(lo, ops.BUILTIN_READ, "len", (value.value,), UNKNOWN)
        memo = (value.value, "len", "")
        if memo not in lo.memo:
            read = lo.builder.guard(ops.BUILTIN_READ, "len", (value.value,), _INT, lo.span())
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


_INT = HostType("int")


@builtin(isinstance)
def lower_isinstance(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    value, classes = args
    if isinstance(classes, TupleV):
        classes = Known(tuple(c.value if isinstance(c, Known) else None for c in classes.items))
    if not isinstance(classes, Known) or classes.value is None:
        raise lo.refuse_call(codes.OPAQUE_CALL, "isinstance with classes that vary")
    pytype = exact_type(value)
    if pytype is None:
        result = emit(lo, ops.BUILTIN, "isinstance", (arg(lo, value), arg(lo, classes)), False)
        return note_isinstance(lo, result, value, classes.value)
    wanted = classes.value if isinstance(classes.value, tuple) else (classes.value,)
    if all(isinstance(c, type) for c in wanted) and all(map(decides_plainly, wanted)) and _says_its_class(value):
        if pytype is torch.Tensor and torch.nn.Parameter in wanted:  # a tensor can be marked as one
            return emit(lo, ops.BUILTIN, "isinstance", (arg(lo, value), arg(lo, classes)), False)
        return Known(any(_is_instance(lo, pytype, c) for c in wanted))
    raise lo.refuse_call(codes.OPAQUE_CALL, "isinstance of a class that decides itself")


_TENSOR_CLASSES = (torch.Tensor, torch.nn.Parameter)


def note_isinstance(lo: Lowering, result: Sym, value: Any, classes: Any) -> Sym:
    """The outcomes for the examples of the value."""
    wanted = classes if isinstance(classes, tuple) else (classes,)
    if all(isinstance(c, type) for c in wanted) and all(map(decides_plainly, wanted)):
        found = {w: e for w, e in examples.of(lo, value).items() if has_plain_class(e)}
        lo.worlds.note(result.value, {w: issubclass(type(e), wanted) for w, e in found.items()})
    return result


def decides_plainly(cls: type) -> bool:
    """Whether ``isinstance`` asks nobody: no metaclass of the user's has a say."""
    if cls in _TENSOR_CLASSES or cls.__module__ in ("collections.abc", "numbers"):
        return True
    return not overrides(type(cls), "__instancecheck__", type) and not overrides(type(cls), "__subclasscheck__", type)


def _says_its_class(value: Any) -> bool:
    return has_plain_class(value.sample if isinstance(value, Live) else getattr(value, "value", None))


def _is_instance(lo: Lowering, pytype: type, cls: type) -> bool:
    """The answer for a plain class, guarded where the bases of the user's own class give it."""
    answer = issubclass(pytype, cls)
    if pytype is not cls and not callees.is_fixed_class(pytype):
        memo = (id(pytype), "subclass", id(cls))
        if memo not in lo.memo:
            lo.memo[memo] = True
            refs = lo.builder.ref(pytype), lo.builder.ref(cls)
            found = lo.builder.guard(ops.BUILTIN_READ, "issubclass", refs, HostType("bool"), lo.span())
            lo.check("true" if answer else "false", (found,), f"the bases of {pytype.__qualname__}", lo.span())
    return answer


def exact_type(value: Any) -> type | None:
    """The class of a value where it is certain."""
    if isinstance(value, Known):
        return type(value.value)
    if isinstance(value, Sym):
        return None if value.maybe_unbound else value.pytype
    if isinstance(value, Live):
        return type(value.sample)
    if isinstance(value, (TupleV, ListV, DictV)):
        return {TupleV: tuple, ListV: list, DictV: dict}[type(value)]
    return pytypes.FunctionType if isinstance(value, FunctionV) else None


@builtin(type)
def lower_type(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    pytype = exact_type(args[0]) if len(args) == 1 else None
    if pytype is None:
        raise lo.refuse_call(codes.OPAQUE_CALL, "type of a value that varies")
    return Known(pytype)


@builtin(callable)
def lower_callable(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if isinstance(args[0], (FunctionV, BoundV)):
        return Known(True)
    pytype = exact_type(args[0])
    if pytype is None:
        raise lo.refuse_call(codes.OPAQUE_CALL, "callable of a value that varies")
    if isinstance(args[0], Known):
        return Known(callable(args[0].value))
    found = class_lookup(pytype, "__call__") is not MISSING
    if not found:
        check_lacks(lo, pytype, "__call__")
    return Known(found)


@builtin(getattr)
def lower_getattr(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    from janusc.lowering.branch import concretise
    from janusc.lowering.lower_attr import get_attribute
    from janusc.lowering.lowering import Unconvertible

    if isinstance(args[1], Sym):
        args = [args[0], concretise(lo, args[1]), *args[2:]]
    if not (isinstance(args[1], Known) and isinstance(args[1].value, str)):
        raise lo.refuse_call(codes.OPAQUE_CALL, "getattr with a name that varies")
    if len(args) == 2:
        return get_attribute(lo, args[0], args[1].value)
    if isinstance(args[0], Live) and not has_statically(lo, args[0], args[1].value):
        present = lower_hasattr(lo, args[:2], {})
        if isinstance(present, Known):  # written in this transaction
            return get_attribute(lo, args[0], args[1].value)
        lo.check("false", (present.value,), f"{args[1].value} is missing", lo.span())
        return args[2]
    try:
        return get_attribute(lo, args[0], args[1].value)
    except Unconvertible:
        raise lo.refuse_call(codes.OPAQUE_CALL, f"getattr of {args[1].value} with a default") from None


def has_statically(lo: Lowering, owner: Live, name: str) -> bool:
    """Whether an object has an attribute, found without running anything; objects that decide it are refused."""
    sample, cls = owner.sample, type(owner.sample)
    found, dynamic = class_lookup(cls, name), class_lookup(cls, "__getattr__")
    plain = dynamic is MISSING or is_module_getattr(dynamic)
    own = own_dict(sample) or {}
    runs = hasattr(type(found), "__get__") and not isinstance(found, (pytypes.FunctionType, staticmethod, classmethod))
    if not plain or runs or overrides(cls, "__getattribute__", object) or not hasattr(cls, "__dict__"):
        raise lo.refuse_call(codes.OPAQUE_CALL, "an object that decides itself what it has")
    check_lacks(lo, cls, "__getattribute__", *(() if dynamic is not MISSING else ("__getattr__",)))
    if issubclass(type(sample), torch.nn.Module) and any(
        name in own[t] for t in ("_parameters", "_buffers", "_modules")
    ):
        return True
    return found is not MISSING or name in own


def _sequence(cls: type) -> Callable[[Lowering, list[Any], dict[str, Any]], Any]:
    def lower(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not args:
            return TupleV(()) if cls is tuple else ListV([])
        if isinstance(args[0], Live) and is_mutated(lo, args[0]):
            copy = emit(lo, ops.BUILTIN_READ, cls.__name__, (arg(lo, args[0]),), UNKNOWN)
            return Sym(copy.value, fresh=True, pytype=cls)
        if isinstance(args[0], Live) and type(args[0].sample) in (list, tuple) and len(args[0].sample) <= 64:
            items: list[Any] | None = live_sequence(lo, args[0])
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
        from janusc.lowering.iterate import item_sample

        element = item_sample(lo, args[0])
        return Sym(result.value, UNKNOWN, fresh=True, pytype=cls, element=element if isinstance(element, Sym) else None)

    return lower


@builtin(sorted)
def lower_sorted(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    items = static_items(lo, args[0]) if len(args) == 1 else None
    if items is None or not all(isinstance(x, Known) and is_inert(x.value) for x in [*items, *kwargs.values()]):
        raise lo.refuse_call(codes.OPAQUE_CALL, "sorted of values that vary")
    key = kwargs.get("key", Known(None)).value
    if key is not None and not isinstance(key, pytypes.BuiltinFunctionType) and key not in (int, str, float):
        raise lo.refuse_call(codes.OPAQUE_CALL, "sorted by a class")
    try:
        result = sorted((x.value for x in items), **{k: v.value for k, v in kwargs.items()})
    except Exception as error:
        raise lo.refuse(codes.RAISES, f"{type(error).__name__} at conversion") from None
    return ListV([Known(x) for x in result])


@builtin(hasattr)
def lower_hasattr(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Asked at run time, in the guards; own writes count."""
    owner, name = args
    if not (isinstance(owner, Live) and isinstance(name, Known) and isinstance(name.value, str)):
        raise lo.refuse_call(codes.OPAQUE_CALL, "hasattr of something else than an object and a fixed name")
    slot = ("attr", place_of(owner.sample), name.value)
    note_read(lo, slot, owner)
    if slot in lo.store:
        return Known(True)
    sample = has_statically(lo, owner, name.value)
    memo = (owner.value, "hasattr", name.value)
    if memo not in lo.memo:
        args = [owner.value, arg(lo, name)]
        answer = lo.builder.guard(ops.BUILTIN_READ, "hasattr", tuple(args), HostType("bool"), lo.span())
        lo.memo[memo] = Sym(answer, sample, stable=True, pytype=bool)
    return lo.memo[memo]


@builtin(dict)
def lower_dict(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    from janusc.lowering.lower_expr import static_dict

    items: dict[Any, Any] = dict(static_dict(lo, args[0])) if args else {}
    items.update(kwargs)
    return DictV(items)


def _quantifier(positive: bool) -> Callable[[Lowering, list[Any], dict[str, Any]], Any]:
    def lower(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
        from janusc.lowering.branch import truth

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
