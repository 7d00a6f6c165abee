"""Gradients of leaves, changed inside a transaction: what they were is kept before, and given back where it fails.

Comes in: the undo log, and the optimizer or loss whose method is meant. Goes out: what that method leaves behind.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import torch

from janusc import torch_private
from janusc.frames import uncounted
from janusc.runtime.optimizers import backwards, gradients, lookup
from janusc.runtime.transaction import Deopt, UndoLog, save_tensor
from janusc.typeinfer import callees

_BACKWARD: Any = torch.Tensor.backward
_INNER_BACKWARD: Any = torch.autograd.backward
_GRADIENT = operator.attrgetter("grad")


def _restore(held: Sequence[tuple[torch.Tensor, torch.Tensor | None]]) -> None:
    for leaf, gradient in held:
        leaf.grad = gradient


def _keep(undo: UndoLog, leaves: Iterable[torch.Tensor], contents: bool) -> None:
    """Keep which tensors the gradients are, and what is in them; one that has a history itself is left to eager."""
    held = [(leaf, leaf.grad) for leaf in leaves]
    for _, gradient in held:
        if gradient is not None and contents:
            if gradient.requires_grad:
                raise Deopt(None)
            save_tensor(undo, gradient)
    undo.append((_restore, (held,)))


def zero_grad(undo: UndoLog, optimizer: Any, to_none: bool) -> None:
    """``optimizer.zero_grad(to_none)``."""
    _keep(undo, [p for group in optimizer.param_groups for p in group["params"]], not to_none)
    gradients.zero_grad(optimizer.zero_grad, optimizer, to_none)


@uncounted
def clip(undo: UndoLog, name: str, parameters: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
    """``torch.nn.utils.clip_grad_norm_`` or ``clip_grad_value_`` of these parameters.

    Gradients that a backward pass of this transaction has found, or has added to, are kept already.
    """
    kept = {id(leaf) for entry, arguments in undo if entry is _restore for leaf, _ in arguments[0]}
    _keep(undo, [p for p in parameters if p.grad is not None and id(p) not in kept], True)
    function = callees.CLIPPING[name]
    return lookup.equivalent_of(function, function)(parameters, *args, **kwargs)


@uncounted
def step(optimizer: Any) -> None:
    """``optimizer.step()``, which a scheduler may have replaced."""
    made = optimizer.step
    lookup.equivalent_of(made, getattr(made, "__func__", made))()


def backward_is_torchs() -> bool:
    """Whether ``loss.backward()`` is what torch makes of it, and nothing was put in the place of what it calls."""
    return torch.Tensor.backward is _BACKWARD and torch.autograd.backward is _INNER_BACKWARD


def hand_over(undo: UndoLog, leaves: Sequence[torch.Tensor], found: Sequence[torch.Tensor]) -> None:
    """Let leaves have the gradients that a kernel has found, as the end of a backward pass does; under ``no_grad``.

    Nobody may be told of gradients of these leaves.
    """
    _keep(undo, leaves, True)
    for leaf, gradient in zip(leaves, found):
        if leaf.grad is None:
            leaf.grad = gradient
        else:
            leaf.grad.add_(gradient)


def replace(undo: UndoLog, leaves: Sequence[torch.Tensor], found: Sequence[torch.Tensor]) -> None:
    """``hand_over`` where the gradients that leaves have were to be dropped before."""
    undo.append((_restore, (list(zip(leaves, map(_GRADIENT, leaves))),)))
    for leaf, gradient in zip(leaves, found):
        leaf.grad = gradient


def backward(undo: UndoLog, loss: torch.Tensor, leaves: Sequence[torch.Tensor], **flags: bool) -> None:
    """``loss.backward()``, which ends at these leaves, by a guard without other hooks than those asked for here."""
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    if any(map(torch_private.hooks_on_gradient, leaves)):
        raise Deopt(None)
    _keep(undo, leaves, True)
    run_backward(loss, **flags)


@uncounted
def run_backward(loss: torch.Tensor, **flags: bool) -> None:
    """``loss.backward()``."""
    original = cast(Any, loss).backward
    if backward_is_torchs():
        backwards.backward(original, loss, **flags)
    else:
        original(**flags)


ENDINGS: dict[str, Callable[..., None]] = {"step": step, "backward.last": run_backward}
"""What the last node of a body does, by its op."""
