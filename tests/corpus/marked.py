"""Objects from before a call whose attributes are set in loops and recursions: states of nodes, marks, counts."""

import random

import torch

from . import program
from .worklists import Model, grow, trees

X = torch.arange(3.0)


class Item:
    def __init__(self, value, score=0.0):
        self.value, self.score, self.seen = value, score, 0


class Slotted:
    __slots__ = ("count", "value")

    def __init__(self, value):
        self.value, self.count = value, 0


class Watched:
    log: list = []

    def __init__(self, value):
        object.__setattr__(self, "value", value)

    def __setattr__(self, name, value):
        self.log.append(name)
        object.__setattr__(self, name, value)


def item_lists(count=12, cls=Item):
    return [([cls(X * i - j) for j in range(1 + i % 5)], X) for i in range(count)]


@program(max_graphs=2)
def states_of_the_nodes_of_a_tree():
    class Encoder(Model):
        def visit(self, node):
            total = self.embedding.weight[node.kind]
            for child in node.children:
                self.visit(child)
                total = total + torch.tanh(self.mix(child.state))
            node.state = total

        def forward(self, node):
            self.visit(node)
            return node.state

    return Encoder(), trees()


@program(max_graphs=3)
def attributes_of_items_in_a_loop():
    def run(items, x):
        for item in items:
            item.value = torch.tanh(item.value + x)
            item.score += 1.0
        return sum(item.score for item in items), items

    return run, item_lists()


@program()
def attributes_of_items_of_any_number():
    def run(items, x):
        order = list(items)
        while order:
            item = order.pop()
            item.seen = item.seen + 1
            item.value = torch.relu(item.value * item.seen + x)
            if len(order) > 2:
                order.pop()
        return x * len(items), items

    return run, item_lists()


@program()
def slots_that_are_set():
    def run(items, x):
        for item in items:
            item.value = torch.tanh(item.value + x) * item.count
            item.count = item.count + 1
        return x + 1, [(item.value, item.count) for item in items]

    return run, item_lists(10, Slotted)


@program()
def one_item_that_is_also_read_by_name():
    class Scorer(Model):
        def forward(self, items, x):
            start = self.best.score
            for item in items:
                item.score = item.score + 1
                x = torch.tanh(x + item.score)
            return x * start + self.best.score

    model = Scorer()
    model.best = Item(X, 2.0)
    calls = [(items, X) for items, _ in item_lists(8)]
    return model, [*calls[:5], ([model.best, Item(X)], X), *calls[5:], ([model.best], X), calls[0]]


@program()
def nodes_that_are_marked_as_visited():
    class Walker(Model):
        def forward(self, root, mark):
            stack, total = [root], torch.zeros(3)
            while stack:
                node = stack.pop()
                node.mark = mark
                total = torch.tanh(self.mix(total) + self.embedding.weight[node.kind])
                for child in node.children:
                    if getattr(child, "mark", None) != mark:
                        stack.append(child)
            return total

    source = random.Random(0)
    return Walker(), [(grow(source, 3), i) for i in range(10)]


@program()
def nodes_whose_kind_changes():
    class Walker(Model):
        def forward(self, root):
            stack, total = [root], torch.zeros(3)
            while stack:
                node = stack.pop()
                node.kind = (node.kind + 1) % 5
                total = torch.tanh(self.mix(total) + self.embedding.weight[node.kind])
                stack.extend(node.children)
            return total, root.kind

    source = random.Random(0)
    roots = [grow(source, 3) for _ in range(4)]
    return Walker(), [(roots[i % 4],) for i in range(12)], [vars(root) for root in roots]


@program()
def attributes_that_are_watched():
    def run(items, x):
        for item in items:
            item.value = torch.tanh(item.value + x)
        return x + 1, list(Watched.log)

    Watched.log.clear()
    return run, item_lists(8, Watched)


@program()
def an_error_after_some_were_set():
    def run(items, x, bad):
        for i, item in enumerate(items):
            item.score = item.score + 1
            x = torch.tanh(x + item.score)
            if i == bad:
                x = x + torch.ones(7)
        return x

    items = [Item(X) for _ in range(4)]
    return run, [(items, X, 9 if i % 4 else i // 4) for i in range(1, 13)], items
