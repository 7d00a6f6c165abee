"""Classes: super, several bases, class attributes, properties, descriptors, dynamic attributes, slots."""

import abc
import functools
import operator

import torch
from torch import nn

import janusc as janus

from . import ones, program

ONE = torch.ones(3)


@program()
def cooperative_bases():
    class Root:
        def __init__(self):
            self.log = []

        def run(self, x):
            self.log.append("Root")
            return x + 1

    class Left(Root):
        def run(self, x):
            self.log.append("Left")
            return super().run(x * 2)

    class Right(Root):
        def run(self, x):
            self.log.append("Right")
            return super().run(x * 3) - 1

    class Both(Left, Right):
        def run(self, x):
            self.log.append("Both")
            return super().run(torch.relu(x)) + super(Left, self).run(x)

    class Only(Left):
        pass

    both, only = Both(), Only()

    def f(x, pick):
        return (both if pick else only).run(x) + Right.run(both, x)

    def rebase(f):
        Only.__bases__ = (Right,)
        return f(ONE, False)

    return f, [*[(ONE, True)] * 4, (ONE, False), rebase, (ONE, True)], both, only


@program()
def super_in_static_and_class_methods():
    class Base:
        scale = 2

        @classmethod
        def make(cls, x):
            return x * cls.scale

        @staticmethod
        def shift(x):
            return x + 1

        @property
        def offset(self):
            return self.scale * 10

    class Sub(Base):
        scale = 3

        @classmethod
        def make(cls, x):
            return super().make(torch.relu(x)) * 2

        def both(self, x):
            return super().shift(x) + super().offset + self.make(x) + super().make(x)

    class Deeper(Sub):
        scale = 5

    first, second = Sub(), Deeper()

    def f(x, pick):
        return (first if pick else second).both(x), Sub.make(x), type(second).make(x)

    def change(f):
        Deeper.scale = 7
        return f(ONE, False)

    return f, [*[(ONE, True)] * 4, (ONE, False), change, (ONE, True)]


@program(graph=False)
def decorated_in_the_class_body():
    class Base:
        def run(self, x):
            return torch.relu(x) + 1

    class Model(Base):
        def __init__(self):
            self.k, self.__secret = 2, 3

        @janus.compile
        def run(self, x):
            self.k += 1
            return super().run(x) * self.k + self.__secret + __class__.offset

        offset = 10

    class Sub(Model):
        offset = 20

        def run(self, x):
            return super().run(x) * 2

    model, sub = Model(), Sub()

    def f(x, pick):
        return (model if pick else sub).run(x)

    return f, [*[(ONE, True)] * 5, (ONE, False), (ONE, False), (ONE, True)], model, sub


@program()
def class_attributes_per_instance_and_class():
    class Base:
        scale, items, count = 2, [1], 0

        def run(self, x):
            self.count += 1
            return torch.relu(x) * self.scale + len(self.items) + type(self).count + self.count

    class Sub(Base):
        pass

    first, second = Base(), Sub()

    def f(x, pick):
        return (first if pick else second).run(x)

    def shadow(f):
        second.scale = 100
        return f(ONE, False)

    def unshadow(f):
        del second.scale
        Sub.scale = 9
        return f(ONE, False)

    def grow(f):
        Base.items.append(2)
        return f(ONE, True), f(ONE, False)

    def remove(f):
        del Sub.scale
        Base.count = 50
        return f(ONE, False)

    return f, [*[(ONE, True)] * 4, *[(ONE, False)] * 2, shadow, unshadow, grow, remove, (ONE, True)], first, second


@program()
def dynamic_attributes():
    log = []

    class Lazy:
        def __getattr__(self, name):
            log.append(name)
            if name == "missing":
                raise AttributeError(name)
            self.__dict__[name] = len(name)
            return len(name) * 10

    class Always:
        here = 3

        def __init__(self):
            self.own = 5

        def __getattribute__(self, name):
            log.append(name)
            return object.__getattribute__(self, name)

    class Noted:
        def __init__(self):
            self.k = 1

        def __setattr__(self, name, value):
            log.append((name, value))
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            log.append(f"del {name}")
            object.__delattr__(self, name)

    always, noted = Always(), Noted()

    def f(x, lazy):
        y = torch.relu(x)
        z = y * lazy.first + lazy.first + always.here + always.own + getattr(lazy, "missing", 7)
        noted.k += 1
        noted.extra = 2
        del noted.extra
        return z + noted.k, hasattr(lazy, "missing"), hasattr(lazy, "other")

    return f, [(ONE, Lazy()) for _ in range(5)], log


@program()
def properties_that_work():
    log = []

    class Box:
        def __init__(self):
            self._v = torch.ones(3)

        @property
        def v(self):
            log.append("get")
            return self._v * 2

        @v.setter
        def v(self, value):
            log.append("set")
            self._v = value

        @v.deleter
        def v(self):
            log.append("del")
            self._v = torch.zeros(3)

        size = property(operator.attrgetter("_v.shape"))

        @functools.cached_property
        def total(self):
            log.append("total")
            return self._v.sum()

    class Sub(Box):
        @property
        def v(self):
            return super().v + 1

    box, sub = Box(), Sub()

    def f(x, flag):
        y = torch.relu(x) + box.v + sub.v
        box.v = y
        box.v += 1
        if flag:
            del box.v
        return y * box.total, box.size, sub._v

    def override(f):
        box.__dict__["v"] = "not seen"  # a property is a data descriptor
        del box.total
        return f(ONE, False)

    def replace(f):
        Sub.v = property(lambda self: 3)
        return f(ONE, True)

    return f, [*[(ONE, False)] * 4, (ONE, True), override, replace, (ONE, False)], log, box


@program(graph=False)
def descriptors_of_every_kind():
    log = []

    class Data:
        def __set_name__(self, owner, name):
            self.name = f"_{name}"

        def __get__(self, instance, owner=None):
            log.append(("get", instance is None))
            return self if instance is None else instance.__dict__.get(self.name, 1)

        def __set__(self, instance, value):
            log.append("set")
            instance.__dict__[self.name] = value * 2

    class NonData:
        def __get__(self, instance, owner=None):
            log.append("non-data")
            return 7

    class Method:
        def __init__(self, function):
            self.function = function

        def __get__(self, instance, owner=None):
            return functools.partial(self.function, instance)

    class Box:
        data, other = Data(), NonData()

        @Method
        def run(self, x):
            return x * self.data

    box = Box()

    def f(x):
        y = torch.relu(x) * box.data + box.other
        box.data = 3
        return box.run(y) + box.data, Box.other

    def shadow(f):
        box.other = 100
        box.__dict__["data"] = 50
        return f(ONE)

    return f, [*ones(4), shadow, *ones(1)], log, box


@program()
def slots():
    class Base:
        __slots__ = ("k",)

    class Box(Base):
        __slots__ = ("v", "w")

        def __init__(self):
            self.k, self.v = 2, torch.ones(3)

        def run(self, x):
            self.k += 1
            self.v = x * self.k
            return self.v

    box = Box()

    def f(x):
        return box.run(torch.relu(x)) + box.k, hasattr(box, "w"), getattr(box, "w", 5)

    def set_(f):
        box.w = 1
        return f(ONE)

    def unset(f):
        del box.k
        return f(ONE)

    return f, [*ones(4), set_, *ones(1), unset, *ones(1)], box


@program(graph=False)
def metaclasses_and_hooks_of_classes():
    log = []

    class Meta(type):
        shared = 2

        def __call__(cls, *args):
            log.append("made")
            return super().__call__(*args)

        @property
        def size(cls):
            return len(cls.__name__)

        def __len__(cls):
            return 4

        def __contains__(cls, item):
            return item == 1

        def __getitem__(cls, item):
            return item * 2

    class Box(metaclass=Meta):
        registry = {}

        def __init_subclass__(cls, **kwargs):
            Box.registry[cls.__name__] = kwargs

        def __class_getitem__(cls, item):
            return "not called: the metaclass has __getitem__"

    class Sub(Box, tag=1):
        pass

    class Generic:
        def __class_getitem__(cls, item):
            log.append(item)
            return item * 3

    def f(x):
        y = torch.relu(x) * Box.shared + Box.size + len(Box) + Box[3]
        made = Sub()
        return y, 1 in Box, isinstance(made, Box), Box.registry["Sub"], Generic[2]

    return f, ones(4), log


@program()
def abstract_classes():
    class Shape(abc.ABC):
        @property
        @abc.abstractmethod
        def factor(self): ...

        @abc.abstractmethod
        def run(self, x):
            return torch.relu(x)

    class Square(Shape):
        factor = 2

        def run(self, x):
            return super().run(x) * self.factor

    @Shape.register
    class Virtual:
        factor = 5

        def run(self, x):
            return x - self.factor

    def f(x, shape):
        return shape.run(x), isinstance(shape, Shape), issubclass(type(shape), Shape)

    square, virtual = Square(), Virtual()
    return f, [*[(ONE, square)] * 4, (ONE, virtual), (ONE, Square()), (ONE, None)]


@program(graph=False)
def modules_with_odd_attributes():
    class Model(nn.Module):
        scale = 2

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.log = []

        def __getattr__(self, name):
            if name == "virtual":
                self.log.append(name)
                return 5
            return super().__getattr__(name)

        @property
        def weight(self):
            return self.layer.weight

        def __len__(self):
            return 7

        def __bool__(self):
            self.log.append("bool")
            return True

        def __contains__(self, name):
            return name in self._modules

        def __getitem__(self, i):
            return self.layer.bias[i]

        def __iter__(self):
            return iter([1, 2])

        def forward(self, x):
            if self:
                x = x * self.virtual
            a, b = self
            return self.layer(x) + self.weight.sum() + len(self) + self[0] * a + b, "layer" in self

    model = Model()

    def replace(f):
        model.layer = nn.Linear(3, 3, bias=True)
        return f(ONE)

    return model, [*ones(4), replace, *ones(1)]
