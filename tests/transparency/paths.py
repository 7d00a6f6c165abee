"""One slot by two paths: by attribute and by dictionary, by a table of a module, by a weak reference; one tensor by two
owners; storage shared by what looks apart."""

import types
import weakref

import numpy as np
import torch
from torch import nn

from . import change, ones, program


def calls(*actions):
    return [*ones(4), *(step for action in actions for step in (change(action), *ones(1)))]


class Thing:
    def __init__(self, value=1.0):
        self.value, self.items, self.table = value, [value], {"k": value}


@program(graph=False)
def attribute_and_dictionary_of_an_object():
    thing = Thing()

    def f(x):
        thing.__dict__["value"] = thing.value + 1
        a = x * thing.value
        vars(thing)["value"] = thing.value + 1
        thing.value += 1
        return a + thing.value + thing.__dict__["value"]

    return f, calls(lambda: setattr(thing, "value", 10.0)), thing


@program()
def buffer_by_attribute_and_by_table():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            self._buffers["total"] = self.total + x
            a = self.total * 2
            self.total = self.total + 1
            return a + self._buffers["total"] + self._parameters["weight"] * self.total

    model = Model()
    return model, calls(
        lambda: model._buffers.update(total=torch.ones(3) * 5),
        lambda: model._parameters.update(weight=nn.Parameter(torch.ones(3) * 7)),
        lambda: setattr(model, "total", None),
    )


@program()
def submodule_by_attribute_and_by_table():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.other = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.part(x) + self._modules["part"](x) + self.other(x) + self.get_submodule("part")(x)

    model = Model()
    return model, calls(lambda: setattr(model, "part", nn.Tanh()), lambda: setattr(model, "other", model.part))


@program()
def dictionary_argument_that_is_an_objects_own():
    thing = Thing()

    def f(x, table):
        table["value"] = 7.0
        return x * thing.value + thing.table["k"]

    def apart(f):
        thing.value = 1.0
        return f(torch.ones(3), {"value": 1.0})

    def own(f):
        thing.value = 1.0
        return f(torch.ones(3), vars(thing))

    def table(f):
        thing.value, thing.table = 1.0, vars(thing)
        thing.k = 3.0
        return f(torch.ones(3), thing.table)

    return f, [apart] * 4 + [own, apart, own, table], thing


@program()
def dictionary_argument_that_is_the_globals():
    space = {"torch": torch, "scale": 2.0}

    def inner(x, table):
        table["scale"] = 5.0
        return torch.relu(x) * scale  # noqa: F821

    act = types.FunctionType(inner.__code__, space, "inner")

    def f(x, table):
        return act(x, table)

    def apart(f):
        space["scale"] = 2.0
        return f(torch.ones(3), {"scale": 1.0})

    def same(f):
        space["scale"] = 2.0
        return f(torch.ones(3), space)

    return f, [apart] * 4 + [same, apart, same]


@program()
def dictionary_argument_that_is_the_buffers():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x, table):
            table["total"] = x * 3
            return self.total + x

    model = Model()

    def apart(f):
        model.total = torch.zeros(3)
        return f(torch.ones(3), {})

    def same(f):
        model.total = torch.zeros(3)
        return f(torch.ones(3), model._buffers)

    return model, [apart] * 4 + [same, apart, same]


@program()
def list_argument_inside_another():
    def f(x, outer, inner):
        inner.append(5.0)
        inner[0] = 9.0
        return x * outer[0][0] + len(outer[0]) + sum(outer[0])

    def apart(f):
        return f(torch.ones(3), [[1.0, 2.0]], [1.0])

    def same(f):
        inner = [1.0, 2.0]
        return f(torch.ones(3), [inner], inner), inner

    return f, [apart] * 4 + [same, apart, same]


@program()
def items_of_one_list_that_become_one_object():
    def f(x, things):
        things[0].value += 1
        things[1].items.append(2.0)
        return x * things[1].value + len(things[0].items)

    def apart(f):
        things = [Thing(), Thing()]
        return f(torch.ones(3), things), things

    def same(f):
        things = [Thing()] * 2
        return f(torch.ones(3), things), things

    return f, [apart] * 4 + [same, apart, same]


@program()
def tensors_of_two_owners():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(3))
            self.register_buffer("b", torch.zeros(3))
            self.table = {"t": torch.zeros(3)}

        def forward(self, x):
            before = self.b * 1
            self.a.add_(x)
            self.table["t"].mul_(2)
            after = self.b + self.table["t"]
            self.b[0] = 5
            return before, after, self.a.sum(), self.a is self.b

    model = Model()

    def become(**tensors):
        def action():
            base = torch.arange(6.0)
            made = {"one": base[:3], "views": base[1:4], "apart": torch.ones(3), "strided": base[::2]}
            for name, kind in tensors.items():
                if name == "t":
                    model.table["t"] = made[kind]
                else:
                    setattr(model, name, made[kind])

        return action

    return model, calls(
        become(a="one", b="one"),
        become(a="one", b="views", t="strided"),
        become(a="views", t="views"),
        become(a="apart", b="one", t="apart"),
    )


@program()
def tied_weights():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)

        def forward(self, x):
            y = self.out(self.embed.weight[:2] * x)
            return y, self.out.weight is self.embed.weight

    model = Model()

    def tie():
        model.out.weight = model.embed.weight

    def untie():
        model.out.weight = nn.Parameter(model.embed.weight.detach().clone())

    return model, calls(tie, untie, tie)


@program()
def arrays_and_tensors_on_one_memory():
    array = np.zeros(3, dtype=np.float32)
    tensor = torch.from_numpy(array)

    def f(x, t):
        a = tensor * 2
        t.add_(x)
        array[0] += 10
        return a, tensor + t, float(array.sum())

    def apart(f):
        return f(torch.ones(3), torch.zeros(3))

    def same(f):
        return f(torch.ones(3), torch.from_numpy(array))

    return f, [apart] * 4 + [same, apart, same], array


@program()
def object_by_a_weak_reference():
    thing = Thing()
    ref, proxy = weakref.ref(thing), weakref.proxy(thing)

    def f(x):
        y = x * 2
        thing.value += 1
        ref().value += 1
        proxy.value += 1
        return y * thing.value + ref().value + proxy.value

    return f, calls(lambda: setattr(thing, "value", 10.0)), thing


@program()
def module_by_a_weak_reference():
    part = nn.Linear(3, 3)
    proxy, ref = weakref.proxy(part), weakref.ref(part)

    def f(x):
        y = torch.relu(x)
        return proxy(y) + ref()(y) + part(y), isinstance(proxy, nn.Module), isinstance(proxy, nn.Linear)

    return f, calls(lambda: part.bias.data.add_(5)), part


@program()
def one_module_in_many_places():
    part = nn.Linear(3, 3)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([part, part, nn.Linear(3, 3)])
            self.named = nn.ModuleDict({"a": part})
            self.hidden = [part]
            self.up = weakref.ref(self)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.named["a"](x) + self.hidden[0](x) + self.up().layers[2](x)

    model = Model()
    return model, calls(
        lambda: model.layers.__setitem__(1, nn.Linear(3, 3)),
        lambda: model.hidden.__setitem__(0, nn.Tanh()),
        lambda: model.named.__setitem__("a", model.layers[1]),
    )


@program()
def own_argument_twice_and_nested():
    def f(x, y, more):
        x.add_(1)
        z = y * 2
        more["t"].mul_(3)
        more["list"][0].sub_(1)
        return z + y, x is y, more["t"] is x, more["list"][0] is more["t"]

    def apart(f):
        return f(torch.ones(3), torch.ones(3), {"t": torch.ones(3), "list": [torch.ones(3)]})

    def same(f):
        x = torch.ones(3)
        return f(x, x, {"t": x, "list": [x]}), x

    def partly(f):
        x, y = torch.ones(3), torch.ones(3)
        return f(x, y, {"t": x.view(3), "list": [y]}), x, y

    return f, [apart] * 4 + [same, partly, apart, same]


@program()
def identity_of_what_is_read():
    thing, other = Thing(), Thing()
    thing.link, thing.t = other, torch.ones(3)
    other.t = thing.t

    def f(x):
        y = x * 2 if thing.link is other else x * 3
        y = y + 1 if thing.t is other.t else y - 1
        y = y * 5 if thing.link is thing else y
        return y if thing.items is not other.items else y * 7

    return f, calls(
        lambda: setattr(thing, "link", Thing()),
        lambda: setattr(thing, "link", thing),
        lambda: (setattr(thing, "link", other), setattr(thing, "t", torch.ones(3))),
        lambda: setattr(other, "items", thing.items),
        lambda: setattr(other, "t", thing.t),
    )
