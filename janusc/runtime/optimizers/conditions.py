"""When nothing can tell an equivalent from the original, as far as tensors are not concerned."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch

from janusc import torch_private

_OPTIONS = ("foreach", "fused", "capturable", "differentiable")
_CHANGING = frozenset({*torch_private.STEP_PARTS, "grad_scale", "found_inf"})
"""Attributes that lead a step elsewhere where an optimizer has them itself."""
_BEFORE, _BEHIND = torch_private.OWN_STEP_HOOKS


def is_unseen() -> bool:
    """Whether nobody sees single operations of torch's, or lines, and no mode changes what they do."""
    if torch_private.in_profiler is None or torch_private.in_profiler():
        return False
    if sys.gettrace() is not None or torch.is_inference_mode_enabled():
        return False
    if torch_private.dispatch_modes() or torch_private.function_modes() and torch_private.watching_modes():
        return False
    return not (torch_private.is_tracing() or torch.compiler.is_compiling() or torch_private.in_layers())


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
