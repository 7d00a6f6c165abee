"""Recursion in the graph: as deep as eager, as long as the tree lives, one conversion whatever the tree."""

import gc
import random
import weakref

import pytest
import torch
from torch import nn

import janusc as janus


def compiled(f):
    return janus.compile(f, warmup=2, backend="aten")


def visit(t):
    return t if isinstance(t, torch.Tensor) else torch.tanh(visit(t[0]) + visit(t[1]))


def chain(depth):
    t = torch.ones(2)
    for _ in range(depth):
        t = (t, torch.ones(2))
    return t


def used(*depths):
    g = compiled(visit)
    for depth in (3, 4, 5, *depths):
        g(chain(depth))
    return g


def test_as_deep_as_eager():
    g = used(6)
    before = janus.stats(g).graph_calls
    assert torch.equal(g(chain(800)), visit(chain(800)))
    assert janus.stats(g).graph_calls == before + 1


def test_too_deep_is_the_error_of_eager():
    g = used(6)
    for f in (visit, g, g):
        with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
            f(chain(20_000))
    assert torch.equal(g(chain(4)), visit(chain(4)))


def test_nothing_is_kept_after_the_call():
    g = used(6)
    gc.collect()
    gc.disable()
    try:
        t = chain(5)
        leaf = weakref.ref(t[1])
        result = g(t)
        out = weakref.ref(result)
        del t, result
        assert leaf() is None and out() is None
    finally:
        gc.enable()


class Node:
    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right


def grow(depth, source):
    if depth == 0 or source.random() < 0.2:
        return Node(source.randrange(5))
    return Node(source.randrange(5), grow(depth - 1, source), grow(depth - 1, source))


class TreeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.inner = nn.Embedding(5, 4), nn.Linear(8, 4)

    def forward(self, t):
        if t.left is None:
            return self.embedding.weight[t.value]
        return torch.tanh(self.inner(torch.cat([self(t.left), self(t.right)])))


def test_a_thousand_trees_are_one_graph_and_the_gradients_are_those_of_eager():
    torch.manual_seed(0)
    model, source = TreeNet(), random.Random(0)
    plain = TreeNet()
    plain.load_state_dict(model.state_dict())
    g = compiled(model)
    for number in range(300):
        tree = grow(5, source)
        got, expected = g(tree), plain(tree)
        assert torch.equal(got, expected)
        if number % 10 == 0:
            got.sum().backward()
            expected.sum().backward()
    for mine, other in zip(model.parameters(), plain.parameters()):
        assert torch.equal(mine.grad, other.grad)
    stats = janus.stats(g)
    assert stats.graphs <= 2 and stats.graph_calls > 280 and stats.conversions <= 3, stats


def test_a_closure_that_calls_itself():
    def f(t, w):
        def total(t):
            return t.value * w if t.left is None else total(t.left) + total(t.right)

        return total(t)

    g, source = compiled(f), random.Random(1)
    for _ in range(20):
        tree = grow(4, source)
        assert torch.equal(torch.as_tensor(g(tree, torch.ones(2))), torch.as_tensor(f(tree, torch.ones(2))))
    assert janus.stats(g).graph_calls > 10
