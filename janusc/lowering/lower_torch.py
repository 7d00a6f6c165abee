"""Torch functions as nodes: called by their own name, sampled on stand-ins, ordered by what they do besides."""

from __future__ import annotations

from typing import Any

import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import UNKNOWN, Known, Live, Sym
from janusc.lowering.ir import Arg, Op
from janusc.lowering.lowering import Lowering
from janusc.lowering.mutation import protect, tensors_in
from janusc.lowering.operands import arg, is_stable, sample_of, sample_type, sym
from janusc.lowering.store import parts
from janusc.typeinfer import torch_table, transfer
from janusc.types import HostType, TensorType, TupleType, Type

# these copy what they join
_JOINING = frozenset({"stack", "cat", "concat", "concatenate", "hstack", "vstack", "dstack", "tensor"})

# these tell about the dtype of a tensor, which seldom varies
_BY_DTYPE = frozenset({"is_floating_point", "is_complex"})

# the same computation without the Python function around it, for plain tensors
_DIRECT: dict[Any, Any] = {
    torch.nn.functional.relu: torch.relu,
    torch.nn.functional.tanh: torch.tanh,
    torch.nn.functional.sigmoid: torch.sigmoid,
}

_DIRECT_WITH_DIM: dict[Any, Any] = {
    torch.nn.functional.softmax: torch.softmax,
    torch.nn.functional.log_softmax: torch.log_softmax,
}


def direct_call(function: Any, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, list[Any]] | None:
    """The same computation without the Python function around it, and its arguments; None where none is known."""
    if function in _DIRECT and len(args) == 1 and set(kwargs) <= {"inplace"}:
        return _DIRECT[function], args
    given = [*args, *(v for k, v in kwargs.items() if k == "dim")]
    if function not in _DIRECT_WITH_DIM or len(given) != 2 or not set(kwargs) <= {"dim"}:
        return None
    dim = given[1]
    is_number = type(dim.value) is int if isinstance(dim, Known) else isinstance(dim, Sym) and dim.pytype is int
    return (_DIRECT_WITH_DIM[function], given) if is_number else None


def call_torch(lo: Lowering, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A convertible torch function on abstract arguments."""
    dotted = torch_table.torch_name(function)
    assert dotted is not None
    name = torch_table.last_name(dotted)
    if function in (torch.is_tensor,) and args:
        if isinstance(args[0], Sym) and (args[0].pytype is None or args[0].maybe_unbound):
            raise lo.refuse_call(codes.OPAQUE_CALL, "is_tensor of a value of no certain type")
        return Known(isinstance(args[0], Sym) and args[0].is_tensor)
    if function is torch.autograd.grad:
        from janusc.lowering.lower_autograd import call_grad

        return call_grad(lo, args, kwargs)
    _check_arguments(lo, name, args, kwargs)
    if _is_given(kwargs.get("out")):
        raise lo.refuse_call(codes.IN_PLACE, "out= may resize its tensor")
    if name in ("embedding", "embedding_bag") and _is_given(kwargs.get("max_norm", args[3] if len(args) > 3 else None)):
        raise lo.refuse_call(codes.IN_PLACE, f"{name} with max_norm normalises its weights in place")
    if function is torch.tensor and any(tensors_in(a) for a in args):
        raise lo.refuse_call(codes.OPAQUE_CALL, "torch.tensor of tensors")
    args, kwargs = settle_kind(lo, function, args, kwargs)
    written = torch_table.written_arguments(function, name, tuple(args), kwargs, lambda flag: flag_truth(lo, flag))
    direct = None if written else direct_call(function, args, kwargs)
    if direct is not None:
        (function, args), kwargs = direct, {}
        dotted = torch_table.torch_name(function)
    sample = sample_call(lo, function, name, args, kwargs)
    op: Op = ops.TORCH
    if torch_table.is_random(name, kwargs):
        op = ops.TORCH_RANDOM
    if written:
        op = ops.TORCH_WRITE
        protect_all(lo, written, [*args, *kwargs.values()])
    return node(lo, op, str(dotted), name, args, kwargs, sample, written)


def _is_given(argument: Any) -> bool:
    return not (argument is None or (isinstance(argument, Known) and argument.value is None))


def protect_all(lo: Lowering, written: list[Any], operands: list[Any]) -> None:
    for target in written:
        if isinstance(target, Known) and target.value is None:
            continue
        if not (isinstance(target, Sym) and target.is_tensor):
            raise lo.refuse_call(codes.IN_PLACE, "something else than a tensor is written in place")
        statistics = not (isinstance(target.sample, torch.Tensor) and target.sample.requires_grad)
        others = [] if statistics and target is not operands[0] else [o for o in operands if o is not target]
        protect(lo, target, others)


def settle_kind(
    lo: Lowering, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, those fixed that decide what kind of result there is: facts that the graph rests on."""

    def fixed(value: Any) -> Any:
        return Known(flag_truth(lo, value)) if isinstance(value, Sym) and value.pytype is bool else value

    decides = torch_table.decides_kind
    given = [fixed(value) if decides(function, place) else value for place, value in enumerate(args)]
    return given, {name: fixed(value) if decides(function, name) else value for name, value in kwargs.items()}


def flag_truth(lo: Lowering, flag: Any) -> bool:
    """Whether a flag is true: a fact that the graph rests on."""
    from janusc.lowering.truth import concretise

    if isinstance(flag, Sym):
        flag = concretise(lo, flag)
    if isinstance(flag, Known):
        return bool(flag.value)
    raise lo.refuse_call(codes.IN_PLACE, "a flag that varies decides what is written, or what there is to return")


def _check_arguments(lo: Lowering, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    for value in [*args, *kwargs.values()]:
        if isinstance(value, Live) and not (
            type(value.sample) in (list, tuple, dict) or isinstance(value.sample, torch.Generator)
        ):
            raise lo.refuse_call(codes.OPAQUE_CALL, f"{name} gets an object of class {type(value.sample).__qualname__}")
        if isinstance(value, Live) and isinstance(value.sample, torch.Generator):
            raise lo.refuse_call(codes.OPAQUE_CALL, f"{name} draws from a generator of its own")


def sample_call(lo: Lowering, function: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A sample of the result; without one, what the profile saw at this call."""
    try:
        samples = tuple(sample_of(a) for a in args)
        named = {k: sample_of(v) for k, v in kwargs.items()}
        if torch_table.is_random(name, kwargs):
            return transfer.apply_random(name, samples, named, lo.grad)
        return transfer.apply(function, samples, named, lo.grad)
    except transfer.NoSample:
        return profiled_sample(lo)


def profiled_sample(lo: Lowering) -> Any:
    """A sample made from the type that was seen at the call being lowered."""
    return sample_from_type(lo.profile.type_at(lo.site(lo.node))) if lo.node is not None else UNKNOWN


def sample_from_type(seen: Type | None) -> Any:
    """A sample of a profiled type: kinds only; it may have a history, for all that is known."""
    if isinstance(seen, TensorType):
        sample = transfer.stand_in_like(seen.dtype, seen.shape)
        return sample.requires_grad_(sample.is_floating_point() or sample.is_complex())
    if isinstance(seen, TupleType):
        return tuple(sample_from_type(t) for t in seen.items)
    host = seen.name if isinstance(seen, HostType) else getattr(seen, "host", None)
    scalars = {"int": 1, "float": 1.0, "bool": True, "str": ""}
    return scalars.get(str(host), UNKNOWN)


def node(
    lo: Lowering,
    op: Op,
    dotted: str,
    name: str,
    args: list[Any],
    kwargs: dict[str, Any],
    sample: Any,
    written: list[Any],
) -> Any:
    """The node of a torch call, and its result as an abstract value."""
    tensors = [t for a in [*args, *kwargs.values()] for t in tensors_in(a)]
    arguments = tuple(arg(lo, a) for a in args)
    named: tuple[tuple[str, Arg], ...] = tuple((k, arg(lo, v)) for k, v in kwargs.items())
    (value,) = lo.builder.emit(op, dotted, arguments, named, (sample_type(sample),), lo.span())
    if written and isinstance(written[0], Sym) and isinstance(sample, torch.Tensor) and name.endswith("_"):
        return Sym(value, written[0].sample, fresh=written[0].fresh, pytype=torch.Tensor)
    if sample is UNKNOWN and not isinstance(sample, torch.Tensor):
        return sym(value, UNKNOWN)
    stable = name in _BY_DTYPE or is_stable(*args, *kwargs.values()) and not _has_tensor(sample)
    fresh = is_fresh(name, sample, tensors) and (
        name in _JOINING or not any(map(_holds_unseen, [*args, *kwargs.values()]))
    )
    return sym(value, sample, fresh=fresh, stable=stable)


def _holds_unseen(abstract: Any) -> bool:
    """Whether an argument is a container whose tensors nothing is known of."""
    return any(isinstance(p, Live) or (isinstance(p, Sym) and p.pytype in (list, tuple, dict)) for p in parts(abstract))


def _has_tensor(sample: Any) -> bool:
    if isinstance(sample, (tuple, list)):
        return any(_has_tensor(s) for s in sample)
    return isinstance(sample, torch.Tensor)


def is_fresh(name: str, sample: Any, tensors: list[Sym]) -> bool:
    """Whether a result can't share memory with anything from outside the transaction."""
    if all(t.fresh for t in tensors):
        return True
    if torch_table.may_alias(name):
        return False
    results = sample if isinstance(sample, (tuple, list)) else [sample]
    inputs = [t.sample for t in tensors if not t.fresh]
    if any(not isinstance(i, torch.Tensor) for i in inputs):
        return False
    return all(isinstance(r, torch.Tensor) and not transfer.shares_storage(r, inputs) for r in results)
