"""Arguments and objects of uncommon kinds: scalars that look alike, subclasses, protocols of classes, iterators."""

import abc
import collections
import dataclasses
import enum
import functools
import math
import types
import typing

import numpy as np
import torch
from torch import nn

from . import Call, ones, program


class WholeNumber(int):
    def __add__(self, other):
        return other + 1000

    __radd__ = __add__


class Text(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


class Never(float):
    def __bool__(self):
        return False


Pair = collections.namedtuple("Pair", "a b")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Flags(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass
class Record:
    scale: float
    tensor: torch.Tensor
    log: list = dataclasses.field(default_factory=list)

    def scaled(self):
        return self.tensor * self.scale


@program()
def numbers_that_look_alike():
    def f(x, n):
        if n == 1:
            return x + n, n is True, type(n).__name__
        if n != n:
            return x * n, "nan", str(n)
        return x * n if n else x - 1, str(n), n

    values = (1, 1, 1, True, 1.0, 0, False, 0.0, -0.0, math.nan, math.inf, 2, 2.5, 10**30, 1 + 2j, True, 1)
    return f, [(torch.ones(3), value) for value in values]


@program()
def signed_zero_in_a_closure():
    factor = 0.0

    def f(x):
        return x * factor, str(factor), math.copysign(1, factor)

    def change(value):
        def step(f):
            nonlocal factor
            factor = value
            return f(torch.ones(3))

        return step

    return f, [*ones(4), change(-0.0), change(-0.0), change(math.nan), change(math.nan), change(False), change(0.0)]


@program()
def huge_numbers():
    def f(x, n):
        return x + n % 7, n**2, n // 3, n << 3, -n

    return f, [(torch.ones(3), n) for n in (10**20, 10**20, 10**20, 2**63, 2**64, 3, -5, 2**63 - 1)]


@program()
def subclasses_of_scalars():
    def f(x, n, text, number):
        y = x + n
        if text == "b":
            y = y * 2
        return (y - 1 if number else y), n

    plain = (torch.ones(3), 1, "a", 1.0)
    odd = [(torch.ones(3), WholeNumber(1), "a", 1.0), (torch.ones(3), 1, Text("a"), 1.0)]
    return f, [*[plain] * 4, *odd, (torch.ones(3), 1, "a", Never(1.0)), plain, (torch.ones(3), 1, "b", 0.0)]


@program()
def records_and_enumerations():
    def f(x, pair, record, colour, level, flags):
        y = x * pair.a + pair[1]
        if colour is Colour.RED:
            y = y + 1
        elif colour == Colour.BLUE:
            y = y + 2
        y = y * level + record.scaled()
        record.scale += 1
        record.log.append(level)
        if Flags.A in flags:
            y = y - 1
        a, b = pair
        return y, pair, Pair(y, a + b), colour.name, colour.value, level + 1, flags | Flags.B

    def call(pair=(1, 2), colour=Colour.RED, level=Level.LOW, flags=Flags.A):
        return torch.ones(3), Pair(*pair), Record(1.0, torch.ones(3)), colour, level, flags

    later = [call(colour=Colour.BLUE), call((1.0, 2), level=Level.HIGH, flags=Flags.B), call(level=True)]
    return f, [*(call() for _ in range(4)), *later, call((torch.ones(3), 2)), call(flags=Flags(0))]


@program()
def arguments_after_a_host_statement():
    def f(x, what, cls, dtype, function, colour):
        iter([1])
        y = function(x).to(dtype)
        if what is None:
            y = y + 1
        if cls is int:
            y = y * 2
        return y * 3 if colour is Colour.RED else y

    plain = (torch.ones(3), None, int, torch.float64, torch.relu, Colour.RED)
    changed = (3, str, torch.int32, torch.sin, Colour.BLUE)
    return f, [plain] * 4 + [(*plain[: i + 1], value, *plain[i + 2 :]) for i, value in enumerate(changed)] + [plain]


@program(graph=False)
def iterators_are_consumed_once():
    def f(x, values, others):
        first = next(values)
        for value in values:
            x = x * value
            if value > 3:
                break
        for a, b in zip(values, others):
            x = x + a * b
        return x + first

    def step(f):
        values = iter(range(1, 9))
        return f(torch.ones(3), values, [1, 1]), list(values)

    def generator(f):
        values = (v for v in (1.0, 2.0, 3.0))
        return f(torch.ones(3), values, iter([1])), list(values)

    return f, [step, step, step, step, generator, generator, step]


@program()
def dictionaries_of_many_kinds():
    groups = collections.defaultdict(list)
    ordered = collections.OrderedDict(a=1.0, b=2.0)
    plain = {"a": 1.0, "b": 2.0}
    odd = {1: 1.0, 2.5: 2.0, (1, 2): 3.0, None: 4.0}

    def f(x, key):
        groups[key].append(x.sum())
        for name, value in [*ordered.items(), *plain.items()]:
            x = x * value + len(name)
        ordered["c"] = ordered.get("c", 0) + 1
        for value in odd.values():
            x = x + value
        return x * len(groups[key]) + odd[1] + odd[(1, 2)] + odd[None], list(ordered), [*plain], {**plain, "z": 1}

    def order(f):
        ordered.move_to_end("a")
        plain["a"] = plain.pop("a")
        odd[1.0] = 7.0
        return f(torch.ones(3), "a")

    return f, [*((torch.ones(3), k) for k in "aabac"), order, (torch.ones(3), "a"), order, (torch.ones(3), "b")], groups


@program()
def containers_that_are_subclasses():
    class Items(list):
        def __getitem__(self, index):
            return 42

        def __len__(self):
            return 7

    class Table(dict):
        def __missing__(self, key):
            return 42

    def f(x, items, table):
        return x * items[0] + len(items), table.get("q", 1), table["k"]

    kinds = [(Items([1, 2]), {"k": 1}), ([1, 2], Table()), ((1, 2), {"k": 2}), (range(4), {"k": 1}), ([1.0], {"k": 1})]
    return f, [*((torch.ones(3), [1, 2], {"k": 1}) for _ in range(4)), *((torch.ones(3), *kind) for kind in kinds)]


@program(graph=False)
def attribute_protocols():
    class Watched:
        def __init__(self):
            self.log = []
            self.inner = 1.0

        @property
        def value(self):
            self.log.append("read")
            self.inner += 1
            return self.inner

        @functools.cached_property
        def once(self):
            self.log.append("once")
            return self.inner * 100

        def __getattr__(self, name):
            self.log.append(name)
            raise AttributeError(name)

    class Descriptor:
        def __get__(self, instance, cls):
            return instance.__dict__.get("raw", 1.0) * 2

        def __set__(self, instance, value):
            instance.__dict__["raw"] = value

    class Described:
        field = Descriptor()

    class Slots:
        __slots__ = ("a", "tensor")

    watched, described, slots = Watched(), Described(), Slots()
    slots.a, slots.tensor = 1.0, torch.ones(3)

    def f(x):
        y = x * watched.value + watched.once + getattr(watched, "missing", 2.0) + hasattr(watched, "other")
        described.field = described.field + 0.5
        slots.a = slots.a + 1
        slots.tensor = slots.tensor * 2
        return y * described.field + slots.a + slots.tensor

    def unset(f):
        del slots.a
        return f(torch.ones(3))

    def reset(f):
        slots.a = 7
        return f(torch.ones(3))

    return f, [*ones(5), unset, reset, *ones(2)], watched, described, slots


@program(graph=False)
def modules_with_a_say():
    log = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.steps = 0

        def __getattr__(self, name):
            if name.startswith("made_"):
                log.append(name)
                return 2.0
            return super().__getattr__(name)

        def __setattr__(self, name, value):
            log.append(name)
            super().__setattr__(name, value)

        def forward(self, x):
            self.steps += 1
            self.last = self.layer(x)
            return self.last * self.made_up

    return Model(), ones(5), log


def make_thing_class(log):
    """A class of its own for each world, since the program changes it."""

    class Thing:
        def __init__(self):
            self.n = 2

        def __len__(self):
            log.append("len")
            return self.n

        def __iter__(self):
            log.append("iter")
            return iter(range(self.n))

        def __contains__(self, value):
            log.append("contains")
            return value == self.n

        def __eq__(self, other):
            log.append("eq")
            return self.n == other

        __hash__ = None

        def __bool__(self):
            log.append("bool")
            return self.n > 1

        def __add__(self, other):
            return self.n + other

        __radd__ = __add__

        def __call__(self, x):
            return x * self.n

        def __format__(self, how):
            log.append("format")
            return f"<{self.n}>"

        def __index__(self):
            return self.n

    return Thing


@program(graph=False)
def operator_protocols():
    log = []

    Thing = make_thing_class(log)
    thing = Thing()

    def f(x):
        y = thing(x) + len(thing) + (thing + 1) + (1 + thing)
        if thing:
            y = y + 1
        if 2 in thing:
            y = y + 100
        if thing == 2:
            y = y * 2
        for value in thing:
            y = y + value
        return y, f"{thing}", [1, 2, 3, 4][thing], thing in [1, thing]

    def change(f):
        thing.n = 3
        return f(torch.ones(3))

    def change_the_class(f):
        Thing.__len__ = lambda self: 50
        Thing.__call__ = lambda self, x: x - 1
        Thing.__eq__ = lambda self, other: False
        return f(torch.ones(3))

    return f, [*ones(4), change, *ones(1), change_the_class, *ones(1)], thing, log


@program(graph=False)
def classes_decide_what_their_instances_are():
    log = []

    class Asked(type):
        def __instancecheck__(cls, instance):
            log.append(type(instance).__name__)
            return True

    class Anything(metaclass=Asked):
        pass

    class Registered(abc.ABC):  # noqa: B024
        pass

    @typing.runtime_checkable
    class HasRelu(typing.Protocol):
        def relu(self): ...

    def f(x, n):
        kinds = (
            isinstance(n, Anything),
            isinstance(n, Registered),
            isinstance(x, HasRelu),
            isinstance(n, (int, Anything)),
        )
        return x * sum(kinds), kinds

    def register(f):
        Registered.register(int)
        return f(torch.ones(3), 1)

    return f, [*[(torch.ones(3), 1)] * 4, register, (torch.ones(3), 2.5), (torch.ones(3), "a")], log


@program()
def module_that_makes_its_attributes():
    lazy = types.ModuleType("lazy")
    log = []

    def make(name):
        log.append(name)
        return 3.0

    lazy.__getattr__ = make

    def f(x):
        y = x * 2
        return y * lazy.factor

    return f, ones(5), log


@program()
def zero_dimensional_and_empty_tensors():
    def f(x, n, parts):
        if n > 0:
            x = x * n
        total = x.sum()
        for part in parts:
            total = total + part.sum()
        for row in x:
            total = total + row.sum()
        return total + n, n.item(), bool(n), float(n), torch.cat([x, *parts]) if parts else x, x.mean(), n == n.item()

    cases = [
        ((2, 3), 1),
        ((2, 3), 1),
        ((2, 3), 2),
        ((2, 3), 1),
        ((0, 3), 1),
        ((2, 3), 0.5),
        ((2, 0), math.nan),
        ((2, 3), True),
    ]
    return f, [(torch.ones(shape), torch.tensor(n), [torch.ones(1, shape[1])]) for shape, n in cases] + [
        (torch.ones(0), torch.tensor(2), [])
    ]


@program()
def arrays_in_and_out():
    def f(array, tensor):
        doubled = np.asarray(array) * 2
        converted = torch.from_numpy(np.ascontiguousarray(doubled))
        array[0] = 99
        view = tensor.numpy()
        view += 1
        return converted + tensor, doubled, tensor.numpy(), np.float64(tensor.sum()), torch.as_tensor(array)

    plain = [(np.ones(3), torch.ones(3)) for _ in range(4)]
    odd = [(np.ones(6, dtype=np.float32)[::-2], torch.ones(3)), (np.ones((2, 3)), torch.ones(3, dtype=torch.float64))]
    return f, [*plain, *odd]


@program()
def names_that_the_emitted_code_might_use():
    def f(torch_, len, type, v0, _v1, undo, MISS, print, x, self, function, state, args):
        return x * 2 + torch_ + len + type + v0 + _v1 + undo + MISS + print + self + function + state + args

    numbers = (1, 2, 3, 4, 5, 6, 7, 8)
    return f, [Call(*numbers, torch.ones(3), 9, function=10, state=11, args=12) for _ in range(5)]
