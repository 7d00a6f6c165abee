"""State that is written on one path only, or on each path in its own order."""

import torch
from torch import nn

from . import program


class Box:
    def __init__(self, **state):
        self.__dict__.update(state)


def both(count):
    """Arguments that take one path, then both in turns."""
    return [(torch.ones(2) * v,) for v in (2, 2, 2, 0, 2, 0, 2, 0)[:count]]


@program(graph=False)
def order_of_new_names():
    def f(x, box, k):
        box.b = x
        if x.sum() > 2:
            box.c = 1
            box.d = 2
        else:
            box.d = 1
            box.c = 2
        box.a = box.b * 2
        for i in range(k):
            box.e = i
            box.f = box.e * x
        box.b = box.a + 1
        return box.b, list(vars(box))

    def call(value, k):
        return lambda f: f(torch.ones(2) * value, Box(), k)

    return f, [call(v, k) for v, k in ((2, 3), (2, 3), (2, 3), (0, 3), (0, 1), (2, 12), (2, 1))]


@program()
def attribute_of_the_class():
    """On the path without an assignment the object gets none of its own."""

    class Model:
        n = 1
        m = 1

    model = Model()

    def f(x):
        if x.sum() > 1:
            model.n = model.n + 1
        for i in range(int(x[0])):
            model.m += i
        return x * model.n + model.m

    def of_class(f):
        Model.n, Model.m = 50, 70
        return f(torch.zeros(2))

    def gone(f):
        model.__dict__.clear()
        return f(torch.zeros(2))

    zero = (torch.zeros(2),)
    return f, [*both(4), zero, gone, of_class, (torch.full((2,), 2.0),), gone, gone, *both(8)], model


@program()
def attribute_that_leaves_the_object():
    class Model:
        n = 1

    model = Model()
    model.n = 5

    def f(x):
        if x.sum() > 1:
            model.n = model.n + 1
        return x * model.n + model.n

    def gone(f):
        model.__dict__.clear()
        return f(torch.zeros(2))

    return f, [*both(8), gone, (torch.zeros(2),), *both(5)], model, Model


@program()
def globals_slots_and_buffers():
    global made
    made = 1

    class Slotted:
        __slots__ = ("n",)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(2))
            self.n = 0

        def forward(self, x):
            global made
            if x.sum() > 1:
                self.total = self.total + x
                self.n = self.n + 1
                made = made + 1
                slotted.n += 1
            return x + self.total * self.n * made + slotted.n

    slotted = Slotted()
    slotted.n = 0

    def other(f):
        global made
        made = 7.5
        return f(torch.zeros(2))

    return Model(), [*both(8), other, *both(3)], slotted


@program()
def tuples_made_on_each_path():
    box = Box(state=None)

    def f(x):
        if x.sum() > 1:
            pair = (x, 1)
            box.state = pair
        else:
            pair = (x + 1, 2)
            box.state = pair
        return pair, box.state is pair

    return f, both(8), box
