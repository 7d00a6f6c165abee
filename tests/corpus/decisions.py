"""What a program decides by numbers drawn from generators."""

import random

import torch
from torch import nn

from . import program


def numbers(count=6):
    return [(torch.tensor([float(i)]),) for i in range(count)]


@program(max_graphs=1)
def python_draws_decide():
    def f(x):
        used = 0
        for _ in range(5):
            if random.random() < 0.5:
                continue
            x = x * 2 + random.uniform(0, 1)
            used += 1
        return x, used

    random.seed(3)
    return f, numbers()


@program(max_graphs=2)
def drawn_before_an_assumption_breaks():
    def f(x):
        noise = random.gauss(0.0, 1.0)
        step = random.randint(1, 3)
        if x.sum() > 4:
            noise = -noise
        return x + noise * step + torch.rand(1), random.randrange(10)

    return f, numbers()


@program(max_graphs=2)
def drawn_choices():
    def f(x, options):
        a = random.choice(options)
        b = random.choice([1.0, 2.0, 3.0])
        return x * a + b

    return f, [(torch.ones(2), [1.0, 2.0]), (torch.ones(2), [3.0, 4.0, 5.0])] * 4


@program(max_graphs=1)
def a_draw_given_as_a_function():
    class Dropping(nn.Module):
        def __init__(self, draw):
            super().__init__()
            self.draw = draw
            self.layers = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(2))

        def forward(self, x):
            for layer in self.layers:
                if self.draw() < 0.5:
                    x = x + layer(x)
            return x

    random.seed(0)
    return Dropping(random.random), [(torch.randn(1, 2),) for _ in range(5)]


@program(max_graphs=2)
def a_draw_that_is_replaced():
    world = {"draw": random.random}

    def f(x):
        return x * world["draw"]()

    def replace(f):
        world["draw"] = lambda: 2.0

    return f, [*numbers(5), replace, *numbers(4)], world
