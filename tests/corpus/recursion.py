"""Functions that call themselves: over tuples, lists, dicts and user trees, by methods, by modules, by each other."""

import random
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from . import program


class Node:
    def __init__(self, value=None, left=None, right=None):
        self.value, self.left, self.right = value, left, right


def binary(depth, source, leaf=Node):
    value = source.randrange(5)
    if depth == 0 or source.random() < 0.3:
        return leaf(value)
    return Node(value, binary(depth - 1, source, leaf), binary(depth - 1, source, leaf))


def trees(make, count=8, depth=3, seed=0):
    source = random.Random(seed)
    return [(make(depth, source),) for _ in range(count)]


def pair(depth, source):
    if depth == 0 or source.random() < 0.3:
        return torch.full((2,), float(source.randrange(5)))
    return pair(depth - 1, source), pair(depth - 1, source)


@program(max_graphs=2)
def nested_tuples():
    layer = nn.Linear(2, 2)

    def node(t):
        return layer(t) if isinstance(t, torch.Tensor) else torch.tanh(node(t[0]) + node(t[1]))

    return node, trees(pair), layer


@program(max_graphs=2)
def a_tree_that_is_a_leaf_first():
    def node(t):
        if isinstance(t, tuple):
            left, right = t
            return node(left) * node(right)
        return t + 1

    one = torch.ones(2)
    return node, [(one,), (one,), ((one, one),), (((one, one), one),), (one,), ((one, (one, one)),)]


class TreeRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.inner, self.out = nn.Embedding(5, 3), nn.Linear(6, 3), nn.Linear(3, 2)

    def encode(self, t):
        if t.left is None:
            return self.embedding.weight[t.value]
        return torch.tanh(self.inner(torch.cat([self.encode(t.left), self.encode(t.right)])))

    def forward(self, t):
        return self.out(self.encode(t))


@program(max_graphs=2)
def tree_rnn():
    return TreeRNN(), trees(binary)


@program(max_graphs=2)
def tree_rnn_training():
    model = TreeRNN()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(t, label):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(t), label)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, [(t, torch.tensor(i % 2)) for i, (t,) in enumerate(trees(binary))], model, optimizer


class TreeLSTM(nn.Module):
    def __init__(self, hidden=3):
        super().__init__()
        self.hidden, self.embedding = hidden, nn.Embedding(5, hidden)
        self.gates, self.forget = nn.Linear(2 * hidden, 3 * hidden), nn.Linear(2 * hidden, 2 * hidden)

    def forward(self, t):
        if t.left is None and t.right is None:
            return self.embedding(torch.tensor(t.value)), torch.zeros(self.hidden)
        (hl, cl), (hr, cr) = self(t.left), self(t.right)
        both = torch.cat([hl, hr])
        i, o, u = self.gates(both).chunk(3)
        fl, fr = torch.sigmoid(self.forget(both)).chunk(2)
        c = torch.sigmoid(i) * torch.tanh(u) + fl * cl + fr * cr
        return torch.sigmoid(o) * torch.tanh(c), c


@program(max_graphs=3)
def tree_lstm():
    return TreeLSTM(), trees(binary)


@program(max_graphs=2)
def counting_down():
    def power(x, n):
        return x if n == 0 else x * 0.5 + power(x, n - 1)

    return power, [(torch.ones(2), n) for n in (3, 4, 2, 5, 0, 7)]


@program(max_graphs=3)
def mutual():
    def even(x, n):
        return x if n == 0 else odd(x + 1, n - 1)

    def odd(x, n):
        return x * 2 if n == 0 else even(x - 3, n - 1)

    return even, [(torch.ones(2), n) for n in (3, 4, 2, 5, 6, 7)]


class Many:
    def __init__(self, value, children):
        self.value, self.children = value, children


def many(depth, source):
    count = source.randrange(4) if depth else 0
    return Many(torch.full((2,), float(source.randrange(5))), [many(depth - 1, source) for _ in range(count)])


@program(max_graphs=2)
def a_loop_over_children():
    def total(t):
        s = torch.zeros(2)
        for child in t.children:
            s = s + total(child)
        return torch.tanh(t.value + s)

    return total, [(many(3, random.Random(s)),) for s in (2, 3, 5, 7, 11, 13)]


@program(max_graphs=3)
def a_comprehension_over_children():
    def total(t):
        return torch.tanh(t.value + sum([total(c) for c in t.children], torch.zeros(2)))

    return total, [(many(3, random.Random(s)),) for s in (2, 3, 5, 7, 11, 13)]


class Tree:
    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right

    def total(self):
        s = self.value
        if self.left is not None:
            s = s + self.left.total()
        if self.right is not None:
            s = s + self.right.total() * 2
        return s


class Doubling(Tree):
    def total(self):
        return self.value * 2


def plain(depth, source, cls=Tree):
    def branch():
        return plain(depth - 1, source, cls) if depth and source.random() < 0.7 else None

    return cls(torch.full((2,), float(source.randrange(5))), branch(), branch())


@program(max_graphs=3)
def a_method_of_the_tree():
    return (lambda t: t.total()), trees(plain)


@program()
def a_subclass_appears():
    calls = trees(plain)
    source = random.Random(9)
    calls[4:4] = [(Tree(torch.ones(2), Doubling(torch.ones(2)), plain(2, source)),)]
    calls[6:6] = [(Doubling(torch.ones(2)),), (Tree(torch.ones(2), None, Doubling(torch.ones(2))),)]
    return (lambda t: t.total()), calls


@program()
def an_instance_overrides_the_method():
    def calls(f):
        for (t,) in trees(plain, count=4):
            f(t)
        t = Tree(torch.ones(2), Tree(torch.ones(2)))
        f(t)
        t.left.total = lambda: torch.full((2,), 100.0)
        return f(t), f(t)

    return (lambda t: t.total()), [calls]


@program()
def the_class_changes():
    class Item(Tree):
        pass

    def visit(t):
        return t.value if t.left is None else visit(t.left) + t.value

    def calls(f):
        t = Item(torch.ones(2), Item(torch.ones(2), Item(torch.ones(2))))
        results = [f(t) for _ in range(4)]
        Item.left = property(lambda self: None)
        results.append(f(t))
        del Item.left
        results.append(f(t))
        return results

    return visit, [calls]


@program()
def values_change_type_deep_inside():
    def visit(t):
        return t.value if t.left is None else visit(t.left) + visit(t.right) * t.value

    def leaf(value):
        return Node(torch.tensor([float(value)]))

    calls = trees(lambda d, s: binary(d, s, leaf))
    calls += [(Node(2.5, Node(torch.ones(1)), Node(torch.ones(1))),), (Node(torch.ones(1), leaf(1), leaf(2)),)]
    return visit, calls


@program()
def recursion_that_appends():
    def collect(t, found):
        found.append(t.value)
        for child in (t.left, t.right):
            if child is not None:
                collect(child, found)

    def f(t):
        found = []
        collect(t, found)
        return torch.stack(found).sum(0), len(found)

    return f, trees(plain)


@program()
def recursion_that_writes():
    def visit(t, depth=0):
        t.depth = depth
        if t.left is not None:
            visit(t.left, depth + 1)
            visit(t.right, depth + 1)
        return torch.ones(1) * depth

    calls = trees(binary)
    return visit, calls, calls


@program(max_graphs=2)
def a_dict_of_dicts():
    def visit(t):
        return visit(t["l"]) + visit(t["r"]) if "l" in t else t["v"] * 2

    def make(depth, source):
        if depth == 0 or source.random() < 0.3:
            return {"v": torch.full((2,), float(source.randrange(5)))}
        return {"l": make(depth - 1, source), "r": make(depth - 1, source)}

    return visit, trees(make)


@program(max_graphs=2)
def depth_as_an_argument():
    def visit(t, depth=0):
        if isinstance(t, torch.Tensor):
            return t * depth
        return sum(visit(x, depth + 1) for x in t)

    def make(depth, source):
        if depth == 0 or source.random() < 0.3:
            return torch.ones(2)
        return [make(depth - 1, source) for _ in range(source.randrange(1, 4))]

    return visit, trees(make)


@dataclass
class Expr:
    op: str
    args: Any = ()
    value: float = 0.0


@program(max_graphs=3)
def an_expression_evaluator():
    def evaluate(e, x):
        if e.op == "x":
            return x
        if e.op == "const":
            return torch.full_like(x, e.value)
        left = evaluate(e.args[0], x)
        if e.op == "neg":
            return -left
        right = evaluate(e.args[1], x)
        return left + right if e.op == "add" else left * right

    def make(depth, source):
        leaves, inner = ["x", "const"], ["neg", "add", "mul"]
        kind = source.choice(inner if depth > 2 else leaves + inner if depth else leaves)
        count = {"neg": 1, "add": 2, "mul": 2}.get(kind, 0)
        return Expr(kind, [make(depth - 1, source) for _ in range(count)], float(source.randrange(5)))

    source = random.Random(4)
    return evaluate, [(make(4, source), torch.arange(3.0)) for _ in range(12)]


@program(max_graphs=3)
def random_numbers_in_the_recursion():
    def visit(t):
        if t.left is None:
            return torch.rand(2)
        return visit(t.left) + nn.functional.dropout(visit(t.right), 0.5)

    return visit, trees(binary)


@program()
def an_error_deep_inside():
    def visit(t):
        if t.left is None:
            return torch.ones(2) / t.value if t.value else torch.ones(3)
        return visit(t.left) + visit(t.right)

    return visit, trees(binary, count=10)


@program(max_graphs=2)
def slots_and_namespaces():
    class Slotted:
        __slots__ = ("left", "value")

        def __init__(self, value, left=None):
            self.value, self.left = value, left

    def visit(t):
        return t.value if t.left is None else t.value + visit(t.left) * 2

    def chain(make, n):
        t = None
        for i in range(n):
            t = make(torch.full((2,), float(i)), t)
        return t

    calls = [(chain(Slotted, n),) for n in (2, 3, 1, 4)]
    return visit, calls + [(chain(lambda v, t: SimpleNamespace(value=v, left=t), n),) for n in (3, 2, 4)]
