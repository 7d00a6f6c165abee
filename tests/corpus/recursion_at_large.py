"""Recursive functions and what is around them: closures of one code, names that change, lists that grow."""

import functools
import random

import torch

from . import program
from .recursion import Many, Node, many


@program()
def closures_of_one_code_that_call_each_other():
    functions = {}

    def make(k):
        def visit(t):
            if isinstance(t, torch.Tensor):
                return t * k
            return functions["b"](t[0]) + functions["a"](t[1])

        return visit

    functions["a"], functions["b"] = make(2.0), make(3.0)
    a = torch.tensor([1.0, 2.0])
    return functions["a"], [((a, a),)] * 4 + [(((a, a), a),), ((a, (a, a)),), ((a, a),)], functions


@program()
def decorated_functions_that_call_each_other():
    def plus(n):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(x, k):
                return function(x, k) + n

            return wrapper

        return decorate

    @plus(1)
    def even(x, k):
        return x if k == 0 else odd(x * 2, k - 1)

    @plus(100)
    def odd(x, k):
        return x * 3 if k == 0 else even(x - 1, k - 1)

    return even, [(torch.ones(2), k) for k in (3, 3, 3, 3, 4, 5, 0, 1)]


@program()
def the_name_means_another_closure_later():
    names = {}

    def make(k):
        def visit(t):
            return t * k if isinstance(t, torch.Tensor) else names["visit"](t[0]) + names["visit"](t[1])

        return visit

    def calls(f):
        a = torch.ones(2)
        results = [f((a, (a, a))) for _ in range(4)]
        names["visit"] = make(5)
        return [*results, f((a, (a, a))), f((a, a))]

    names["visit"] = make(1)
    return names["visit"], [calls]


@program(max_graphs=2)
def a_lambda_that_calls_itself():
    power = lambda x, n: x if n == 0 else power(x * 2, n - 1)
    return power, [(torch.ones(2), n) for n in (3, 4, 5, 2, 0)]


@program()
def children_that_notice_being_looked_at():
    seen = []

    class Leaf:
        def __init__(self, value):
            self.value = value

        def __getattribute__(self, name):
            seen.append(name)
            return object.__getattribute__(self, name)

    def visit(t, x):
        if isinstance(t, tuple):
            return visit(t[0], x) + visit(t[1], x)
        return x * 2

    leaf = Leaf(torch.ones(2))
    return visit, [((leaf, (leaf, leaf)), torch.ones(2))] * 5, seen


@program()
def a_list_that_grows_between_its_lengths():
    def f(a, b):
        found = []

        def visit(t):
            found.append(t.value)
            if t.left is not None:
                visit(t.left)
            return len(found)

        visit(a)
        before = len(found)
        visit(b)
        return torch.stack(found).sum(0), before, len(found)

    def chain(n):
        return Node(torch.ones(2), chain(n - 1)) if n else Node(torch.ones(2) * 2)

    return f, [(chain(n), chain(m)) for n, m in ((1, 2), (2, 1), (3, 0), (0, 2), (2, 2))]


@program()
def a_list_of_the_caller_grows():
    def visit(t, found):
        found.append(t.value)
        return visit(t.left, found) + 1 if t.left is not None else torch.ones(2) * len(found)

    def f(t, found, n):
        before = len(found)
        result = visit(t, found if n else [])
        return result * 2, before, len(found)

    def chain(n):
        return Node(torch.ones(2), chain(n - 1)) if n else Node(torch.ones(2) * 2)

    found = []
    return f, [(chain(n), found, 1) for n in (1, 2, 3, 0, 2)] + [(chain(2), found, 0)], found


@program()
def lists_in_the_tree_grow():
    def visit(t):
        t.children.append(t.value)
        return t.value * len(t.children) + sum(visit(c) for c in t.children if isinstance(c, Many))

    trees = [(many(2, random.Random(s)),) for s in (2, 3, 5)]
    return visit, trees * 3, trees


@program()
def an_accumulator_that_may_be_missing():
    def visit(t, found, x):
        if found is None:
            found = []
        out = t[0]
        if not t[1]:
            found.append(out)
        if t[1]:
            if len(t[1]) > 1:
                out = visit(t[1][1], found, x)
        return out * x

    def f(t, found):
        y = visit(t, found, torch.ones(2))
        return y, list(found), len(found)

    a = torch.ones(2)
    leaf = (a, ())
    trees = [(a, (leaf, leaf)), (a, (leaf,)), leaf, (a, ((a, (leaf, leaf)), leaf)), (a, (leaf, (a, (leaf, leaf))))]
    return f, [(t, []) for t in trees * 2]


@program(max_graphs=2)
def a_count_from_far():
    def power(x, n):
        return x if n == 0 else torch.tanh(power(x * 1.01, n - 1)) + n

    return power, [(torch.ones(2), n) for n in (40, 57, 33, 90, 41, 26, 64)]


@program(max_graphs=3)
def batches_whose_trees_start_shallow():
    """A conversion for all comes to nothing where the call at hand has no items to learn from; a later one does."""

    def even(t):
        if not t.children:
            return t.value * (2.0 if t.scale is None else t.scale)
        return torch.tanh(t.value + sum(odd(c) for c in t.children))

    def odd(t):
        if not t.children:
            return t.value / (2.0 if t.scale is None else t.scale)
        result = t.value
        for child in t.children:
            result = result + even(child)
        return result

    def f(trees):
        return torch.stack([even(t) for t in trees])

    def tree(text):  # a bracket for each tree in it, round where there is a scale
        stack = [[]]
        for sign in text:
            if sign in "[(":
                stack.append([])
            else:
                made = Many(torch.ones(3) * len(stack), stack.pop())
                made.scale = 3.0 if sign == ")" else None
                stack[-1].append(made)
        return (stack[0],)

    texts = "[[[][]]][] ()[][] () [[]][] [][][[]()[]] ([]) [][[]] ([[[][][]]][[]([]()[])][])[]() []".split()
    texts += "[()][] [][]() [[[]]] ([()[]()](()[])[[][][]])[[[[]][[][][]]([][])]()] [][[][([][])][[](()[])]]()".split()
    return f, [tree(text) for text in texts]
