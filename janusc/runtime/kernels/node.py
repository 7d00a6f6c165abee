"""The node of a block in a history: it keeps what the nodes of the block's operations would keep in eager mode."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from janusc import torch_private
from janusc.interrupts import is_interrupt
from janusc.runtime.kernels.linked import Link
from janusc.runtime.kernels.replay import Gradients
from janusc.runtime.kernels.spent import MESSAGE
from janusc.runtime.optimizers import conditions

_MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace operation"
_CHANGED = f"{_MODIFIED} (janusc: after it was used in a graph)"
_WHICH = (
    _MODIFIED + ": [{} {}] is at version {}; expected version {} instead. Hint: enable anomaly detection to find the "
    "operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True)."
)
"""Of torch's."""

_VERSION = operator.attrgetter("_version")

Tangents = Sequence["torch.Tensor | None"]


class Differentiates(Protocol):
    """What a node asks for gradients."""

    link: Link

    def differentiate(self, saved: Sequence[torch.Tensor], tangents: Tangents) -> Gradients | None:
        """Gradients of the leaves by a kernel; None where the operations have to give them."""

    def blanks(self) -> Sequence[torch.Tensor]:
        """What is as good as saved tensors for gradients that need none."""

    def replay(
        self, saved: Sequence[torch.Tensor], others: Sequence[Any], tangents: Tangents, has_history: bool
    ) -> Gradients:
        """Gradients of the leaves by the operations, from what is saved and what else was boxed."""


class _Node(torch.autograd.Function):
    """Hands out tensors that were made already, with a history that leads to leaves.

    Boxed are: what differentiates, the outputs, what is saved, and what else the operations need: inputs, and the state
    of the generators.
    """

    @staticmethod
    def forward(ctx: Any, boxed: tuple[Any, ...], *leaves: torch.Tensor) -> Any:
        ctx.block, outputs, saved, ctx.loose, ctx.before = boxed
        ctx.set_materialize_grads(False)
        if ctx.block.link.uses:
            made = {*map(id, outputs)}  # whose history would be a cycle
            ctx.left = [(x.detach() if id(x) in made else x, x._version) for x in saved]
        else:
            ctx.save_for_backward(*saved)
        ctx.versions = [*map(_VERSION, ctx.loose)]
        return outputs if len(outputs) > 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *tangents: torch.Tensor | None) -> Any:
        link: Link = ctx.block.link
        saved = _saved(ctx, link, tangents)
        found, has_history = None, torch.is_grad_enabled()
        if not has_history and _is_usual_moment():
            try:
                found = ctx.block.differentiate(saved, tangents)
            except Exception as error:
                if is_interrupt(error):
                    raise
        if found is None:
            if [*map(_VERSION, ctx.loose)] != ctx.versions:
                raise RuntimeError(_CHANGED)
            found = ctx.block.replay(saved, (ctx.loose, ctx.before), tangents, has_history)
        if link.is_freed and not torch_private.keeps_history() and not hasattr(ctx, "left"):
            ctx.loose = ()
        return None, *found


def _saved(ctx: Any, link: Link, tangents: Tangents) -> Sequence[torch.Tensor]:
    """What was saved; raises eager's RuntimeError where that was changed, or freed."""
    if link.uses:
        return _partly(ctx, link, tangents)
    saved: Sequence[torch.Tensor] = ctx.saved_tensors if link.is_freed else ()
    return saved


def _is_usual_moment() -> bool:
    """Whether nobody sees the operations of a backward pass, and nothing changes what they do."""
    return not torch_private.any_autocast() and not torch.is_anomaly_enabled() and conditions.is_unseen()


def _partly(ctx: Any, link: Link, tangents: Tangents) -> Sequence[torch.Tensor]:
    """What was saved, for a pass that may free a part of it: eager mode keeps the rest for another."""
    assert link.uses is not None
    with_tangent = {known.output for known, tangent in zip(link.tangents, tangents) if tangent is not None}
    ends = [torch_private.will_be_reached(node) for node, _ in ctx.next_functions]
    wanted = {pair for pair in link.uses if pair[0] in with_tangent and ends[link.leaves.index(pair[1])]}
    uses = {number for pair in wanted for number in link.uses[pair]}
    freed: set[int] = getattr(ctx, "freed", set())
    if not uses and freed:
        blanks: Sequence[torch.Tensor] = ctx.block.blanks()
        return blanks
    if uses & freed:
        raise RuntimeError(MESSAGE)
    left = ctx.left
    for needing, (tensor, version) in zip(link.needs, left):
        if tensor._version != version and (needing is None or not uses.isdisjoint(needing)):
            raise RuntimeError(_WHICH.format(tensor.type(), [*tensor.shape], tensor._version, version))
    if not torch_private.keeps_history():
        ctx.freed = freed = freed | uses
        if freed == {number for numbers in link.uses.values() for number in numbers}:
            del ctx.left
    return [tensor for tensor, _ in left]


@functools.cache
def node(name: str) -> Any:
    """A function of a box and leaves: the outputs in the box, in whose history the last node has this name."""
    made: Any = type("Linked", (_Node,), {})
    made._backward_cls.__name__ = name
    return made.apply


class _Renamed(torch.autograd.Function):
    """A tensor whose last node has another name."""

    @staticmethod
    def forward(ctx: Any, boxed: tuple[torch.Tensor], tensor: torch.Tensor) -> torch.Tensor:
        return boxed[0]

    @staticmethod
    def backward(ctx: Any, tangent: torch.Tensor) -> Any:
        return None, tangent


@functools.cache
def renamed(name: str) -> Any:
    """A function of a boxed name of a tensor, and the tensor: it, with one more node, of this name."""
    made: Any = type("Renamed", (_Renamed,), {})
    made._backward_cls.__name__ = name
    return made.apply
