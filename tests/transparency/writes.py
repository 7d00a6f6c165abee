"""Writes of every kind, read back by every path, in the order of the program and once a call."""

import collections
import operator
import time

import torch
import torch.nn.functional as F
from torch import nn

from . import ones, program

NAMES = globals()


class Box:
    def __init__(self, **state):
        self.__dict__.update(state)


def tried(function, *arguments):
    """The result, or the kind of the error."""
    try:
        return function(*arguments)
    except RuntimeError as error:
        return type(error).__name__


@program()
def default_arguments():
    def helper(x, seen={}, log=[]):  # noqa: B006
        seen["n"] = seen.get("n", 0) + 1
        log += [seen["n"]]
        return x * seen["n"] + len(log)

    def f(x, held=[], *, options={"n": 0}):  # noqa: B006
        held.append(len(held))
        options["n"] += 1
        return helper(x) * sum(held) + options["n"] + helper(x)

    return f, ones(6), helper


@program()
def class_attributes():
    class Base:
        n = 0
        items = []
        table = {}

    class Derived(Base):
        pass

    box = Derived()

    def f(x):
        Base.n += 1
        y = x * box.n
        Derived.n = Base.n + 10
        box.items.append(Base.n)
        Base.table["k"] = Derived.n
        return y + box.n + Derived.n + len(Derived.items) + box.table["k"]

    def reset(f):
        del Derived.n
        return f(torch.ones(3))

    return f, [*ones(4), reset, *ones(2)], Base, Derived


@program()
def deletions():
    box, table, items = Box(), {"a": 1, "b": 2}, [1, 2, 3]

    def f(x):
        global temporary
        temporary = 5
        box.extra = 4
        y = x * box.extra * temporary
        del box.extra, temporary
        table["c"] = 3
        del table["c"]
        items.append(9)
        del items[-1]
        items[1:1] = [7]
        del items[1:2]
        z = y
        del y
        return z + hasattr(box, "extra") + len(table) + len(items) + ("temporary" in NAMES)

    return f, ones(6), box, table, items


@program(graph=False)
def function_attributes():
    def helper(x):
        helper.calls += 1
        return x * helper.calls

    helper.calls = 0

    def f(x):
        return helper(x) + helper.calls

    return f, ones(6), helper


@program()
def every_method_of_a_list():
    items = [3, 1, 2]

    def f(x):
        items.sort()
        first = items[0]
        items.sort(reverse=True, key=lambda v: -v)
        items.insert(0, 5)
        items.remove(5)
        items.extend((7, 8))
        items[0:2] = [1]
        taken = items.pop() + items.pop(0) + items.index(7) + items.count(8)
        copied = items.copy()
        items.clear()
        items.extend([3, 1, 2])
        items.reverse()
        return x * first + taken + len(copied) + items[0]

    return f, ones(6), items


@program()
def every_method_of_a_dict():
    table = {"a": 1}

    def f(x):
        table.setdefault("b", []).append(1)
        table.update({"c": 3}, d=4)
        taken = table.pop("c") + table.pop("zz", 0)
        key, value = table.popitem()
        y = x * taken + value + len(table["b"]) + len(key)
        table.pop("b")
        return y

    return f, ones(6), table


@program()
def every_method_of_a_set():
    members = {1, 2}

    def f(x):
        members.add(3)
        members.discard(1)
        members.update([5, 6])
        members.remove(6)
        y = x * len(members) + (5 in members) + sum(members)
        members.clear()
        members.update({1, 2})
        return y + len(members)

    return f, ones(6), members


@program()
def containers_of_the_library():
    counts, ordered = collections.defaultdict(int), collections.OrderedDict(a=1)
    letters, recent = collections.Counter(), collections.deque(maxlen=3)

    def f(x):
        y = torch.tanh(x) * 2
        counts["k"] += 1
        ordered["z"] = len(ordered)
        ordered.move_to_end("a")
        letters["q"] += 2
        letters.update("ab")
        recent.append(counts["k"])
        return y * counts["k"] + sum(ordered.values()) + letters["a"] + sum(recent) + counts[f"new{counts['k']}"]

    return f, ones(6), counts, ordered, letters, recent


@program()
def parts_made_at_the_first_call():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = None
            self.n = 0

        def forward(self, x):
            if self.layer is None:
                self.layer = nn.Linear(x.shape[-1], 2)
            if not hasattr(self, "scale"):
                self.register_buffer("scale", torch.ones(2))
            if "late" not in self._modules:
                self.add_module("late", nn.Tanh())
            if self.n == 2:
                self.extra = nn.Parameter(torch.full((2,), 3.0))
            self.n += 1
            self.scale = self.scale * 2
            y = self.late(self.layer(x)) * self.scale
            return y + self.extra if self.n > 3 else y

    model = Model()

    def reset(f):
        model.layer = None
        del model.scale, model.late
        return f(torch.ones(1, 5))

    return model, [*ones(6, 1, 3), reset, *ones(2, 1, 5)]


@program()
def attribute_becomes_a_buffer():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def forward(self, x):
            self.held = x * 2
            self.n += 1
            return self.held + self.n

    model = Model()

    def register(f):
        del model.held
        model.register_buffer("held", torch.zeros(3))
        return f(torch.ones(3))

    return model, [*ones(4), register, *ones(2)]


@program()
def data_set_and_resize():
    tensor, parameter, held = torch.ones(3), nn.Parameter(torch.ones(3)), torch.zeros(3)

    def f(x):
        y = x * 2
        tensor.data.add_(1)
        tensor.data = tensor.data * 2
        parameter.data.mul_(2)
        parameter.data -= 1
        held.set_(y.clone())
        made = torch.zeros(2)
        made.resize_(3)
        made.copy_(held)
        return y + tensor + parameter.detach() + held + made

    return f, ones(6), tensor, parameter, held


@program()
def views_of_one_tensor():
    base = torch.zeros(4, 4)
    row, box = base[1], Box(flat=base.view(-1), diagonal=base.diagonal())

    def f(x):
        row.add_(x)
        y = base.sum()
        box.flat[3] = 7
        box.diagonal += 1
        z = base.sum() + row.sum()
        base.mul_(0.5)
        return y + z + box.flat.sum() + box.diagonal.sum()

    return f, ones(6, 4), base


@program()
def numbers_that_go_round():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.step, self.phase, self.total = 0, "a", 0.0

        def forward(self, x):
            self.step = (self.step + 1) % 3
            self.phase = "b" if self.phase == "a" else "a"
            self.total += 0.5
            if self.step == 0:
                x = x * 10
            if self.phase == "b":
                x = x + 1
            return x * self.total

    return Model(), ones(12)


@program()
def containers_kept_and_written_later():
    box = Box()

    def f(x):
        made = [x]
        box.items = made
        box.table = table = {"a": 1}
        time.time()
        made.append(x * 2)
        table["b"] = 2
        y = x * len(box.items) + box.items[-1] + len(box.table)
        box.items.append(3)
        box.table["c"] = 3
        return y + len(made) + len(table)

    return f, ones(7), box


@program()
def containers_from_a_call():
    box, rows = Box(items=[1]), [[1], [2], [3]]
    get = operator.attrgetter("items")

    def f(x, i):
        items = get(box)
        items.append(len(items))
        y = x * len(box.items) + box.items[-1]
        rows[i].append(len(rows[i]))
        y = y * len(rows[0]) + rows[1][-1]
        row = rows[i]
        row.insert(0, 5)
        return y + rows[0][0] + rows[2][0] + sum(len(r) for r in rows)

    return f, [(torch.ones(3), i) for i in (0, 0, 0, 1, 2, 0, 1)], box, rows


@program()
def in_branches_and_loops():
    box, count = Box(n=0, items=[], table={}), 0

    def f(x, k):
        nonlocal count
        for i in range(k):
            box.n += 1
            box.items.append(i)
            box.table[i] = x * i
            if x.sum() > 2:
                count += 1
                box.last = i
                box.items.append("big")
            else:
                box.table.pop(i)
        box.total = box.n * count
        return x * box.n + count + len(box.items) + len(box.table)

    kinds = ((1, 3), (1, 3), (2, 3), (2, 4), (1, 12), (2, 0), (2, 15))
    return f, [(torch.ones(2) * s, k) for s, k in kinds], box


@program()
def before_and_after_an_error():
    box = Box(n=0, items=[], held=torch.zeros(2))

    def f(x):
        box.n += 1
        box.held.add_(1)
        box.items.append(box.n)
        y = x.view(2)
        box.n += 1
        box.held = box.held * 2
        box.items.append("end")
        return y + box.held

    def bad(f):
        return tried(f, torch.ones(3))

    return f, [*ones(3, 2), bad, bad, *ones(2, 2), bad], box


@program()
def statistics_of_functions_that_say_nothing():
    """Written in place by functions whose names do not tell."""
    mean, variance = torch.zeros(3), torch.ones(3)
    weight, layer = torch.arange(12.0).reshape(4, 3), nn.Embedding(4, 3, max_norm=1.0)
    index = torch.tensor([1, 2])

    def f(x, count):
        before = mean.sum() + weight.sum()
        y = torch.batch_norm(x, None, None, mean, variance, True, 0.1, 1e-5, False)
        y = y + torch.native_batch_norm(x, None, None, mean, variance, True, 0.1, 1e-5)[0]
        z = F.embedding(index, weight, max_norm=1.0).sum() + layer.weight.sum() + layer(index).sum()
        after = mean.sum() + weight.sum() + layer.weight.sum()
        weight.mul_(3)
        return y.sum() * torch.ones(count).max() + z, before, after

    def bad(f):
        return tried(f, torch.randn(4, 3), 0)

    return f, [*((torch.randn(4, 3), 1) for _ in range(4)), bad, bad, (torch.randn(4, 3), 1)], mean, weight


# ---- no placeholder is ever seen


@program(graph=False)
def names_that_may_be_unbound():
    box, kept = Box(), []

    def f(x, k):
        if k > 0:
            y = x * 2
        if k > 1:
            z = [y]
        try:
            kept.append(y)
        except NameError as error:
            kept.append(type(error).__name__)
        names = sorted(locals())
        try:
            w = z[0] + y
        except UnboundLocalError:
            w = x
        box.names = names
        return w, names

    return f, [(torch.ones(2), k) for k in (1, 1, 1, 0, 2, 2, 0, 1)], box, kept


@program()
def unbound_around_ordinary_python():
    seen = []

    def f(x, flag):
        for i in range(int(x[0])):
            last = i
            y = x * i
        time.time()
        try:
            seen.append((last, y))
        except NameError:
            seen.append("none")
        if flag:
            q = x + 1
        time.time()

        def inner():
            try:
                return q
            except NameError:
                return "free"

        result = inner()
        del x
        try:
            x  # noqa: B018
        except NameError:
            seen.append("deleted")
        return result, inner()

    calls = ((2, 1), (2, 1), (2, 1), (0, 1), (2, 0), (0, 0), (3, 1))
    return f, [(torch.ones(2) * n, flag) for n, flag in calls], seen


@program()
def local_function_here_and_in_ordinary_python():
    """A function with early returns, called in the graph and then as it is."""
    results = []

    def f(x):
        def sign(y):
            if y.sum() > 0:
                return y * 2
            for i in range(3):
                if i == 1:
                    return y - i
            return None

        first = sign(x)
        second = sign(-x)
        results.append(sign(first).sum().item())
        time.time()
        third = sign(second)
        results.append(list(map(sign, [first]))[0])
        return first + second, third

    return f, [(torch.ones(2),), (torch.ones(2),), (torch.ones(2),), (-torch.ones(2),), (torch.ones(2),)], results
