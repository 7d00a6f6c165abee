"""Recursion over trees of many classes, batches of trees, and functions that are found to be recursive late."""

import ast
import random

import torch
from torch import nn

from . import program


class Expr:
    pass


class Leaf(Expr):
    def __init__(self, value):
        self.value = value


class Minus(Expr):
    def __init__(self, inner):
        self.inner = inner


class Sum(Expr):
    def __init__(self, terms, label=""):
        self.terms, self.label = terms, label


class Weighted(Sum):
    """Where a Sum is asked for, this will do too."""


def grow(source, depth, classes=(Leaf, Minus, Sum)):
    cls = Leaf if depth == 0 else source.choice(classes)
    if cls is Leaf:
        return Leaf(float(source.randrange(4)))
    if cls is Minus:
        return Minus(grow(source, depth - 1, classes))
    return cls([grow(source, depth - 1, classes) for _ in range(source.randrange(3))], "abc"[: source.randrange(3)])


def forest(*classes, count=6, depth=3):
    source = random.Random(1)
    return [grow(source, depth, classes or (Leaf, Minus, Sum)) for _ in range(count)]


class Evaluator(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.join = nn.Parameter(torch.ones(2)), nn.Linear(2, 2)

    def value(self, node):
        if isinstance(node, Leaf):
            return self.scale * node.value
        if isinstance(node, Minus):
            return -self.value(node.inner)
        total = torch.zeros(2) + len(node.label)
        for term in node.terms:
            total = torch.tanh(self.join(total + self.value(term)))
        return total

    def forward(self, node):
        return self.value(node).sum()


@program(max_graphs=2)
def classes_of_nodes():
    return Evaluator(), [(t,) for t in forest()]


@program(max_graphs=3)
def a_class_below_the_one_that_is_asked_for():
    def value(node):
        if isinstance(node, Sum):
            total = torch.ones(2) * (3 if isinstance(node, Weighted) else 2)
            for term in node.terms:
                total = total + value(term)
            return total / (1 + len(node.label))
        return torch.ones(2) * node.value if isinstance(node, Leaf) else value(node.inner).neg()

    return value, [(t,) for t in [*forest(count=3), *forest(Leaf, Minus, Sum, Weighted, count=4)]]


@program()
def a_root_that_is_asked_about_itself():
    def depth(node):
        inner = [node.inner] if isinstance(node, Minus) else node.terms if isinstance(node, Sum) else []
        deepest = torch.zeros(2)
        for each in inner:
            deepest = torch.maximum(deepest, depth(each))
        return deepest + 1

    def labelled(node):
        return depth(node) * (len(node.label) + 2 if isinstance(node, Sum) else 1)

    return labelled, [(t,) for t in forest()]


@program(max_graphs=3)
def a_batch_of_trees():
    model = Evaluator()

    def total(trees, weights):
        return torch.stack([model(t) for t in trees]) * torch.tensor(weights)

    trees = forest(count=20)
    batches = [trees[i : i + n] for i, n in enumerate((1, 3, 2, 4, 1))]
    return total, [(b, [0.5 * len(b)] * len(b)) for b in batches], model


@program(max_graphs=3)
def trees_with_their_numbers():
    def value(node):
        return torch.ones(2) * node.value if isinstance(node, Leaf) else value(node.inner) - 1

    def total(trees, weights):
        result = torch.zeros(2)
        for number, tree in enumerate(trees):
            result = result + value(tree) * number
        for tree, weight in zip(trees, weights):
            result = result + value(tree) * weight
        return result

    trees = forest(Leaf, Minus, count=20)
    return total, [(trees[i : i + n], [1.5, 2.5, 3.5, 4.5][:n]) for i, n in enumerate((2, 3, 0, 3))]


@program(max_graphs=3)
def children_that_have_none_at_first():
    def total(node):
        parts = [total(t) for t in node.terms]
        return torch.tanh(sum(parts, torch.ones(2) * len(node.label)))

    leaf = Sum([], "a")
    flat, deep = Sum([leaf, Sum([])], "b"), Sum([Sum([leaf, leaf]), Sum([Sum([leaf], "c")])], "d")
    return total, [(t,) for t in (leaf, leaf, leaf, flat, deep, leaf, flat, deep)]


@program()
def a_branch_that_comes_late():
    def value(node):
        if isinstance(node, Leaf):
            return torch.ones(2) * node.value
        if isinstance(node, Minus):
            return value(node.inner) * -1
        return torch.stack([value(t) for t in node.terms]).sum(0) if node.terms else torch.zeros(2)

    return value, [(t,) for t in [*forest(Leaf, Minus, count=3), *forest(count=4)]]


class Odd(Leaf):
    def __init__(self, value):
        super().__init__(value)
        self.calls = 0

    def __getattr__(self, name):
        self.__dict__["calls"] += 1
        return Minus(Leaf(2.0)) if name == "inner" else 0.0


@program(graph=False)
def a_node_that_makes_up_its_parts():
    """A class whose attributes are code is not read in a graph."""

    def value(node):
        if isinstance(node, Odd):
            return value(node.inner) + node.calls
        return torch.ones(2) * node.value if isinstance(node, Leaf) else value(node.inner) * -1

    made = [t for tree in forest(Leaf, Minus, count=3) for t in (tree, Minus(Odd(1.0)), Odd(0.5))]
    return value, [(t,) for t in made], made


class Syntax(nn.Module):
    def __init__(self):
        super().__init__()
        self.names, self.call = nn.Embedding(7, 2), nn.Linear(4, 2)

    def value(self, node):
        if isinstance(node, ast.Name):
            return self.names.weight[len(node.id) % 7]
        if isinstance(node, ast.Call):
            result = self.value(node.func)
            for argument in node.args:
                result = self.call(torch.cat([result, self.value(argument)]))
            return result
        if isinstance(node, ast.Constant):
            return torch.full((2,), float(node.value))
        return torch.relu(self.value(node.left) - self.value(node.right))

    def forward(self, node):
        return self.value(node)


@program(max_graphs=3)
def syntax_trees():
    texts = "f(x, 2)", "ab - 1", "f(g(a - 1), b)", "c", "(a - b)(3) - c", "5", "h(h)(h(1), 2 - a)", "f()"
    return Syntax(), [(ast.parse(text, mode="eval").body,) for text in texts]


class Layered(nn.Module):
    """Not a recursion: the method of each layer calls that of the one it holds."""

    def __init__(self, depth):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.inner = Layered(depth - 1) if depth else None

    def forward(self, x):
        y = torch.tanh(self.linear(x))
        return y if self.inner is None else self.inner.forward(y) + x


@program(max_graphs=1)
def layers_in_layers():
    return Layered(3), [(torch.randn(2, 2),) for _ in range(4)]


@program(max_graphs=2)
def two_that_call_each_other_late():
    def node(t):
        return t * 2 if isinstance(t, torch.Tensor) else items(t)

    def items(ts):
        total = torch.zeros(2)
        for t in ts:
            total = total * 0.5 + node(t)
        return total

    a, b = torch.ones(2), torch.arange(2.0)
    return node, [(t,) for t in (a, a, (a, b), ((a, b), a), b, ((a, (b, b, (a,))), ()), (a, (b,)))]
