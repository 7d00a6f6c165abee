"""Linear layers that are used again and again, in loops and recursions, with the gradients of all uses."""

import torch
from torch import nn
from torch.nn import functional

from . import program


def lengths(*counts, rows=4, width=3):
    return [(torch.randn(n, rows, width),) for n in counts]


class Recurrent(nn.Module):
    """A recurrent network whose step is made of two layers."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, xs):
        state = torch.zeros(xs.shape[1:])
        for x in xs:
            state = torch.tanh(self.inner(x) + self.outer(state))
        return state


@program(max_graphs=2)
def trained_over_varying_lengths():
    model = Recurrent()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(xs):
        loss = model(xs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, lengths(3, 5, 2, 7, 4, 0, 1, 6), model


@program(max_graphs=2)
def without_gradients():
    model = Recurrent()

    def run(xs):
        with torch.no_grad():
            return model(xs)

    return run, lengths(3, 5, 2, 7, 0, 4), model


@program(max_graphs=2)
def with_mixed_precision():
    model = Recurrent()

    def run(xs):
        loss = model(xs).float().square().mean()
        return loss, torch.autograd.grad(loss, model.outer.weight)

    def mixed(xs):
        def call(f):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return f(xs)

        return call

    steps = lengths(3, 5, 2, 7)
    return run, steps + [mixed(xs) for (xs,) in lengths(4, 2)] + lengths(3)


@program(max_graphs=2)
def mixed_precision_in_the_loop():
    model = Recurrent()

    def run(xs):
        state = torch.zeros(4, 3)
        for x in xs:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                state = torch.tanh(model.inner(x) + model.outer(state)).float()
            state = model.outer(state)
        return state

    return run, lengths(3, 5, 2, 7, 4)


@program(max_graphs=2)
def no_grad_in_the_loop():
    model = Recurrent()

    def run(xs):
        state = torch.zeros(4, 3)
        for x in xs:
            with torch.no_grad():
                start = model.outer(x)
            state = torch.tanh(model.outer(state) + start)
        return state, torch.autograd.grad(state.sum(), model.outer.weight)

    return run, lengths(3, 5, 2, 7, 4)


@program(max_graphs=2)
def a_weight_that_changes_in_the_loop():
    model = Recurrent()

    def run(xs):
        with torch.no_grad():
            state = torch.zeros(4, 3)
            for x in xs:
                state = torch.tanh(model.outer(state) + x)
                model.outer.weight.mul_(0.5)
        return state

    return run, lengths(3, 5, 2, 7, 4), model


@program(graph=False)
def a_weight_that_gets_other_memory_in_the_loop():
    model = Recurrent()

    def run(xs):
        with torch.no_grad():
            state = torch.zeros(4, 3)
            for x in xs:
                state = torch.tanh(model.outer(state) + x)
                model.outer.weight.data = model.outer.weight.data * 0.5
        return state

    return run, lengths(3, 5, 2, 7, 4), model


@program(max_graphs=2)
def on_one_side_of_a_branch():
    model = Recurrent()

    def run(xs):
        state = torch.zeros(4, 3)
        for x in xs:
            if x.sum() > 0:
                state = torch.tanh(model.outer(state)) + x
            elif x.sum() < -3:
                state = model.inner(state)
            else:
                state = state - model.outer(x)
        return torch.autograd.grad(state.sum(), model.outer.weight, allow_unused=True)

    return run, lengths(3, 5, 2, 7, 4, 6, 8, 3)


@program(max_graphs=2)
def loops_in_loops():
    model = Recurrent()

    def run(xs, rounds):
        state = torch.zeros(4, 3)
        for x in xs:
            for _ in range(rounds):
                state = torch.tanh(model.outer(state) + x)
            while state.abs().max() > 0.4:
                state = model.outer(state) * 0.25
        return state, torch.autograd.grad(state.sum(), list(model.outer.parameters()))

    return run, [(xs, 1 + i % 3) for i, (xs,) in enumerate(lengths(3, 5, 2, 7, 4, 6))]


@program(max_graphs=2)
def vectors_and_matrices():
    model = Recurrent()

    def run(xs):
        state = torch.zeros(3)
        for x in xs:
            state = torch.tanh(model.outer(state) + model.inner(x).mean(0))
        return state, torch.autograd.grad(state.sum(), list(model.parameters()))

    return run, lengths(3, 5, 2, 7) + lengths(4, 3, rows=1)


@program(max_graphs=2)
def twice_differentiated():
    model = Recurrent()

    def run(xs):
        loss = model(xs).square().mean()
        grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        penalty = sum(g.square().sum() for g in grads)
        return loss, torch.autograd.grad(penalty, list(model.parameters()), allow_unused=True)

    return run, lengths(3, 5, 2, 7, 4)


@program(max_graphs=2)
def also_used_elsewhere():
    model = Recurrent()

    def run(xs):
        loss = model(xs).square().mean() + 0.1 * model.outer.weight.square().sum() + model(xs * 2).mean()
        return loss, torch.autograd.grad(loss, list(model.parameters()))

    return run, lengths(3, 5, 2, 7, 4)


class Tree:
    def __init__(self, value, *children):
        self.value, self.children = value, children


def tree(depth, branching):
    children = [tree(depth - 1 - i % 2, branching) for i in range(branching)] if depth > 0 else []
    return Tree(torch.randn(2, 3), *children)


@program(max_graphs=2)
def in_a_recursion():
    model = Recurrent()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def encode(node):
        total = model.inner(node.value)
        for child in node.children:
            total = total + model.outer(encode(child))
        return torch.tanh(total)

    def step(root):
        loss = encode(root).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return (
        step,
        [(tree(depth, branching),) for depth, branching in ((2, 2), (1, 3), (3, 2), (0, 1), (2, 1), (3, 1))],
        model,
    )


@program(max_graphs=2)
def weights_made_on_the_way():
    def run(xs, first, bias):
        weight = first * 2
        state = torch.zeros(4, 3)
        for x in xs:
            state = torch.tanh(functional.linear(state, weight, bias) + functional.linear(x, first, bias))
        return state, torch.autograd.grad(state.sum(), [first, bias])

    weights = torch.randn(3, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    return run, [(xs, *weights) for (xs,) in lengths(3, 5, 2, 7, 4)]
