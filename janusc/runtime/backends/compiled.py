"""Blocks as kernels, by torch's own compiler or one of the user's: equal within the rounding of reordered sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from janusc.lowering.ir import Graph, Value
from janusc.runtime.backends import aten  # noqa: F401  the exact one comes first in the table
from janusc.runtime.backends.base import BACKENDS, Site, StepPlace
from janusc.runtime.blocks import Block
from janusc.runtime.kernels.capturing import CapturingSite, recorded_by
from janusc.runtime.kernels.extent import extents
from janusc.runtime.kernels.makers import Compiled, Maker, asked_for, made_here, waited_for
from janusc.runtime.kernels.measured import MeasuredSite
from janusc.runtime.kernels.recorder import CudaRecorder
from janusc.runtime.kernels.site import EarlySite
from janusc.runtime.kernels.updates.places import EarlyStep, MeasuredStep


class SiteMaker(Protocol):
    """A kind of site."""

    def __call__(self, graph: Graph, objects: Mapping[str, Any], bare: frozenset[int], maker: Maker) -> Site:
        """The site of a closed block, of whose outputs some need no history, with kernels by this maker."""


@dataclass(frozen=True)
class Kernels:
    """Blocks that have kernels for classes of inputs; the site says from when on."""

    name: str
    maker: Maker
    site: SiteMaker
    stepping: Callable[[], StepPlace] | None = None

    def blocks(self, graph: Graph, uses: dict[Value, int]) -> tuple[Block, ...]:
        """Runs of tensor operations with what stands between them, and the backward passes from them."""
        return extents(graph, uses)

    def compile(self, block: Graph, objects: Mapping[str, Any], bare: frozenset[int]) -> Site:
        """A place that makes its kernel when it sees inputs."""
        return self.site(block, objects, bare, self.maker)

    def step(self) -> StepPlace | None:
        """What makes steps by kernels, if this backend has them."""
        return None if self.stepping is None else self.stepping()


AUTO = BACKENDS.register("auto", Kernels("auto", asked_for, MeasuredSite, MeasuredStep))
INDUCTOR = BACKENDS.register("inductor", Kernels("inductor", waited_for, EarlySite, EarlyStep))
CUDAGRAPH = BACKENDS.register("cudagraph", Kernels("cudagraph", recorded_by(CudaRecorder()), CapturingSite))


def register_backend(name: str, compiler: Callable[[torch.fx.GraphModule, list[torch.Tensor]], Any]) -> None:
    """Let ``janus.compile(f, backend=name)`` have its blocks compiled by ``compiler(module, examples)``.

    The module is a graph of ATen operations, decomposed, without writes; random numbers are drawn before, and are among
    its inputs. Where a backward pass ends the block, the gradients are among its outputs. A block whose history goes on
    is two modules: the second one gives gradients, of what the first one has kept and of tangents. The examples are
    fake tensors: shapes, strides, dtypes and devices without data. What comes back is called with such tensors,
    gradients disabled, and gives a list or tuple of as many tensors as the module does, each with memory of its own. It
    must not change its arguments.

    Raises TypeError where the name is no string or the compiler can't be called, and ValueError for a name that is
    taken.
    """
    if not isinstance(name, str) or not callable(compiler):
        raise TypeError("janusc: register_backend needs a name and a function of a module and examples")
    if name in BACKENDS:
        raise ValueError(f"janusc: there is a backend {name!r} already")

    def compile_module(module: torch.fx.GraphModule) -> Compiled:
        examples = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
        made = compiler(module, examples)

        def run(inputs: list[torch.Tensor]) -> Sequence[Any]:
            results: Sequence[Any] = made(*inputs)
            return results

        return run

    BACKENDS.register(name, Kernels(name, made_here(compile_module), EarlySite))
