"""One name by two ways: as an attribute or global, and as an item of the dictionary that holds it."""

import sys
import types

import torch
from torch import nn

from . import ones, program

counter = 0
NAMES = globals()


class Box:
    total = 5

    def __init__(self, value=1):
        self.value = value


@program()
def global_and_attribute_of_the_module():
    global counter
    counter = 0
    this = sys.modules[__name__]

    def f(x):
        global counter
        counter += 1
        y = x * this.counter
        counter = counter + 10
        return y + this.counter

    return f, ones(6)


@program()
def attribute_of_a_module_and_global():
    global counter
    counter = 0
    this = sys.modules[__name__]

    def f(x):
        this.counter += 1
        y = x * counter
        this.counter = this.counter + 10
        return y + counter

    return f, ones(6)


@program()
def module_that_becomes_this_one():
    global counter
    counter = 0
    other = types.ModuleType("other")
    other.counter = 100
    holder = Box(other)

    def f(x):
        global counter
        counter += 1
        return x * holder.value.counter

    def same(f):
        holder.value = sys.modules[__name__]
        return f(torch.ones(3))

    return f, [*ones(4), same, *ones(2)]


@program()
def item_of_globals_then_global():
    global counter
    counter = 0

    def f(x):
        NAMES["counter"] = NAMES["counter"] + 1
        y = x * counter
        return y + NAMES["counter"]

    return f, ones(6)


@program(graph=False)
def global_then_item_of_globals():
    global counter
    counter = 0

    def f(x):
        global counter
        counter += 1
        y = x * NAMES["counter"]
        NAMES["counter"] += 1
        return y + counter

    return f, ones(6)


@program(graph=False)
def item_of_dict_then_attribute():
    box = Box()

    def f(x):
        box.__dict__["value"] = box.value + 1
        return x * box.value + box.__dict__["value"]

    return f, ones(6), box


@program()
def held_dict_and_attribute():
    box = Box()
    held = vars(box)

    def f(x):
        held["value"] = held["value"] + 1
        y = torch.tanh(x) * 2
        y = y * box.value
        box.value = 3
        return y + held["value"]

    return f, ones(6), box


@program()
def held_dict_makes_an_attribute():
    box = Box()
    held = box.__dict__

    def f(x):
        y = torch.sin(x) + 1
        held["total"] = held.get("total", 0) + 1
        return y * box.total + hasattr(box, "missing")

    def clear(f):
        held.clear()
        return f(torch.ones(3))

    def missing(f):
        held["missing"] = 1
        return f(torch.ones(3))

    return f, [*ones(4), clear, *ones(2), missing], box


@program()
def dict_that_becomes_the_attributes():
    """The very dictionary of the object is given only later."""

    def f(x, box, table):
        table["value"] = table["value"] + 1
        y = x * box.value
        return y + table["value"]

    def apart(f):
        box = Box()
        return f(torch.ones(3), box, {"value": 10}), box

    def same(f):
        box = Box()
        return f(torch.ones(3), box, vars(box)), box

    return f, [apart, apart, apart, same, apart, same]


@program()
def attributes_that_become_the_dict():
    def f(x, box, table):
        box.value = box.value + 1
        return x * table["value"] + len(table)

    def apart(f):
        box = Box()
        return f(torch.ones(3), box, {"value": 10}), box

    def same(f):
        box = Box()
        return f(torch.ones(3), box, vars(box)), box

    return f, [apart, apart, apart, same, apart, same]


@program()
def keys_of_any_name():
    def f(x, box, table, key):
        table.update({key: 7})
        y = x * box.value
        table[key] = 9
        return y + box.value

    def apart(f):
        return f(torch.ones(3), Box(), {"value": 10}, "value")

    def same(f):
        box = Box()
        return f(torch.ones(3), box, vars(box), "value"), box

    def another_name(f):
        box = Box()
        return f(torch.ones(3), box, vars(box), "other"), box

    return f, [apart, apart, apart, same, another_name, apart]


@program()
def buffers_by_two_ways():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self._buffers["total"] = self._buffers["total"] + 1
            y = x * self.total
            self.total = self.total * 2
            return y + self._buffers["total"]

    return Model(), ones(6)


@program()
def buffers_of_another_model():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.table = {"total": torch.ones(3)}

        def forward(self, x):
            self.table["total"] = self.table["total"] + 1
            return x * self.total

    model = Model()

    def join(f):
        model.table = model._buffers
        return f(torch.ones(3))

    return model, [*ones(4), join, *ones(2)]


@program(graph=False)
def submodules_and_parameters_are_swapped():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            x = torch.tanh(x) + 1
            self._modules["a"], self._modules["b"] = self._modules["b"], self._modules["a"]
            y = self.a(x) + self.b(self.a(x))
            self._parameters["weight"] = nn.Parameter(self._parameters["weight"].detach() + 1)
            return y * self.weight

    return Model(), ones(6)


@program()
def cells_by_two_ways():
    def make():
        count = 0

        def get():
            return count

        def put(value):
            nonlocal count
            count = value

        return get, put

    get, put = make()
    cell = get.__closure__[0]

    def f(x):
        put(get() + 1)
        y = x * get()
        put(cell.cell_contents + 1)
        return y + cell.cell_contents + get()

    return f, ones(6), get
