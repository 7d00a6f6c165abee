"""Tensors that a joint kernel hands out: in eager mode they have a history, which the backward pass has used up."""

from __future__ import annotations

import functools
from typing import Any

import torch

MESSAGE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "tensors after calling backward."
)
"""Of torch's."""


class _Spent(torch.autograd.Function):
    """A tensor with a history of which nothing is left."""

    @staticmethod
    def forward(ctx: Any, boxed: tuple[torch.Tensor], *leaves: torch.Tensor) -> torch.Tensor:
        return boxed[0]  # boxed, for an input that is handed out would become a view

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(MESSAGE)


@functools.cache
def spent(name: str) -> Any:
    """A function of a boxed tensor and leaves: the tensor with a used-up history, whose last node has this name."""
    made: Any = type("Spent", (_Spent,), {})
    made._backward_cls.__name__ = name
    return made.apply


def keeps_tensors(history: Any) -> bool:
    """Whether a second pass through a history raises, since tensors that the first has freed are needed again."""
    seen, waiting = set(), [history]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if any(name.startswith("_raw_saved_") and _is_set(node, name) for name in dir(node)):
            return True
        waiting.extend(before for before, _ in node.next_functions)
    return False


def _is_set(node: Any, name: str) -> bool:
    return getattr(node, name.replace("_raw", "", 1), None) is not None


def leads_to(history: Any, wanted: Any) -> bool:
    """Whether a node is part of a history."""
    seen, waiting = set(), [history]
    while waiting:
        node = waiting.pop()
        if node is wanted:
            return True
        if node is not None and node not in seen:
            seen.add(node)
            waiting.extend(before for before, _ in node.next_functions)
    return False
