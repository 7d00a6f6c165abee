"""State that ordinary programs keep and change between calls: read anew, written once per call, in order."""

import os
import random
import types
import uuid

import numpy
import torch
from torch import nn

from . import ones, program


def helper(x):
    return x + 20


OFFSETS = [1, 2, 3]
TOTAL = 0


@program()
def helper_is_rebound():
    def f(x):
        return helper(x) * 2

    def rebind(replacement):
        def step(f):
            global helper
            before, helper = helper, replacement
            try:
                return f(torch.ones(3))
            finally:
                helper = before

        return step

    return f, [*ones(4), rebind(lambda x: x * 3), *ones(1), rebind(lambda x: x - 1), rebind(torch.neg), *ones(1)]


@program()
def global_list_comes_in_as_an_argument():
    OFFSETS[:] = [1, 2, 3]

    def f(numbers, x):
        y = x + OFFSETS[-1] + numbers[-1]
        numbers[-1] = 10
        return y + OFFSETS[-1]

    def call(numbers):
        def step(f):
            OFFSETS[:] = [1, 2, 3]
            return f(OFFSETS if numbers is None else numbers, torch.ones(2))

        return step

    return f, [*[call(None) for _ in range(4)], *[call([3, 2, 1]) for _ in range(3)], call(None), call([1, 2, 3])]


@program()
def switch_in_the_environment():
    def f(x):
        if os.environ.get("JANUSC_TEST_SWITCH", "0") == "1":
            return x + 1
        return x - int(os.getenv("JANUSC_TEST_LEVEL", "1"))

    def put(name, value):
        def step(f):
            os.environ[name] = value
            return f(torch.ones(2))

        return step

    def take(f):
        del os.environ["JANUSC_TEST_SWITCH"]
        return f(torch.ones(2))

    steps = [put("JANUSC_TEST_SWITCH", v) for v in "1110011"]
    return f, [*steps, take, put("JANUSC_TEST_LEVEL", "5"), *ones(2, 2)]


@program()
def default_arguments_live_in_the_function():
    def f(x, held=torch.ones(2), log=[], *, scale=torch.ones(2)):  # noqa: B006, B008
        held += x
        log.append(len(log))
        scale.mul_(2)
        return held * scale, len(log)

    def replace_default(g):
        f.__defaults__ = (torch.zeros(2), [7, 8])
        f.__kwdefaults__ = {"scale": torch.full((2,), 5.0)}
        return g(torch.ones(2))

    return f, [*ones(4, 2), replace_default, *ones(2, 2), (torch.ones(2), torch.ones(2))]


@program()
def containers_on_the_class():
    class Model(nn.Module):
        items = []
        table = {}
        count = 0

        def forward(self, x):
            self.items.append(x)
            type(self).items.append(x * 2)
            Model.table["last"] = x
            Model.table.setdefault("n", []).append(len(self.items))
            return x + len(Model.items)

    return Model(), ones(5), Model.items, Model.table


@program(graph=False)
def counter_on_the_class():
    class Model(nn.Module):
        count = 0

        def forward(self, x):
            Model.count += 1
            self.count2 = self.count + type(self).count
            return torch.relu(x) * self.count2

    def reset(f):
        Model.count = 100
        return f(torch.ones(3))

    return Model(), [*ones(5), reset, *ones(1)], lambda: Model.count


@program()
def every_source_of_python_randomness():
    generator = random.Random(4)
    arrays = numpy.random.RandomState(5)

    def f(x):
        order = list(range(8))
        random.shuffle(order)
        picked = random.sample(order, 3)
        weighted = random.choices(order, k=2)
        generator.shuffle(picked)
        permuted = numpy.random.permutation(4)
        numpy.random.shuffle(order)
        k = arrays.randint(5) + generator.randint(1, 3)
        ident = uuid.UUID(int=random.getrandbits(128))
        return x * k * 2 + random.gauss(0, 1), order, picked, weighted, permuted, str(ident)

    def seeded(f):
        random.seed(3)
        numpy.random.seed(3)
        return f(torch.arange(8.0))

    return f, [*[(torch.arange(8.0),) for _ in range(4)], seeded, seeded], generator, arrays


@program()
def identifiers_are_fresh():
    def f(x):
        name = uuid.uuid4().hex
        return x * 2, name

    def twice(f):
        (first, a), (_, b) = f(torch.ones(3)), f(torch.ones(3))
        return first, a == b, len(a)

    return f, [twice] * 4


@program()
def three_counters_in_one_call():
    global TOTAL
    TOTAL = 0
    inner = {"n": 0}
    count = 0

    def f(x):
        global TOTAL
        nonlocal count
        TOTAL += 1
        count += 2
        inner["n"] += TOTAL
        y = torch.sin(x) + TOTAL
        TOTAL += count
        return y + inner["n"]

    return f, [*ones(5), (torch.ones(2, 2),), *ones(2)], lambda: (TOTAL, count)


@program()
def objects_that_claim_to_be_equal():
    class Config:
        def __init__(self, a):
            self.a = a

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 7

    configs = [Config(1), Config(2)]

    def f(config, x):
        return torch.relu(x) + config.a

    def change(f):
        configs[0].a = 5
        return f(configs[0], torch.ones(3))

    again = [(configs[k], torch.ones(3)) for k in (0, 0, 0, 0, 1, 0)]
    return f, [*again, change, (configs[1], torch.ones(3)), (configs[0], torch.ones(3))], configs


@program()
def equality_by_attributes_decides():
    class Config:
        def __init__(self, **values):
            self.__dict__.update(values)

        def __eq__(self, other):
            return self.__dict__ == other.__dict__

        __hash__ = None

    reference = Config(a=1, b=[1, 2])

    def f(config, x):
        x = torch.relu(x)
        if config == reference:
            return x * 2
        return x - 1

    pairs = [Config(a=1, b=[1, 2]), Config(a=1, b=[1, 2]), Config(a=1, b=[1, 2]), Config(a=1, b=[1]), Config()]
    return f, [(p, torch.ones(3)) for p in pairs] + [(reference, torch.ones(3))]


@program()
def closures_over_lists_and_functions():
    total = [0.0]

    def inner(x):
        return x + 1

    def f(x):
        return inner(x) + total[0]

    def change(f):
        total[0] = 5.0
        return f(torch.ones(3))

    def rebind(f):
        nonlocal inner
        inner = torch.neg
        return f(torch.ones(3))

    def clear(f):
        total.clear()
        return f(torch.ones(3))

    return f, [*ones(4), change, rebind, *ones(1), clear]


@program()
def attributes_counted_up_and_read_back():
    o = types.SimpleNamespace(value=0, best=None, history=[])

    def f(x):
        o.value += 1
        score = x.sum()
        if o.best is None or score > o.best:
            o.best = score
            o.history.append(o.value)
        return x * o.value

    return f, [(torch.full((2,), float(k)),) for k in (1, 1, 1, 2, 3, 2, 5, 0, 9)], o


@program()
def tensor_loop_with_a_method_that_counts():
    class Counter:
        def __init__(self):
            self.y, self.log = 0, []

        def bump(self, x):
            self.y += 1
            self.log.append(x)

    counter = Counter()

    def f(x):
        while x > 0:
            x = x - 1
            counter.bump(x)
        return x * counter.y

    return f, [(torch.tensor(float(k)),) for k in (3, 3, 3, 5, 1, 0, 4)], counter


@program()
def buffer_reassigned_after_the_result():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("acc", torch.zeros(1))
            self.register_buffer("unread", torch.zeros(1))
            self.seen = 0

        def forward(self, x):
            self.acc = self.acc + x
            out = self.acc * 2
            self.acc = self.acc * self.acc
            self.unread = torch.full_like(self.unread, float(self.seen))
            self.unread.add_(1)
            self.seen += 1
            return out

    return Model(), ones(5, 1)


@program()
def two_changes_in_place_in_a_row():
    def f(a, b):
        a.relu_()
        a.add_(1)
        b[0] = a.sum()
        b.mul_(2)
        b[1:] += a[:1]
        return a + 1

    return f, [(torch.tensor([-1.0, 2.0]), torch.zeros(3)) for _ in range(4)] + [(torch.ones(1), torch.ones(2))]


@program()
def windows_with_gaps_changed_in_place():
    def f(x):
        x.unfold(1, 1, 5).mul_(2)
        x.diagonal().add_(1)
        x.t()[1].neg_()
        torch.as_strided(x, (2,), (4,)).add_(100)
        x.select(0, 1).narrow(0, 1, 2).zero_()
        return x

    return f, [(torch.arange(1, 13).reshape(2, 6),) for _ in range(5)] + [(torch.arange(12.0).view(6, 2).t(),)]


@program()
def writes_through_views_nobody_reads():
    def f(a):
        a.diagonal().add_(1)
        a.flatten()[1] = 5
        rows = list(a)
        rows[0].mul_(3)
        first, *_ = a.unbind(1)
        first -= 1
        a.view(-1).data[2] = 7
        return a

    return f, [(torch.zeros(3, 3),) for _ in range(5)] + [(torch.zeros(2, 3),)]


@program()
def own_code_is_swapped_where_ordinary_python_comes_first():
    def f(x):
        k = random.randrange(1, 3)
        return x * k

    def other(x):
        k = random.randrange(5, 9)
        return x - k

    def swap(g):
        f.__code__, other.__code__ = other.__code__, f.__code__
        return g(torch.ones(3))

    return f, [*ones(4), swap, *ones(3), swap, *ones(2)]


@program()
def none_is_called_after_ordinary_python():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = None

        def forward(self, x):
            k = random.randrange(1, 3)
            y = x * k
            return self.act(y)

    model = Model()

    def put(f):
        model.act = torch.tanh
        return f(torch.ones(3))

    return model, [*ones(3), put, *ones(4)]
