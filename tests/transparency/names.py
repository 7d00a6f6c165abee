"""Names of modules, builtins and globals, by whatever path they are read and written."""

import builtins
import math
import os
import sys
import types

import torch
from torch import nn

from . import change, ones, patched, program

THIS = sys.modules[__name__]
number, tensor, items, late = 1.0, None, [1.0], None


def calls(*actions):
    return [*ones(4), *(step for action in actions for step in (change(action), *ones(1)))]


def reset():
    global number, items, late
    number, items, late = 1.0, [1.0], None


def builtin_is(name, value):
    """A call during which a builtin is another one."""
    return patched(builtins, name, value)


@program()
def global_by_its_name_and_by_its_module():
    reset()

    def f(x):
        global number
        number = number + 1
        return x * THIS.number + number

    return f, calls(lambda: setattr(THIS, "number", 10.0)), THIS.__dict__["items"]


@program()
def module_attribute_by_two_names():
    config = types.ModuleType("config")
    config.scale, config.count = 2.0, 0
    again = types.SimpleNamespace(config=config)

    def f(x):
        return x * config.scale + again.config.scale + vars(config)["scale"]

    other = types.ModuleType("config")
    other.scale = 5.0
    return f, calls(lambda: setattr(config, "scale", 3.0), lambda: setattr(again, "config", other)), again


@program(graph=False)
def module_attribute_is_counted():
    config = types.ModuleType("config")
    config.count = 0

    def f(x):
        config.count += 1
        return x * config.count + vars(config)["count"]

    return f, calls(lambda: setattr(config, "count", 10)), [config.count]


@program()
def global_list_by_two_paths():
    reset()

    def f(x):
        items.append(len(THIS.items))
        return x * len(items) + THIS.items[-1] + sum(globals()["items"])

    def again():
        THIS.items = [5.0]

    return f, calls(again), items


@program()
def globals_come_and_go():
    reset()

    def f(x):
        return x * late if late is not None else x * 2

    def gone():
        global late
        del late

    def shadow(f):
        THIS.len = lambda x: 100
        try:
            return f(torch.ones(3))
        finally:
            del THIS.len

    def back():
        THIS.late = 3.0

    return f, [*calls(back, gone, back, lambda: setattr(THIS, "late", torch.ones(3) * 5)), shadow]


@program()
def builtins_are_hidden_by_globals():
    def f(x):
        return x * len(items) + max(1, 2) + (1 if isinstance(x, torch.Tensor) else 2)

    def hide(name, value):
        def step(f):
            setattr(THIS, name, value)
            try:
                return f(torch.ones(3))
            finally:
                delattr(THIS, name)

        return step

    hidden = [hide("len", lambda x: 100), hide("max", lambda *a: 50), hide("isinstance", lambda *a: False)]
    return f, [*ones(4), *(step for h in hidden for step in (h, *ones(1)))]


@program()
def builtins_are_replaced():
    def f(x):
        total = 0
        for i in range(len(items)):
            total = total + float(i) + abs(-2) + sum([1, 2]) + max(3, 1)
        return x * total if isinstance(x, torch.Tensor) else x

    names = {
        "len": lambda x: 3,
        "range": lambda *a: [5],
        "abs": lambda x: 40,
        "sum": lambda *a: 60,
        "float": lambda x: 7.0,
    }
    return f, [*ones(4), *(step for n, v in names.items() for step in (builtin_is(n, v), *ones(1)))]


@program(graph=False)
def environment_is_read_live():
    def f(x):
        scale = float(os.environ.get("JANUSC_TEST_SCALE", "2"))
        if "JANUSC_TEST_FLAG" in os.environ:
            scale = scale + 100
        if os.getenv("JANUSC_TEST_KIND", "plain") == "odd":
            scale = -scale
        return torch.relu(x) * scale + len(os.environ["HOME"]) * 0

    def put(**values):
        return lambda: os.environ.update(values)

    def drop():
        for name in ("JANUSC_TEST_SCALE", "JANUSC_TEST_FLAG", "JANUSC_TEST_KIND"):
            os.environ.pop(name, None)

    drop()
    steps = calls(put(JANUSC_TEST_SCALE="5"), put(JANUSC_TEST_FLAG="1"), put(JANUSC_TEST_KIND="odd"), drop)
    return f, steps


@program(graph=False)
def imports_inside_the_call():
    sys.modules["janusc_test_module"] = module = types.ModuleType("janusc_test_module")
    module.scale = 2.0

    def f(x):
        import janusc_test_module
        from janusc_test_module import scale

        return x * scale + janusc_test_module.scale

    def replaced():
        sys.modules["janusc_test_module"] = other = types.ModuleType("janusc_test_module")
        other.scale = 50.0

    return f, calls(lambda: setattr(module, "scale", 3.0), replaced)


@program()
def attributes_of_a_module_with_a_class_of_its_own():
    log = []

    class Lazy(types.ModuleType):
        @property
        def scale(self):
            log.append("scale")
            return 5.0

        def __getattr__(self, name):
            log.append(name)
            return 7.0

    config = Lazy("config")
    vars(config)["scale"] = 2.0
    vars(config)["shift"] = 1.0

    def f(x):
        y = x * 2
        return y * config.scale + config.shift

    return f, calls(lambda: vars(config).pop("shift")), log


@program()
def module_gets_a_class_of_its_own():
    config = types.ModuleType("config")
    config.scale = 2.0
    log = []

    class Lazy(types.ModuleType):
        @property
        def scale(self):
            log.append("scale")
            return 5

    def f(x):
        return x * config.scale

    return f, calls(lambda: setattr(config, "__class__", Lazy)), log


@program()
def math_and_torch_constants_are_replaced():
    def f(x):
        return x * math.pi + math.sqrt(2.0) + (torch.inf > 1)

    def patched(holder, name, value):
        def step(f):
            original = getattr(holder, name)
            setattr(holder, name, value)
            try:
                return f(torch.ones(3))
            finally:
                setattr(holder, name, original)

        return step

    return f, [*ones(4), patched(math, "pi", 3.0), *ones(1), patched(torch, "inf", 0.0), *ones(1)]


@program()
def call_of_every_module_is_replaced():
    class Part(nn.Module):
        def forward(self, x):
            return x + 1

    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), Part())

    def patched(name, value):
        def step(f):
            original = nn.Module.__dict__[name]
            setattr(nn.Module, name, value(original))
            try:
                return f(torch.ones(3))
            finally:
                setattr(nn.Module, name, original)

        return step

    def louder(original):
        return lambda self, *args: original(self, *args) * 10

    steps = [patched("__call__", louder), patched("_call_impl", louder)]
    return model, [*ones(1), *steps, *ones(3), *(step for s in steps for step in (s, s, *ones(1)))]
