"""Torch's own layers around and inside a call: transforms, forward-mode gradients, modes, hooks of autograd."""

import functools
import warnings

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from . import ones, program


@functools.cache
def load_decompositions():
    """Torch loads them, and warns, at the first use in a process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.func.jvp(torch.tanh, (torch.ones(1),), (torch.ones(1),))


def plain(f):
    return f(torch.ones(3))


def among(*steps):
    """Four plain calls, then the steps, then a plain call again."""
    load_decompositions()
    return [*[plain] * 4, *steps, plain]


def transformed(transform, *shape):
    """A call under a function transform."""

    def step(f):
        return transform(f)(torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape))

    return step


def dual(f):
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.ones(3), torch.arange(3.0))
        return [tuple(forward_ad.unpack_dual(t)) for t in torch.utils._pytree.tree_leaves(f(x)) if torch.is_tensor(t)]


TRANSFORMS = (
    transformed(torch.func.vmap, 4, 3),
    transformed(lambda f: torch.func.vmap(torch.func.vmap(f)), 2, 4, 3),
    transformed(lambda f: torch.func.grad(lambda x: f(x).sum()), 3),
    transformed(lambda f: torch.func.vmap(torch.func.grad(lambda x: f(x).sum())), 4, 3),
    transformed(torch.func.jacrev, 3),
    transformed(torch.func.jacfwd, 3),
    transformed(torch.func.hessian, 3),
    transformed(lambda f: lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),)), 3),
    transformed(lambda f: lambda x: torch.func.vjp(f, x)[1](torch.ones(3)), 3),
    transformed(lambda f: lambda x: torch.func.linearize(f, x)[1](torch.ones(3)), 3),
    transformed(torch.func.functionalize, 3),
    transformed(lambda f: lambda x: torch.autograd.functional.jacobian(f, x), 3),
    dual,
)


@program()
def values_under_transforms():
    layer = nn.Linear(3, 3)

    def f(x):
        y = torch.tanh(layer(x)) * x
        return y / (y.detach() * 0 + 2)

    return f, among(*TRANSFORMS)


@program()
def branches_under_transforms():
    def f(x):
        y = x * 2
        if x.dim() == 1:
            y = y + 1
        if y.requires_grad:
            y = y * 3
        if x.shape[0] == 3 and x.is_leaf:
            y = y - 1
        return y

    return f, among(*TRANSFORMS)


@program()
def in_place_under_transforms():
    def f(x):
        y = torch.zeros_like(x)
        y.add_(x)
        y[0] = 5
        y = y * x
        y += 1
        return y

    return f, among(*TRANSFORMS)


@program()
def outside_writes_under_transforms():
    held = torch.zeros(3)

    def f(x):
        held.add_(1)
        y = x * held
        if y.sum() > 1e6:
            y = y - 1
        return y

    return f, among(*TRANSFORMS), held


@program()
def arguments_written_under_transforms():
    def f(x):
        x.mul_(2)
        y = x.sin()
        if float(y.detach().sum()) > 100:
            y = y - 1
        return y + x

    return f, among(*TRANSFORMS)


@program()
def state_is_kept_under_transforms():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.calls, self.last = nn.Linear(3, 3), 0, None

        def forward(self, x):
            self.calls += 1
            self.shape = tuple(x.shape)
            return self.layer(x) * self.calls

    return Model(), among(*TRANSFORMS)


@program()
def random_numbers_under_transforms():
    def f(x):
        return x * torch.rand(3) + torch.nn.functional.dropout(x, 0.5)

    def randomly(how):
        return transformed(lambda f: torch.func.vmap(f, randomness=how), 4, 3)

    return f, among(*(randomly(how) for how in ("different", "same", "error")), *TRANSFORMS[2:3])


@program()
def transforms_inside():
    layer = nn.Linear(3, 3)

    def loss(x):
        return (layer(x) ** 2).sum()

    def f(x):
        y = torch.relu(x)
        g = torch.func.grad(loss)(y)
        rows = torch.func.vmap(lambda row: layer(row) * 2)(torch.stack([y, g]))
        return y + g, rows, torch.func.jvp(torch.sin, (y,), (g,))

    return f, among(*(TRANSFORMS[i] for i in (0, 4, 5)))


@program()
def forward_mode_inside():
    load_decompositions()

    def f(x):
        y = x * 2
        with forward_ad.dual_level():
            d = forward_ad.make_dual(y, torch.ones(3))
            z = torch.sin(d) * 3
            tangent = forward_ad.unpack_dual(z).tangent
        return tangent + y

    return f, ones(5)


@program()
def forward_mode_left_open_between_calls():
    load_decompositions()
    held = torch.zeros(3)

    def f(x, y):
        z = x * y
        held.copy_(z.detach())
        return z + held

    def step(f):
        with forward_ad.dual_level():
            x = forward_ad.make_dual(torch.ones(3), torch.ones(3) * 5)
            return [tuple(forward_ad.unpack_dual(f(x, torch.ones(3) * i))) for i in range(3)]

    calls = [(torch.ones(3), torch.ones(3))]
    return f, [*calls * 4, step, *calls, step], held


class Log(TorchFunctionMode):
    def __init__(self, log):
        super().__init__()
        self.log = log

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.log.append(getattr(function, "__name__", str(function)))
        result = function(*args, **(kwargs or {}))
        return result * 10 if self.log[-1] == "relu" else result


class Watch(TorchDispatchMode):
    def __init__(self, log):
        super().__init__()
        self.log = log

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.log.append(str(function))
        return function(*args, **(kwargs or {}))


@program()
def modes_around():
    log, layer = [], nn.Linear(3, 3)

    def f(x):
        y = torch.relu(layer(x)) + torch.zeros(3)
        z = x.shape[0] * y
        return z if z.sum() > 0 else z * 2

    def inside(kind):
        def step(f):
            with kind(log):
                return f(torch.ones(3))

        return step

    return f, among(inside(Log), inside(Watch), inside(Log)), log


@program()
def modes_inside():
    log = []

    def f(x):
        y = torch.relu(x) * 2
        with Log(log):
            z = torch.relu(y) * 3
        with Watch(log):
            w = torch.relu(y) + 1
        return torch.relu(z) + w

    return f, ones(5), log


@program()
def mode_entered_by_one_call_and_left_by_another():
    log, open_modes = [], []

    def f(x, what):
        y = torch.relu(x) * 2
        if what == "enter":
            open_modes.append(Log(log).__enter__())
        z = torch.relu(y) + torch.relu(y)
        if what == "leave":
            open_modes.pop().__exit__(None, None, None)
        return torch.relu(z) + y

    words = ["", "enter", "", "leave", "", "", "enter", "", "leave", ""]
    return f, [(torch.ones(3), word) for word in words], log


@program()
def tensor_hooks_on_what_is_read():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return torch.relu(self.layer(x) * 2).sum()

    model, log = Model(), []

    def during(register):
        def step(f):
            handle = register()
            x = torch.ones(3, requires_grad=True)
            inner = x.register_hook(lambda g: log.append("argument") or g * 2)
            try:
                f(x).backward()
                return x.grad
            finally:
                handle.remove()
                inner.remove()

        return step

    def note(g):
        log.append("weight")
        return g * 3

    w = model.layer.weight
    kinds = [
        lambda: w.register_hook(note),
        lambda: w.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.sum().item())),
        lambda: torch.autograd.graph.register_multi_grad_hook((w, model.layer.bias), lambda g: log.append(len(g))),
    ]
    return model, among(*(during(kind) for kind in kinds)), log


@program()
def saved_tensor_hooks_set_inside():
    log = []

    def pack(t):
        log.append(tuple(t.shape))
        return t

    def f(x):
        y = torch.sin(x * 2)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            z = torch.sin(y) * y
        return torch.exp(z)

    def step(f):
        x = torch.ones(3, requires_grad=True)
        f(x).sum().backward()
        return x.grad

    return f, [step] * 5, log


@program()
def warnings_filters_are_ambient():
    def f(x, message):
        y = x * 2
        if message:
            warnings.warn(message, stacklevel=1)
        return y + 1

    def strict(f):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return f(torch.ones(3), "careful")

    return f, [*[(torch.ones(3), "")] * 3, (torch.ones(3), "careful"), strict, (torch.ones(3), ""), strict]
