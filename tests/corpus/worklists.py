"""Trees, chains and graphs of user objects that are gone through by loops: stacks, queues, levels, links."""

import random
from typing import NamedTuple

import torch
from torch import nn

from . import program

X = torch.arange(3.0)


class Node:
    def __init__(self, kind, *children):
        self.kind, self.children = kind, list(children)


class Link:
    def __init__(self, value, rest=None):
        self.value, self.rest = value, rest


class Fork:
    def __init__(self, number, left=None, right=None):
        self.number, self.left, self.right = number, left, right


def particular():
    """A class of nodes that decide what they are equal to, and count how often they are asked."""

    class Particular(Node):
        asked = 0

        def __hash__(self):
            Particular.asked += 1
            return self.kind

        def __eq__(self, other):
            Particular.asked += 1
            return self is other

    return Particular


def grow(source, depth, cls=Node):
    children = source.randrange(4) if depth else 0
    return cls(source.randrange(5), *(grow(source, depth - 1, cls) for _ in range(children)))


def chain(source):
    first = None
    for _ in range(source.randrange(1, 9)):
        first = Link(torch.full((3,), source.random()), first)
    return first


def fork(source, depth, numbers):
    if not depth or source.random() < 0.3:
        return Fork(next(numbers))
    return Fork(next(numbers), fork(source, depth - 1, numbers), fork(source, depth - 1, numbers))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.mix = nn.Embedding(40, 3), nn.Linear(3, 3)


class DepthFirst(Model):
    def forward(self, root):
        total, stack, count = torch.zeros(3), [root], 0
        while stack:
            node = stack.pop()
            count += 1
            total = torch.tanh(self.mix(total) + self.embedding.weight[node.kind])
            for child in node.children:
                stack.append(child)
        return total, count


class BreadthFirst(Model):
    def forward(self, root):
        outputs, queue = [], [root]
        while queue:
            node = queue.pop(0)
            outputs.append(self.mix(self.embedding.weight[node.kind]) * len(node.children))
            queue.extend(node.children)
        return torch.stack(outputs).sum(0)


class ByIndex(Model):
    def forward(self, root):
        order, at, total = [root], 0, torch.zeros(3)
        while at < len(order):
            node = order[at]
            at += 1
            total = torch.relu(self.mix(total) + self.embedding.weight[node.kind])
            order += node.children
        return total, len(order)


class Levels(Model):
    def forward(self, root):
        level, total = [root], torch.zeros(3)
        while level:
            total = self.mix(total) + sum(self.embedding.weight[node.kind] for node in level)
            level = [child for node in level for child in node.children]
        return total


class Links(Model):
    def forward(self, link):
        state = torch.zeros(3)
        while link is not None:
            state = torch.tanh(self.mix(state) + link.value)
            link = link.rest
        return state


class Upwards(Model):
    """Results by node, from the leaves to the root."""

    def order(self, root):
        order, stack = [], [root]
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(node.children)
        return order

    def forward(self, root):
        done = {}
        for node in reversed(self.order(root)):
            state = self.embedding.weight[node.kind]
            for child in node.children:
                state = state + torch.tanh(self.mix(done[child]))
            done[node] = state
        return done[root]


class UpwardsByIdentity(Upwards):
    def forward(self, root):
        done = {}
        for node in reversed(self.order(root)):
            state = self.embedding.weight[node.kind]
            for child in node.children:
                state = state + torch.tanh(self.mix(done[id(child)]))
            done[id(node)] = state
        return done[id(root)]


class TwoVisits(Model):
    """The first visit of a node puts off the second."""

    def forward(self, root):
        done, stack = {}, [(root, False)]
        while stack:
            node, is_second = stack.pop()
            if node.left is None:
                done[node.number] = self.embedding.weight[node.number]
            elif is_second:
                left, right = done[node.left.number], done[node.right.number]
                done[node.number] = torch.tanh(self.mix(left) + right)
            else:
                stack += [(node, True), (node.left, False), (node.right, False)]
        return done[root.number]


def trees(count=14, cls=Node, seed=0):
    source = random.Random(seed)
    return [(grow(source, 3, cls),) for _ in range(count)]


@program(max_graphs=2)
def stack_of_nodes():
    return DepthFirst(), trees()


@program(max_graphs=2)
def queue_of_nodes():
    return BreadthFirst(), trees()


@program(max_graphs=2)
def list_that_grows_while_it_is_read():
    return ByIndex(), trees()


@program(max_graphs=2)
def level_by_level():
    return Levels(), trees()


@program(max_graphs=2)
def linked_lists():
    source = random.Random(1)
    return Links(), [(chain(source),) for _ in range(12)]


@program(max_graphs=2)
def nodes_as_keys():
    return Upwards(), trees()


@program(max_graphs=2)
def identities_as_keys():
    return UpwardsByIdentity(), trees()


@program(graph=False)
def nodes_that_decide_what_they_are_equal_to():
    model, Particular = Upwards(), particular()

    def count(root):
        before = Particular.asked
        result = model(root)
        return result, Particular.asked - before

    return count, trees(10, Particular)


@program()
def nodes_of_several_classes():
    return DepthFirst(), [*trees(5), *trees(5, particular(), seed=3), *trees(4, seed=5)]


@program(max_graphs=3)
def nodes_that_are_visited_twice():
    source, found = random.Random(2), []
    for _ in range(12):
        found.append((fork(source, 3, iter(range(40))),))
    return TwoVisits(), found


@program(max_graphs=2)
def nodes_with_attributes_that_change_type():
    def total(links, scale):
        value = torch.zeros(3)
        for link in links:
            value = value + link.value * scale
        return value

    a, b, c = Link(torch.ones(3)), Link(2.0), Link(torch.arange(3.0))
    return total, [(links, 0.5) for links in ([a], [a, c], [c, a, a], [b, a], [a, b, b], [c], [])]


class Memoised(Model):
    """Nodes that stand in several places are worked out once."""

    def encode(self, fork, memo):
        if fork.number in memo:
            return memo[fork.number]
        if fork.left is None:
            result = self.embedding.weight[fork.number]
        else:
            result = torch.tanh(self.mix(self.encode(fork.left, memo)) + self.encode(fork.right, memo))
        memo[fork.number] = result
        return result

    def forward(self, fork):
        memo = {}
        return self.encode(fork, memo), len(memo)


class MemoisedByIdentity(Memoised):
    def encode(self, fork, memo):
        if id(fork) in memo:
            return memo[id(fork)]
        if fork.left is None:
            result = self.embedding.weight[fork.number]
        else:
            result = torch.tanh(self.mix(self.encode(fork.left, memo)) + self.encode(fork.right, memo))
        memo[id(fork)] = result
        return result


def shared_forks(source):
    """A graph without circles: later nodes hold earlier ones, some of them twice."""
    forks = [Fork(number) for number in range(3)]
    for number in range(3, 4 + source.randrange(8)):
        forks.append(Fork(number, source.choice(forks), source.choice(forks)))
    return forks[-1]


def some_shared_forks():
    source = random.Random(4)
    return [(shared_forks(source),) for _ in range(14)]


@program(max_graphs=3)
def nodes_that_are_shared():
    return Memoised(), some_shared_forks()


@program(max_graphs=3)
def nodes_that_are_shared_by_identity():
    return MemoisedByIdentity(), some_shared_forks()


class Row(NamedTuple):
    factor: int
    value: torch.Tensor


class Slotted:
    __slots__ = ("rest", "value")

    def __init__(self, value, rest):
        self.value, self.rest = value, rest


class Doubled:
    def __init__(self, value):
        self._value = value

    @property
    def value(self):
        return self._value * 2

    def scaled(self, factor):
        return self._value * factor


@program()
def named_tuples_on_a_stack():
    def total(rows):
        result, stack = torch.zeros(3), list(rows)
        while stack:
            row = stack.pop()
            factor, value = row
            result = torch.tanh(result + value) * factor + row.value * row.factor
        return result

    return total, [([Row(i, X * i) for i in range(n)],) for n in (1, 3, 2, 5, 0, 4, 3)]


@program(max_graphs=2)
def slots_that_are_linked():
    def total(slotted):
        result = torch.zeros(3)
        while slotted is not None:
            result = torch.relu(result + slotted.value)
            slotted = slotted.rest
        return result

    def linked(count):
        first = None
        for i in range(count):
            first = Slotted(X * i, first)
        return first

    return total, [(linked(n),) for n in (1, 3, 2, 5, 0, 4, 3, 2, 6)]


@program(max_graphs=2)
def properties_and_methods_on_a_stack():
    def total(objects):
        result, stack = torch.zeros(3), list(objects)
        while stack:
            one = stack.pop()
            result = torch.tanh(result + one.value) + one.scaled(3)
        return result

    return total, [([Doubled(X * i) for i in range(n)],) for n in (1, 3, 2, 5, 0, 4, 3, 2, 6)]
