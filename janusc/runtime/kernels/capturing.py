"""A block that has a recorded kernel from the first call with inputs of a class on, where these are on one device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from janusc.lowering.ir import Graph
from janusc.runtime.kernels.captured import capturing
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.joint import Sample
from janusc.runtime.kernels.makers import Compiled, Maker, Making, made_here
from janusc.runtime.kernels.recorder import Recorder
from janusc.runtime.kernels.site import EarlySite

ELSEWHERE = "its tensors are not all on one CUDA device, where calls could be recorded"


def recorded_by(recorder: Recorder) -> Maker:
    """A maker of kernels whose work is recorded."""
    inner = made_here(capturing(recorder))

    def make(graph: Graph, objects: Mapping[str, Any], sample: Sample) -> Making:
        devices = {item.device for item in sample.tensors}
        if len(devices) != 1 or not recorder.takes(torch.device(devices.pop())):
            raise Unfit(ELSEWHERE)
        making = inner(graph, objects, sample)
        made = making.poll()
        assert made is not None
        facts, _ = made
        if recorder.is_waited_for and (facts.has_demands or facts.link is not None and facts.link.has_demands):
            raise Unfit("to see whether contents are as its operations demand, the device would be waited for")
        return making

    return make


class CapturingSite(EarlySite):
    """The place of such a block; it says which kernels run without a recording."""

    def __init__(self, graph: Graph, objects: Mapping[str, Any], bare: frozenset[int], maker: Maker) -> None:
        self._made: list[Compiled] = []

        def make(graph: Graph, objects: Mapping[str, Any], sample: Sample) -> Making:
            making = maker(graph, objects, sample)
            made = making.poll()
            self._made += [] if made is None else made[1]
            return making

        super().__init__(graph, objects, bare, make)

    def report(self) -> list[str]:
        """The same, and why calls are not recorded."""
        failures = dict.fromkeys(getattr(compiled, "failure", None) for compiled in self._made)
        return [*super().report(), *(f"not recorded: {failure}" for failure in failures if failure)]
