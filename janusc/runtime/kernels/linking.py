"""A kernel of a block whose history goes on: a node of it has a kernel for the backward pass.

In eager mode each operation has a node, and keeps tensors there. Here one node keeps the same ones for all. The
backward pass does the block's operations again, and differentiates those, where its gradients are to have a history
themselves, or where the kernel would come to something else; the other inputs are kept for that.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import torch

from janusc import torch_private
from janusc.runtime.kernels.autocasts import without_autocast
from janusc.runtime.kernels.classes import InputClass
from janusc.runtime.kernels.cut import EXTRA, INPUT, OUTPUT
from janusc.runtime.kernels.joint import BlockGraph, Facts, Sample
from janusc.runtime.kernels.kernel import Kernel, picker
from janusc.runtime.kernels.linked import Link, Tangent
from janusc.runtime.kernels.makers import Compiled, Made
from janusc.runtime.kernels.methods import Methods
from janusc.runtime.kernels.node import Tangents, node, renamed
from janusc.runtime.kernels.replay import Gradients, Replay
from janusc.runtime.transaction import UndoLog

_HOOKS = operator.attrgetter("_backward_hooks")
_IS_GIVEN = functools.partial(operator.is_not, None)


class LinkedKernel(Kernel):
    """Compiled code for one class of inputs, and for the backward pass from its outputs."""

    __slots__ = (
        "_backward",
        "_begun",
        "_blanks",
        "_followed",
        "_held",
        "_layouts",
        "_loose",
        "_partly",
        "_pick_followed",
        "_pick_leaves",
        "_pick_loose",
        "_pick_saved",
        "_pick_tensors",
        "_renamed",
        "_sources",
        "_unheld",
        "_views",
        "link",
        "passes",
        "replayed",
        "requiring",
    )

    def __init__(
        self,
        inputs: InputClass,
        bare: frozenset[int],
        methods: Methods,
        facts: Facts,
        compiled: Sequence[Compiled],
        replayed: Replay,
    ) -> None:
        around = replayed.sample.around
        self._backward = compiled[1]
        super().__init__(inputs, bare, methods, facts, without_autocast(compiled[0], around), around)
        assert facts.link is not None
        self.link: Link = facts.link
        self.replayed = replayed
        self.passes = 0
        """How many backward passes came to it."""
        self.requiring = [inputs.positions[number] for number in self.link.leaves]
        self._sources = (*self.link.kept, *self.link.checked)
        saved = {number for kind, number in self._sources if kind == INPUT}
        self._loose = [number for number in range(len(inputs.positions)) if number not in saved]
        behind = self._first + len(facts.written)
        places = {OUTPUT: len(inputs.positions), EXTRA: len(inputs.positions) + behind}
        self._pick_saved = picker([places.get(kind, 0) + number for kind, number in self._sources])
        inputs_kept = [(place, number) for place, (kind, number) in enumerate(self.link.kept) if kind == INPUT]
        self._held = [place for place, number in inputs_kept if number in self.link.held]
        self._layouts: list[Any] = []
        """Of those held, whose ``data`` may be another tensor by the time of a pass."""
        self._unheld = [place for place, number in inputs_kept if number not in self.link.held]
        self._pick_tensors, self._pick_loose = picker(inputs.positions), picker(self._loose)
        self._pick_leaves = picker(self.link.leaves)
        count = len(self.link.tangents)
        self._partly = [inputs.positions[number] for number, outputs in self.link.gradients if len(outputs) < count]
        self._followed = [known.output for known in self.link.tangents]
        self._pick_followed = picker(self._followed)
        self._views: list[int] | None = None
        """The results that are views, of buffers of the kernel's: always the same ones."""
        name = self.link.tangents[0].name
        self._begun = node(name)
        self._blanks: list[tuple[Any, ...]] = []
        visible = [i for i in range(facts.outputs) if i not in facts.constants]
        others = [known for known in self.link.tangents if known.name != name and visible[known.output] not in bare]
        self._renamed = [(known.output, renamed(known.name)) for known in others]

    def is_usable(self, inputs: Sequence[Any]) -> bool:
        """Whether, besides, no hooks of leaves would be called in another order, and no history is met for nothing.

        A pass from an output meets all that the node leads to, and frees it, also what that output does not depend on.
        """
        if not super().is_usable(inputs) or not all(inputs[position].is_leaf for position in self._partly):
            return False
        tensors = self._pick_leaves(self._pick_tensors(inputs))
        if not any(map(_HOOKS, tensors)) and not any(map(torch_private.hooks_on_gradient, tensors)):
            return True
        return not any(is_leaf and any(called) for *called, is_leaf in map(torch_private.tensor_hooks, tensors))

    def _compute(self, inputs: Sequence[Any], drawn: UndoLog) -> list[Any] | None:
        """The same, and what the operations may be done again with: the state of the generators before it."""
        results = super()._compute(inputs, drawn)
        return results if results is None or self._draw is None else [*results, drawn]

    def outputs(self, inputs: Sequence[Any], results: list[Any]) -> list[Any]:
        """What the operations would give, with a history."""
        outputs = self.hand_out(inputs, results)
        for index, constant in self._constants:
            outputs.insert(index, constant)
        return outputs

    def hand_out(self, inputs: Sequence[Any], results: list[Any]) -> list[Any]:
        """The tensors among the outputs, with a history that leads to the inputs; takes the results away."""
        before = () if self._draw is None else results.pop()
        if self._views is None:
            self._views = [index for index, result in enumerate(results) if result._is_view()]
        for index in self._views:
            results[index] = results[index].data
        tensors = self._pick_tensors(inputs)
        saved = self._pick_saved([*tensors, *results])
        if not self._layouts:
            self._layouts = [_layout(saved[place]) for place in self._held]
        # what eager mode keeps as a view stays where it is when ``data`` is set to another tensor
        saved = [*saved, *[saved[place].detach() for place in self._unheld]]
        boxed = self, self._pick_followed(results), saved, self._pick_loose(tensors), before
        made = self._begun(boxed, *self._pick_leaves(tensors))
        del results[self._first :]
        if len(self._followed) == 1:
            results[self._followed[0]] = made
            return results
        for index, output in zip(self._followed, made):
            results[index] = output
        for index, rename in self._renamed:
            results[index] = rename((results[index].detach(),), results[index])
        return results

    def keeps_as_traced(self, inputs: Sequence[Any], results: list[Any]) -> bool:
        """Whether what is kept is laid out as the second kernel expects it: nothing asks that at each call."""
        kept = self._pick_saved([*self._pick_tensors(inputs), *results])[: len(self.link.kept)]
        return all(_has_strides(x, strides) for x, strides in zip(kept, self.link.strides))

    def differentiate(self, saved: Sequence[torch.Tensor], tangents: Tangents) -> Gradients | None:
        """Gradients of the leaves by the kernel; None where the operations have to give them."""
        link = self.link
        self.passes += 1
        given: list[Any] = list(map(_laid_out, tangents, link.tangents))
        if any(tangent is None for tangent in given):
            return None
        kept = [*saved[: len(link.kept)]]
        for place, tensor in zip(self._unheld, saved[len(self._sources) :]):
            kept[place] = tensor
        if self._layouts != [_layout(kept[place]) for place in self._held]:
            return None
        if not self._blanks:
            self._blanks = [(x.shape, x.stride(), x.dtype, x.device) for x in kept]
        found = list(self._backward([*kept, *given]))
        if link.has_demands and not found.pop():
            return None
        gradients = [g.data if g._is_view() else g for g in found]
        return gradients if all(map(_IS_GIVEN, tangents)) else self._without_missing(tangents, gradients)

    def _without_missing(self, tangents: Tangents, found: Sequence[torch.Tensor]) -> Gradients | None:
        """Gradients where some tangents are missing: what nothing else leads to gets none, and not 0 times infinity."""
        missing = {known.output for known, tangent in zip(self.link.tangents, tangents) if tangent is None}
        pairs = zip(self.link.gradients, found)
        gradients = [None if missing.issuperset(outputs) else gradient for (_, outputs), gradient in pairs]
        finite = all(bool(gradient.isfinite().all()) for gradient in gradients if gradient is not None)
        return gradients if finite else None

    def blanks(self) -> list[torch.Tensor]:
        """Zeros like what is kept, for gradients that nothing of it is needed for; after the first pass."""
        blanks = (torch.empty_strided(size, stride, dtype=t, device=d) for size, stride, t, d in self._blanks)
        return [blank.zero_() for blank in blanks]

    def replay(
        self, saved: Sequence[torch.Tensor], others: Sequence[Any], tangents: Tangents, has_history: bool
    ) -> Gradients:
        """Gradients of the leaves by the operations, from what is saved and what else was boxed."""
        loose, before = others
        known = {number: x for (kind, number), x in zip(self._sources, saved) if kind == INPUT}
        known.update(zip(self._loose, loose))
        tensors = [known[number] for number in range(len(known))]
        found = self.replayed.differentiate(tensors, before, tangents, has_history)
        by_position = dict(zip(self.replayed.sample.leaves, found))
        return [by_position[position] for position in self.requiring]


def kernel_of(
    inputs: InputClass, block: BlockGraph, sample: Sample, bare: frozenset[int], methods: Methods, made: Made
) -> Kernel:
    """A kernel as it is called, of what was made for a block and inputs that look like a sample."""
    facts, compiled = made
    if facts.link is None:
        return Kernel(inputs, bare, methods, facts, without_autocast(compiled[0], sample.around), sample.around)
    replayed = Replay(block, sample, [known.output for known in facts.link.tangents])
    return LinkedKernel(inputs, bare, methods, facts, compiled, replayed)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride()


def _has_strides(tensor: torch.Tensor, strides: Sequence[int]) -> bool:
    pairs = zip(tensor.shape, tensor.stride(), strides)
    return tensor.numel() == 0 or all(found == wanted for size, found, wanted in pairs if size > 1)


def _laid_out(tangent: torch.Tensor | None, known: Tangent) -> torch.Tensor | None:
    """A tangent as the kernel takes it, zeros for a missing one; None where it is no plain tensor."""
    if tangent is None:
        return torch.empty_strided(known.size, known.stride, dtype=known.dtype, device=known.device).zero_()
    if type(tangent) is not torch.Tensor or tangent.layout is not torch.strided or tangent.is_neg():
        return None
    if tangent.stride() == known.stride:
        return tangent
    return torch.empty_strided(known.size, known.stride, dtype=known.dtype, device=known.device).copy_(tangent)
