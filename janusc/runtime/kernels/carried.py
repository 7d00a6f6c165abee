"""A block as text that the compiler process makes a kernel of, tracing included: this process waits for neither."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from janusc.lowering.ir import Graph, Ref, walk_args
from janusc.lowering.printer import print_graph
from janusc.lowering.reader import read_graph
from janusc.runtime.compiler.program import Input, NotCarried, Program
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.joint import Facts, complete, leaves_of, run, split_block


def carry(graph: Graph, inputs: Sequence[Any], positions: Sequence[int]) -> Program:
    """The program of a closed block for inputs like these, with tensors at these positions; raises Unfit."""
    if any(
        isinstance(leaf, Ref) for node in graph.nodes for leaf in walk_args((node.args, *(v for _, v in node.kwargs)))
    ):
        raise Unfit("it refers to objects of this process")
    leaves = leaves_of(split_block(graph, {}), inputs)
    literals = {i: x for i, x in enumerate(inputs) if i not in positions}
    text = print_graph(replace(graph, nodes=tuple(replace(node, span=None) for node in graph.nodes)))
    given = text, literals, tuple(positions), tuple(leaves), torch.is_grad_enabled()
    source = f"from {__name__} import revive\n\nprogram, complete = revive(*{given!r})\n"
    try:
        return Program(source, tuple(Input.of(inputs[i]) for i in positions))
    except NotCarried as error:
        raise Unfit(str(error)) from None


def revive(
    text: str, literals: Mapping[int, Any], positions: Sequence[int], leaves: Sequence[int], grad: bool
) -> tuple[Callable[..., Any], Callable[[torch.fx.GraphModule], Any]]:
    """The function of a carried block, to be traced, and what completes the graph that comes of it."""
    block, facts = split_block(read_graph(text), {}), Facts()
    values = [literals.get(i) for i in range(len(block.graph.params))]

    def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        with torch.set_grad_enabled(grad):
            return run(block, values, positions, leaves, facts, *tensors)

    return function, functools.partial(_completed, block, facts)


def _completed(block: Any, facts: Facts, module: torch.fx.GraphModule) -> Any:
    complete(block, facts, module)
    return facts.dump()
