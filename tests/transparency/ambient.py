"""Modes that torch keeps beside the program: set around a call, inside it, and left set by it."""

import torch
import torch.nn.functional as F
from torch import nn

from . import program


def under(manager, *args, **kwargs):
    """A call inside a context manager."""

    def step(f):
        with manager(*args, **kwargs):
            return f(torch.ones(2, 3))

    return step


def with_flag(get, put, value):
    """A call with some setting of the process changed."""

    def step(f):
        before = get()
        put(value)
        try:
            return f(torch.ones(2, 3))
        finally:
            put(before)

    return step


def plain(f):
    return f(torch.ones(2, 3))


def among(*steps):
    """Four plain calls, then the steps, then a plain call again."""
    return [*[plain] * 4, *steps, plain]


def f64(value=torch.float64):
    return with_flag(torch.get_default_dtype, torch.set_default_dtype, value)


def deterministic(value=True):
    return with_flag(torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, value)


def anomaly():
    return under(torch.autograd.set_detect_anomaly, True)


AROUND = (
    under(torch.no_grad),
    under(torch.enable_grad),
    under(torch.inference_mode),
    under(torch.autocast, "cpu", dtype=torch.bfloat16),
    under(torch.autocast, "cpu", enabled=False),
    f64(),
    f64(torch.float16),
    under(torch.device, "meta"),
    under(torch.device, "cpu"),
    deterministic(),
    anomaly(),
    under(torch.autograd.graph.save_on_cpu),
    under(torch.random.fork_rng),
)


@program()
def a_layer_under_every_mode():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.LayerNorm(3))
    return model, among(*(a for a in AROUND if a is not AROUND[7]))


@program()
def factories_under_every_mode():
    def f(x):
        y = torch.zeros(2, 3) + torch.full((3,), 2.0) + torch.arange(3) + torch.tensor([1.0, 2.0, 3.0])
        z = torch.ones_like(x) * torch.rand(3)
        return y.dtype, y.device.type, y * 2, z.dtype, torch.linspace(0, 1, 3), torch.empty(0).dtype

    return f, among(*AROUND)


@program()
def questions_about_modes():
    def f(x):
        y = x * 2
        if torch.is_grad_enabled():
            y = y + 1
        if torch.is_inference_mode_enabled():
            y = y + 10
        if torch.is_autocast_enabled("cpu"):
            y = y + 100
        if torch.get_default_dtype() == torch.float64:
            y = y + 1000
        if torch.are_deterministic_algorithms_enabled():
            y = y + 10000
        if torch.is_anomaly_enabled():
            y = y + 100000
        return y, torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_default_device()

    return f, among(*AROUND)


@program()
def branches_on_dtype_under_autocast():
    layer = nn.Linear(3, 3)

    def f(x):
        y = layer(x)
        if y.dtype == torch.bfloat16:
            y = y.float() * 2
        z = y @ y.T
        return z, z.dtype, y.requires_grad, str(y.dtype)

    return f, among(*AROUND)


@program()
def modes_set_inside():
    layer = nn.Linear(3, 3)

    def f(x):
        a, before = layer(x), torch.is_grad_enabled()
        with torch.no_grad():
            b, inside = layer(x), torch.is_grad_enabled()
            with torch.enable_grad():
                c, deeper = layer(x), torch.is_grad_enabled()
            d = b * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            e = layer(x)
            with torch.autocast("cpu", enabled=False):
                g = layer(x)
        with torch.inference_mode():
            h = x * 2
        after = torch.is_grad_enabled()
        flags = a.requires_grad, b.requires_grad, c.requires_grad, d.requires_grad, h.is_inference()
        return a + c, d, e.dtype, g.dtype, flags, (before, inside, deeper, after)

    return f, among(*AROUND)


@program()
def modes_left_set_by_the_call():
    layer = nn.Linear(3, 3)

    def f(x, grad):
        a = layer(x)
        before = torch.set_grad_enabled(grad)
        b = layer(x) * 2
        flag = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        return a, b, flag, b.requires_grad, before is None

    return f, [(torch.ones(2, 3), flag) for flag in (False, False, False, False, True, False, True)]


@program()
def default_dtype_set_by_the_call():
    def f(x, dtype):
        a = torch.ones(3) * 2
        torch.set_default_dtype(dtype)
        b = torch.ones(3) * 2
        torch.set_default_dtype(torch.float32)
        return a.dtype, b.dtype, a + b + x, torch.zeros(1).dtype

    kinds = [torch.float64] * 4 + [torch.float16, torch.float64, torch.float32]
    return f, [(torch.ones(3), kind) for kind in kinds]


@program()
def mode_entered_in_one_call_and_left_in_another():
    held = []

    def enter():
        manager = torch.autocast("cpu", dtype=torch.bfloat16)
        manager.__enter__()
        held.append(manager)

    def f(x, what):
        y = x @ x.T
        if what == "enter":
            enter()
        z = x @ x.T
        if what == "leave":
            held.pop().__exit__(None, None, None)
        return y.dtype, z.dtype, (x @ x.T).dtype, y + z

    return f, [(torch.ones(2, 3), what) for what in ["", "enter", "", "leave", "", "", "enter", "", "leave", ""]]


@program()
def training_is_switched_in_many_ways():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.drop, self.layer = nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 3)

        def forward(self, x):
            y = self.drop(self.norm(self.layer(x)))
            y = F.dropout(y, 0.5, self.training)
            return y * 2 if self.training else y

    model = Model()

    def switch(action):
        def step(f):
            action()
            return plain(f)

        return step

    actions = [
        lambda: model.eval(),
        lambda: model.norm.train(),
        lambda: model.train(),
        lambda: setattr(model.drop, "training", False),
        lambda: setattr(model.drop, "p", 0.9),
        lambda: setattr(model.norm, "momentum", None),
        lambda: setattr(model.norm, "track_running_stats", False),
        lambda: setattr(model, "training", 0),
        lambda: model.requires_grad_(False),
    ]
    return model, among(*(s for action in actions for s in (switch(action), plain)))


@program()
def writes_under_grad_and_inference_modes():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            self.total.add_(x.sum(0))
            self.total = self.total * 2
            return self.total * self.weight

    model = Model()

    def fresh(f):
        model.total = torch.zeros(3)
        return plain(f)

    def history(f):
        model.total = (model.weight * 2).clone()
        return plain(f)

    steps = [under(torch.no_grad), under(torch.inference_mode), fresh, under(torch.inference_mode)]
    return model, [*among(*(s for step in steps for s in (step, plain))), fresh, plain, history, plain, fresh, plain]


@program()
def tensors_from_other_modes():
    def f(x, y):
        z = x * y
        w = z.view(-1)
        return z, w, z.requires_grad, x.is_inference(), z.is_leaf

    def kinds():
        with torch.inference_mode():
            yield torch.ones(2, 3), torch.ones(2, 3)
            yield torch.ones(2, 3), torch.ones(2, 3) * 2
        yield torch.ones(2, 3), torch.ones(2, 3, requires_grad=True)
        yield torch.ones(2, 3, device="meta"), torch.ones(2, 3, device="meta")
        yield torch.ones(2, 3, dtype=torch.complex64), torch.ones(3)
        yield torch.ones(2, 3, dtype=torch.complex64).conj(), torch.ones(3)
        yield torch.ones(2, 3).to_sparse(), torch.ones(2, 3).to_sparse()

    ordinary = [(torch.ones(2, 3), torch.ones(2, 3))] * 4
    return f, [*ordinary, *kinds(), *ordinary[:1]]


@program()
def hooks_on_registrations_of_all_modules():
    from torch.nn.modules import module as everywhere

    log = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.steps = 0

        def forward(self, x):
            self.total = self.total + x
            self.steps += 1
            return self.total * self.steps

    model = Model()

    def note(module, name, value):
        log.append(name)
        return value * 10

    def step(f):
        handle = everywhere.register_module_buffer_registration_hook(note)
        try:
            return f(torch.ones(3))
        finally:
            handle.remove()

    calls = [(torch.ones(3),)] * 4
    return model, [*calls, step, *calls[:1], step, *calls[:1]], log


@program()
def seeds_set_inside_and_around():
    def f(x, seed):
        a = torch.rand(3)
        if seed is not None:
            torch.manual_seed(seed)
        b = F.dropout(x, 0.5) + torch.randn(3)
        with torch.random.fork_rng():
            c = torch.rand(3)
        return a, b, c, torch.rand(3), torch.initial_seed() == seed

    seeds = [None, None, None, None, 5, 5, None, 5]
    return f, [(torch.ones(3), seed) for seed in seeds]
