"""Objects of many unlike classes at one place: each does what its class says, in loops over lists of any mixture."""

import random

import torch

from . import program

X = torch.arange(3.0)


class Base:
    def __init__(self, k):
        self.k = k


class Shift(Base):
    def apply(self, x):
        return x + self.k


class Scale(Base):
    def apply(self, x):
        return x * self.k


class Bend(Base):
    def __init__(self, k):
        super().__init__(k)
        self.weight = torch.arange(3.0) - k

    def apply(self, x):
        return torch.relu(x + self.weight)


class Squash(Base):
    def apply(self, x):
        if self.k > 2:
            return torch.tanh(x)
        return x


class Fixed(Base):
    scale = 3

    def apply(self, x):
        return x - self.scale


class Summed(Fixed):
    @property
    def twice(self):
        return self.k * 2

    def apply(self, x):
        return x.sum() * self.twice + x


CLASSES = [Shift, Scale, Bend, Squash, Fixed, Summed]


def mixtures(count=16, seed=0, classes=CLASSES, least=1):
    source = random.Random(seed)
    return [
        ([source.choice(classes)(source.randrange(5)) for _ in range(source.randrange(least, 8))], X)
        for _ in range(count)
    ]


@program(max_graphs=3)
def six_classes_in_a_loop():
    def run(layers, x):
        for layer in layers:
            x = layer.apply(x)
        return x

    return run, mixtures()


@program(max_graphs=3)
def an_attribute_of_six_classes():
    def run(layers, x):
        for layer in layers:
            x = torch.tanh(x * layer.k)
        return x

    return run, mixtures()


@program(max_graphs=4)
def six_classes_on_a_stack():
    def run(layers, x):
        stack = list(layers)
        while stack:
            layer = stack.pop()
            x = torch.tanh(layer.apply(x))
        return x

    return run, mixtures()


@program(max_graphs=4)
def a_class_that_comes_late():
    def run(layers, x):
        for layer in layers:
            x = torch.tanh(layer.apply(x))
        return x

    late = [([cls(3), Shift(1)], X) for cls in (Squash, Bend, Fixed, Summed, Squash, Summed, Bend)]
    return run, [*mixtures(6, classes=CLASSES[:2]), *late, *mixtures(5, seed=2)]


@program(max_graphs=3)
def lists_that_are_mostly_empty():
    def run(layers, x):
        for layer in layers:
            x = layer.apply(x)
        return x.relu()

    source = random.Random(1)
    return run, [([source.choice(CLASSES)(2) for _ in range(source.choice([0, 0, 2]))], X) for _ in range(16)]
