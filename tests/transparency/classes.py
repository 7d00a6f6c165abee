"""Classes that learn something under a graph: protocols, descriptors, methods in between, other code for a method."""

import torch
from torch import nn

from . import change, ones, program


class Shift(nn.Module):
    def forward(self, x):
        return x + 1


def make_plain():
    class Thing:
        kind = 1.0

        def __init__(self):
            self.key = 2.0

        def scaled(self, x):
            return x * self.key

    return Thing


@program()
def class_learns_getattribute():
    Thing, log = make_plain(), []
    thing = Thing()

    def f(x):
        return thing.scaled(x) + thing.kind

    def look(self, name):
        log.append(name)
        return 50.0 if name == "key" else object.__getattribute__(self, name)

    return f, [*ones(4), change(lambda: setattr(Thing, "__getattribute__", look)), *ones(1)], log


@program()
def module_class_learns_getattribute():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.layer = 2.0, nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(x) * self.scale

    def look(self, name):
        return 50.0 if name == "scale" else nn.Module.__getattribute__(self, name)

    return Model(), [*ones(4), change(lambda: setattr(Model, "__getattribute__", look)), *ones(1)]


@program()
def module_class_learns_getattr():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("total", torch.ones(3))

        def forward(self, x):
            return self.layer(x) * self.total

    def look(self, name):
        value = nn.Module.__getattr__(self, name)
        return value * 10 if name == "total" else value

    return Model(), [*ones(4), change(lambda: setattr(Model, "__getattr__", look)), *ones(1)]


@program()
def module_class_gets_a_property_over_an_attribute():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.layer = 2.0, nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(x) * self.scale

    arrive = change(lambda: setattr(Model, "scale", property(lambda self: 50.0)))
    leave = change(lambda: delattr(Model, "scale"))
    return Model(), [*ones(4), arrive, *ones(1), leave, *ones(1)]


@program()
def class_attributes_hide_registered_ones():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.weight = nn.Parameter(torch.ones(3))
            self.register_buffer("total", torch.ones(3))

        def forward(self, x):
            return self.layer(x) * self.weight + self.total

    names = {"total": 100.0, "weight": 7.0, "layer": torch.neg}
    steps = [change(lambda n=n, v=v: setattr(Model, n, v)) for n, v in names.items()]
    return Model(), [*ones(4), *(step for s in steps for step in (s, *ones(1)))]


@program()
def instance_attributes_hide_registered_ones():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.weight = nn.Parameter(torch.ones(3))
            self.register_buffer("total", torch.ones(3))

        def forward(self, x):
            return self.layer(x) * self.weight + self.total

    model = Model()
    names = {"total": torch.ones(3) * 9, "weight": torch.ones(3) * 5, "layer": torch.neg}
    steps = [change(lambda n=n, v=v: model.__dict__.__setitem__(n, v)) for n, v in names.items()]
    part = change(lambda: model.layer.__dict__.__setitem__("bias", torch.ones(3) * 9))
    return model, [*ones(4), part, *ones(1), *(step for s in steps for step in (s, *ones(1)))]


@program()
def properties_run_once():
    Thing, log = make_plain(), []
    thing = Thing()

    def f(x):
        return x * thing.key

    def look(self):
        log.append("read")
        return 50.0

    return f, [*ones(4), change(lambda: setattr(Thing, "key", property(look))), *ones(2)], log


@program()
def method_code_is_swapped():
    class Thing:
        def __init__(self):
            self.key = 2.0

        def scaled(self, x, by=1.0):
            return x * self.key * by

        @property
        def double(self):
            return self.key * 2

        @staticmethod
        def plus(x):
            return x + 1

        @classmethod
        def named(cls, x):
            return x + 5

    thing = Thing()

    def other_scaled(self, x, by=1.0):
        return x - by

    def f(x):
        return thing.scaled(x) + thing.double + thing.plus(x) + thing.named(x)

    swaps = [
        change(lambda: setattr(Thing.scaled, "__code__", other_scaled.__code__)),
        change(lambda: setattr(Thing.scaled, "__defaults__", (7.0,))),
        change(lambda: setattr(Thing.double.fget, "__code__", (lambda self: 70.0).__code__)),
        change(lambda: setattr(Thing.plus, "__code__", (lambda x: x + 300).__code__)),
        change(lambda: setattr(Thing.named.__func__, "__code__", (lambda cls, x: x + 4000).__code__)),
    ]
    return f, [*ones(4), *(step for s in swaps for step in (s, *ones(1)))]


@program()
def forward_code_of_a_part_is_swapped():
    class Part(nn.Module):
        def forward(self, x):
            return x + 1

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Part()

        def forward(self, x):
            return self.part(x) * 2

    swap = change(lambda: setattr(Part.forward, "__code__", (lambda self, x: x - 5).__code__))
    return Model(), [*ones(4), swap, *ones(2)]


def make_family():
    class Base(nn.Module):
        def forward(self, x):
            return x + 1

        def act(self, x):
            return torch.relu(x)

    class Middle(Base):
        pass

    class Model(Middle):
        def forward(self, x):
            return super().forward(x) * 2 + self.act(x)

    return Base, Middle, Model


@program()
def class_in_between_gets_the_method():
    Base, Middle, Model = make_family()
    steps = [
        change(lambda: setattr(Middle, "forward", lambda self, x: x * 100)),
        change(lambda: setattr(Middle, "act", lambda self, x: x * 7)),
        change(lambda: delattr(Middle, "forward")),
    ]
    return Model(), [*ones(4), *(step for s in steps for step in (s, *ones(1)))]


@program()
def bases_are_exchanged():
    Base, Middle, Model = make_family()

    class Other(nn.Module):
        def forward(self, x):
            return x * 50

        def act(self, x):
            return x - 1

    return Model(), [*ones(4), change(lambda: setattr(Middle, "__bases__", (Other,))), *ones(1)]


@program()
def isinstance_after_bases_are_exchanged():
    class Mark:
        pass

    class Plain:
        pass

    class Thing(Plain):
        pass

    thing = Thing()

    def f(x):
        return x * 2 if isinstance(thing, Mark) else x * 3

    return f, [*ones(4), change(lambda: setattr(Thing, "__bases__", (Mark,))), *ones(1)]


@program()
def special_methods_come_from_the_class():
    class Thing:
        def __call__(self, x):
            return x * 2

        def __len__(self):
            return 3

        def __getitem__(self, key):
            return key * 2.0

        def __eq__(self, other):
            return True

        __hash__ = None

    thing = Thing()
    vars(thing).update(
        __call__=lambda x: x * 100,
        __len__=lambda: 100,
        __getitem__=lambda key: 100.0,
        __eq__=lambda other: False,
    )

    def f(x):
        return thing(x) + len(thing) + thing[2] + (1 if thing == 5 else 2)

    return f, ones(4)


@program()
def special_methods_arrive_on_the_instance():
    class Thing:
        def __call__(self, x):
            return x * 2

        def __len__(self):
            return 3

    thing = Thing()

    def f(x):
        return thing(x) + len(thing)

    arrive = change(lambda: vars(thing).update(__call__=lambda x: x * 100, __len__=lambda: 100))
    return f, [*ones(4), arrive, *ones(1)]


@program()
def module_called_by_its_class():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Shift()
            self.part.__dict__["__call__"] = lambda x: x * 100

        def forward(self, x):
            return self.part(x) * 2

    return Model(), ones(4)


@program(graph=False)
def objects_that_lie_about_their_class():
    class Liar:
        __class__ = nn.Linear

        def __init__(self):
            self.key = 2.0

        def __call__(self, x):
            return x * self.key

    liar = Liar()

    def f(x):
        y = x * 2 if isinstance(liar, nn.Module) else x * 3
        return liar(y) + (type(liar) is nn.Linear) + liar.key

    return f, ones(4)


@program()
def metaclass_learns_getattribute():
    class Meta(type):
        pass

    class Config(metaclass=Meta):
        scale = 2.0

    def f(x):
        return x * Config.scale

    def look(cls, name):
        return 50.0 if name == "scale" else type.__getattribute__(cls, name)

    return f, [*ones(4), change(lambda: setattr(Meta, "__getattribute__", look)), *ones(1)]


@program(graph=False)
def metaclass_has_its_say():
    class Meta(type):
        @property
        def scale(cls):
            return 9.0

        def __getattr__(cls, name):
            return 4.0

    class Config(metaclass=Meta):
        scale = 2.0
        other = 3.0

    def f(x):
        return x * Config.other + Config.scale + Config.missing

    return f, [*ones(4), change(lambda: setattr(Config, "other", 5.0)), change(lambda: delattr(Config, "other"))]


@program()
def class_of_a_module_named_like_torch():
    class Config:
        scale = 2.0

        def __init__(self):
            self.key = 1.0

    Config.__module__ = "torch_settings"

    def f(x):
        return x * Config.scale

    return f, [*ones(4), change(lambda: setattr(Config, "scale", 5.0)), *ones(1)]


@program()
def instances_become_callable():
    Thing = make_plain()
    thing = Thing()

    def f(x):
        return x * 2 if callable(thing) else x * 3

    return f, [*ones(4), change(lambda: setattr(Thing, "__call__", lambda self: 1)), *ones(1)]


@program()
def inherited_class_attribute_is_overridden_below():
    class Base(nn.Module):
        scale = 2.0
        act = staticmethod(torch.relu)

        def forward(self, x):
            return self.act(x * self.scale)

    class Model(Base):
        pass

    steps = [
        change(lambda: setattr(Model, "scale", 5.0)),
        change(lambda: setattr(Model, "act", staticmethod(torch.neg))),
    ]
    steps += [change(lambda: setattr(Model, "scale", torch.ones(3) * 4)), change(lambda: delattr(Model, "act"))]
    return Model(), [*ones(4), *(step for s in steps for step in (s, *ones(1)))]


@program()
def slots_and_dictionary_in_one():
    class Base:
        __slots__ = ("a",)

    class Thing(Base):
        def __init__(self):
            self.a, self.b = 1.0, 2.0

    thing = Thing()

    def f(x):
        thing.b = thing.b + thing.a
        return x * thing.a + thing.b

    hide = change(lambda: vars(thing).update(a=100.0))  # a slot goes before the dictionary
    return (
        f,
        [*ones(4), hide, change(lambda: setattr(thing, "a", 3.0)), change(lambda: setattr(Base, "a", 8.0)), *ones(1)],
        thing,
    )


@program()
def dictionary_of_an_object_is_replaced():
    Thing = make_plain()
    thing, log = Thing(), []

    def f(x):
        thing.count = getattr(thing, "count", 0) + 1
        return thing.scaled(x) * thing.count

    def replace():
        log.append(dict(vars(thing)))
        thing.__dict__ = {"key": 5.0}

    return f, [*ones(4), change(replace), *ones(2), change(replace), *ones(1)], thing, log
