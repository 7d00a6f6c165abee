"""Gradients clipped by their norm or their values.

On the CPU torch does that for many tensors in one call, too; what is saved is the Python around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import GeneratorType
from typing import Any

import torch
from torch import Tensor

from janusc import torch_private
from janusc.frames import uncounted
from janusc.runtime.optimizers import conditions
from janusc.runtime.optimizers.batches import plain_gradients
from janusc.runtime.optimizers.equivalents import register
from janusc.runtime.optimizers.steps import FOREACH, beside, fits_now

_NUMBERS = frozenset({int, float})


@uncounted
def clip_grad_norm_(original: Callable[..., Any], owner: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Equivalent of ``torch.nn.utils.clip_grad_norm_``."""
    if not _is_simple(args, kwargs, ("parameters", "max_norm", "norm_type", "error_if_nonfinite", "foreach")):
        return original(*args, **kwargs)
    return _without_gradients(_clip_norm, original, *args, **kwargs)


@uncounted
def clip_grad_value_(original: Callable[..., Any], owner: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Equivalent of ``torch.nn.utils.clip_grad_value_``."""
    if not _is_simple(args, kwargs, ("parameters", "clip_value", "foreach")):
        return original(*args, **kwargs)
    return _without_gradients(_clip_value, original, *args, **kwargs)


def _is_simple(args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether the arguments fit these names, of which two are needed, and nobody sees single operations."""
    if len(args) > len(names) or not all(name in kwargs for name in names[len(args) : 2]):
        return False
    return set(names[len(args) :]).issuperset(kwargs) and conditions.is_unseen()


@uncounted
def _without_gradients(clip: Callable[..., Any], original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    set_grad, before = torch_private.set_grad_enabled, torch.is_grad_enabled()
    try:
        set_grad(False)
        return clip(original, *args, **kwargs)
    finally:
        set_grad(before)


def _listed(parameters: Any) -> list[Any]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


@uncounted
def _clip_norm(
    original: Callable[..., Any],
    parameters: Any,
    max_norm: Any,
    norm_type: Any = 2.0,
    error_if_nonfinite: Any = False,
    foreach: Any = None,
) -> Any:
    if not _NUMBERS.issuperset((type(max_norm), type(norm_type))) or error_if_nonfinite or foreach is not None:
        return original(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
    listed = _listed(parameters)
    gradients = plain_gradients(listed)
    if gradients is None:  # an empty generator gives a warning
        again = (p for p in listed) if isinstance(parameters, GeneratorType) else listed
        return original(again, max_norm, norm_type)
    order = float(norm_type)
    total = torch.linalg.vector_norm(torch.stack(FOREACH["norm"](gradients, order)), order)
    limit = float(max_norm)
    if fits_now(limit) and limit:  # as the operators have it, with tensors for the numbers
        share = total.add(beside(total.dtype, 1e-6)).reciprocal().mul_(beside(total.dtype, limit)).clamp_(max=1.0)
    else:
        share = torch.clamp(limit / (total + 1e-6), max=1.0)
    FOREACH["mul_"](gradients, share)
    return total


@uncounted
def _clip_value(original: Callable[..., Any], parameters: Any, clip_value: Any, foreach: Any = None) -> Any:
    if type(clip_value) not in _NUMBERS or foreach is not None:
        return original(parameters, clip_value, foreach)
    listed = _listed(parameters)
    gradients = plain_gradients(listed)
    if gradients is None:
        return original(listed, clip_value)
    FOREACH["clamp_min_"](gradients, -float(clip_value))
    FOREACH["clamp_max_"](gradients, float(clip_value))
    return None


register(torch.nn.utils.clip_grad_norm_, clip_grad_norm_)
register(torch.nn.utils.clip_grad_value_, clip_grad_value_)
