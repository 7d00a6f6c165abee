"""Layers of torch that are one call in a graph; those with attention are converted like any other while they train."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from janusc import torch_private
from janusc.lowering import codes, ops
from janusc.lowering.abstract import Known, Live, Sym
from janusc.lowering.lower_attr import get_attribute
from janusc.lowering.lower_builtin import builtin
from janusc.lowering.lower_torch import profiled_sample
from janusc.lowering.lowering import Lowering, Unconvertible, Unreached
from janusc.lowering.operands import arg, emit, sample_of
from janusc.lowering.truth import concretise
from janusc.typeinfer import torch_table, transfer
from janusc.types import HostType

_FAST_PATH = "torch.backends.mha.get_fastpath_enabled"


def call_layer(lo: Lowering, module: Live, args: list[Any], kwargs: dict[str, Any], convert: Callable[[], Any]) -> Any:
    """A layer of torch whose call may be one op: its own code where that is taken and can be converted."""
    if not _trains(lo, module):
        return _call_as_it_is(lo, module, args, kwargs)
    point = lo.mark()
    try:
        return convert()
    except Unreached:
        raise
    except Unconvertible:
        lo.rewind(point)
    return _call_as_it_is(lo, module, args, kwargs)


def _trains(lo: Lowering, module: Live) -> bool:
    """Whether this is attention in training mode; which mode it is in is guarded, unless that varies.

    In the other mode it may take a way of its own, which depends on the state of all that it has and on that of torch.
    """
    if not isinstance(module.sample, torch_table.ATTENTION):
        return False
    training = get_attribute(lo, module, "training")
    if isinstance(training, Sym):
        training = concretise(lo, training)
    return isinstance(training, Known) and training.value is True


@builtin(torch.backends.mha.get_fastpath_enabled)
def lower_fast_path_enabled(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A setting of the process, read in the guards: nothing in a graph changes it."""
    if args or kwargs:
        raise lo.refuse(codes.RAISES, "TypeError: get_fastpath_enabled takes no arguments")
    memo = (_FAST_PATH, "setting", "")
    if memo not in lo.memo:
        read = lo.builder.guard(ops.BUILTIN_READ, _FAST_PATH, (), HostType("bool"), lo.span())
        lo.memo[memo] = Sym(read, torch.backends.mha.get_fastpath_enabled(), stable=True, pytype=bool)
    return lo.memo[memo]


def _call_as_it_is(lo: Lowering, module: Live, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A library layer that is one op: called through its own ``__call__``, its children without hooks."""
    name = type(module.sample).__qualname__
    if any(torch_private.has_hooks(m) for m in module.sample.modules()):
        raise lo.refuse_call(codes.HOOKS, f"{name} has hooks inside")
    if not all(map(_is_torchs, module.sample.modules())):
        raise lo.refuse_call(codes.OPAQUE_CALL, f"{name} has code of the program's inside")
    try:
        sample = _sample_layer(lo, module.sample, args, kwargs)
    except transfer.NoSample:
        sample = profiled_sample(lo)
    arguments = (module.value, *(arg(lo, a) for a in args))
    named = tuple((k, arg(lo, v)) for k, v in kwargs.items())
    return emit(lo, ops.MODULE_CALL, type(module.sample).__name__, arguments, sample, kwargs=named)


def _is_torchs(part: torch.nn.Module) -> bool:
    """Whether a part of a layer is torch's, and calls nothing that is the program's: an activation may be."""
    functions = (held for held in vars(part).values() if callable(held))
    return type(part).__module__.startswith("torch.nn.") and all(map(torch_table.is_torchs_own, functions))


def _sample_layer(lo: Lowering, module: torch.nn.Module, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Run the layer on stand-ins for its parameters and buffers; the layer itself is not touched."""
    tensors = {k: transfer.stand_in(v) for k, v in [*module.named_parameters(), *module.named_buffers()]}
    samples = tuple(sample_of(a) for a in args)
    named = {k: sample_of(v) for k, v in kwargs.items()}

    def run(*a: Any, **k: Any) -> Any:
        return torch.func.functional_call(module, tensors, a, k)

    drops = any(getattr(m, "dropout", 0) or isinstance(m, torch.nn.Dropout) for m in module.modules())
    if isinstance(module, torch.nn.RNNBase) or (module.training and drops):
        raise transfer.NoSample("flat weights, or random numbers")
    return transfer.apply(run, samples, named, lo.grad)
