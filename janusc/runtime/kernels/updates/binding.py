"""From an optimizer to a call of its kernel: the quick look, made at each step.

It holds no tensor and no identity of one: what is read is compared with how it looked when the kernel was asked for.
"""

from __future__ import annotations

import ctypes
import functools
import operator
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, compress
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from janusc import torch_private
from janusc.runtime.compiler.settings import dtype_of
from janusc.runtime.kernels.updates import memory, rules
from janusc.runtime.kernels.updates.survey import Survey
from janusc.runtime.numbers import is_exact

Kernel = Callable[[list[Tensor]], Any]


_GRADIENT = operator.attrgetter("grad")
_VALUE = operator.attrgetter("value")
_TYPE_CODES = {"float32": "f", "float64": "d"}
_CELLS: Mapping[str, Any] = {"float32": ctypes.c_float, "float64": ctypes.c_double}
_MOST_STEPS = 2**24  # up to which the counters add up without rounding
_MOST_PROVEN = 64


def _reader(readers: Sequence[Callable[[Any], tuple[Any, ...]]]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What reads the options of all groups."""
    if len(readers) == 1:
        (one,) = readers
        return lambda groups: one(groups[0])
    return lambda groups: list(chain.from_iterable([read(group) for read, group in zip(readers, groups)]))


class Binding:
    """How the tensors of an optimizer reach a kernel, with the numbers that it is given."""

    def __init__(self, survey: Survey) -> None:
        layout = self.layout = survey.layout
        self.rule, self.sizes = layout.rule, list(survey.sizes)
        self.kernel: Kernel | None = None
        self.is_present, self.is_absent = survey.present, [not here for here in survey.present]
        self.has_all = all(survey.present)
        self.keys = None if survey.keys == tuple(range(len(survey.present))) else survey.keys
        self.places = None if survey.places == tuple(range(len(survey.keys))) else survey.places
        self._set_state()
        self.inputs = layout.inputs()[1:]
        self.count = len(layout.parts)
        self.are_parameters = torch_private.tensor_guards(survey.parameters)
        self.are_others = torch_private.tensor_guards(survey.tensors[self.count :])
        self.are_states = torch_private.tensor_guards(survey.tensors[2 * self.count :]) if self.has_state else None
        self._set_rows(survey.groups)
        self.extents = list(map(memory.extent, self.inputs))
        self.proven: dict[Any, tuple[memory.Ranges, Sequence[Any]]] = {}
        self.last: tuple[list[int], tuple[memory.Ranges, Sequence[Any]] | None] = [], None
        self.read = _reader(survey.readers)
        self.given: Sequence[Any] = (object(),)  # the options that were taken: none of them yet
        self.options: list[Mapping[str, Any]] = []
        self.fixed: list[float] | None = None
        self.written: list[float] = []
        self.host = array(_TYPE_CODES[layout.dtype], [0.0]) * (layout.rows * len(self.rule.constants))
        self.numbers = torch.frombuffer(self.host, dtype=dtype_of(layout.dtype))  # the same memory

    def _set_rows(self, groups: tuple[int, ...]) -> None:
        """The part and the group that stand for each row, the part that does for each, and where the counters are."""
        parts = self.layout.parts
        rows = [part.row for part in parts]
        leaders = [rows.index(row) for row in range(self.layout.rows)]
        self.rows = list(zip(leaders, groups))
        self.leaders = [leaders[row] for row in rows]
        place, self.counters = 2 * len(parts), []
        for part in parts:
            names = self.layout.state(part)
            if self.rule.is_counted:
                self.counters.append(place + names.index(rules.STEP))
            place += len(names)

    def _set_state(self) -> None:
        """What takes from the states, in the order of the parts that have some, the tensors that the kernel does."""
        names = [state for part in self.layout.parts if (state := self.layout.state(part))]
        self.has_state = bool(names)
        self.take: Callable[[Iterable[Any]], Iterable[Any]] = iter
        if len(set(names)) == 1:
            one = functools.partial(map, operator.itemgetter(*names[0]))
            self.take = one if len(names[0]) == 1 else lambda states: chain.from_iterable(one(states))
        elif names:
            self.take = lambda states: [state[name] for each, state in zip(names, states) for name in each]

    def listed(self, optimizer: Any) -> list[Tensor] | None:
        """The parameters of all groups; None where they are not as many as they were."""
        groups = optimizer.param_groups
        if len(groups) == 1:
            parameters = groups[0]["params"]
            sizes = [len(parameters)]
        else:
            parameters = list(chain.from_iterable(group["params"] for group in groups))
            sizes = [len(group["params"]) for group in groups]
        return parameters if type(parameters) is list and sizes == self.sizes else None

    def tensors(self, optimizer: Any) -> list[Tensor] | None:
        """What the kernel works on; None where something looks otherwise than it did.

        A parameter that has become the result of an operation has no gradient, for torch's step neither.
        """
        parameters = self.listed(optimizer)
        if parameters is None or self.are_parameters is None or self.are_others is None:
            return None
        if not self.are_parameters(*parameters):
            return None
        gradients = list(map(_GRADIENT, parameters))
        values = self._values(optimizer.state, parameters) if self.has_state else ()
        if values is None:
            return None
        if not self.has_all:
            if any(gradient is not None for gradient in compress(gradients, self.is_absent)):
                return None
            parameters, gradients = [list(compress(items, self.is_present)) for items in (parameters, gradients)]
        others = [*gradients, *values]
        return [*parameters, *others] if self.are_others(*others) else None

    def states(self, optimizer: Any, parameters: Sequence[Tensor]) -> list[Tensor] | None:
        """The state that the kernel works on, for all of these parameters; None where it looks otherwise."""
        if not self.has_all:
            return None
        if not self.has_state:
            return []
        values = self._values(optimizer.state, parameters)
        if values is None or self.are_states is None:
            return None
        found = list(values)
        return found if self.are_states(*found) else None

    def _values(self, known: Mapping[Tensor, Any], parameters: Sequence[Tensor]) -> Iterable[Tensor] | None:
        """The state that the kernel works on, where it is of the same parameters in the same order."""
        expected = parameters if self.keys is None else [parameters[position] for position in self.keys]
        if len(known) != len(expected) or not all(map(operator.is_, known, expected)):
            return None
        states: Any = known.values()
        if self.places is not None:
            states = list(states)
            states = [states[place] for place in self.places]
        return self.take(states)

    def prepare(self, optimizer: Any, tensors: Sequence[Tensor]) -> bool:
        """Write the numbers of the next step; False where the kernel does not do for it."""
        count = self.count
        found = self._prove(tensors[:count], tensors[2 * count :])
        if found is None:
            return False
        ranges, cells = found
        addresses = list(map(Tensor.data_ptr, tensors[count : 2 * count]))
        if not ranges.are_apart_from(addresses, self.extents[count : 2 * count]):
            return False
        numbers = self._numbers_of(optimizer, cells)
        if numbers is None:
            return False
        self.write(numbers)
        return True

    def figures(self, optimizer: Any, parameters: Sequence[Tensor], states: Sequence[Tensor]) -> list[float] | None:
        """The numbers of the next step, with gradients that are nowhere yet; None where the kernel does not do."""
        found = self._prove(parameters, states)
        return None if found is None else self._numbers_of(optimizer, found[1])

    def write(self, numbers: list[float]) -> None:
        """Give the kernel its numbers."""
        if numbers is not self.written and numbers != self.written:
            self.host[:] = array(self.host.typecode, numbers)
            self.written = numbers

    def _numbers_of(self, optimizer: Any, cells: Sequence[Any]) -> list[float] | None:
        """The numbers of the next step; None where the options are none for the kernel."""
        groups = optimizer.param_groups
        given = self.read(groups)
        if not all(map(operator.is_, given, self.given)) and not self._take(groups, given):
            return None
        return self._counted(cells) if cells else self.fixed

    def _prove(
        self, parameters: Sequence[Tensor], states: Sequence[Tensor]
    ) -> tuple[memory.Ranges, Sequence[Any]] | None:
        """The memory that is changed, found to be apart from each other, and the counters of steps in it.

        Parameters and state stay where they are; gradients may be elsewhere at each step.
        """
        changed = list(map(Tensor.data_ptr, [*parameters, *states]))
        if changed == self.last[0]:
            return self.last[1]
        proven = self.proven.get(tuple(changed))
        if proven is None:
            count = self.count
            sizes = (*self.extents[:count], *self.extents[2 * count :])
            ranges = memory.ranges_apart(zip(changed, sizes))
            if ranges is None:
                return None
            cells = [_CELLS[self.inputs[i].dtype].from_address(changed[i - count]) for i in self.counters]
            if len(self.proven) >= _MOST_PROVEN:
                self.proven.clear()
            proven = self.proven[tuple(changed)] = ranges, cells
        self.last = changed, proven
        return proven

    def _take(self, groups: Sequence[Mapping[str, Any]], given: Sequence[Any]) -> bool:
        """Take options that have changed; False where they are none for the kernel."""
        rule, parts = self.rule, self.layout.parts
        if not all(rules.are_numbers(rule, group) for group in groups):
            return False
        if any(rule.form(groups[group]) != parts[leader].form for leader, group in self.rows):
            return False
        self.options = [{name: group[name] for name in rule.options} for group in groups]
        self.given = given
        self.fixed = None if rule.is_counted else self._numbers([0.0] * len(self.rows))
        return True

    def _counted(self, cells: Sequence[Any]) -> list[float] | None:
        """The numbers of a step that depend on which it is; None where that is not told as torch does."""
        counts = list(map(_VALUE, cells))
        if len(self.rows) == 1:
            if counts.count(counts[0]) != len(counts):
                return None
        elif [counts[leader] for leader in self.leaders] != counts:
            return None
        steps = [counts[leader] + 1 for leader, _ in self.rows]
        if not all(0 < step <= _MOST_STEPS and step.is_integer() for step in steps):
            return None
        return self._numbers(steps)

    def _numbers(self, steps: Sequence[float]) -> list[float] | None:
        """The numbers of all rows; None where torch would not just round them."""
        made: list[float] = []
        for (_, group), step in zip(self.rows, steps):
            made += self.rule.numbers(self.options[group], step)
        return made if all(map(is_exact, made)) else None

    def run(self, tensors: list[Tensor]) -> None:
        """Make the step, and let autograd know of it; the list is used up. Gradients must be disabled."""
        assert self.kernel is not None
        try:
            self.kernel([self.numbers, *tensors])
        finally:  # also where an interrupt comes
            del tensors[self.count : 2 * self.count]
            increment_version(tensors)

    def rehearse(self, kernel: Kernel) -> None:
        """Take a kernel, after a step with tensors of no account; raises what that raises."""
        with torch.no_grad():
            kernel([item.make().zero_() for item in self.layout.inputs()])
        self.kernel = kernel
