"""A block as text that the compiler process makes a kernel of, tracing included: this process waits for neither."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from janusc.lowering.ir import Graph, Ref, walk, walk_args
from janusc.lowering.printer import print_graph
from janusc.lowering.reader import read_graph
from janusc.lowering.rewrite import rewrite_graph
from janusc.runtime.compiler.program import Completion, Program
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.joint import BlockGraph, Facts, Sample, complete, run, split_block


def carry(graph: Graph, sample: Sample) -> Program:
    """The program of a closed block for inputs of one class; raises Unfit."""
    arguments = ((node.args, *(value for _, value in node.kwargs)) for node in walk(graph))
    if any(isinstance(leaf, Ref) for given in arguments for leaf in walk_args(given)):
        raise Unfit("it refers to objects of this process")
    text = print_graph(rewrite_graph(graph, _without_places))
    given = text, *sample.dump()
    return Program(f"from {__name__} import revive\n\nprogram, complete = revive(*{given!r})\n", sample.tensors)


def _without_places(graph: Graph) -> Graph:
    return replace(graph, nodes=tuple(replace(node, span=None) for node in graph.nodes))


def revive(text: str, *sample: Any) -> tuple[Callable[..., Any], Completion]:
    """The function of a carried block, to be traced, and what completes the graph that comes of it."""
    block, known, facts = split_block(read_graph(text), {}), Sample.load(sample), Facts()
    return functools.partial(run, block, known, facts), functools.partial(_completed, block, known, facts)


def _completed(
    block: BlockGraph, sample: Sample, facts: Facts, module: torch.fx.GraphModule
) -> tuple[Any, list[torch.fx.GraphModule]]:
    modules = complete(block, sample, facts, module)
    return facts.dump(), modules
