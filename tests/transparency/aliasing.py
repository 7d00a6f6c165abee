"""One object by two paths: as an argument and a global, by two attributes, by two cells; from the start or later on."""

import copy
import types

import torch
from torch import nn

from . import ones, program

shared = [1, 2, 3]


class Holder:
    def __init__(self, value=1.0):
        self.value = value
        self.tensor = torch.ones(3) * value
        self.items = [value]


owner = Holder()


def lists_then(function, first, second):
    """Calls with two lists of one content, which are one list in some of them."""

    def one(f):
        items = [1, 2]
        return f(items, items, torch.ones(3)), items

    def two(f):
        left, right = [1, 2], [1, 2]
        return f(left, right, torch.ones(3)), left, right

    kinds = {"one": one, "two": two}
    return function, [kinds[first]] * 4 + [kinds[second]] * 3 + [kinds[first]]


def copy_of_a_list(a, b, x):
    a.append(9)
    return x * list(b)[-1] + tuple(b)[-1]


def loops_over_a_list(a, b, x):
    a.append(9)
    total = sum(v * 2 for v in b) + sum([v + 0 for v in reversed(b)])
    for left, right in zip(b, b):
        total = total * 2 + left + right
    for i, v in enumerate(b):
        total = total + i * v
    return x * total


def questions_to_a_list(a, b, x):
    a.append(9)
    return x * (9 in b) + len(b) + max(b) + b[-1] + sum(b[-2:]) + (b == [1, 2]) + b.count(9)


def unpacked_list(a, b, x):
    a[0] = 9
    first, *rest = b
    return x * first + len([*b, *rest])


@program()
def copies_of_lists_that_become_one():
    return lists_then(copy_of_a_list, "two", "one")


@program()
def copies_of_a_list_that_becomes_two():
    return lists_then(copy_of_a_list, "one", "two")


@program()
def loops_over_lists_that_become_one():
    return lists_then(loops_over_a_list, "two", "one")


@program()
def loops_over_a_list_that_becomes_two():
    return lists_then(loops_over_a_list, "one", "two")


@program()
def questions_to_lists_that_become_one():
    return lists_then(questions_to_a_list, "two", "one")


@program()
def questions_to_a_list_that_becomes_two():
    return lists_then(questions_to_a_list, "one", "two")


@program()
def unpacked_lists_that_become_one():
    return lists_then(unpacked_list, "two", "one")


@program()
def dicts_that_become_one():
    def f(a, b, x):
        a["new"] = 9
        merged = {**b, **dict(b)}
        total = sum(b.values()) + len(merged) + b.get("new", 1) + ("new" in b)
        for key, value in b.items():
            total = total * 2 + len(key) + value
        return x * total

    def two(f):
        return f({"k": 1}, {"k": 1}, torch.ones(3))

    def one(f):
        both = {"k": 1}
        return f(both, both, torch.ones(3))

    return f, [two, two, two, two, one, one, two]


@program()
def objects_that_become_one():
    def f(a, b, x):
        a.value = a.value + 1
        a.tensor.add_(1)
        a.items.append(4)
        a.fresh = 5
        return x * b.value + b.tensor + len(b.items) + vars(b)["value"] + hasattr(b, "fresh") + getattr(b, "fresh", 3)

    def two(f):
        return f(Holder(), Holder(), torch.ones(3))

    def one(f):
        both = Holder()
        return f(both, both, torch.ones(3)), both

    def parts(f):
        left, right = Holder(), Holder()
        right.items, right.tensor = left.items, left.tensor
        return f(left, right, torch.ones(3)), left

    return f, [two, two, two, two, one, parts, one, two]


@program()
def instances_with_one_dict():
    a, b = Holder(), Holder()
    b.__dict__ = a.__dict__

    def f(x):
        a.value = a.value + 1
        return x * b.value

    return f, ones(5), a


@program()
def argument_that_is_a_global():
    global owner
    owner = Holder()
    shared[:] = [1, 2, 3]

    def f(given, items, x):
        given.value += 1
        result = x * owner.value
        owner.value += 10
        items.append(5)
        return result + given.value + shared[-1] + len(shared)

    def apart(f):
        return f(Holder(), [1], torch.ones(3))

    def same(f):
        shared[:] = [1, 2, 3]
        return f(owner, shared, torch.ones(3))

    return f, [apart, apart, apart, apart, same, same, apart], owner


@program()
def attributes_that_become_one():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Holder(), Holder()

        def forward(self, x):
            self.a.value += 1
            self.a.tensor = self.a.tensor + 1
            self.a.items.append(1)
            return x * self.b.value + self.b.tensor + len(self.b.items)

    model = Model()

    def join(f):
        model.b = model.a
        return f(torch.ones(3))

    def part(f):
        model.b = Holder(5.0)
        return f(torch.ones(3))

    return model, [*ones(4), join, *ones(2), part, *ones(2)]


@program()
def submodules_that_become_one():
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x):
            self.steps += 1
            self.total += 1
            self.total = self.total * 2
            return x + self.total * self.steps

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Part(), Part()

        def forward(self, x):
            return self.b(self.a(x)) + self.a.total + self.b.steps

    model = Model()

    def join(f):
        model.b = model.a
        return f(torch.ones(3))

    def part(f):
        model.b = copy.deepcopy(model.a)
        return f(torch.ones(3))

    def share_the_buffer(f):
        model.b.total = model.a.total
        return f(torch.ones(3))

    return model, [*ones(4), join, *ones(2), part, *ones(2), share_the_buffer, *ones(2)]


@program()
def argument_that_is_an_attribute():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.held, self.items, self.part = torch.zeros(3), [1], Holder()

        def forward(self, x, items, part):
            self.held = self.held + x
            x.mul_(2)
            self.items.append(2)
            self.part.value = self.part.value + 1
            return self.held * len(items) + part.value, self.held is x, items is self.items, part is self.part

    model = Model()

    def apart(f):
        return f(torch.ones(3), [1], Holder())

    def same(f):
        return f(model.held, model.items, model.part)

    return model, [apart, apart, apart, apart, same, same, apart, same]


@program()
def closures_over_one_cell():
    def make():
        count = 1.0

        def step():
            nonlocal count
            count += 1

        return step, lambda: count

    (step, first), (_, second) = make(), make()
    used = types.SimpleNamespace(step=step, look=second)

    def f(x):
        used.step()
        return x * used.look()

    def same(f):
        used.look = first
        return f(torch.ones(3))

    def apart(f):
        used.look = second
        return f(torch.ones(3))

    return f, [*ones(4), same, *ones(2), apart, *ones(1)]


@program()
def tensors_that_overlap():
    def f(a, b):
        before = a.sum()
        a.add_(1)
        doubled = b * 2
        b.mul_(2)
        moved = a.sum() - before
        a[0] = 9
        return doubled, moved, b.sum(), a is b

    def apart(f):
        return f(torch.ones(3), torch.ones(3))

    def one(f):
        both = torch.ones(3)
        return f(both, both), both

    def views(f):
        base = torch.ones(4)
        return f(base[:3], base[1:]), base

    def transposed(f):
        base = torch.arange(9.0).reshape(3, 3)
        return f(base, base.T), base

    return f, [apart, apart, apart, apart, one, views, transposed, one, apart]


@program()
def list_that_holds_itself():
    items = [1]
    items.append(items)

    def f(x):
        items[0] += 1
        return x * items[1][0] + items[1][1][0], len(items)

    def apart(f):
        items[1] = [7, [8]]
        return f(torch.ones(3))

    return f, [*ones(4), apart, *ones(2)]


@program()
def results_are_the_very_objects():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.table = Holder(), {"k": [1]}
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x, items, function):
            same = x.contiguous()
            return x, same, same is x, items, self.part, self.weight, self.table["k"], function, self, {"me": self}

    items = [1]
    return Model(), [(torch.ones(3), items, torch.relu)] * 4 + [(torch.ones(3), (1,), torch.tanh)] * 2
