"""What a callee brings along: defaults, closure cells, globals, and what it was bound to."""

import functools
import types

import torch
from torch import nn

from . import Call, calls, program


@program()
def number_of_defaults_changes():
    def helper(x, a=1.0, b=2.0, *, c=3.0):
        return x * a + b * 10 + c

    def f(x):
        return helper(x) * 2

    def give(*values):
        return lambda: setattr(helper, "__defaults__", values or None)

    keywords = [
        lambda: setattr(helper, "__kwdefaults__", {"c": 30.0}),
        lambda: setattr(helper, "__kwdefaults__", {}),
        lambda: setattr(helper, "__kwdefaults__", {"c": 5.0, "d": 6.0}),
        lambda: setattr(helper, "__kwdefaults__", None),
    ]
    return f, calls(give(7.0, 8.0, 9.0), give(5.0), give(), give(4.0, 4.0), *keywords)


@program()
def number_of_defaults_of_a_method_changes():
    class Model(nn.Module):
        def act(self, x, a=1.0, b=2.0):
            return x * a + b

        def forward(self, x):
            return self.act(x) * 2

    return Model(), calls(
        lambda: setattr(Model.act, "__defaults__", (0.0, 7.0, 8.0)), lambda: setattr(Model.act, "__defaults__", (5.0,))
    )


@program()
def defaults_that_are_objects():
    kept = [1.0]
    table = {"k": 2.0}

    def helper(x, items=kept, *, by=table):
        items.append(1.0)
        by["n"] = by.get("n", 0) + 1
        return x * len(items) * by["k"] + by["n"]

    def f(x):
        return helper(x)

    return (
        f,
        calls(
            lambda: kept.clear(),
            lambda: setattr(helper, "__defaults__", ([5.0, 6.0],)),
            lambda: helper.__kwdefaults__.update(by={"k": 9.0}),
            lambda: table.update(k=3.0),
        ),
        kept,
        table,
    )


@program()
def own_defaults_change():
    def f(x, scale=2.0, *, shift=1.0):
        return x * scale + shift

    plain = [Call(torch.ones(3)) for _ in range(4)]
    given = [Call(torch.ones(3), 5.0), Call(torch.ones(3), shift=7.0), Call(torch.ones(3), scale=3.0, shift=2)]
    return f, [*plain, *given, *plain[:1]]


@program()
def cells_are_emptied_and_refilled():
    scale = 2.0

    def f(x):
        return x * scale

    def drop():
        nonlocal scale
        del scale

    def fill(value):
        def action():
            nonlocal scale
            scale = value

        return action

    return f, calls(drop, fill(3.0), fill(torch.ones(3) * 4), fill(None), fill(2.0))


@program()
def functions_of_one_code():
    def make(scale, items):
        def act(x):
            items.append(scale)
            return x * scale + len(items)

        return act

    held = types.SimpleNamespace(act=make(2.0, []), other=make(3.0, [1]))

    def f(x):
        return held.act(x) + held.other(x)

    same = [1, 2]
    return (
        f,
        calls(
            lambda: setattr(held, "act", make(5.0, [1, 2, 3])),
            lambda: setattr(held, "other", held.act),
            lambda: (setattr(held, "act", make(1.0, same)), setattr(held, "other", make(2.0, same))),
            lambda: setattr(held, "act", make(1, [])),
        ),
        held,
    )


@program()
def functions_of_one_code_and_other_globals():
    space = {"torch": torch, "scale": 2.0}

    def act(x):
        return torch.relu(x) * scale  # noqa: F821

    held = types.SimpleNamespace(act=types.FunctionType(act.__code__, space, "act"))

    def f(x):
        return held.act(x)

    def elsewhere():
        held.act = types.FunctionType(act.__code__, {"torch": torch, "scale": 7.0}, "act")

    return (
        f,
        calls(
            lambda: space.update(scale=5.0),
            elsewhere,
            lambda: held.act.__globals__.update(torch=types.SimpleNamespace(relu=torch.neg)),
        ),
        held,
    )


@program()
def bound_methods_of_other_objects():
    class Thing:
        def __init__(self, scale):
            self.scale, self.count = scale, 0

        def act(self, x):
            self.count += 1
            return x * self.scale + self.count

    first, second = Thing(2.0), Thing(3.0)
    held = types.SimpleNamespace(act=first.act, other=second.act)

    def f(x):
        return held.act(x) + held.other(x) + first.count

    return (
        f,
        calls(
            lambda: setattr(held, "act", second.act),
            lambda: setattr(held, "other", first.act),
            lambda: setattr(held, "act", Thing(9.0).act),
            lambda: setattr(held, "act", types.MethodType(lambda self, x: x - self.scale, first)),
        ),
        first,
        second,
        held,
    )


@program()
def partials_change():
    def act(x, a, b=1.0, *, c=2.0):
        return x * a + b + c

    held = types.SimpleNamespace(act=functools.partial(act, a=3.0))

    def f(x):
        return held.act(x)

    def state(*args, **kwargs):
        held.act.__setstate__((act, args, kwargs, {}))

    return (
        f,
        calls(
            lambda: held.act.keywords.update(a=5.0),
            lambda: held.act.keywords.update(c=7.0),
            lambda: setattr(held, "act", functools.partial(held.act, b=9.0)),
            lambda: state(torch.ones(3) * 2),
            lambda: setattr(held, "act", functools.partial(act, c=1.0, a=2.0)),
        ),
        held,
    )


@program()
def wrapped_functions_change_what_they_wrap():
    def scaled(by):
        def around(function):
            @functools.wraps(function)
            def call(*args, **kwargs):
                return function(*args, **kwargs) * by

            return call

        return around

    @scaled(2.0)
    @scaled(3.0)
    def act(x, shift=1.0):
        return x + shift

    def f(x):
        return act(x) + act(x, shift=2.0)

    cells = dict(zip(act.__code__.co_freevars, act.__closure__))
    return f, calls(
        lambda: setattr(cells["by"], "cell_contents", 5.0),
        lambda: setattr(cells["function"], "cell_contents", torch.neg),
    )


@program()
def recursion_through_a_global_that_changes():
    space = types.SimpleNamespace()

    def power(x, n):
        return x if n == 0 else space.power(x * 2, n - 1)

    space.power = power

    def f(x):
        return space.power(x, 2)

    return f, calls(lambda: setattr(space, "power", lambda x, n: x - n)), space


@program()
def callables_of_other_kinds_under_one_name():
    class Act:
        def __call__(self, x):
            return x * 3

    held = types.SimpleNamespace(act=torch.relu)

    def f(x):
        return held.act(x) + 1

    kinds = [torch.neg, nn.ReLU(), Act(), lambda x: x * 2, functools.partial(torch.mul, other=4), torch.Tensor.exp]
    kinds += [
        nn.functional.relu,
        Act().__call__,
        nn.Linear(3, 3).forward,
        torch.ones(3).add,
        abs,
        torch.nn.functional.silu,
    ]
    return f, calls(*(lambda k=k: setattr(held, "act", k) for k in kinds))
