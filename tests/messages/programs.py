"""One minimal program for every diagnostic of the lowering; what is said of it stands in ``test_messages_lowering``.

This is a module of its own because pytest rewrites test modules, whose source is then not the code that runs.
"""

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, partialmethod
from itertools import cycle
from typing import Any

import torch
from torch import nn

import janusc as janus


@dataclass(frozen=True)
class Program:
    """A function to compile, and how its arguments are made for each call."""

    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]


PROGRAMS: dict[str, Program] = {}


def vector() -> torch.Tensor:
    return torch.tensor([1.0, 2.0])


def shows(code: str, *more: Callable[[], Any]) -> Callable[[Any], Any]:
    """Register a program of a vector and of what each of ``more`` returns."""

    def register(function: Any) -> Any:
        assert code not in PROGRAMS
        PROGRAMS[code] = Program(function, lambda: (vector(), *(make() for make in more)))
        return function

    return register


class Plain:
    """An object that does everything its own way."""

    def __init__(self) -> None:
        self.scale = 2.0

    def __add__(self, other: float) -> float:
        return self.scale + other

    def __len__(self) -> int:
        return 1

    def __getattr__(self, name: str) -> float:
        return 3.0

    def __iter__(self) -> Any:
        return iter((1.0, 2.0))


class Weight:
    """A class of torch's own, whose attributes are fixed."""

    __module__ = "torch.extension"
    double = torch.tensor(2.0)


class Hooked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Doubled(Hooked):
    forward = partialmethod(Hooked.forward)


def hooked() -> nn.Module:
    module = Hooked()
    module.register_forward_hook(lambda module, args, result: None)
    return module


def identity(function: Any) -> Any:
    return function


def counter() -> Any:
    seen = 0

    def partial_write(x, sign):
        nonlocal seen
        y = x.sin() + x.cos()
        if (y * sign).sum() > 0:
            seen = 1
        return y

    return partial_write


@shows("JC301")
def an_import(x):
    import math

    y = x * math.pi
    return y.sin() + y.cos()


@shows("JC302")
def fixed_tensor(x):
    y = x.sin() + x.cos()
    return torch.mul(y, Weight.double)


@shows("JC303")
def function_value(x):
    y = x.sin() + x.cos()
    return y, lambda z: z + 1


@shows("JC304", lambda: 3)
def spurious(x, n):
    y = x.sin() + x.cos()
    try:
        y = y.reshape(n)
    except RuntimeError:
        pass
    return y


@shows("JC305", lambda: torch.ones(2).to_sparse())
def sparse(x, weight):
    return x.sin() + weight.to_dense()


@shows("JC306")
def unbound(x):
    y = x.sin() + x.cos()
    try:
        y = y + missing
    except NameError:
        pass
    return y


@shows("JC307")
def library_state(x):
    y = x.sin() + x.cos()
    nn.modules.module.register_module_forward_hook(identity).remove()
    return y


shows("JC308", partial(next, cycle((torch.tensor(1), torch.tensor(-1)))))(counter())


@shows("JC309", Plain)
def attribute(x, plain):
    y = x.sin() + x.cos()
    return y * plain.dynamic


class Super(Doubled):
    def forward(self, x):
        return super().forward(x) + 1


@shows("JC310", Super)
def super_call(x, module):
    y = x.sin() + x.cos()
    return module(y)


@shows("JC311")
def assignment(x):
    y = x.sin() + x.cos()
    Plain.last = y
    return y


@shows("JC312", Plain)
def deletion(x, plain):
    y = x.sin() + x.cos()
    del plain.scale
    return y


@shows("JC313")
def star(x):
    first, *rest = x.sin() + x.cos()
    return first


@shows("JC314", lambda: "key")
def mapping(x, key):
    y = x.sin() + x.cos()
    return {key: y}


@shows("JC315", Plain)
def text(x, plain):
    y = x.sin() + x.cos()
    return y, f"{plain}"


@shows("JC316")
def huge(x):
    y = x.sin() + x.cos()
    return y, 3**5000


@shows("JC317")
def raises(x):
    y = x.sin() + x.cos()
    try:
        y = y * (1 / 0)
    except ZeroDivisionError:
        pass
    return y


@shows("JC318", Plain)
def operator(x, plain):
    y = x.sin() + x.cos()
    return y, plain + 1


@shows("JC319", lambda: array("d", [2.0]))
def subscript(x, weights):
    y = x.sin() + x.cos()
    return y * weights[0]


@shows("JC320", Plain)
def truth(x, plain):
    y = x.sin() + x.cos()
    return y if plain else x


@shows("JC321", Plain)
def iteration(x, plain):
    y = x.sin() + x.cos()
    for factor in plain:
        y = y * factor
    return y


@shows("JC322")
def loop(x):
    y = x.sin() + x.cos()
    pairs = zip((1, 2), (3, 4))
    return y, list(pairs)


@shows("JC323", lambda: torch.ones(2, requires_grad=True))
def history(x, weight):
    y = x.sin() + x.cos()
    x += weight
    return y


@shows("JC324")
def opaque_call(x):
    y = x.sin() + x.cos()
    return y, time.perf_counter()


DEPTHS = [0]


def descend(x, depth):
    DEPTHS[0] = depth
    return x if depth == 0 else descend(x, depth - 1) + 1


@shows("JC325")
def recursion(x):
    y = x.sin() + x.cos()
    return descend(y, 4)


@shows("JC326")
def inner_function(x):
    @identity
    def double(z):
        return z * 2

    return double(x.sin() + x.cos())


@shows("JC327", hooked)
def hooks(x, module):
    return module(x.sin() + x.cos())


@shows("JC328", lambda: torch.ones(2))
def in_place(x, out):
    y = x.sin() + x.cos()
    torch.add(y, 1, out=out)
    return y


@shows("JC329", lambda: dict.fromkeys(range(99)))
def method(x, numbers):
    y = x.sin() + x.cos()
    numbers.popitem()
    return y


@shows("JC330")
def prints(x):
    y = x.sin() + x.cos()
    print("in", flush=True)
    return y


@shows("JC331")
def comprehension(x):
    y = x.sin() + x.cos()
    return y, frozenset(n + 1 for n in (1, 2))


@shows("JC332")
def context(x):
    with torch.profiler.record_function("part"):
        y = x.sin() + x.cos()
    return y


@shows("JC333")
def no_work(x):
    return [len(x)]


SCALES = cycle((2.0, 2))


@janus.opaque
def rescale(plain):
    plain.scale = next(SCALES)


@shows("JC334", Plain)
def changed(x, plain):
    y = x.sin() + x.cos()
    rescale(plain)
    return y, plain.scale
