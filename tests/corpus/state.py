"""State: attributes, buffers, globals, cells, containers, in-place tensor operations, views of all of them."""

import collections
import dataclasses

import torch
from torch import nn

from . import program

counter = 0
history = []
table = [1, 2, 3]


def ones(count, *shape):
    return [(torch.ones(shape or (1,)),) for _ in range(count)]


@program(max_graphs=2)
def attribute_counter():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0

        def forward(self, x):
            self.steps += 1
            return x * self.steps

    model = Model()

    def reset(f):
        model.steps = -5
        return f(torch.ones(1))

    return model, [*ones(5), reset, *ones(2)]


@program()
def buffer_reassigned():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("acc", torch.zeros(1))

        def forward(self, x):
            self.acc = self.acc + x
            out = self.acc * 2
            self.acc = self.acc * self.acc
            return out

    return Model(), [*ones(5), (torch.ones(2),), *ones(1, 2)]


@program(max_graphs=2)
def global_counter():
    global counter
    counter = 0

    def f(x):
        global counter
        counter += 1
        return x + counter

    def reset(f):
        global counter
        counter = 1.5
        return f(torch.ones(1))

    return f, [*ones(5), reset, *ones(2)]


@program()
def global_list():
    history.clear()

    def f(x):
        history.append(x.sum().item())
        return x * len(history) + sum(history[-2:])

    return f, [(torch.ones(2) * i,) for i in range(6)]


@program(max_graphs=2)
def closure_list_read():
    total = [0.0]

    def f(x):
        return x + total[0]

    def change(f):
        total[0] = 5.0
        return f(torch.ones(1))

    def grow(f):
        total.insert(0, torch.tensor(2.0))
        return f(torch.ones(1))

    return f, [*ones(4), change, *ones(1), grow]


@program()
def one_list_by_two_paths():
    def f(items, x):
        return x + table[-1] + items[-1]

    x = torch.ones(1)
    return f, [(table, x), (table, x), (table, x), ([3, 2, 1], x), (table, x)]


@program(max_graphs=2)
def nonlocal_counter():
    def outer():
        count = 0
        last = None

        def f(x):
            nonlocal count, last
            count += 1
            last = x * count
            return last + 1

        return f

    return outer(), [*ones(5), (torch.ones(3),), *ones(1)]


@program()
def append_on_object():
    class Log:
        def __init__(self):
            self.items = []
            self.seen = set()
            self.last = None

        def add(self, x):
            self.items.append(x)
            self.seen.add(len(self.items))
            self.last = self.items[-1]

    log = Log()

    def f(x):
        log.add(x * 2)
        if len(log.items) > 3:
            log.items.pop(0)
        return log.last + len(log.items)

    return f, ones(7, 2)


@program()
def list_on_the_class():
    class Model(nn.Module):
        items = []

        def forward(self, x):
            Model.items.append(x)
            self.__class__.latest = x * 2
            return x * len(self.items)

    return Model(), ones(5)


@program()
def dict_items():
    stats = {"n": 0, "sum": torch.zeros(1), "by": collections.defaultdict(list)}

    def f(x, key):
        stats["n"] += 1
        stats["sum"] = stats["sum"] + x
        stats["by"][key].append(stats["n"])
        if key == "drop":
            del stats["by"][key]
        stats.setdefault("first", key)
        return x / stats["n"], stats.get("missing", 3), list(stats["by"])

    return f, [(torch.ones(1), k) for k in ("a", "a", "a", "b", "drop", "a", "c")]


@program(max_graphs=2)
def kv_cache():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
            self.keys = self.values = None

        def forward(self, x):
            k, v = self.key(x), self.value(x)
            if self.keys is not None:
                k, v = torch.cat([self.keys, k], 1), torch.cat([self.values, v], 1)
            self.keys, self.values = k.detach(), v.detach()
            return torch.softmax(self.query(x) @ k.mT, -1) @ v

    return Attention(), [(torch.randn(1, 1, 4),) for _ in range(7)]


@program()
def fixed_cache_written_in_place():
    cache = torch.zeros(8, 2)

    def f(x, position):
        cache[position] = x
        return cache[: position + 1].sum(0), cache.mean()

    return f, [(torch.randn(2), i) for i in range(6)] + [(torch.randn(2), 9), (torch.randn(2), -1), (torch.randn(2), 6)]


@program()
def methods_change_their_object():
    class Account:
        def __init__(self):
            self.y = 0
            self.parent = None

        def bump(self, by=1):
            self.y += by
            if self.parent is not None:
                self.parent.bump(by * 10)
            return self

    def f(x, account):
        while (x > 0).all():
            x = x - 1
            account.bump()
        return x * account.y

    top = Account()
    inner = Account()
    inner.parent = top
    x = torch.tensor([3.0])
    return f, [(x, top), (x, top), (x, top), (x, inner), (torch.tensor([1.0]), top), (torch.tensor([0.0]), inner)]


@program()
def in_place_on_arguments():
    def f(a, b):
        a.relu_()
        a.add_(1.0)
        b += a
        b[0].mul_(2)
        torch.add(a, b, out=b)
        return a + 1

    def args(n=3):
        return torch.randn(n), torch.randn(n)

    same = torch.randn(3)
    return f, [args(), args(), args(), args(5), (same, same), (torch.randn(6)[:3], torch.randn(6)[::2]), args()]


@program()
def in_place_on_views():
    def f(x):
        x.diagonal().add_(1.0)
        windows = x.unfold(1, 1, 2)
        windows.mul_(2)
        x[1:].t()[0] = -1
        y = x.view(-1)
        y[y > 3] = 0
        return x

    return f, [(torch.randn(3, 4),) for _ in range(4)] + [(torch.randn(2, 4),), (torch.randn(4, 3).mT.contiguous(),)]


@program()
def overlapping_arguments():
    base = torch.zeros(6)

    def f(a, b):
        a.add_(1)
        c = b * 2
        b.mul_(3)
        return c + a.sum()

    far = (base[:3], base[3:])
    return f, [far, far, far, (base[:4], base[2:]), (base, base), far], base


@program()
def running_statistics():
    class Normalise(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(2))
            self.register_buffer("count", torch.tensor(0))
            self.momentum = 0.1

        def forward(self, x):
            if self.training:
                self.count += 1
                with torch.no_grad():
                    self.mean.mul_(1 - self.momentum).add_(x.mean(0), alpha=self.momentum)
            return x - self.mean, self.count.item()

    model = Normalise()

    def evaluate(f):
        model.eval()
        model.momentum = 0.5
        return f(torch.ones(3, 2))

    def train(f):
        model.train()
        return f(torch.ones(3, 2))

    return model, [*((torch.randn(3, 2),) for _ in range(4)), evaluate, train, evaluate]


@program()
def in_place_then_autograd():
    def f(x, w):
        y = x * w
        y[0] = 0
        y.mul_(2)
        z = y.clone()
        z += w
        return z.sum(), y

    return f, [(torch.randn(3), torch.randn(3, requires_grad=True)) for _ in range(5)]


@program()
def swapped_state():
    class Pair:
        def __init__(self):
            self.a, self.b = torch.zeros(1), torch.ones(1)

    pair = Pair()

    def f(x):
        pair.a, pair.b = pair.b, pair.a + x
        alias = pair
        alias.c = pair.a is alias.a
        return pair.b * 2

    return f, ones(5)


@program()
def aliased_objects():
    class Box:
        def __init__(self):
            self.value = 0

    def f(x, a, b):
        a.value = 1
        b.value += 10
        return x * a.value

    one, two = Box(), Box()
    x = torch.ones(1)
    return f, [(x, one, two), (x, one, two), (x, one, two), (x, one, one), (x, two, one), (x, two, two)]


@program(graph=False)
def attributes_come_and_go():
    class Box:
        pass

    box = Box()

    def f(x):
        if hasattr(box, "extra"):
            del box.extra
            return x
        box.extra = x * 2
        setattr(box, "count", getattr(box, "count", 0) + 1)
        return box.extra + box.count

    return f, ones(6)


@program()
def dataclass_and_slots():
    @dataclasses.dataclass
    class Config:
        rate: float = 0.5
        sizes: list = dataclasses.field(default_factory=lambda: [1])

    class Slotted:
        __slots__ = ("total",)

        def __init__(self):
            self.total = torch.zeros(1)

    config, slotted = Config(), Slotted()

    def f(x):
        slotted.total = slotted.total + x * config.rate
        made = Config(rate=float(len(config.sizes)))
        return slotted.total * made.rate, made

    def change(f):
        config.rate = 0.25
        config.sizes.append(2)
        return f(torch.ones(1))

    return f, [*ones(4), change, *ones(1)]


@program()
def property_with_setter():
    class Meter:
        def __init__(self):
            self._value = 0
            self.writes = 0

        @property
        def value(self):
            return self._value

        @value.setter
        def value(self, new):
            self.writes += 1
            self._value = new

    meter = Meter()

    def f(x):
        meter.value = meter.value + x.sum()
        return x * meter.value

    return f, ones(5)


@program()
def results_kept_by_the_caller():
    kept = []

    def f(x):
        y = x + 1
        kept.append(y)
        if len(kept) > 1:
            kept[-2].mul_(10)
        return y, kept[0]

    return f, ones(5)


@program()
def gradient_read_and_cleared():
    weight = torch.ones(2, requires_grad=True)

    def f(x):
        y = (weight * x).sum()
        previous = None if weight.grad is None else weight.grad * 1
        return y, previous

    def backward(f):
        y, previous = f(torch.ones(2))
        y.backward()
        return previous

    def clear(f):
        weight.grad = None
        return f(torch.ones(2))

    return f, [backward, backward, backward, clear, backward]
