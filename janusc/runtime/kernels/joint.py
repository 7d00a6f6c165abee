"""A block as a traced graph: its operations, and where a backward pass ends it, the gradients of its leaves.

Derivatives come from torch: the block runs once on fake tensors under autograd, and what autograd does is traced.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from janusc import torch_private
from janusc.lowering.ir import Graph, Tup, Value
from janusc.lowering.rewrite import inlined, rewrite_graph
from janusc.runtime.compiler.program import Input, NotCarried
from janusc.runtime.interpreter import Machine
from janusc.runtime.kernels.autocasts import Autocast, Surroundings, surroundings
from janusc.runtime.kernels.bounds import keep_in_bounds
from janusc.runtime.kernels.classes import is_literal
from janusc.runtime.kernels.cut import Results
from janusc.runtime.kernels.demands import Demands
from janusc.runtime.kernels.draws import lift_draws
from janusc.runtime.kernels.faithful import check_faithful, rounding_of
from janusc.runtime.kernels.functional import Unfit, make_functional
from janusc.runtime.kernels.history import may_have_history
from janusc.runtime.kernels.linked import Link, cut_linked, follow
from janusc.runtime.kernels.pools import pool_first
from janusc.runtime.kernels.spent import keeps_tensors, leads_to
from janusc.types import LITERALS


@dataclass(frozen=True)
class BlockGraph:
    """A block as a closed graph without a backward pass, of which ``loss`` and ``leaves`` are said if one ends it.

    ``written``: the inputs whose contents were kept, so that they may be written.
    """

    graph: Graph
    objects: Mapping[str, Any]
    loss: Value | None = None
    leaves: tuple[Value, ...] = ()
    written: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Sample:
    """What inputs of one class look like: the tensors at these positions, and the literals at others.

    ``leaves``: where the tensors are that get gradients. ``grad``: whether gradients are enabled. ``around``: what is
    set of autocast, where that matters, and then ``computed``: the tensors that are no leaves to it.
    """

    tensors: tuple[Input, ...]
    positions: tuple[int, ...]
    literals: Mapping[int, Any]
    leaves: tuple[int, ...]
    grad: bool
    around: Surroundings | None = None
    computed: tuple[int, ...] = ()

    def dump(self) -> tuple[Any, ...]:
        """All but the tensors, as a literal, of which ``load`` makes an equal sample."""
        around = self.around and (tuple(self.around.autocast), self.around.begins_anew)
        return self.positions, dict(self.literals), self.leaves, self.grad, around, self.computed

    @staticmethod
    def load(dumped: tuple[Any, ...]) -> Sample:
        """The sample that ``dump`` made a literal of, without tensors."""
        positions, literals, leaves, grad, around, computed = dumped
        known = around and Surroundings(Autocast(*around[0]), around[1])
        return Sample((), positions, literals, leaves, grad, known, computed)

    def surrounded(self) -> AbstractContextManager[None]:
        """Inside, autocast is set as it is around the block."""
        return contextlib.nullcontext() if self.around is None else self.around.autocast.applied()


@dataclass
class Facts:
    """What is known of a traced block beside its operations: its results are outputs, new contents and gradients.

    ``constants``: the outputs that are no tensors, by their index. ``histories``: of each output that has one in eager
    mode, the name of its last node. ``written`` and ``leaves``: where among the inputs is what gets the new contents,
    and the gradients; ``changes``: how often each of the former was written. ``has_demands``: whether one more result
    says that all contents are as the operations demand. ``draws``: what is drawn before, behind the inputs. ``link``:
    of a block whose history goes on, of which a second kernel computes the gradients. ``rounding``: the step
    from 1 to the next number of the coarsest dtype that it computes with.
    """

    outputs: int = 0
    constants: dict[int, Any] = field(default_factory=dict)
    histories: dict[int, str] = field(default_factory=dict)
    written: tuple[int, ...] = ()
    leaves: tuple[int, ...] = ()
    changes: tuple[int, ...] = ()
    has_demands: bool = False
    draws: tuple[str, ...] = ()
    link: Link | None = None
    rounding: float = 0.0

    def dump(self) -> tuple[Any, ...]:
        """As a literal, of which ``load`` makes equal facts."""
        constants = {
            i: (type(x) is torch.Size, tuple(x) if type(x) is torch.Size else x) for i, x in self.constants.items()
        }
        effects = self.written, self.leaves, self.changes, self.has_demands, self.draws, self.link and self.link.dump()
        return self.outputs, constants, self.histories, *effects, self.rounding

    @staticmethod
    def load(dumped: tuple[Any, ...]) -> Facts:
        """The facts that ``dump`` made a literal of."""
        outputs, constants, histories, written, leaves, changes, has_demands, draws, link, rounding = dumped
        made = {i: torch.Size(x) if is_size else x for i, (is_size, x) in constants.items()}
        effects = tuple(written), tuple(leaves), tuple(changes), has_demands, tuple(draws), link and Link.load(link)
        return Facts(outputs, made, histories, *effects, rounding)


def split_block(graph: Graph, objects: Mapping[str, Any]) -> BlockGraph:
    """A closed graph of a block, with what is no computation apart."""
    saves = {v for node in inlined(graph).nodes if node.op.name == "save" for v in node.inputs}
    written = tuple(v for v in graph.params if v in saves)
    last = graph.nodes[-1]
    graph = rewrite_graph(graph, _computing)
    if last.op.name != "backward":
        return BlockGraph(graph, objects, written=written)
    loss, leaves = last.args
    assert isinstance(loss, Value) and isinstance(leaves, Tup)
    named = tuple(v for v in leaves.items if isinstance(v, Value))
    return BlockGraph(graph, objects, loss, named, written)


def _computing(graph: Graph) -> Graph:
    return replace(graph, nodes=tuple(node for node in graph.nodes if node.op.name not in ("save", "backward")))


def sample_of(block: BlockGraph, inputs: Sequence[Any], positions: Sequence[int]) -> Sample:
    """What inputs of a block look like, of which those at the positions are tensors; raises Unfit."""
    leaves = _leaves_of(block, inputs)
    literals = {i: x for i, x in enumerate(inputs) if i not in positions}
    try:
        tensors = tuple(Input.of(inputs[i]) for i in positions)
    except NotCarried as error:
        raise Unfit(str(error)) from None
    around = surroundings(block.graph, inputs, tensors)
    computed = () if around is None else tuple(i for i in positions if inputs[i].grad_fn is not None)
    return Sample(tensors, tuple(positions), literals, tuple(leaves), torch.is_grad_enabled(), around, computed)


def trace_block(block: BlockGraph, sample: Sample) -> tuple[list[torch.fx.GraphModule], Facts]:
    """Trace a block for inputs like these, to one graph, or two where its history goes on; raises Unfit."""
    facts = Facts()
    try:
        module = torch_private.compiling.trace(
            functools.partial(run, block, sample, facts), [item.make for item in sample.tensors]
        )
        return complete(block, sample, facts, module), facts
    except Unfit:
        raise
    except Exception as error:
        raise Unfit(f"{type(error).__name__} while it was traced: {error}") from None


def complete(
    block: BlockGraph, sample: Sample, facts: Facts, module: torch.fx.GraphModule
) -> list[torch.fx.GraphModule]:
    """Make the traced graph of a block one of values alone, or two; raises Unfit where it can't be a kernel."""
    facts.draws = lift_draws(module)
    make_functional(module)
    check_faithful(module)
    facts.rounding = rounding_of(module)
    facts.outputs = len(block.graph.outputs)
    _drop_unwritten(module, facts)
    modules = [module]
    if facts.link is not None:
        facts.link, backward = cut_linked(facts.link, _parts_of(module, sample, facts), module)
        modules.append(backward)
    facts.has_demands = keep_in_bounds(module, facts.has_demands)
    module.graph.eliminate_dead_code()
    module.recompile()
    _check(module, facts)
    return modules


def _parts_of(module: torch.fx.GraphModule, sample: Sample, facts: Facts) -> Results:
    assert facts.link is not None
    results = iter(_results_of(module))
    outputs = list(itertools.islice(results, facts.outputs - len(facts.constants)))
    contents = list(itertools.islice(results, len(facts.written)))
    met = list(itertools.islice(results, int(facts.has_demands)))
    tangents = list(itertools.islice(results, len(facts.link.tangents)))
    written = frozenset(map(sample.positions.index, facts.written))
    return Results(len(sample.positions), outputs, contents, met, tangents, list(results), written)


class _Tracing(Machine):
    """Runs a block on tensors without contents: what is asserted of these is demanded."""

    def __init__(self, objects: Mapping[str, Any], demands: Demands) -> None:
        super().__init__(objects)
        self._demands = demands

    def holds(self, target: str, args: Sequence[Any]) -> bool:
        if target not in ("true", "false") or not isinstance(args[0], torch.Tensor):
            return super().holds(target, args)
        self._demands.require(args[0], target == "true")
        return True


def run(block: BlockGraph, sample: Sample, facts: Facts, *tensors: torch.Tensor) -> list[torch.Tensor]:
    """The block on fake tensors: its outputs, the new contents of what it writes, its gradients."""
    params = block.graph.params
    written = [i for i, param in enumerate(params) if param in block.written]
    values: list[Any] = [sample.literals.get(i) for i in range(len(params))]
    for position, tensor in zip(sample.positions, tensors):
        values[position] = tensor.clone() if position in written else tensor
    wanted = block.graph.outputs if block.loss is None else (*block.graph.outputs, block.loss)
    # a history that others see is that of the operations as they stand
    graph = block.graph if block.loss is None and sample.leaves else pool_first(block.graph)
    demands, given = Demands(), [values[i] for i in sample.positions]
    with torch.set_grad_enabled(sample.grad):
        with demands, sample.surrounded():
            for position in sample.computed:
                values[position] = values[position].view_as(values[position])
            made = _Tracing(block.objects, demands).run(replace(graph, outputs=wanted), values)
        outputs = made[: len(block.graph.outputs)]
        found = _outputs_of(outputs, facts)
        met = demands.are_met()
        contents = [values[i] for i in written]
        facts.written, facts.has_demands = tuple(written), bool(met)
        facts.changes = tuple(content._version for content in contents)
        if any(content.requires_grad for content in contents):
            raise Unfit("what it writes has a history")
        if block.loss is not None:
            facts.histories = _histories(outputs, made[-1])
            leaves = [values[i] for i in sample.leaves]
            with sample.surrounded():
                gradients, facts.leaves = _differentiate(made[-1], leaves, sample.leaves)
            return [*found, *contents, *gradients, *met]
        if not sample.leaves:
            if any(getattr(x, "requires_grad", False) for x in outputs):
                raise Unfit("an output has a history of its own")
            return [*found, *contents, *met]
        leaves = list(map(sample.positions.index, sample.leaves))
        facts.link, tangents, gradients = follow([x for x in outputs if isinstance(x, torch.Tensor)], given, leaves)
    return [*found, *contents, *met, *tangents, *gradients]


def _outputs_of(outputs: Sequence[Any], facts: Facts) -> list[torch.Tensor]:
    """The tensors among the outputs; the others are the same for all inputs of the class."""
    tensors = []
    for index, output in enumerate(outputs):
        if isinstance(output, torch.Tensor):
            tensors.append(output.detach())
        elif type(output) in LITERALS and is_literal(output) or type(output) is torch.Size:
            facts.constants[index] = output
        else:
            raise Unfit("an output is an object")
    return tensors


def _leaves_of(block: BlockGraph, inputs: Sequence[Any]) -> list[int]:
    """Where the inputs are that get gradients: only leaves may, where a backward pass ends the block."""
    params = block.graph.params
    requiring = [i for i, x in enumerate(inputs) if getattr(x, "requires_grad", False)]
    if block.loss is None:
        is_followed = torch.is_grad_enabled() and may_have_history(block.graph, (params[i] for i in requiring))
        return requiring if is_followed else []
    if any(params[i] not in block.leaves or inputs[i].grad_fn is not None for i in requiring):
        raise Unfit("its history begins before it")
    return requiring


def _differentiate(
    loss: torch.Tensor, leaves: Sequence[torch.Tensor], positions: Sequence[int]
) -> tuple[list[torch.Tensor], tuple[int, ...]]:
    if loss.numel() != 1 or not loss.requires_grad:
        raise Unfit("its loss is no number with a history")
    found = torch.autograd.grad(loss, list(leaves), allow_unused=True)
    pairs = [(i, leaf, g) for i, leaf, g in zip(positions, leaves, found) if g is not None]
    return [_laid_out(g, leaf) for _, leaf, g in pairs], tuple(i for i, _, _ in pairs)


def _laid_out(gradient: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
    """A gradient in the layout that autograd gives it: that of its leaf, where that is dense."""
    like = torch.empty_like(leaf.detach(), memory_format=torch.preserve_format)
    if gradient.layout is not torch.strided or gradient.dtype is not leaf.dtype:
        raise Unfit("a gradient is not like its leaf")
    return gradient.clone() if gradient.stride() == like.stride() else like.copy_(gradient)


def _histories(outputs: Sequence[torch.Tensor], loss: torch.Tensor) -> dict[int, str]:
    """The outputs with a history, all of which the backward pass has to use up."""
    histories = {}
    for index, output in enumerate(outputs):
        if not isinstance(output, torch.Tensor) or not output.requires_grad:
            continue
        node = output.grad_fn
        if not leads_to(loss.grad_fn, node) or not keeps_tensors(node):
            raise Unfit("an output has a history that the backward pass leaves usable")
        assert node is not None
        histories[index] = node.name()
    return histories


def _drop_unwritten(module: torch.fx.GraphModule, facts: Facts) -> None:
    """Take out the new contents of what is as it was; they stand behind the outputs."""
    results, first, written = _results_of(module), facts.outputs - len(facts.constants), facts.written
    before, contents, after = results[:first], results[first : first + len(written)], results[first + len(written) :]
    kept = [new for new in zip(written, facts.changes, contents) if not _is_copy(new[-1])]
    module.graph.output_node().args = ([*before, *(new for _, _, new in kept), *after],)
    facts.written, facts.changes = tuple(i for i, _, _ in kept), tuple(count for _, count, _ in kept)


def _results_of(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    results: Any = module.graph.output_node().args[0]
    return list(results)


def _is_copy(node: Any) -> bool:
    return node.target is torch.ops.aten.clone.default and node.args[0].op == "placeholder"


def _check(module: torch.fx.GraphModule, facts: Facts) -> None:
    """Each output has memory of its own, so that to change one in place changes no other."""
    memory = {torch_private.storage_key(n.meta["val"]) for n in module.graph.nodes if n.op == "placeholder"}
    results = _results_of(module)
    if facts.link is not None:  # what is kept may be an output before it got its shape
        results = results[: facts.outputs - len(facts.constants) + len(facts.written)]
    for node in results:
        key = torch_private.storage_key(node.meta["val"])
        if key in memory:
            raise Unfit("an output shares its memory")
        memory.add(key)
