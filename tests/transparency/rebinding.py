"""What a name leads to is another thing from some call on: patched functions and classes, late hooks, new weights."""

import functools
import math
import types

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize, prune

from . import ones, patched, program


@program()
def torch_functions_are_patched():
    def f(x):
        return F.relu(x) + torch.sigmoid(x) * math.sqrt(4.0)

    steps = [patched(F, "relu", lambda x: x * 100), patched(torch, "sigmoid", lambda x: x * 7)]
    return f, [*ones(4), *steps, *ones(1), patched(math, "sqrt", lambda x: 5.0), *ones(1)]


@program()
def functions_under_a_layer_are_patched():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    steps = [patched(F, "linear", lambda x, w, b=None: x * 100), patched(nn.Linear, "forward", lambda self, x: x * 9)]
    return model, [*ones(4), *steps, *ones(2)]


@program()
def tensor_methods_are_patched():
    def f(x):
        return x.mul(2) + x * 2

    plain = torch.Tensor.mul
    return f, [*ones(4), patched(torch.Tensor, "mul", lambda self, other: plain(self, other) + 1000), *ones(1)]


@program()
def class_is_called_differently():
    class Layer(nn.Linear):
        pass

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Layer(3, 3)

        def forward(self, x):
            return self.layer(x) + 1

    def change(f):
        Layer.__call__ = lambda self, x: x * 3
        return f(torch.ones(3))

    return Model(), [*ones(4), change, *ones(2)]


@program()
def code_of_a_helper_is_swapped():
    def helper(x, scale=1.0, *, shift=2.0):
        return x * scale + shift

    def other(x, scale=1.0, *, shift=2.0):
        return x - scale

    def f(x):
        return helper(x) * 2

    def defaults(f):
        helper.__defaults__ = (5.0,)
        return f(torch.ones(3))

    def keywords(f):
        helper.__kwdefaults__["shift"] = 9.0
        return f(torch.ones(3))

    def code(f):
        helper.__code__ = other.__code__
        return f(torch.ones(3))

    return f, [*ones(4), defaults, *ones(1), keywords, *ones(1), code, *ones(2)]


@program()
def own_code_is_swapped():
    def f(x):
        return x * 2

    def other(x):
        return x + 7

    def change(g):
        f.__code__ = other.__code__
        return g(torch.ones(3))

    return f, [*ones(4), change, *ones(5)]


@program()
def methods_and_parts_are_replaced():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def act(self, x):
            return torch.relu(x)

        def forward(self, x):
            return self.act(self.layer(x))

    model = Model()

    def on_the_instance(f):
        model.act = lambda x: x * 1000
        return f(torch.ones(3))

    def forward_of_the_part(f):
        model.layer.forward = lambda x: x * 7
        return f(torch.ones(3))

    def back(f):
        del model.act
        return f(torch.ones(3))

    def on_the_class(f):
        Model.act = lambda self, x: x - 1
        return f(torch.ones(3))

    def another_part(f):
        model.layer = nn.Identity()
        return f(torch.ones(3))

    def another_class(f):
        model.__class__ = type("Negative", (Model,), {"act": lambda self, x: -x})
        return f(torch.ones(3))

    changes = [on_the_instance, forward_of_the_part, back, on_the_class, another_part, another_class]
    return model, [*ones(4), *(step for change in changes for step in (change, *ones(1)))]


@program()
def class_attribute_and_instance_attribute():
    class Model(nn.Module):
        scale = 2.0
        steps = 0

        def forward(self, x):
            self.steps += 1
            return x * self.scale + self.steps

    model = Model()

    def on_the_class(f):
        Model.scale = 3.0
        return f(torch.ones(3))

    def on_the_instance(f):
        model.scale = 4.0
        return f(torch.ones(3))

    def removed(f):
        del model.scale, model.steps
        return f(torch.ones(3))

    return model, [*ones(4), on_the_class, *ones(1), on_the_instance, *ones(1), removed, *ones(2)]


@program()
def descriptors_arrive_late():
    class Thing:
        pass

    thing = Thing()
    thing.key = 1.0

    def f(x):
        thing.written = 3
        return x * thing.key if thing else x

    def as_property(f):
        Thing.key = property(lambda self: 50.0)
        return f(torch.ones(3))

    def setter(f):
        Thing.__setattr__ = lambda self, name, value: object.__setattr__(self, name, value + 1)
        return f(torch.ones(3))

    def truth(f):
        Thing.__bool__ = lambda self: False
        return f(torch.ones(3))

    return f, [*ones(4), as_property, *ones(1), setter, truth, *ones(1)]


@program()
def hooks_of_every_kind_arrive_late():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

        def forward(self, x):
            return self.b(self.a(x))

    model, log = Model(), []

    def note(text, value=None):
        log.append(text)
        return value

    everywhere = nn.modules.module
    kinds = [
        lambda: model.b[0].register_forward_hook(lambda m, i, o: note("forward", o * 2)),
        lambda: model.a.register_forward_pre_hook(lambda m, i: note("before", (i[0] + 1,))),
        lambda: model.b.register_full_backward_hook(lambda m, gi, go: note("backward")),
        lambda: model.register_forward_hook(lambda m, i, o: note("whole", o + 100)),
        lambda: everywhere.register_module_forward_hook(lambda m, i, o: note(type(m).__name__)),
        lambda: everywhere.register_module_full_backward_hook(lambda m, gi, go: note(type(m).__name__)),
        lambda: model.a.weight.register_hook(lambda g: note("gradient", g * 5)),
        lambda: model.a.weight.register_post_accumulate_grad_hook(lambda w: note("accumulated")),
    ]

    def during(register):
        def step(f):
            handle = register()
            try:
                result = f(torch.ones(3))
                result.sum().backward()
                return result
            finally:
                handle.remove()

        return step

    return model, [*ones(4), *(step for kind in kinds for step in (during(kind), *ones(1)))], log


@program()
def containers_of_modules_change():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
            self.named = nn.ModuleDict({"a": nn.Linear(3, 3)})

        def forward(self, x):
            for i, layer in enumerate(self.layers):
                x = layer(x) + i
            for name, layer in self.named.items():
                x = layer(x) * len(name)
            return x * len(self.layers) + len(self.named)

    model = Model()

    def change(action):
        def step(f):
            action()
            return f(torch.ones(3))

        return step

    actions = [
        lambda: model.layers.append(nn.Linear(3, 3)),
        lambda: model.named.update({"bb": nn.ReLU()}),
        lambda: model.layers.__setitem__(0, nn.Tanh()),
        lambda: model.layers.__delitem__(1),
        lambda: model.named.pop("a"),
    ]
    return model, [*ones(4), *(step for action in actions for step in (change(action), *ones(1)))]


@program()
def truth_and_length_of_module_containers():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.named, self.chain = nn.ModuleList(), nn.ModuleDict(), nn.Sequential()
            self.weights = nn.ParameterList([nn.Parameter(torch.ones(3))])
            self.table = nn.ParameterDict({"b": torch.ones(3)})

        def forward(self, x):
            x = x * 2 if self.layers else x * 3
            x = x + 5 if self.named else x
            x = x - 1 if self.chain else x
            return x * len(self.weights) + len(self.table) + len(self.layers) + ("a" in self.named)

    model = Model()

    def grow(f):
        model.layers.append(nn.ReLU())
        model.named["a"] = nn.ReLU()
        model.chain.append(nn.ReLU())
        model.weights.append(nn.Parameter(torch.ones(3)))
        model.table["c"] = torch.ones(3)
        return f(torch.ones(3))

    return model, [*ones(4), grow, *ones(2)]


@program()
def weights_are_parametrized_and_pruned_late():
    class Symmetric(nn.Module):
        def forward(self, weight):
            return weight.triu() + weight.triu(1).T

    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))

    def parametrized(f):
        parametrize.register_parametrization(model[0], "weight", Symmetric())
        return f(torch.ones(3))

    def pruned(f):
        prune.l1_unstructured(model[2], "weight", amount=0.3)
        return f(torch.ones(3))

    def plain_again(f):
        parametrize.remove_parametrizations(model[0], "weight")
        prune.remove(model[2], "weight")
        return f(torch.ones(3))

    return model, [*ones(4), parametrized, *ones(1), pruned, *ones(1), plain_again, *ones(2)]


@program()
def configuration_changes():
    config = types.SimpleNamespace(act="relu", layers=2, drop=0.0, residual=True, shape=(3,), extra={})

    def f(x):
        for _ in range(config.layers):
            y = getattr(torch, config.act)(x) if config.act != "gelu" else F.gelu(x)
            y = F.dropout(y, config.drop, training=config.drop > 0)
            x = x + y if config.residual else y
        return x.expand(config.shape) * config.extra.get("scale", 1)

    def change(**values):
        def step(f):
            vars(config).update(values)
            return f(torch.ones(3))

        return step

    changes = [change(act="tanh"), change(layers=3), change(layers=0), change(layers=1, drop=0.5)]
    changes += [change(residual=False), change(shape=(2, 3)), change(extra={"scale": 2}), change(act="gelu")]
    return f, [*ones(4), *changes, change(residual=1), change(layers=True), *ones(1)]


@program()
def parts_that_may_be_missing():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.act, self.last, self.scale = None, nn.ReLU(), torch.tanh, None
            self.register_parameter("bias", None)

        def forward(self, x):
            if self.norm is not None:
                x = self.norm(x)
            x = self.act(x) if self.act else x
            if self.bias is not None:
                x = x + self.bias
            return self.last(x) * (self.scale or 1)

    model = Model()

    def change(name, value):
        def step(f):
            setattr(model, name, value)
            return f(torch.ones(3))

        return step

    values = [("norm", nn.LayerNorm(3)), ("bias", nn.Parameter(torch.ones(3))), ("act", None), ("last", torch.sigmoid)]
    values += [("scale", 2), ("scale", 0), ("last", nn.ELU()), ("last", functools.partial(torch.add, other=1))]
    return model, [*ones(4), *(change(*value) for value in values), change("norm", None), *ones(1)]
