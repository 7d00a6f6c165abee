"""Gradients taken inside a graph, and what stands in their way."""

import torch
import torch.nn.functional as F
from torch import nn

from . import program


def numbers(count=6):
    return [(torch.tensor([float(i), 1.0]), 1 + i % 3) for i in range(count)]


@program(max_graphs=1)
def inner_steps_through_parameters():
    class Learner(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.ParameterDict({"a": nn.Parameter(torch.randn(2, 2)), "b": nn.Parameter(torch.randn(2))})

        def forward(self, x, steps):
            weights = dict(self.weights.items())
            for _ in range(steps):
                loss = F.linear(x, weights["a"], weights["b"]).square().sum()
                grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
                weights = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), grads)}
                if loss < 0.01:
                    break
            return F.linear(x, weights["a"], weights["b"]).sum()

    return Learner(), numbers(4)


@program(max_graphs=1)
def a_penalty_on_the_gradient():
    layer = nn.Linear(2, 1)

    def f(x, weight):
        mixed = (x * weight).detach().requires_grad_()
        (slope,) = torch.autograd.grad(layer(mixed).tanh().sum(), mixed, create_graph=True)
        return (slope.norm() - 1).square()

    return f, numbers(), layer


@program(max_graphs=2)
def descent_until_it_is_flat():
    def f(x, steps):
        for _ in range(steps):
            x = x.detach().requires_grad_()
            value = (x - 1).square().sum()
            (slope,) = torch.autograd.grad(value, x)
            if slope.abs().max() < 0.1:
                return x, True
            with torch.no_grad():
                x = x - 0.25 * slope
        return x.detach(), False

    return f, numbers()


@program()
def a_hook_on_the_way():
    weight = nn.Parameter(torch.ones(2))
    seen = []

    def f(x, count):
        (slope,) = torch.autograd.grad((weight * x).tanh().sum() * count, weight, create_graph=True)
        if slope.sum() > 1:
            slope = slope - 1
        return slope.sum()

    def hook(f):
        weight.register_hook(lambda grad: seen.append(grad.clone()) or grad * 2)

    return f, [*numbers(4), hook, *numbers(4)], [weight, seen]


@program()
def history_from_outside():
    weight = nn.Parameter(torch.ones(2))

    def f(x, count):
        (slope,) = torch.autograd.grad(x.square().sum() * count, weight, retain_graph=True)
        if slope.sum() > 8:
            slope = slope - 1
        return slope

    return f, [(weight * i, 1 + i % 2) for i in range(6)], weight


@program()
def buffers_that_are_used_up():
    weight = nn.Parameter(torch.ones(2))

    def f(x, count):
        loss = (weight * x).square().sum()
        first = torch.autograd.grad(loss, weight)
        second = torch.autograd.grad(loss, weight) if count > 2 else first
        return first, second

    return f, numbers(), weight


@program()
def an_input_that_is_not_used():
    weight, other = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(1))

    def f(x, count):
        slopes = torch.autograd.grad((weight * x).sum() * count, [weight, other], allow_unused=True)
        return [s for s in slopes if s is not None]

    return f, numbers(), [weight, other]


@program(max_graphs=1)
def all_parameters_of_a_module():
    net = nn.Sequential(nn.Linear(2, 1), nn.Tanh())

    def f(x, count):
        loss = net(x).square().sum() * count
        slopes = torch.autograd.grad(loss, net.parameters(), create_graph=True)
        norm = sum(s.square().sum() for s in slopes)
        return norm, [name for name, p in net.named_parameters() if p.requires_grad]

    return f, numbers(3), net


@program()
def a_module_whose_parts_become_one():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))

    def f(x, count):
        return sum(p.sum() for p in net.parameters()) * x.sum() * count

    def share(f):
        net[1].weight = net[0].weight

    return f, [*numbers(4), share, *numbers(4)], net


@program(max_graphs=2)
def entries_of_a_dict_made_in_the_call():
    def f(x, count):
        made = {"a": x, "b": x + 1}
        for i in range(count):
            made = {key: value * 2 for key, value in made.items()}
            made["c"] = sum(made.values())
        return made, list(made.keys())

    return f, numbers()
