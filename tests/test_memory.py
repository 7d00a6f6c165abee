"""The resident set stays flat over many different inputs: nothing is kept of a call once it is over."""

import gc
import os
import random

import pytest
import torch
from torch import nn

import janusc as janus

PAGE = os.sysconf("SC_PAGE_SIZE")
WARM, MORE, WIDE = 30, 60, 1024
ALLOWED = 3 << 20
"""Bytes: what the allocator and the interpreter may still take after the first calls. One input has 80 kB and more."""


class Node:
    def __init__(self, value, children):
        self.value, self.children = value, children


def tree(source, size):
    """A tree of a certain size, each time another one."""
    nodes = [Node(torch.full((WIDE,), source.random()), []) for _ in range(size)]
    for index, node in enumerate(nodes[1:]):
        nodes[source.randrange(index + 1)].children.append(node)
    return nodes[0]


class TreeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(16, 16), nn.Linear(16, 1)

    def encode(self, node):
        total = node.value[:16]
        for child in node.children:
            total = total + self.encode(child)
        return torch.tanh(self.inner(total))

    def forward(self, node):
        return self.out(self.encode(node))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(16, 16), nn.Linear(16, 1)

    def forward(self, xs):
        state = torch.zeros(1, 16)
        for x in xs:
            state = self.cell(x[None, :16], state)
        return self.out(state)


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the resident set from Linux's /proc")
@pytest.mark.parametrize("kind", ["trees", "lengths"])
def test_many_different_inputs_leave_memory_flat(kind):
    torch.manual_seed(0)
    source = random.Random(0)
    model = janus.compile(TreeNet() if kind == "trees" else Recurrent(), backend="aten", warmup=2)
    lengths = iter(random.Random(1).sample(range(2, WARM + MORE + 20), WARM + MORE))

    def step():
        loss = model(
            tree(source, source.randrange(2, 40)) if kind == "trees" else torch.randn(next(lengths), WIDE)
        ).sum()
        loss.backward()
        model.zero_grad()

    for _ in range(WARM):
        step()
    before = resident()
    for _ in range(MORE):
        step()
    assert resident() - before < ALLOWED
    stats = janus.stats(model)
    assert stats.conversions <= 4 and stats.graph_calls >= stats.calls - 12, stats
