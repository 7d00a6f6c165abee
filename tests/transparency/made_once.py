"""What the call makes is one object, wherever the program puts it."""

import time

import torch
from torch import nn

from . import program


class Box:
    def __init__(self, **state):
        self.__dict__.update(state)


@program()
def tuples_are_one_object():
    box = Box(seen=[], state=None)

    def f(x, k, *rest):
        pair = (x * 2, k)
        box.state = pair
        box.seen.append(pair)
        u = v = (pair, [pair])
        box.both = u
        for i in range(k):  # noqa: B007
            box.seen.append(pair)
        w = (x, i) if k > 1 else (x, -1)
        time.time()
        box.after, box.rest = w, rest
        return pair, u, v is u, w, box.state is pair, box.seen[-1] is pair, rest

    calls = ((1, ()), (1, ()), (1, (2, 3)), (2, ()), (5, (torch.ones(2),)), (1, ()))
    return f, [(torch.ones(2), k, *rest) for k, rest in calls], box


@program()
def tuple_inside_its_own_part():
    def f(x, pair):
        a, b = pair
        a.append(1)
        b["n"] = len(a)
        pair[0].append(2)
        made = (a, b)
        made[1]["made"] = made
        return x * len(pair[0]) + b["n"], made

    return f, [lambda f: f(torch.ones(2), ([], {}))] * 5


@program()
def hidden_state_kept_and_returned():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.hidden = nn.LSTMCell(3, 3), None

        def forward(self, x):
            self.hidden = self.cell(x, self.hidden)
            h, c = self.hidden
            self.hidden = (h.detach(), c.detach())
            return h, self.hidden

    return Model(), [(torch.randn(1, 3),) for _ in range(5)]


@program()
def slices_are_of_the_kind_they_come_from():
    def f(x, k):
        items, pair = [x, x + 1, x + 2], (x, 2, 3.0)
        a, b, c = items[:k], pair[k:], items[:: k + 1]
        a.append(5)
        return a, b, c, type(b).__name__, type(a).__name__, items, b + (1,), isinstance(b, list)

    return f, [(torch.ones(2), k) for k in (1, 1, 1, 2, 0, 3)]
