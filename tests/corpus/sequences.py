"""Sequences: what is carried from step to step, states that were there before the call, lengths that change."""

import torch
from torch import nn

from . import program


@program(max_graphs=1)
def state_from_before():
    cell = nn.LSTMCell(3, 4)

    def f(xs, state):
        for x in xs:
            state = cell(x, state)
        return state

    state = torch.zeros(2, 4), torch.ones(2, 4)
    return f, [(torch.randn(n, 2, 3), state) for n in (3, 4, 2, 0, 5)], state


@program(max_graphs=2)
def unbatched_then_batched():
    cell = nn.GRUCell(3, 3)

    def f(xs):
        state = torch.zeros(xs[0].shape)
        for x in xs:
            state = cell(x, state)
        return state

    return f, [(torch.randn(shape),) for shape in ((3, 3), (4, 3), (2, 3), (3, 2, 3), (4, 2, 3), (2, 3), (5, 2, 3))]


@program(max_graphs=2)
def rank_grows_in_a_loop():
    def f(x, n):
        total = torch.zeros(())
        for _ in range(n):
            if x.dim() == 1:
                total = total + x.sum()
            x = x.unsqueeze(0)
        return total, x

    return f, [(torch.ones(2), n) for n in (1, 2, 1, 3, 4, 2, 0, 3)]


@program(max_graphs=2)
def flag_around_a_loop():
    def f(xs, weights, scale):
        total = torch.zeros(())
        for x in xs:
            if scale > 2:
                total = total + x.sum() * scale
            else:
                total = total - x.sum()
        return total + weights.sum()

    lengths = (3, 4, 3, 2, 3, 5, 3, 2)
    scales = (3.0, 3.0, 3.5, 3.0, 1.0, 3.0, 1.5, 4.0)
    return f, [(torch.randn(n, 2), torch.ones(n), s) for n, s in zip(lengths, scales)]


@program()
def generator_unpacked():
    def f(x, parts):
        a, b, c = (part * 2 for part in x.chunk(parts))
        (first, *rest) = [part + 1 for part in (a, b, c)]
        return first, rest

    return f, [(torch.randn(6), n) for n in (3, 3, 3, 3, 2, 3, 6, 3)]


@program(max_graphs=2)
def few_states():
    def f(xs, states):
        for x in xs:
            states = tuple(torch.tanh(x + s * i) for i, s in enumerate(states))
        return states

    states = torch.zeros(2), torch.ones(2)
    return f, [(torch.randn(n, 2), states) for n in (2, 3, 4, 1, 2, 0, 3)]


@program(max_graphs=2)
def caches_by_name():
    class Block(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.project = nn.Linear(4, 4)
            self.name = name

        def forward(self, x, cache):
            kept = self.project(x)
            if self.name in cache:
                before, count = cache[self.name]
                kept = torch.cat([before, kept])
                cache[self.name] = (kept, count + 1)
            else:
                cache[self.name] = (kept, 1)
            return x + kept.mean(0)

    blocks = nn.ModuleList([Block("a"), Block("b")])

    def f(x, steps):
        cache = {}
        for _ in range(steps):
            for block in blocks:
                x = torch.tanh(block(x, cache))
        return x, cache, "c" in cache

    return f, [(torch.ones(1, 4), n) for n in (2, 3, 1, 4, 2, 0, 3)], blocks


@program(max_graphs=2)
def letters():
    codes = {letter: i for i, letter in enumerate("abcde")}

    def f(x, text):
        for letter in text:
            x = x * 0.5 + ord(letter)
        for i, letter in enumerate(text):
            if letter in codes:
                x = x + codes[letter] * i
        return x, text[::-1]

    return f, [(torch.ones(2), text) for text in ("abc", "bad", "e", "", "xyz", "abcdefg", "cab")]
