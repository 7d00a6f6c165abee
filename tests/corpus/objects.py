"""Objects of the program's classes that are made in a call: states, hypotheses, results; in loops, lists and keys."""

import dataclasses
import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from . import program
from .worklists import Model

X = torch.arange(3.0)


def sequences(count=14):
    return [([X * i - j for j in range(1 + i % 6)],) for i in range(count)]


class State:
    count = 0

    def __init__(self, h, c=None):
        self.h = h
        self.c = torch.zeros(3) if c is None else c

    def total(self):
        return self.h + self.c

    @property
    def both(self):
        return torch.stack([self.h, self.c])


class Deep(State):
    def __init__(self, h, depth):
        super().__init__(h)
        self.depth = depth


class Cell(NamedTuple):
    h: torch.Tensor
    c: torch.Tensor
    count: int = 0


@dataclass
class Hypothesis:
    tokens: list
    score: float
    state: torch.Tensor


@dataclass(frozen=True)
class Frozen:
    h: torch.Tensor
    count: int = 0


@dataclass
class Record:
    items: list = field(default_factory=list)
    best: float = -1e9


@dataclass
class Completed:
    a: torch.Tensor
    b: Any = None
    log: list = field(default_factory=list)

    def __post_init__(self):
        if self.b is None:
            self.b = self.a * 2
        self.log.append(1)


@dataclass(frozen=True)
class Place:
    row: int
    column: Any


class Watched:
    """Objects that tell when they are made, changed and gone."""

    log: list = []

    def __new__(cls, *args):
        cls.log.append("new")
        return super().__new__(cls)

    def __init__(self, value):
        self.value = value

    def __setattr__(self, name, value):
        self.log.append(name)
        super().__setattr__(name, value)


class Grown:
    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right


@program(max_graphs=2)
def state_made_anew_in_each_turn():
    class Recurrent(Model):
        def forward(self, inputs):
            state = State(torch.zeros(3))
            for x in inputs:
                state = State(torch.tanh(self.mix(x) + state.h), state.c + state.h)
            return state.total(), state.both.sum()

    return Recurrent(), sequences()


@program(max_graphs=2)
def state_whose_attributes_are_set():
    class Recurrent(Model):
        def forward(self, inputs):
            state = State(torch.zeros(3))
            for x in inputs:
                state.h = torch.tanh(self.mix(x) + state.h)
                if state.count % 2:
                    state.c = state.c + state.h
                state.count += 1
            return state.total(), state

    return Recurrent(), sequences()


@program(max_graphs=2)
def state_of_a_derived_class():
    class Recurrent(Model):
        def forward(self, inputs):
            state = Deep(torch.zeros(3), 1)
            for x in inputs:
                state = Deep(torch.tanh(self.mix(x) + state.h), state.depth + 1)
            return state.total(), state.depth

    return Recurrent(), sequences()


@program(max_graphs=2)
def named_tuple_as_a_state():
    class Recurrent(Model):
        def forward(self, inputs):
            cell = Cell(torch.zeros(3), torch.zeros(3))
            for x in inputs:
                cell = Cell(torch.tanh(self.mix(x) + cell.h), cell.c + cell.h, count=cell.count + 1)
                cell = cell._replace(c=cell.c * 0.5)
            h, c, count = cell
            return h + c, count, cell

    return Recurrent(), sequences()


@program()
def frozen_dataclass_as_a_state():
    class Recurrent(Model):
        def forward(self, inputs):
            state = Frozen(torch.zeros(3))
            for x in inputs:
                h = torch.tanh(self.mix(x) + state.h)
                state = dataclasses.replace(state, h=h, count=state.count + 1)
            return state.h, state.count, state

    return Recurrent(), sequences()


@program()
def frozen_dataclass_that_is_set():
    def run(x, breaks):
        state = Frozen(torch.tanh(x))
        if breaks:
            state.count = 3
        return state.h * 2

    return run, [(X, i == 4) for i in range(7)]


@program(max_graphs=2)
def lists_that_objects_hold():
    class Collecting(Model):
        def forward(self, inputs):
            record = Record()
            for x in inputs:
                y = torch.tanh(self.mix(x))
                record.items.append(y)
                record.best = max(record.best, float(y.detach().sum()))
            return torch.stack(record.items).sum(0), record.best

    return Collecting(), sequences()


@program(max_graphs=2)
def dataclass_that_completes_itself():
    def run(inputs):
        outputs = []
        for x in inputs:
            made = Completed(torch.tanh(x))
            outputs.append(made.a + made.b * len(made.log))
        return torch.stack(outputs).sum(0), made

    return run, sequences()


class Beam(Model):
    def forward(self, x, steps):
        beams = [Hypothesis([0], 0.0, x)]
        for _ in range(steps):
            found = []
            for beam in beams:
                state = torch.tanh(self.mix(beam.state) + self.embedding.weight[beam.tokens[-1]])
                scores, tokens = state.log_softmax(0).topk(2)
                for score, token in zip(scores.tolist(), tokens.tolist()):
                    found.append(Hypothesis(beam.tokens + [token], beam.score + score, state))
            found.sort(key=lambda hypothesis: hypothesis.score, reverse=True)
            beams = found[:3]
        return beams[0].tokens, beams[0].score


@program(max_graphs=2)
def beam_of_hypotheses():
    return Beam(), [(X * 0.3 - i, 1 + i % 4) for i in range(12)]


@program()
def objects_of_a_local_class_in_a_comprehension():
    @dataclass
    class Item:
        key: int
        value: torch.Tensor

    def run(inputs):
        items = [Item(i, x * 2) for i, x in enumerate(inputs)]
        total = torch.zeros(3)
        for item in items:
            total = torch.tanh(total + item.value) * item.key
        return total

    return run, sequences()


@program(max_graphs=2)
def object_that_is_kept():
    class Recurrent(Model):
        def __init__(self):
            super().__init__()
            self.state = State(torch.zeros(3))

        def forward(self, x):
            self.state = State(torch.tanh(self.mix(x) + self.state.h.detach()), self.state.c)
            return self.state.total()

    return Recurrent(), [(X * i,) for i in range(10)]


@program(max_graphs=2)
def trees_that_are_built():
    class Parser(Model):
        def forward(self, actions):
            stack = []
            for action in actions:
                if action == 0 and len(stack) >= 2:
                    right, left = stack.pop(), stack.pop()
                    stack.append(Grown(torch.tanh(self.mix(left.value) + right.value), left, right))
                else:
                    stack.append(Grown(self.embedding.weight[action]))
            return torch.stack([tree.value for tree in stack]).sum(0), len(stack)

    source = random.Random(0)
    return Parser(), [([source.randrange(3) for _ in range(2 + source.randrange(9))],) for _ in range(14)]


@program(max_graphs=2)
def places_as_keys():
    def run(size, x):
        table, cells = {}, {}
        for i in range(size):
            table[Place(i, i + 1)] = x * i
            cells[Cell(None, None, i)] = i
        total = torch.zeros(3)
        for i in range(size):
            total = total + torch.tanh(table[Place(i, i + 1)]) * cells[Cell(None, None, i)]
        return total

    return run, [(1 + i % 6, X) for i in range(10)]


@program()
def places_that_hold_what_decides():
    class Particular:
        asked = 0

        def __hash__(self):
            Particular.asked += 1
            return 1

        def __eq__(self, other):
            Particular.asked += 1
            return self is other

    def run(columns, x):
        seen = {}
        for column in columns:
            seen[Place(1, column)] = x
            x = torch.tanh(x)
        return x, len(seen), Particular.asked

    odd = Particular()
    return run, [(columns, X) for columns in ([1, 2], [1], [2, 2, 3], [odd, odd], [3], [1, odd], [4, 5])]


@program(graph=False)
def objects_that_see_how_they_are_made():
    def run(inputs):
        total = torch.zeros(3)
        for x in inputs:
            total = torch.tanh(total + Watched(x).value)
        return total, list(Watched.log)

    Watched.log.clear()
    return run, sequences(8)


@program()
def objects_whose_making_fails():
    class Checked:
        def __init__(self, value):
            if value.sum() > 5:
                raise ValueError("too large")
            self.value = value * 2

    def run(x):
        made = Checked(torch.tanh(x) * 3)
        return made.value + 1

    return run, [(X * i,) for i in (0, 0, 0, 0, 4, 0, 5, 0)]
