"""The backward pass from a loss: autograd's engine without the questions that are asked of any number of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from janusc import torch_private
from janusc.runtime.optimizers import conditions
from janusc.runtime.optimizers.equivalents import register

_INNER = torch.autograd.backward
_REAL = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})


def backward(original: Callable[..., Any], loss: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Equivalent of ``Tensor.backward`` of a plain number that has a history; of others torch has more to say."""
    keeps = kwargs.get("retain_graph", False) if not args and len(kwargs) <= ("retain_graph" in kwargs) else None
    if (
        torch_private.run_engine is None
        or type(keeps) is not bool
        or type(loss) is not torch.Tensor
        or loss.grad_fn is None
        or loss.dtype not in _REAL
        or not loss.is_cpu
        or loss.numel() != 1
        or torch_private.logs_backward()
        or torch.autograd.backward is not _INNER
        or not conditions.is_unseen()
    ):
        return original(*args, **kwargs)
    _of_tensors(loss, keeps)
    return None


def _of_tensors(loss: Any, keeps: bool) -> None:
    """Called where torch has two functions more, too: a hook may give a warning for so many frames further out."""
    ones = torch.ones_like(loss, memory_format=torch.preserve_format)
    _by_engine((loss,), (ones,), keeps, False, (), allow_unreachable=True, accumulate_grad=True)


def _by_engine(*args: Any, **kwargs: Any) -> None:
    torch_private.run_engine(*args, **kwargs)  # type: ignore[misc]


register(torch.Tensor.backward, backward)
