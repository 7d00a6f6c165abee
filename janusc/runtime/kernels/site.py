"""A block in emitted code: the kernels it has, asked at each call, and the making of one more.

A call that no kernel takes gets None, and the block's operations are done one by one, as they stand in the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from janusc.lowering.ir import Graph
from janusc.runtime.kernels.classes import InputClass, class_of
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.joint import sample_of, split_block
from janusc.runtime.kernels.kernel import Kernel
from janusc.runtime.kernels.makers import Maker
from janusc.runtime.transaction import UndoLog

MOST = 4
"""Classes of inputs that one block has kernels for; it meets others with its operations one by one."""


def _reasons(failures: Sequence[str]) -> list[str]:
    return [f"no kernel: {failure}" for failure in dict.fromkeys(failures)]


class EarlySite:
    """The place of a block that has a kernel from the first call with inputs of a class on."""

    measures = False
    """Whether ``stop`` is to be called after the operations were done one by one, while there is one ``running``."""

    running = None

    def __init__(self, graph: Graph, objects: Mapping[str, Any], bare: frozenset[int], maker: Maker) -> None:
        self.awake = True
        """Whether it is of use to ask for a kernel."""
        self.failures: list[str] = []
        """Why classes of inputs have no kernel."""
        self._graph, self._objects, self._bare, self._maker = graph, objects, bare, maker
        self._block = split_block(graph, objects)
        self._kernels: tuple[Kernel, ...] = ()
        self._unfit: list[InputClass] = []

    def __call__(self, undo: UndoLog | None, *inputs: Any) -> Sequence[Any] | None:
        """The outputs by a kernel; None where none takes the inputs, and nothing was done."""
        for kernel in self._kernels:
            if kernel.inputs.takes(inputs):
                return self._run(kernel, undo, inputs)
        if any(known.takes(inputs) for known in self._unfit):
            return None
        if len(self._kernels) + len(self._unfit) >= MOST:
            self.awake = bool(self._kernels)
            return None
        made = self._make(inputs)
        return None if made is None else self._run(made, undo, inputs)

    def _run(self, kernel: Kernel, undo: UndoLog | None, inputs: Sequence[Any]) -> Sequence[Any] | None:
        try:
            return kernel.run(undo, inputs)
        except Unfit as error:
            self._kernels = tuple(other for other in self._kernels if other is not kernel)
            self._give_up(kernel.inputs, error)
            return None

    def _give_up(self, inputs: InputClass, error: Unfit) -> None:
        self.failures.append(str(error))
        self._unfit.append(inputs)

    def _make(self, inputs: Sequence[Any]) -> Kernel | None:
        found = class_of(inputs)
        if found is None or not found.takes(inputs):
            return None
        try:
            sample = sample_of(self._block, inputs, found.positions)
            made = self._maker(self._graph, self._objects, sample).poll()
        except Unfit as error:
            self._give_up(found, error)
            return None
        assert made is not None
        kernel = Kernel(found, self._bare, *made)
        self._kernels += (kernel,)
        return kernel

    def stop(self) -> None:
        """The operations were done one by one."""

    def wait(self) -> None:
        """Nothing is on its way."""

    def report(self) -> list[str]:
        """What there are kernels for, and why for others not."""
        count = len(self._kernels)
        return [*(["a kernel" if count == 1 else f"{count} kernels"] if count else []), *_reasons(self.failures)]
