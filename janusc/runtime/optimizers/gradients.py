"""Gradients dropped or set to zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from janusc import torch_private
from janusc.frames import uncounted
from janusc.runtime.optimizers import conditions
from janusc.runtime.optimizers.batches import are_plain_leaves
from janusc.runtime.optimizers.equivalents import register


@uncounted
def zero_grad(original: Callable[..., Any], optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Equivalent of ``Optimizer.zero_grad``: the same calls, but for the record that only a profiler reads."""
    to_none = _to_none(args, kwargs)
    if to_none is None or not isinstance(optimizer, torch.optim.Optimizer) or not conditions.is_unseen():
        return original(*args, **kwargs)
    state = vars(optimizer)
    defaults = state.get("defaults")
    if (
        type(defaults) is not dict
        or defaults.get("foreach")
        or defaults.get("fused")
        or torch_private.NAMED_FOR_PROFILER not in state
    ):
        return original(*args, **kwargs)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if not are_plain_leaves(parameters):
        return original(*args, **kwargs)
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is None:
            continue
        if to_none:
            parameter.grad = None
            continue
        if gradient.grad_fn is not None:
            gradient.detach_()
        else:
            gradient.requires_grad_(False)
        gradient.zero_()
    return None


def _to_none(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool | None:
    """What ``set_to_none`` is; None where the arguments are not that alone."""
    if not args:
        found = kwargs.get("set_to_none", True) if len(kwargs) <= ("set_to_none" in kwargs) else None
    else:
        found = args[0] if len(args) == 1 and not kwargs else None
    return found if type(found) is bool else None


register(torch.optim.Optimizer.zero_grad, zero_grad)
