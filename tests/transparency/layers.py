"""Hooks and parametrizations of modules: there from the start, put late, taken away, called from inside."""

import torch
from torch import nn
from torch.nn.modules import module as everywhere
from torch.nn.utils import parametrizations, parametrize

from . import change, ones, program


def during(register):
    """A call and a backward pass with some hook in place."""

    def step(f):
        handle = register()
        try:
            x = torch.ones(3, requires_grad=True)
            result = f(x)
            result.sum().backward()
            return result, x.grad
        finally:
            handle.remove()

    return step


def make_deep():
    """Three levels of modules, so that hooks can be at any of them."""

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return torch.relu(self.layer(x))

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.rest = Inner(), nn.Sequential(Inner(), nn.Tanh())

        def forward(self, x, scale=1.0):
            return self.rest(self.first(x)) * scale

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = Outer(), nn.Linear(3, 3)

        def forward(self, x):
            return self.head(self.body(x, scale=2.0))

    return Model()


PLACES = ("", "body", "body.first", "body.first.layer", "body.rest", "body.rest.0.layer", "body.rest.1", "head")


@program()
def forward_hooks_at_every_level():
    model, log = make_deep(), []
    steps = []
    for place in PLACES:
        target = model.get_submodule(place)
        steps += [
            during(lambda t=target, p=place: t.register_forward_hook(lambda m, i, o: log.append(p) or o * 2)),
            during(lambda t=target, p=place: t.register_forward_pre_hook(lambda m, i: log.append(p) or (i[0] * 2,))),
        ]
    return model, [*ones(4), *steps, *ones(1)], log


@program()
def backward_hooks_at_every_level():
    model, log = make_deep(), []
    steps = []
    for place in PLACES:
        target = model.get_submodule(place)
        steps += [
            during(lambda t=target, p=place: t.register_full_backward_hook(lambda m, i, o: log.append(p))),
            during(lambda t=target, p=place: t.register_full_backward_pre_hook(lambda m, o: log.append(p))),
        ]
    return model, [*ones(4), *steps, *ones(1)], log


@program()
def hooks_of_other_kinds():
    model, log = make_deep(), []
    part = model.body.first

    def with_keywords(m, args, kwargs, out):
        log.append(sorted(kwargs))
        return out + 1

    def always(m, i, o):
        log.append("always")

    kinds = [
        lambda: model.body.register_forward_hook(with_keywords, with_kwargs=True),
        lambda: model.body.register_forward_pre_hook(lambda m, a, k: (a, {"scale": 3.0}), with_kwargs=True),
        lambda: part.register_forward_hook(always, always_call=True),
        lambda: part.register_forward_hook(always, prepend=True),
        lambda: everywhere.register_module_forward_pre_hook(lambda m, i: log.append(type(m).__name__)),
        lambda: everywhere.register_module_forward_hook(lambda m, i, o: log.append(type(m).__name__)),
        lambda: everywhere.register_module_full_backward_pre_hook(lambda m, o: log.append(type(m).__name__)),
    ]
    return model, [*ones(4), *(step for kind in kinds for step in (during(kind), *ones(1)))], log


@program()
def hook_that_stays_and_hook_that_removes_itself():
    model, log, handles = make_deep(), [], []

    def once(m, i, o):
        log.append("once")
        handles.pop().remove()

    def stay():
        model.head.register_forward_hook(lambda m, i, o: log.append("stays"))

    def leave():
        handles.append(model.body.first.register_forward_hook(once))

    return model, [*ones(2), change(leave), *ones(3), change(leave), *ones(1), change(stay), *ones(3)], log


@program(graph=False)
def hook_that_registers_during_the_call():
    model, log = make_deep(), []

    def register(m, i, o):
        if not log:
            model.head.register_forward_hook(lambda m, i, o: log.append("head") or o * 2)
        log.append("body")

    model.body.register_forward_hook(register)
    return model, ones(5), log


@program()
def hooks_put_into_the_table_by_hand():
    model, log = make_deep(), []

    def by_hand():
        model.head._forward_hooks[999] = lambda m, i, o: log.append("by hand") or o * 3

    return (
        model,
        [*ones(4), change(by_hand), *ones(1), change(lambda: model.head._forward_hooks.clear()), *ones(1)],
        log,
    )


@program()
def hook_tables_are_replaced():
    model, log = make_deep(), []
    table = {1: lambda m, i, o: log.append("table") or o * 3}
    return (
        model,
        [
            *ones(4),
            change(lambda: setattr(model.head, "_forward_hooks", table)),
            *ones(1),
            change(lambda: setattr(model.head, "_forward_hooks", {})),
            *ones(1),
        ],
        log,
    )


def make_chain(*layers):
    """Layers in a module of a class of its own."""

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, x):
            y = x * 1.0
            for layer in self.layers:
                y = layer(y)
            return y

        def __getitem__(self, index):
            return self.layers[index]

    return Chain()


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, weight):
        self.count += 1
        return weight * 2 + self.count

    def right_inverse(self, weight):
        return weight / 2


@program()
def parametrizations_with_state():
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    parametrize.register_parametrization(model[0], "weight", Counted())

    def again():
        parametrize.register_parametrization(model[0], "weight", Counted())

    def assign():
        model[0].weight = torch.ones(3, 3)

    def remove():
        parametrize.remove_parametrizations(model[0], "weight")

    return model, [*ones(4), change(assign), *ones(1), change(again), *ones(1), change(remove), *ones(2)]


@program()
def parametrizations_are_cached():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Counted())

        def forward(self, x):
            return self.layer(x) + self.layer(x) + self.layer.weight.sum()

    def cached(f):
        with parametrize.cached():
            return f(torch.ones(3)), f(torch.ones(3))

    return Model(), [*ones(2), cached, *ones(3), cached, *ones(1), cached]


@program()
def cache_of_parametrizations_inside():
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Counted())

    def f(x):
        y = layer(x)
        with parametrize.cached():
            y = y + layer(x) + layer(x)
        return y + layer(x)

    return f, ones(5), layer


@program(graph=False)
def norms_and_orthogonal_weights():
    model = make_chain(
        parametrizations.weight_norm(nn.Linear(3, 3)),
        parametrizations.spectral_norm(nn.Linear(3, 3)),
        parametrizations.orthogonal(nn.Linear(3, 3)),
    )
    steps = [change(lambda: model.eval()), change(lambda: model.train())]
    steps += [change(lambda: parametrize.remove_parametrizations(model[0], "weight"))]
    return model, [*ones(4), *(step for s in steps for step in (s, *ones(1)))]


@program()
def lazy_layers_become_real():
    model = make_chain(nn.LazyLinear(4), nn.ReLU(), nn.LazyBatchNorm1d(), nn.LazyLinear(2))
    return model, [(torch.ones(2, 3) * i,) for i in range(1, 6)]


@program()
def training_mode_by_class_and_by_instance():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        @property
        def noisy(self):
            return self.training and self.drop.training

        def forward(self, x):
            y = self.drop(x)
            return y * 2 if self.noisy else y

    model = Model()
    actions = [lambda: model.eval(), lambda: model.drop.train(), lambda: model.train(), lambda: model.train(False)]
    return model, [*ones(4), *(step for a in actions for step in (change(a), *ones(1)))]


@program()
def module_containers_with_a_say():
    class Odd(nn.Sequential):
        def __getitem__(self, index):
            return torch.neg

        def __len__(self):
            return 50

    class Backwards(nn.ModuleList):
        def __iter__(self):
            return reversed(list(self._modules.values()))

    class Named(nn.ModuleDict):
        def __getitem__(self, key):
            return super().__getitem__(key.lower())

        def __contains__(self, key):
            return True

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.odd, self.back = Odd(nn.Tanh(), nn.ReLU()), Backwards([nn.Linear(3, 3), nn.Tanh()])
            self.named = Named({"a": nn.Linear(3, 3)})

        def forward(self, x):
            y = x * 2
            y = y + self.odd[0](x) * len(self.odd)
            for layer in self.back:
                y = layer(y)
            z = y * 3
            return z + (self.named["A"](x) if "zzz" in self.named else x), self.odd(x), self.back[0](x)

    return Model(), ones(5)


@program()
def module_containers_learn_to_have_a_say():
    class Chain(nn.Sequential):
        pass

    class Layers(nn.ModuleList):
        pass

    class Named(nn.ModuleDict):
        pass

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.chain, self.layers = Chain(nn.Tanh(), nn.ReLU()), Layers([nn.Linear(3, 3), nn.Tanh()])
            self.named = Named({"a": nn.Linear(3, 3)})

        def forward(self, x):
            y = self.chain(x) + self.chain[0](x)
            for layer in self.layers:
                y = layer(y)
            for name, layer in self.named.items():
                y = layer(y) + len(name)
            return y + self.layers[1](x) + self.named["a"](x)

    reverse = change(lambda: setattr(Layers, "__iter__", lambda self: reversed(list(self._modules.values()))))
    item = change(lambda: setattr(Layers, "__getitem__", lambda self, index: torch.neg))
    named = change(lambda: setattr(Named, "items", lambda self: [("bb", torch.exp)]))
    chain = change(lambda: setattr(Chain, "__iter__", lambda self: iter([torch.neg])))
    key = change(lambda: setattr(Named, "__getitem__", lambda self, key: torch.neg))
    return Model(), [*ones(4), *(step for s in (reverse, item, named, chain, key) for step in (s, *ones(1)))]
