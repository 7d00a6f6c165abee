"""Errors once a graph exists: the same exception from the same line, and all state as eager execution leaves it."""

import torch
from torch import nn

from . import Call, program

ONE = torch.ones(2)


class BadInput(ValueError):
    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


@program()
def shape_mismatch():
    layer = nn.Linear(3, 2)
    seen = []

    def f(x):
        seen.append(tuple(x.shape))
        y = x * 2
        return layer(y)

    good, bad = (torch.ones(1, 3),), (torch.ones(1, 4),)
    return f, [good, good, good, bad, good, bad]


@program()
def dtype_mismatch():
    def f(x, y):
        z = x + 1
        return torch.mm(z, y)

    good = (torch.ones(2, 2), torch.ones(2, 2))
    bad = (torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64))
    return f, [good, good, good, bad, good, (torch.ones(2, 2), None), good]


@program()
def state_written_before_the_error():
    class Box:
        def __init__(self):
            self.count = 0
            self.total = torch.zeros(2)
            self.items = []

    box = Box()

    def f(x, y):
        box.count += 1
        box.total.add_(x)
        box.items.append(box.count)
        print("call", box.count)
        z = x + y
        box.count += 100
        return z

    return f, [(ONE, ONE), (ONE, ONE), (ONE, ONE), (ONE, torch.ones(3)), (ONE, ONE), (ONE, torch.ones(3))]


@program()
def arguments_written_before_the_error():
    def f(x, index):
        x.mul_(2)
        noise = torch.rand(2)
        x[index] = 0
        return x + noise

    def args(index):
        return torch.ones(2), index

    return f, [args(0), args(0), args(0), args(5), args(1), args(1.5), args(0)]


@program()
def failing_assertion():
    def f(x):
        y = x.sum()
        assert y > 0, ("sum", float(y))
        return x / y

    return f, [(ONE,), (ONE,), (ONE,), (-ONE,), (ONE,), (ONE * 0,)]


@program()
def exception_in_a_helper():
    counts = {"helper": 0}

    def check(x, limit):
        counts["helper"] += 1
        if x.max() > limit:
            raise BadInput(f"over {limit}", code=limit)
        return x * 2

    def f(x, limit):
        return check(x, limit) + check(x + 1, limit)

    return f, [(ONE, 3), (ONE, 3), (ONE, 3), (ONE * 3, 3), (ONE, 1.5), (ONE, 3)]


@program(graph=False)
def raise_with_a_cause():
    def f(table, key):
        try:
            return table[key] * 2
        except KeyError as error:
            raise LookupError("no entry", key) from error

    table = {"a": ONE}
    return f, [(table, "a"), (table, "a"), (table, "a"), (table, "b"), (table, "a")]


@program()
def unbound_variable():
    def f(x, flag):
        if flag:
            y = x + 1
        x = x * 2
        return x + y

    return f, [(ONE, True), (ONE, True), (ONE, True), (ONE, False), (ONE, True), (ONE, 0)]


@program()
def missing_name():
    def f(x, flag):
        y = x * 2
        return y if flag else undefined_name(y)  # noqa: F821

    return f, [(ONE, True), (ONE, True), (ONE, True), (ONE, False), (ONE, True)]


@program()
def index_out_of_range():
    def f(items, i, x):
        first = items[i]
        return first + x[i]

    return f, [([ONE, ONE], i, ONE) for i in (0, 0, 0, 1, 2, -3, 0)] + [([ONE, ONE, ONE], 2, ONE)]


@program()
def missing_key_and_attribute():
    class Box:
        pass

    box = Box()
    box.weight = ONE

    def f(x, table):
        return box.weight * x + table["k"]

    def lose(f):
        del box.weight
        return f(ONE, {"k": 1})

    def find(f):
        box.weight = ONE * 2
        return f(ONE, {"k": 1})

    return f, [(ONE, {"k": 1}), (ONE, {"k": 1}), (ONE, {"k": 1}), (ONE, {}), lose, find, (ONE, {"k": 2})]


@program()
def wrong_arguments():
    def f(x, y, *, z=0):
        return x + y + z

    return f, [
        Call(ONE, ONE),
        Call(ONE, ONE),
        Call(ONE, ONE),
        Call(ONE),
        Call(ONE, ONE, ONE),
        Call(ONE, ONE, w=1),
        Call(ONE, y=ONE, z=1),
    ]


@program()
def division_by_zero():
    def f(x, n):
        k = 12 // n
        return x * k + 1 % n

    return f, [(ONE, n) for n in (3, 3, 3, 4, 0, 5, 0)]


@program()
def error_inside_a_loop():
    done = []

    def f(xs):
        total = torch.zeros(2)
        for x in xs:
            total = total + x
            done.append(1)
        return total

    good = [ONE, ONE, ONE]
    return f, [(good,), (good,), (good,), ([ONE, torch.ones(3), ONE],), (good,), ([ONE, "x"],), ([],)], done


@program()
def none_instead_of_a_tensor():
    def f(x):
        y = x * 2
        return y.relu()

    return f, [(ONE,), (ONE,), (ONE,), (None,), (3,), ([1, 2],), (ONE,)]


@program()
def error_in_backward():
    weight = torch.ones(2, requires_grad=True)

    def step(x, retain):
        y = (weight * weight * x).sum()
        y.backward(retain_graph=retain)
        y.backward()
        return y.detach()

    return step, [(ONE, True), (ONE, True), (ONE, True), (ONE, False), (ONE, True)]


@program()
def leaf_changed_in_place():
    def f(x):
        y = x * 2
        x.add_(1)
        return y

    return f, [
        (torch.ones(2),),
        (torch.ones(2),),
        (torch.ones(2),),
        (torch.ones(2, requires_grad=True),),
        (torch.ones(2),),
    ]


@program()
def ambiguous_truth_value():
    def f(x):
        if x > 0:
            return x * 2
        return x

    return f, [
        (torch.ones(1),),
        (torch.ones(1),),
        (torch.ones(1),),
        (torch.ones(2),),
        (torch.ones(0),),
        (-torch.ones(1),),
    ]


@program()
def error_in_a_hook():
    model = nn.Linear(2, 2)
    seen = []

    def f(x):
        seen.append(len(seen))
        return model(x) + 1

    def register(f):
        def refuse(module, args):
            raise RuntimeError("refused", len(seen))

        handle = model.register_forward_pre_hook(refuse)
        try:
            return f(torch.ones(1, 2))
        finally:
            handle.remove()

    return f, [(torch.ones(1, 2),)] * 4 + [register, (torch.ones(1, 2),)]


@program()
def an_assert_that_fails_now_and_then():
    def f(x, n):
        y = torch.tanh(x * 2)
        assert y.sum() < 1, f"{y.sum().item()}"
        for _ in range(n):
            y = y * 0.5 + x
        return y

    return f, [(torch.ones(2) * (0.1 if i % 3 else 1), 1 + i % 3) for i in range(20)]


@program(max_graphs=2)
def values_that_are_refused_now_and_then():
    def check(value, number):
        if value > 1.5:
            raise OverflowError(number)
        return value

    def total(x):
        found = torch.zeros(())
        for number, value in enumerate(x):
            found = torch.tanh(found + check(value, number)) * 1.5
        return found

    rows = [torch.tensor(values) for values in ([0.1, 0.2], [2.0], [0.5], [0.3, 1.7, 0.1], [1.0] * 4, [9.0], [], [0.4])]
    return total, [(x,) for x in rows * 2]


@program()
def refusals_that_are_caught():
    def total(x):
        found = torch.zeros(())
        for value in x:
            try:
                if value > 1.5:
                    raise OverflowError(3)
                found = torch.tanh(found + value) * 1.5
            except OverflowError:
                found = found - 1
        return found

    rows = [torch.tensor(values) for values in ([0.1, 0.2], [0.5], [0.3, 1.7, 0.1], [1.0] * 4, [9.0], [], [0.4], [3.0])]
    return total, [(x,) for x in rows * 2]
