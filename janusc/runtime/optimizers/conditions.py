"""When nothing can tell an equivalent from the original, as far as tensors are not concerned."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from janusc import torch_private

_OPTIONS = ("foreach", "fused", "capturable", "differentiable")
_CHANGING = frozenset({*torch_private.STEP_PARTS, "grad_scale", "found_inf"})
"""Attributes that lead a step elsewhere where an optimizer has them itself."""
_BEFORE, _BEHIND = torch_private.OWN_STEP_HOOKS

_in_profiler: Callable[[], bool] = torch_private.in_profiler or (lambda: True)
_in_inference = torch.is_inference_mode_enabled
_dispatch_modes, _function_modes = torch_private.dispatch_modes, torch_private.function_modes
_is_tracing, _is_compiling, _in_layers = torch_private.is_tracing, torch.compiler.is_compiling, torch_private.in_layers
"""Asked some times a step: found once."""


def is_unseen() -> bool:
    """Whether nobody sees single operations of torch's, or lines, and no mode changes what they do."""
    if _in_profiler() or sys.gettrace() is not None or _in_inference():
        return False
    if _dispatch_modes() or _function_modes() and torch_private.watching_modes():
        return False
    return not (_is_tracing() or _is_compiling() or _in_layers())


def has_plain_step(optimizer: Any) -> bool:
    """Whether a step of an optimizer only changes its parameters and state: no hooks, and no scaling of gradients."""
    state = vars(optimizer)
    if any(torch_private.STEP_HOOKS) or not _CHANGING.isdisjoint(state):
        return False
    if state.get(_BEFORE, True) or state.get(_BEHIND, True):
        return False
    return state["defaults"].get("differentiable") is False and type(state["param_groups"]) is list


def is_looped(options: Mapping[str, Any]) -> bool:
    """Whether the options of a group of parameters leave the way of updating them to torch."""
    return not any(options.get(name) for name in _OPTIONS)
