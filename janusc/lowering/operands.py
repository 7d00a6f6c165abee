"""Between abstract values and what stands in the graph: arguments, samples, real containers, outside values."""

from __future__ import annotations

import enum
import types as pytypes
from collections import Counter, defaultdict, deque
from dataclasses import replace
from typing import Any

import numpy
import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import (
    UNKNOWN,
    DictV,
    FunctionV,
    IterableV,
    Known,
    ListV,
    Live,
    SliceV,
    Sym,
    TupleV,
)
from janusc.lowering.containers import FACTORIES, is_kind
from janusc.lowering.inert import compares_inertly, is_plain_enum
from janusc.lowering.ir import Arg, Const, Dct, Lst, Op, Slc, Tup, Value
from janusc.lowering.lowering import Lowering
from janusc.typeinfer import callees, torch_table, transfer
from janusc.typeinfer.profile import KINDS
from janusc.types import ANY, LITERALS, HostType, TensorType, Type, type_name, type_of

_TORCH_LITERALS = (torch.dtype, torch.device, torch.layout, torch.memory_format)
SCALARS = (bool, int, float, complex, str, bytes)
ARRAY_SCALARS = frozenset(numpy.dtype(code).type for code in "?bBhHiIlLqQefdFD")  # immutable, and without user code
HOST_VALUES = (*SCALARS, torch.Size, type(None), slice, range)


def is_literal(value: Any) -> bool:
    return type(value) in LITERALS or value is Ellipsis or isinstance(value, _TORCH_LITERALS)


def sample_type(sample: Any) -> Type:
    """The IR type for a sample: its kind only, since nothing guards its sizes."""
    if issubclass(type(sample), torch.Tensor):
        return TensorType()
    return HostType(type_name(type(sample))) if type(sample) in HOST_VALUES else ANY


def declared_type(lo: Lowering, sample: Any, what: str) -> Type:
    """The IR type of what is read from outside by an access path."""
    return ANY if lo.profile.kinds_at(what) else sample_type(sample)


def sym(value: Value, sample: Any, *, stable: bool = False, fresh: bool = False) -> Sym:
    """A run-time value with its sample; the exact Python type is certain where the sample has one."""
    pytype = None if sample is UNKNOWN else type(sample)
    if isinstance(sample, torch.Tensor) and pytype is not torch.nn.Parameter:
        pytype = torch.Tensor
    return Sym(value, sample, stable=stable, fresh=fresh, pytype=pytype, plain=pytype in ARRAY_SCALARS)


def emit(lo: Lowering, op: Op, target: str, args: tuple[Arg, ...], sample: Any, **facts: Any) -> Sym:
    """A node with one output, as an abstract value."""
    kwargs = facts.pop("kwargs", ())
    (value,) = lo.builder.emit(op, target, args, kwargs, (sample_type(sample),), lo.span())
    return sym(value, sample, **facts)


def known_arg(lo: Lowering, value: Any) -> Arg:
    if is_literal(value):
        return Const(value)
    if type(value) is tuple:
        return Tup(tuple(known_arg(lo, v) for v in value))
    if type(value) is slice:  # a new one each time, as in eager
        return Slc(*(known_arg(lo, part) for part in (value.start, value.stop, value.step)))
    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        raise lo.refuse(codes.FIXED_TENSOR, "a tensor or module fixed at conversion would be kept alive by the graph")
    return lo.builder.ref(value, torch_table.torch_name(value))


def arg(lo: Lowering, abstract: Any) -> Arg:
    """An argument of a node. Lists made inside the call are rebuilt: use ``escape`` where identity matters."""
    if isinstance(abstract, Known):
        return known_arg(lo, abstract.value)
    if isinstance(abstract, Sym):
        check_bound(lo, abstract)
        return abstract.value
    if isinstance(abstract, Live):
        return abstract.value
    if isinstance(abstract, TupleV):
        return Tup(tuple(arg(lo, x) for x in abstract.items))
    if isinstance(abstract, ListV):
        return abstract.real.value if abstract.real else Lst(tuple(arg(lo, x) for x in abstract.items))
    if isinstance(abstract, DictV):
        if abstract.real:
            return abstract.real.value
        keys = tuple(known_arg(lo, k) for k in abstract.items)
        return Dct(keys, tuple(arg(lo, x) for x in abstract.items.values()))
    if isinstance(abstract, SliceV):
        return Slc(arg(lo, abstract.lower), arg(lo, abstract.upper), arg(lo, abstract.step))
    if isinstance(abstract, IterableV) and abstract.kind in ("view", "generated"):
        raise lo.refuse(codes.LOOP, "a view of a dict, or what a generator gives, is kept")
    if isinstance(abstract, IterableV):
        args = tuple(escape(lo, x) for x in abstract.operands)
        return lo.builder.one(ops.BUILTIN, abstract.kind, *args, span=lo.span())
    raise lo.refuse(
        codes.FUNCTION_VALUE, "a function or method made inside the call is used as a value", "call it directly"
    )


def check_bound(lo: Lowering, abstract: Sym) -> None:
    if abstract.maybe_unbound:
        site = lo.site(lo.node, "bound") if lo.node is not None else "bound"
        lo.check("bound", (abstract.value,), site, lo.span() if lo.node is not None else None)


def realise(lo: Lowering, abstract: Any) -> Any:
    """Turn a followed list or dict (and those inside it) into a run-time object, once; other values as they are."""
    if isinstance(abstract, TupleV):
        return realise_tuple(lo, abstract)
    if isinstance(abstract, (ListV, DictV)) and abstract.real is None:
        items = abstract.items if isinstance(abstract, ListV) else list(abstract.items.values())
        realised = [realise(lo, x) for x in items]
        template: Arg
        if isinstance(abstract, ListV):
            template = Lst(tuple(arg(lo, x) for x in realised))
        else:
            template = Dct(tuple(known_arg(lo, k) for k in abstract.items), tuple(arg(lo, x) for x in realised))
        (value,) = lo.builder.emit(
            ops.BUILD, "value", (template,), (), (ANY,), lo.span() if lo.node is not None else None
        )
        kind: type = list if isinstance(abstract, ListV) else dict
        element = items[0] if items and isinstance(items[0], Sym) else None
        abstract.real = Sym(value, UNKNOWN, fresh=True, pytype=kind, element=element)
    return abstract


def realise_tuple(lo: Lowering, abstract: TupleV) -> Any:
    """A tuple is one object wherever it goes; one made in a branch or loop is seen from there only."""
    if id(abstract) not in lo.tuples:
        inside = TupleV(tuple(realise(lo, x) for x in abstract.items))
        if not lo.builder.top_level or all(isinstance(x, Known) for x in inside.items):
            return inside
        span = lo.span() if lo.node is not None else None
        (value,) = lo.builder.emit(ops.BUILD, "value", (arg(lo, inside),), (), (ANY,), span)
        lo.tuples[id(abstract)] = abstract, Sym(value, UNKNOWN, pytype=tuple)
    return lo.tuples[id(abstract)][1]


def escape(lo: Lowering, abstract: Any) -> Arg:
    """An argument in which every container is the real object."""
    return arg(lo, realise(lo, abstract))


def sample_of(abstract: Any) -> Any:
    """The sample of an abstract value; NoSample where some part has none."""
    if isinstance(abstract, Known):
        return abstract.value
    if isinstance(abstract, Sym):
        if abstract.sample is UNKNOWN:
            raise transfer.NoSample("no sample")
        return abstract.sample
    if isinstance(abstract, Live):
        return _live_sample(abstract.sample)
    if isinstance(abstract, TupleV):
        return tuple(sample_of(x) for x in abstract.items)
    if isinstance(abstract, ListV) and abstract.real is None:
        return [sample_of(x) for x in abstract.items]
    if isinstance(abstract, ListV) and abstract.real is not None and abstract.real.element is not None:
        return [sample_of(abstract.real.element)] * 2
    if isinstance(abstract, DictV) and abstract.real is None:
        return {k: sample_of(v) for k, v in abstract.items.items()}
    if isinstance(abstract, SliceV):
        return slice(sample_of(abstract.lower), sample_of(abstract.upper), sample_of(abstract.step))
    raise transfer.NoSample(type(abstract).__name__)


def _live_sample(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return transfer.stand_in(value)
    if type(value) in (list, tuple):
        return type(value)(_live_sample(v) for v in value)
    if type(value) is dict:
        return {k: _live_sample(v) for k, v in value.items()}
    return value


def typed_item(lo: Lowering, value: Value, element: Any, part: str = "item") -> Any:
    """An item of a run-time container: of the kind of those seen, under an assert; anything once that was refuted."""
    if isinstance(element, TupleV):
        return typed_tuple(lo, value, element, part)
    if isinstance(element, Sym) and element.pytype is None and element.value in lo.worlds.examples:
        from janusc.lowering.kinds import split

        split(lo, value, list(lo.worlds.examples[element.value].values()))
    if not isinstance(element, Sym) or element.pytype is None:
        return Sym(value)
    site = lo.site(lo.node, part)
    refuted = lo.profile.is_refuted(site)
    mixed = element.is_tensor and (refuted or element.pytype is torch.nn.Parameter)
    site = f"{site}:tensor" if mixed else site
    if mixed and not lo.profile.is_refuted(site):  # parameters and tensors that were computed
        lo.check("tensor", (value,), site, lo.span())
        return Sym(value, element.sample, pytype=torch.Tensor)
    if refuted or mixed:
        return Sym(value, plain=is_plain(element))
    lo.check("type", (value, lo.builder.ref(element.pytype)), site, lo.span())
    return Sym(value, element.sample, pytype=element.pytype, element=element.element)


def typed_tuple(lo: Lowering, value: Value, element: TupleV, part: str) -> Any:
    """The same for a pair of a dict, or any tuple that is known part by part."""
    site = lo.site(lo.node, part)
    if lo.profile.is_refuted(site):
        return Sym(value)
    lo.check("type", (value, lo.builder.ref(tuple)), site, lo.span())
    kinds = tuple(sample_type(getattr(x, "sample", UNKNOWN)) for x in element.items)
    values = lo.builder.emit(ops.UNPACK, "", (value,), (), kinds, lo.span())
    return TupleV(tuple(typed_item(lo, v, x, f"{part}.{i}") for i, (v, x) in enumerate(zip(values, element.items))))


def element_of(abstract: Any) -> Any:
    """An abstract value like the elements of a run-time container, or None."""
    return getattr(abstract, "element", None)


def aged(element: Any) -> Any:
    """What a value is like that may be older than the container it is found in."""
    return replace(element, fresh=False) if isinstance(element, Sym) else element


def is_stable(*abstracts: Any) -> bool:
    """Whether all of these are this call's very values."""
    return all(
        isinstance(a, (Known, Live))
        or (isinstance(a, Sym) and a.stable)
        or (isinstance(a, TupleV) and is_stable(*a.items))
        or (isinstance(a, SliceV) and is_stable(a.lower, a.upper, a.step))
        for a in abstracts
    )


def is_plain(value: Any) -> bool:
    """A tensor or an immutable host value (or a tuple of them): its operators run no user code and read no state."""
    if isinstance(value, Known):
        fixed = value.value
        if isinstance(fixed, enum.Enum):
            return is_number_like(type(fixed))
        return type(fixed) in HOST_VALUES or fixed is ... or isinstance(fixed, (torch.dtype, torch.device))
    if isinstance(value, Sym):
        return (
            value.plain
            or value.is_tensor
            or value.pytype in HOST_VALUES
            or value.pytype in (torch.dtype, torch.device)
            or (value.pytype is not None and is_number_like(value.pytype))
        )
    if isinstance(value, TupleV):
        return all(is_plain(v) for v in value.items)
    return isinstance(value, SliceV)


def is_number_like(cls: type) -> bool:
    """Whether a class is an enumeration whose members are numbers or text, too."""
    return issubclass(cls, enum.Enum) and issubclass(cls, (int, str, float)) and is_plain_enum(cls)


def guard_type(lo: Lowering, value: Value, cls: type, what: str) -> None:
    expected: Arg = Const(None) if cls is type(None) else lo.builder.ref(cls)
    if cls is type(None):
        lo.check("is", (value, expected), what, lo.span())
    else:
        lo.check("type", (value, expected), what, lo.span())


def is_code_like(sample: Any) -> bool:
    kinds = (type, pytypes.ModuleType, pytypes.MethodDescriptorType)
    return (
        issubclass(type(sample), (*kinds, *_TORCH_LITERALS))  # isinstance would ask the object
        or (issubclass(type(sample), enum.Enum) and is_plain_enum(type(sample)))
        or (type(sample) is pytypes.BuiltinFunctionType and isinstance(sample.__self__, (*kinds, type(None))))
        or sample is Ellipsis
        or any(sample is f for f in callees.PYTHON_RANDOM)
        or torch_table.torch_name(sample) is not None
    )


def lift(lo: Lowering, sample: Any, value: Value, what: str) -> Any:
    """The abstract value of what is read from outside, guarded as far as its kind goes; ``what`` is the access path."""
    cls = type(sample)
    if cls in KINDS:
        lo.profile.note_kind(what, cls, type_of(sample, 1))
        if lo.profile.kinds_at(what):
            from janusc.lowering.kinds import several

            return several(lo, sample, value, what)
    if sample is None:
        guard_type(lo, value, cls, what)
        return Known(None)
    if is_code_like(sample):
        kind = "equals" if isinstance(sample, torch.device) else "is"
        lo.check(kind, (value, known_arg(lo, sample)), what, lo.span())
        return Known(sample)
    if cls in (torch.Tensor, torch.nn.Parameter):
        guard_type(lo, value, cls, what)
        if has_history(sample):
            lo.histories.add(value)
        try:
            return Sym(value, transfer.stand_in(sample), pytype=cls)
        except transfer.NoSample:
            raise lo.refuse(codes.TENSOR_KIND, f"{what} is a {sample.layout} tensor") from None
    if issubclass(cls, torch.Tensor):
        raise lo.refuse(codes.TENSOR_KIND, f"{what} is a tensor subclass ({cls.__qualname__})")
    if cls in SCALARS or cls is torch.Size:
        guard_type(lo, value, cls, what)
        return Sym(value, sample, stable=True, pytype=cls)
    if cls in ARRAY_SCALARS:
        guard_type(lo, value, cls, what)
        return Sym(value, sample, stable=True, pytype=cls, plain=True)
    if cls is pytypes.FunctionType:
        return lift_function(lo, sample, value, what)
    guard_type(lo, value, cls, what)
    return lift_container(lo, sample, value, what) if is_kind(cls) else Live(value, sample)


def lift_container(lo: Lowering, sample: Any, value: Value, what: str) -> Sym | Live:
    """A deque, or another kind of dictionary than ``dict``: what it holds is known at run time only."""
    cls, element = type(sample), None
    if cls is not deque and not compares_inertly(sample):
        return Live(value, sample)  # of which nothing is converted
    if cls is Counter:
        element = sym(lo.builder.value(), 1)
    if cls is defaultdict:
        factory = sample.default_factory
        if not any(factory is f for f in FACTORIES):
            return Live(value, sample)
        held = lo.builder.guard(ops.READ_ATTR, "default_factory", (value,), ANY, lo.span())
        lo.check("is", (held, lo.builder.ref(factory)), f"the factory of {what}", lo.span())
        element = missing_value(lo, factory)
    return Sym(value, UNKNOWN, pytype=cls, element=element)


def missing_value(lo: Lowering, factory: Any) -> Sym:
    """What a value of a ``defaultdict`` is like."""
    plain = factory in SCALARS
    return Sym(lo.builder.value(), factory() if plain else UNKNOWN, fresh=True, pytype=factory)


def has_history(tensor: torch.Tensor) -> bool:
    """Whether differentiating may lead beyond a tensor, or call its hooks."""
    try:
        return tensor.grad_fn is not None or bool(tensor._backward_hooks)
    except RuntimeError:  # a view of what was changed in place without a record
        return True


def lift_function(lo: Lowering, sample: Any, value: Value, what: str) -> Live:
    """A Python function, guarded by its code; a compiled one by the code inside. Defaults and cells are read."""
    original = lo.original(sample)
    if original is not sample and isinstance(original, pytypes.FunctionType):
        inner = lo.builder.guard(ops.READ_ATTR, "__wrapped__", (value,), ANY, lo.span())
        code = lo.builder.guard(ops.READ_ATTR, "__code__", (inner,), ANY, lo.span())
        lo.check("is", (code, lo.builder.ref(original.__code__, original.__name__ + "_code")), what, lo.span())
    code = lo.builder.guard(ops.READ_ATTR, "__code__", (value,), ANY, lo.span())
    guard_type(lo, value, pytypes.FunctionType, what)
    lo.check("is", (code, lo.builder.ref(sample.__code__, sample.__name__ + "_code")), what, lo.span())
    return Live(value, sample)


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
