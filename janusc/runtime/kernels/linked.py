"""A block whose history goes on: its gradients are traced for tangents that a later backward pass will bring.

The block runs once on fake tensors under autograd, and so does a backward pass from its outputs. The graph of both is
cut in two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from janusc import torch_private
from janusc.runtime.compiler.settings import dtype_name, dtype_of
from janusc.runtime.kernels.bounds import keep_in_bounds
from janusc.runtime.kernels.cut import EXTRA, INPUT, OUTPUT, Results, Source, cut, depends_on
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.kept import Kept, Pair


@dataclass(frozen=True)
class Tangent:
    """What a backward pass brings for an output: how it is laid out, and where; ``name``: of its last node."""

    output: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    name: str
    device: torch.device


@dataclass(frozen=True)
class Link:
    """What is known of the history of a block, beside what both of its kernels compute.

    ``leaves``: the inputs that outputs get their history from. ``gradients``: for each gradient that the second one
    gives, its input and the outputs it depends on. ``kept``: where what it begins with is found, with these
    ``strides``. ``checked``: what eager mode keeps as well, so that it may not be changed. ``uses``: see ``Kept.uses``;
    ``needs``: which of them need each of the ``kept`` and ``checked``, None where that is not known. ``is_freed``:
    whether a pass frees anything. ``has_demands``: whether one more result of the second one says that all contents are
    as its operations demand. ``held``: the inputs that eager mode keeps themselves, and not as views of their memory.
    Inputs and outputs are numbered without those that are no tensors.
    """

    tangents: tuple[Tangent, ...]
    leaves: tuple[int, ...]
    gradients: tuple[tuple[int, tuple[int, ...]], ...]
    kept: tuple[Source, ...] = ()
    checked: tuple[Source, ...] = ()
    uses: Mapping[Pair, tuple[int, ...]] | None = None
    is_freed: bool = True
    has_demands: bool = False
    strides: tuple[tuple[int, ...], ...] = ()
    needs: tuple[tuple[int, ...] | None, ...] = ()
    held: tuple[int, ...] = ()

    def dump(self) -> tuple[Any, ...]:
        """As a literal, of which ``load`` makes an equal one."""
        tangents = tuple(
            (t.output, t.size, t.stride, dtype_name(t.dtype), t.name, str(t.device)) for t in self.tangents
        )
        kept = self.kept, self.checked, dict(self.uses or {}), self.is_freed
        return tangents, self.leaves, self.gradients, *kept, self.has_demands, self.strides, self.needs, self.held

    @staticmethod
    def load(dumped: tuple[Any, ...]) -> Link:
        """What ``dump`` made a literal of."""
        tangents, *rest = dumped
        looks = ((o, size, stride, dtype_of(d), name, torch.device(on)) for o, size, stride, d, name, on in tangents)
        return Link(tuple(Tangent(*look) for look in looks), *rest)


def follow(
    outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], leaves: Sequence[int]
) -> tuple[Link | None, list[torch.Tensor], list[torch.Tensor]]:
    """While a block is traced: its link without what is kept, tangents of its outputs, and gradients of its leaves.

    Nothing of them where no output has a history. Raises Unfit.
    """
    followed = {i: x for i, x in enumerate(outputs) if x.requires_grad}
    if not followed:
        return None, [], []
    if any(x.is_complex() or x.layout is not torch.strided for x in followed.values()):
        raise Unfit("an output with a history is complex or sparse")
    tangents = [torch.empty_like(x.detach()) for x in followed.values()]
    kept = Kept(followed, {i: inputs[i] for i in leaves})
    if kept.is_chained():
        raise Unfit("an output is part of the history of another")
    storages, reaching, uses, kept_any = kept.needing(), kept.reaching(), kept.uses(), kept.is_any()
    held = tuple(i for i, x in enumerate(inputs) if kept.holds(x))
    found = torch.autograd.grad(list(followed.values()), [inputs[i] for i in reaching], tangents)
    gradients = _apart(found, [*inputs, *outputs, *tangents])
    checked = [(INPUT, i) for i, x in enumerate(inputs) if torch_private.storage_key(x) in storages]
    checked += [(OUTPUT, i) for i, x in enumerate(outputs) if torch_private.storage_key(x) in storages]
    places = {INPUT: inputs, OUTPUT: outputs}
    needs = tuple(storages[torch_private.storage_key(places[kind][i])] for kind, i in checked)
    shown = (
        Tangent(i, tuple(t.shape), t.stride(), t.dtype, _name(outputs[i]), t.device) for i, t in zip(followed, tangents)
    )
    link = Link(tuple(shown), tuple(reaching), tuple(reaching.items()), (), tuple(checked), uses, kept_any)
    link = replace(link, needs=needs, held=held)
    return link, tangents, gradients


def _name(output: torch.Tensor) -> str:
    assert output.grad_fn is not None
    return output.grad_fn.name()


def cut_linked(link: Link, results: Results, module: torch.fx.GraphModule) -> tuple[Link, torch.fx.GraphModule]:
    """The link with what is kept, and the kernel of the backward pass, which is taken out of the module; raises Unfit.

    A pass whose gradients have a history does the operations again: what they write is not theirs to read then.
    """
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    differentiated = [results.outputs[tangent.output] for tangent in link.tangents]
    if depends_on([*differentiated, *results.gradients], [inputs[i] for i in results.written]):
        raise Unfit("its gradients depend on what it writes")
    halves = cut(module, results)
    checked = tuple(source for source in link.checked if source not in halves.kept)
    has_demands = keep_in_bounds(halves.backward, has_demands=False)
    known = dict(zip(link.checked, link.needs))
    needs = tuple(() if source[0] == EXTRA else known.get(source) for source in (*halves.kept, *checked))
    link = replace(link, kept=halves.kept, strides=halves.strides, checked=checked, needs=needs)
    return replace(link, has_demands=has_demands), halves.backward


def _apart(gradients: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients, each with memory of its own: autograd may hand one to a leaf as it is."""
    memory = {torch_private.storage_key(other) for other in others}
    found = []
    for gradient in gradients:
        if gradient.layout is not torch.strided:
            raise Unfit("a gradient is not like its leaf")
        if torch_private.storage_key(gradient) in memory:
            gradient = gradient.clone(memory_format=torch.contiguous_format)
        memory.add(torch_private.storage_key(gradient))
        found.append(gradient)
    return found
