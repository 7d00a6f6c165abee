"""Members of enumerations, text and classes of nodes that decide what is done: in loops, in recursion, by ``match``."""

import enum
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from . import program
from .worklists import Model, Node

X = torch.arange(3.0)


class Kind(enum.Enum):
    LEAF = 1
    ADD = 2
    MUL = 3


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    """Members that decide what they are equal to, and count how often they are asked."""

    ONE = 1
    TWO = 2

    def __eq__(self, other):
        Odd.asked = getattr(Odd, "asked", 0) + 1
        return self is other

    __hash__ = enum.Enum.__hash__


@dataclass
class Leaf:
    value: int


@dataclass
class Unary:
    name: str
    part: Any


@dataclass
class Binary:
    name: str
    left: Any
    right: Any


def choices(of, count=14, seed=0, most=8):
    source = random.Random(seed)
    return [([source.choice(list(of)) for _ in range(source.randrange(1, most))], X) for _ in range(count)]


def grown(source, depth):
    if not depth or source.random() < 0.3:
        return Node(Kind.LEAF)
    return Node(source.choice([Kind.ADD, Kind.MUL]), grown(source, depth - 1), grown(source, depth - 1))


def expression(source, depth):
    if not depth or source.random() < 0.3:
        return Leaf(source.randrange(9))
    if source.random() < 0.3:
        return Unary(source.choice(["neg", "tanh"]), expression(source, depth - 1))
    return Binary(source.choice("+*"), expression(source, depth - 1), expression(source, depth - 1))


def some(grow, count=14, seed=0):
    source = random.Random(seed)
    return [(grow(source, 4),) for _ in range(count)]


@program(max_graphs=3)
def members_in_a_loop():
    def run(kinds, x):
        for kind in kinds:
            if kind is Kind.LEAF:
                x = torch.tanh(x)
            elif kind == Kind.ADD:
                x = x + 1
            elif kind != Kind.MUL:
                x = x - 1
            if kind in (Kind.LEAF, Kind.MUL):
                x = x * 0.5
        return x

    return run, [*choices(Kind), *choices([*Kind, None, 3], 6, seed=1)]


@program(max_graphs=3)
def names_and_values_of_members():
    def run(kinds, x):
        for kind in kinds:
            x = torch.tanh(x * kind.value)
            if kind.name == "ADD":
                x = x + 1
        return x

    return run, choices(Kind)


@program(max_graphs=3)
def members_that_are_numbers():
    def run(levels, x):
        for level in levels:
            x = torch.tanh(x) * level if level == Level.LOW else x + level
        return x

    return run, choices(Level)


@program(graph=False)
def members_that_decide_what_they_are_equal_to():
    def run(odd, x):
        for one in odd:
            x = torch.tanh(x) + (1 if one == Odd.ONE else 2)
        return x, Odd.asked

    Odd.asked = 0
    return run, choices(Odd, 8)


@program(max_graphs=3)
def members_as_keys():
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = {Kind.LEAF: 0.5, Kind.ADD: 1.5, Kind.MUL: 2.5}
            self.parts = nn.ModuleDict({kind.name: nn.Linear(3, 3) for kind in Kind})

        def forward(self, kinds, x):
            counts, seen = Counter(kinds), set()
            for kind in kinds:
                seen.add(kind)
                x = torch.tanh(self.parts[kind.name](x) * self.scale[kind]) + counts[kind]
            return x, len(seen)

    return Table(), choices(Kind)


@program(max_graphs=2)
def members_of_nodes():
    class Encoder(Model):
        def visit(self, node):
            if node.kind is Kind.LEAF:
                return self.embedding.weight[0]
            left, right = self.visit(node.children[0]), self.visit(node.children[1])
            if node.kind == Kind.ADD:
                return self.mix(left) + right
            return torch.tanh(left * right)

        def forward(self, node):
            return self.visit(node)

    return Encoder(), some(grown)


@program(max_graphs=2)
def members_of_nodes_on_a_stack():
    class Encoder(Model):
        def forward(self, root):
            stack, outputs = [root], []
            while stack:
                node = stack.pop()
                if node.kind == Kind.LEAF:
                    outputs.append(self.embedding.weight[1])
                elif node.kind != Kind.ADD:
                    outputs.append(self.mix(self.embedding.weight[2]))
                stack.extend(node.children)
            return torch.stack(outputs or [torch.zeros(3)]).sum(0)

    return Encoder(), some(grown)


# ---- match


@program(max_graphs=3)
def match_of_members():
    def run(kinds, x):
        for kind in kinds:
            match kind:
                case Kind.LEAF:
                    x = torch.tanh(x)
                case Kind.ADD | None:
                    x = x + 1
                case _:
                    x = x * 2
        return x

    return run, choices([*Kind, None])


@program(max_graphs=2)
def match_of_text():
    def run(words, x):
        changed = 0
        for word in words:
            match word:
                case "a" | "b":
                    x = torch.tanh(x)
                case "c" as last:
                    x, changed = x + 1, changed + len(last)
        return x, changed

    return run, choices("abcd")


@program(max_graphs=2)
def match_of_pairs():
    def run(steps, x):
        for step in steps:
            match step:
                case ("scale", factor):
                    x = torch.tanh(x * factor)
                case ("shift", by) if by > 3:
                    x = x + by
                case ("shift", _):
                    x = x - 1
                case _:
                    x = x * 2
        return x

    return run, choices([("scale", 2), ("scale", 5), ("shift", 1), ("shift", 7), ("none",)])


@program(max_graphs=2)
def match_of_a_number_from_a_tensor():
    def run(x):
        match int(x.argmax()):
            case 0:
                x = torch.tanh(x)
            case 1 | 2:
                x = x + 1
            case n:
                x = x * n
        return x.relu()

    return run, [(torch.randn(5),) for _ in range(12)]


@program(max_graphs=3)
def match_of_an_argument():
    def run(mode, x):
        match mode:
            case "a":
                x = torch.tanh(x)
            case "b":
                x = x + 1
            case None:
                x = x - 1
            case _:
                x = x * 2
        return x.relu()

    return run, [(mode, X - 1) for mode in ("a", "b", None, "a", "c", "d", "b", None, "e", "a", "b", "x")]


@program(max_graphs=3)
def match_of_classes_in_a_recursion():
    class Encoder(Model):
        def visit(self, node):
            match node:
                case Leaf(value):
                    return self.embedding.weight[value]
                case Unary("neg", part):
                    return -self.visit(part)
                case Unary(part=part):
                    return torch.tanh(self.visit(part))
                case Binary(name="+", left=left, right=right):
                    return self.visit(left) + self.mix(self.visit(right))
                case Binary(left=left, right=right):
                    return self.visit(left) * self.visit(right)

        def forward(self, node):
            return self.visit(node)

    return Encoder(), some(expression, 18)


@program()
def match_that_nothing_fits():
    def run(words, x):
        for word in words:
            match word:
                case {"key": value}:
                    x = x + value
                case [first, *rest] if rest:
                    x = torch.tanh(x) * first
                case str():
                    x = x - 1
        return x

    return run, choices(["a", ["b"], [1, 2], {"key": 3}, {"other": 4}, 5], 12)
