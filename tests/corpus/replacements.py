"""Programs that put functions of their own in the place of others' while they run: wrappers around the originals."""

import math

import torch
from torch.nn import functional

from . import program

ONES = torch.ones(4)


def watching(owner, name, seen):
    """What makes a call while ``owner.name`` notes its calls."""

    def call(f):
        original = getattr(owner, name)

        def wrapper(*args, **kwargs):
            seen.append(name)
            return original(*args, **kwargs)

        setattr(owner, name, wrapper)
        try:
            return f(ONES)
        finally:
            setattr(owner, name, original)

    return call


@program()
def wrapped_functions_of_torch():
    seen = []

    def f(x):
        return functional.mse_loss(torch.relu(x), x * 2) * math.sqrt(x.numel())

    places = (functional, "mse_loss"), (torch, "relu"), (math, "sqrt")
    calls = [watching(*place, seen) for place in places for _ in range(3)]
    return f, [(ONES,)] * 3 + calls + [(ONES,)] * 2, seen


@program()
def a_wrapped_method_of_tensors():
    seen = []

    def f(x):
        y = torch.relu(x) * 2
        y = y.sub(x)
        return torch.tanh(y) + 1

    return f, [watching(torch.Tensor, "sub", seen)] * 5, seen


@program()
def a_wrapped_backward_pass():
    seen = []
    weight = torch.ones(4, requires_grad=True)

    def f(x):
        loss = (weight * x).sum()
        loss.backward()
        return loss.detach()

    return f, [(ONES,)] * 3 + [watching(torch.autograd, "backward", seen)] * 2 + [(ONES,)], seen, weight
