"""A block in emitted code: the kernels it has, asked at each call, and the making of one more.

A call that no kernel takes gets None, and the block's operations are done one by one, as they stand in the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from janusc.lowering.ir import Graph
from janusc.runtime.kernels.check import WRONG, Check
from janusc.runtime.kernels.classes import InputClass, class_of
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.joint import sample_of, split_block
from janusc.runtime.kernels.kernel import Kernel
from janusc.runtime.kernels.linked_check import check_of
from janusc.runtime.kernels.linking import kernel_of
from janusc.runtime.kernels.makers import Maker
from janusc.runtime.kernels.methods import Methods
from janusc.runtime.transaction import UndoLog

MOST = 4
"""Classes of inputs that one block has kernels for; it meets others with its operations one by one."""


def _reasons(failures: Sequence[str]) -> list[str]:
    return [f"no kernel: {failure}" for failure in dict.fromkeys(failures)]


class EarlySite:
    """The place of a block that has a kernel from the first call with inputs of a class on.

    In that call its operations run, and the kernel's results are compared with theirs.
    """

    measures = True
    """Whether ``stop`` is to be called after the operations were done one by one, while there is one ``running``."""

    def __init__(self, graph: Graph, objects: Mapping[str, Any], bare: frozenset[int], maker: Maker) -> None:
        self.awake = True
        """Whether it is of use to ask for a kernel."""
        self.failures: list[str] = []
        """Why classes of inputs have no kernel."""
        self._graph, self._objects, self._bare, self._maker = graph, objects, bare, maker
        self._block, self._methods = split_block(graph, objects), Methods(graph)
        self._kernels: tuple[Kernel, ...] = ()
        self._unfit: list[InputClass] = []
        self._unchecked: list[Kernel] = []
        self.running: tuple[Kernel, Check] | None = None
        """What is compared with the operations that run just now."""

    def __call__(self, undo: UndoLog | None, *inputs: Any) -> Sequence[Any] | None:
        """The outputs by a kernel; None where none takes the inputs, and nothing was done."""
        self.running = None  # an error in the operations may have left it
        for kernel in self._kernels:
            if kernel.inputs.takes(inputs):
                return self._run(kernel, undo, inputs)
        if any(known.takes(inputs) for known in self._unfit):
            return None
        made = next((kernel for kernel in self._unchecked if kernel.inputs.takes(inputs)), None)
        if made is None and len(self._kernels) + len(self._unfit) + len(self._unchecked) >= MOST:
            self.awake = bool(self._kernels or self._unchecked)
            return None
        self._compare(made or self._make(inputs), inputs)
        return None

    @property
    def is_settled(self) -> bool:
        """Whether there are inputs for which a kernel is in use."""
        return bool(self._kernels)

    def settled(self, inputs: Sequence[Any]) -> Kernel | None:
        """The kernel that is in use for these inputs."""
        for kernel in self._kernels:
            if kernel.inputs.takes(inputs):
                return kernel
        return None

    def reject(self, kernel: Kernel, error: Unfit) -> None:
        """Use a kernel no more."""
        self._kernels = tuple(other for other in self._kernels if other is not kernel)
        self._give_up(kernel.inputs, error)

    def _compare(self, kernel: Kernel | None, inputs: Sequence[Any]) -> None:
        """Have the operations run, with the results of a new kernel at hand."""
        if kernel is None or not kernel.is_usable(inputs):
            return
        try:
            self.running = kernel, check_of(kernel, inputs)
        except Unfit as error:
            self._unchecked.remove(kernel)
            self._give_up(kernel.inputs, error)

    def _run(self, kernel: Kernel, undo: UndoLog | None, inputs: Sequence[Any]) -> Sequence[Any] | None:
        try:
            return kernel.run(undo, inputs)
        except Unfit as error:
            self.reject(kernel, error)
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
        kernel = kernel_of(found, self._block, sample, self._bare, self._methods, made)
        self._unchecked.append(kernel)
        return kernel

    def stop(self, outputs: Sequence[Any]) -> None:
        """The operations were done one by one, with these outputs."""
        compared, self.running = self.running, None
        if compared is None:
            return
        kernel, check = compared
        self._unchecked.remove(kernel)
        if check.passes(outputs):
            self._kernels += (kernel,)
        else:
            self._give_up(kernel.inputs, Unfit(WRONG))

    def wait(self) -> None:
        """Nothing is on its way."""

    def report(self) -> list[str]:
        """What there are kernels for, and why for others not."""
        count = len(self._kernels)
        return [*(["a kernel" if count == 1 else f"{count} kernels"] if count else []), *_reasons(self.failures)]
