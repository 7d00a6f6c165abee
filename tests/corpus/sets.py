"""Sets: of what was seen, of what is left, made in a call or carried from call to call."""

import random

import torch

from . import program
from .containers import word_lists
from .worklists import Model, Node, particular, trees

X = torch.arange(3.0)


class Visited(Model):
    def forward(self, root):
        seen, stack, total = {root}, [root, root], torch.zeros(3)
        while stack:
            node = stack.pop()
            total = torch.tanh(self.mix(total) + self.embedding.weight[node.kind])
            for child in node.children:
                if child not in seen:
                    seen.add(child)
                    stack.append(child)
        return total, len(seen)


class VisitedDeeply(Model):
    def visit(self, node, seen):
        if node in seen:
            return torch.zeros(3)
        seen.add(node)
        total = self.embedding.weight[node.kind]
        for child in node.children:
            total = total + torch.tanh(self.mix(self.visit(child, seen)))
        return total

    def forward(self, root):
        seen = set()
        return self.visit(root, seen), len(seen)


@program(max_graphs=2)
def set_of_nodes_that_were_seen():
    return Visited(), trees()


@program(max_graphs=2)
def set_that_a_recursion_fills():
    return VisitedDeeply(), trees()


@program(graph=False)
def set_of_nodes_that_decide_what_they_are_equal_to():
    model, Particular = Visited(), particular()

    def count(root):
        before = Particular.asked
        result = model(root)
        return result, Particular.asked - before

    return count, trees(10, Particular)


@program(max_graphs=2)
def words_that_were_seen():
    class Once(Model):
        def forward(self, words):
            seen, total = set(), torch.zeros(3)
            for word in words:
                if word in seen:
                    continue
                seen.add(word)
                total = torch.tanh(self.mix(total) + self.embedding.weight[word])
            return total, seen

    return Once(), word_lists()


@program(max_graphs=3)
def operations_on_sets():
    def combine(words, x):
        kinds = {word % 3 for word in words}
        odd = set(words) - {2, 4}
        for word in sorted(kinds | odd):
            x = torch.tanh(x * word + 1)
        if kinds & odd:
            x = x + 1
        odd |= {7}
        odd.discard(words[0])
        odd.update(word + 1 for word in words)
        return x, len(odd), odd.issubset(kinds), odd.union(words, [3])

    return combine, [(words, X) for (words,) in word_lists()]


@program()
def members_come_in_the_order_of_eager():
    def run(x, n):
        fixed = {1, 2, 3, 16, 17, 33}
        varying = {n, n + 16, n + 33, 1, 5, 64}
        order = [
            *fixed,
            *varying,
            *{17, n},
            *(fixed | varying),
            *set(range(60, 70)),
            *{k * 16 for k in (5, 3, 1, 2, 4)},
        ]
        for k in fixed:
            x = torch.tanh(x * k)
        varying -= {5}
        varying ^= {n, 99}
        return x, order, list(varying), fixed.pop()

    return run, [(X, n) for n in (3, 4, 3, 17, 33, 0)]


@program()
def stars_in_a_display():
    def run(words, x):
        found = {*words, 40, *{33, 1, 17, 64, 8}}
        return torch.relu(x) + len(found), list(found)

    return run, [(words, X) for (words,) in word_lists(8, kinds=99)]


@program(max_graphs=3)
def set_that_is_kept():
    class Once(Model):
        def __init__(self):
            super().__init__()
            self.seen = set()

        def forward(self, key, x):
            if key in self.seen:
                return torch.relu(self.mix(x))
            self.seen.add(key)
            return torch.tanh(self.mix(x)) * len(self.seen)

    source = random.Random(0)
    return Once(), [(source.randrange(9), X * i) for i in range(14)]


@program()
def members_that_have_no_hash():
    def collect(values, x):
        seen = set()
        for value in values:
            x = torch.tanh(x + 1)
            seen.add(value)
        return x, len(seen)

    return collect, [([1, 2], X), ([1, 1, 3], X), ([2], X), ([1, [2]], X), ([(1, 2), 3], X), ([(1, [2])], X), ([4], X)]


@program(max_graphs=3)
def members_of_several_types():
    def collect(values, x):
        seen, nodes = set(values), set()
        for value in values:
            nodes.add(type(value))
            x = torch.tanh(x + len(seen))
        return x, len(nodes)

    node, tensor = Node(1), torch.ones(2)
    lists = ([1, 2], ["a", 1.5], [None, True], [node, node, (1, "b")], [tensor, tensor], [2, 3, 3])
    return collect, [(values, X) for values in lists]


@program()
def a_set_from_outside_gives_a_member_before_an_error():
    """What a set gives next goes on from where it was: also where the statement behind is an error of the program's."""

    def run(x, members, at):
        y = torch.tanh(x) * 2
        first = members.pop()
        return y[at] + first

    return run, [(X, {1, 2, 3}, at) for at in (0, 1, 2, 7, 1, 9, 0)]


@program()
def members_are_in_the_same_order_after_an_error():
    members = {int(k) for k in "9 3 27 81 17 1 33 65 5".split()}

    def run(x, new, at):
        y = torch.tanh(x) * 2
        members.add(new)
        y = y[at] + 1
        for k in members:
            y = torch.tanh(y * k)
        return y, list(members)

    return (
        run,
        [(X, new, at) for new, at in ((2, 0), (2, 1), (4, 7), (4, 1), (6, 9), (97, 0), (97, 5), (98, 1))],
        members,
    )
