"""Ways to look something up: by the class, by descriptors, in thread-local and context variables, in settings."""

import contextvars
import enum
import functools
import threading
import types

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from . import calls, ones, program


@program()
def attributes_by_the_class():
    class Model(nn.Module):
        scale, count = 2.0, 0

        def forward(self, x):
            y = x * self.__class__.scale + type(self).scale + Model.scale
            y = y + self.scale + self.helper(x) + type(self).helper(self, x)
            return y + self.made(x)

        def helper(self, x):
            return x + 1

        @classmethod
        def made(cls, x):
            return x * cls.scale

    model = Model()

    class Below(Model):
        scale = 9.0

        def helper(self, x):
            return x * 100

    return model, calls(
        lambda: setattr(Model, "scale", 3.0),
        lambda: setattr(model, "scale", 5.0),
        lambda: setattr(Model, "helper", lambda self, x: x - 1),
        lambda: setattr(model, "helper", lambda x: x * 7),
        lambda: setattr(model, "__class__", Below),
    )


@program()
def class_state_that_the_call_changes():
    class Model(nn.Module):
        count, log = 0, []

        def forward(self, x):
            y = x * 2
            type(self).count += 1
            Model.log.append(self.count)
            return y * self.count + len(self.log) + Model.count

    return Model(), calls(lambda: setattr(Model, "count", 10), lambda: setattr(Model, "log", [1, 2])), Model.log


@program(graph=False)
def descriptors_of_all_kinds():
    log = []

    class Data:
        def __get__(self, obj, cls):
            log.append("data")
            return 2.0 if obj is None else obj.raw * 2

        def __set__(self, obj, value):
            obj.raw = value

    class NonData:
        def __get__(self, obj, cls):
            log.append("non-data")
            return 3.0

    class Thing:
        data, plain = Data(), NonData()

        def __init__(self):
            self.raw = 1.0

        @functools.cached_property
        def once(self):
            log.append("once")
            return self.raw * 10

        @property
        def twice(self):
            return self.raw * 2

        @twice.setter
        def twice(self, value):
            log.append("set")
            self.raw = value / 2

    thing = Thing()

    def f(x):
        y = torch.relu(x)
        thing.twice = thing.twice + 1
        thing.data = thing.data
        return y * thing.data + thing.plain + thing.once + thing.twice

    return (
        f,
        calls(
            lambda: vars(thing).update(plain=50.0),
            lambda: vars(thing).update(once=70.0),
            lambda: vars(thing).pop("once"),
            lambda: delattr(Data, "__set__"),
            lambda: vars(thing).update(data=5.0),
            lambda: setattr(NonData, "__set__", lambda self, obj, value: None),
        ),
        thing,
        log,
    )


@program()
def thread_local_and_context_variables():
    local, var = threading.local(), contextvars.ContextVar("scale", default=2.0)
    local.scale = 2.0

    def f(x):
        y = torch.relu(x)
        return y * local.scale + var.get()

    def in_thread(f):
        results = []

        def work():
            local.scale = 50.0
            results.append(f(torch.ones(3)))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return results

    def in_context(f):
        def work():
            var.set(9.0)
            return f(torch.ones(3))

        return contextvars.copy_context().run(work)

    return f, [*ones(4), in_thread, *ones(1), in_context, *ones(1)]


@program()
def enumerations_that_carry_values():
    class Kind(enum.Enum):
        RELU = "relu"
        TANH = "tanh"

        @property
        def function(self):
            return getattr(torch, self.value)

        def scaled(self, x):
            return x * 2 if self is Kind.RELU else x * 3

    class Size(enum.IntEnum):
        SMALL = 1
        LARGE = 2

    holder = types.SimpleNamespace(kind=Kind.RELU, size=Size.SMALL)

    def f(x):
        y = x * holder.size + (1 if holder.kind is Kind.RELU else 2)
        if holder.kind == Kind.TANH:
            y = torch.tanh(y)
        return y * len(holder.kind.value) + (holder.size == 1), holder.kind.name

    return f, calls(
        lambda: setattr(holder, "kind", Kind.TANH),
        lambda: setattr(holder, "size", Size.LARGE),
        lambda: setattr(holder, "size", 1),
        lambda: setattr(holder, "kind", "relu") or setattr(holder, "kind", Kind("relu")),
    )


@program()
def settings_of_torch_and_numpy():
    def f(x):
        y = x * 2 / 3
        text = f"{y[0].item():.3f}"
        z = torch.from_numpy(np.array([1.0, 2.0, 3.0], dtype=np.float32)) * y
        return z, text, str(y * 1)

    def printed(f):
        torch.set_printoptions(precision=2)
        try:
            return f(torch.ones(3))
        finally:
            torch.set_printoptions(profile="default")

    def precise(f):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            return f(torch.ones(3)), torch.get_float32_matmul_precision()
        finally:
            torch.set_float32_matmul_precision(before)

    return f, [*ones(4), printed, *ones(1), precise, *ones(1)]


@program()
def reads_inside_loops_and_branches():
    holder = types.SimpleNamespace(scale=2.0, steps=3, items=[1.0, 2.0], act=torch.relu, last=None)

    def f(x, n):
        for i in range(n):
            x = holder.act(x) * holder.scale + i
            if x.sum() > 50:
                holder.scale = holder.scale * 0.5
                holder.items.append(float(i))
            elif holder.steps > 2:
                x = x + holder.items[-1]
        while x.sum() > 10:
            x = x / holder.steps
            holder.last = x
        return x + len(holder.items), holder.last

    def with_change(**values):
        def step(f):
            vars(holder).update(values)
            return f(torch.ones(3), 3)

        return step

    steps = [with_change(scale=5.0), with_change(steps=2), with_change(act=torch.tanh), with_change(items=[7.0])]
    return (
        f,
        [*((torch.ones(3), n) for n in (3, 3, 3, 5, 4)), *steps, (torch.ones(3) * 9, 3), (torch.ones(3), 0)],
        holder,
    )


@program()
def bound_functions_of_builtin_objects():
    items, table = [], {"k": 2.0}
    holder = types.SimpleNamespace(push=items.append, get=table.get, act=torch.ones(3).add)

    def f(x):
        y = x * holder.get("k", 1.0)
        holder.push(float(y.sum()))
        return holder.act(y) * len(items)

    return (
        f,
        calls(
            lambda: table.update(k=5.0),
            lambda: setattr(holder, "get", {"k": 9.0}.get),
            lambda: setattr(holder, "push", [].append),
            lambda: setattr(holder, "act", torch.zeros(3).mul),
        ),
        items,
    )


@program()
def methods_assigned_to_instances():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = F.relu
            self.layer = nn.Linear(3, 3)
            self.step = self.plain

        def plain(self, x):
            return x + 1

        def other(self, x):
            return x * 50

        def forward(self, x):
            return self.step(self.act(self.layer(x)))

    model = Model()
    return model, calls(
        lambda: setattr(model, "step", model.other),
        lambda: setattr(model, "act", torch.tanh),
        lambda: setattr(model, "plain", model.other),
        lambda: setattr(model, "step", types.MethodType(lambda self, x: self.layer(x), model)),
        lambda: setattr(model.layer, "forward", lambda x: x * 1000),
    )


@program()
def namespaces_of_functions():
    def helper(x):
        helper.count = getattr(helper, "count", 0) + 1
        return x * helper.count

    def f(x):
        y = torch.relu(x)
        return helper(y) + f_state.scale

    f_state = types.SimpleNamespace(scale=1.0)
    return f, calls(lambda: setattr(helper, "count", 10), lambda: setattr(f_state, "scale", torch.ones(3) * 3)), helper


@program()
def same_name_at_every_level():
    scale = 2.0
    holder = types.SimpleNamespace(scale=3.0)

    class Model(nn.Module):
        scale = 4.0

        def forward(self, x, scale=5.0):
            inner = [scale * 1 for scale in (6.0, 7.0)]
            local = (lambda scale=8.0: scale)()
            return x * scale + self.scale + holder.scale + inner[0] + local + outer()

    def outer():
        return scale

    def set_cell():
        nonlocal scale
        scale = 20.0

    model = Model()
    return model, calls(
        set_cell,
        lambda: setattr(holder, "scale", 30.0),
        lambda: setattr(Model, "scale", 40.0),
        lambda: setattr(Model.forward, "__defaults__", (50.0,)) if hasattr(Model.forward, "__defaults__") else None,
        lambda: setattr(model, "scale", 60.0),
    )
