"""One class of input of a step, and the program of its kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from janusc.runtime.compiler.program import ENTRY, Input, Program
from janusc.runtime.kernels.updates.rules import RULES, Form, Rule


@dataclass(frozen=True)
class Part:
    """One parameter with a gradient: how they and the state look, and in which row its numbers are."""

    row: int
    form: Form
    parameter: Input
    gradient: Input
    state: tuple[Input, ...]


@dataclass(frozen=True)
class Layout:
    """The parts of a step, in the order of the parameters, by the rule of a name.

    A kernel takes the numbers, row by row, of the parameters' dtype; then all parameters, all gradients, all states.
    Numbers are common to the parameters of a group that have made as many steps.
    """

    name: str
    parts: tuple[Part, ...]

    @property
    def rule(self) -> Rule:
        """That of all parts."""
        return RULES[self.name]

    @property
    def dtype(self) -> str:
        """The name of the dtype of parameters and numbers."""
        return self.parts[0].parameter.dtype

    @property
    def rows(self) -> int:
        """How many rows of numbers there are."""
        return 1 + max(part.row for part in self.parts)

    def state(self, part: Part) -> tuple[str, ...]:
        """The names of the state of a part."""
        return self.rule.state(part.form)

    def inputs(self) -> tuple[Input, ...]:
        """How the inputs of the kernel look."""
        numbers = Input((self.rows * len(self.rule.constants),), (1,), self.dtype, "cpu")
        parameters = [part.parameter for part in self.parts]
        gradients = [part.gradient for part in self.parts]
        return (numbers, *parameters, *gradients, *(item for part in self.parts for item in part.state))

    def program(self) -> Program:
        """What is to be compiled."""
        return Program("\n".join(self._lines()), self.inputs())

    def _lines(self) -> Iterator[str]:
        rule = self.rule
        updates: dict[Form, str] = {}
        for part in self.parts:
            if part.form not in updates:
                updates[part.form] = name = f"update_{len(updates)}"
                yield f"def {name}({', '.join((*rule.constants, 'parameter', 'gradient', *self.state(part)))}):"
                yield from (f"    {line}" for line in rule.lines(part.form))
                yield ""
        numbers = [f"row_{row}" for row in range(self.rows)]
        parameters, gradients, states = self._names()
        given = [*parameters, *gradients, *(name for names in states for name in names)]
        yield f"def {ENTRY}(numbers, {', '.join(given)}):"
        for row, name in enumerate(numbers):
            start = row * len(rule.constants)
            yield f"    {name} = [numbers[i] for i in range({start}, {start + len(rule.constants)})]"
        for part, parameter, gradient, names in zip(self.parts, parameters, gradients, states):
            arguments = ", ".join((f"*{numbers[part.row]}", parameter, gradient, *names))
            yield f"    {updates[part.form]}({arguments})"
        yield "    return ()"
        yield ""

    def _names(self) -> tuple[list[str], list[str], list[list[str]]]:
        """Those of all inputs but the numbers."""
        count = range(len(self.parts))
        states = [[f"s{index}_{name}" for name in self.state(part)] for index, part in enumerate(self.parts)]
        return [f"p{index}" for index in count], [f"g{index}" for index in count], states
