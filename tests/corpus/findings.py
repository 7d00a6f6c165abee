"""Programs that generated ones have been reduced to: each behaved differently once."""

import random

import torch

from . import program

ONE = torch.ones(2)
COUNT = 0


@program()
def keyword_arguments_of_a_container_method():
    def f(x, table):
        table.update(b=x * 2)
        made = {"a": x}
        made.update({"c": x + 1}, d=x)
        return table["b"] + made["c"] + made["d"]

    return f, [(ONE, {"a": ONE, "b": -ONE}) for _ in range(4)] + [(ONE, {})]


@program()
def host_statement_between_uses_of_a_global():
    global COUNT
    COUNT = 0

    def f(x):
        global COUNT
        COUNT += 1
        y = x * random.random()
        COUNT += 1
        return torch.relu(y + COUNT)

    return f, [(ONE,)] * 4 + [(torch.ones(3),)]


@program()
def host_loop_that_may_break():
    def f(x, flag):
        y = x * 2
        if x.mean() > 2.0:
            return y
        for _ in [x]:
            if flag:
                raise KeyError("flag")
            if y is None:
                break

    return f, [(ONE, True), (ONE, True), (ONE, False), (ONE * 3, True), (ONE, False)]


def _items(number):
    return [torch.ones(1) * i for i in range(number)]


@program(graph=False)
def list_that_shrinks_while_iterated():
    def f(x, items):
        for _ in items:
            items.pop()
        return torch.relu(x) + len(items)

    return f, [(ONE, _items(4)) for _ in range(4)] + [(ONE, _items(7))]


@program(graph=False)
def list_that_grows_while_iterated():
    def f(x, items):
        for t in items:
            x = torch.tanh(x + t)
            if len(items) < 5:
                items.append(t * 2)
        return x

    return f, [(ONE, _items(2)) for _ in range(4)] + [(ONE, _items(3))]


@program(graph=False)
def dict_that_grows_while_iterated():
    def f(x, table):
        for key in table:
            x = torch.tanh(x + table[key])
            table["new"] = x
        return x

    return f, [(ONE, {"a": ONE}) for _ in range(4)] + [(ONE, {"new": ONE})]


@program(graph=False)
def list_that_shrinks_while_zipped():
    def f(x, items):
        for a, b in zip(items, items):
            x = torch.tanh(x + a - b)
            items.pop()
        return x

    return f, [(ONE, _items(4)) for _ in range(4)]


@program()
def literal_compared_by_identity():
    def f(x, k):
        return torch.relu(x) * 2 if k is 3 else torch.relu(x)  # noqa: F632

    return f, [(ONE, 3), (ONE, 3), (ONE, 3), (ONE, 4), (ONE, 3)]
