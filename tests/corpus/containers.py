"""Deques, counters and dictionaries of other kinds: made in a call, carried from call to call, in loops."""

import collections
import random
from collections import Counter, OrderedDict, defaultdict, deque

import torch
from torch import nn

from . import program
from .worklists import Model, trees

X = torch.arange(3.0)


def word_lists(count=14, seed=0, kinds=9):
    source = random.Random(seed)
    return [([source.randrange(kinds) for _ in range(1 + source.randrange(9))],) for _ in range(count)]


def with_steps(make, count=12):
    return make, [(X * i,) for i in range(count)]


class Breadth(Model):
    def forward(self, root):
        total, queue = torch.zeros(3), deque([root])
        while queue:
            node = queue.popleft()
            total = torch.tanh(self.mix(total) + self.embedding.weight[node.kind])
            queue.extend(node.children)
        return total


class BreadthByLevel(Model):
    def forward(self, root):
        queue, outputs = collections.deque([(root, 0)]), []
        while len(queue) > 0:
            for _ in range(len(queue)):
                node, depth = queue.popleft()
                outputs.append(self.embedding.weight[node.kind] * depth)
                queue.extend((child, depth + 1) for child in node.children)
        return torch.stack(outputs).sum(0)


@program(max_graphs=2)
def deque_as_a_queue():
    return Breadth(), trees()


@program(max_graphs=2)
def deque_that_is_filled_by_generators():
    return BreadthByLevel(), trees()


class Replay(nn.Module):
    """The last few inputs, each of them looked at."""

    def __init__(self, size=5):
        super().__init__()
        self.mix, self.buffer = nn.Linear(3, 3), deque(maxlen=size)

    def forward(self, x):
        self.buffer.append(x.detach())
        total = torch.zeros(3)
        for held in self.buffer:
            total = torch.tanh(total + self.mix(held))
        if len(self.buffer) > 3:
            total = total + self.buffer[0] - self.buffer[-1]
        return total, len(self.buffer), self.buffer.maxlen


class Window(Replay):
    def forward(self, x):
        self.buffer.append(x.detach())
        while len(self.buffer) > 3:
            self.buffer.popleft()
        return self.mix(torch.stack(tuple(self.buffer))).sum(0)


class Sampled(Replay):
    def forward(self, x):
        self.buffer.append((x, len(self.buffer) * 0.5))
        if len(self.buffer) < 4:
            return torch.zeros(3)
        batch = random.sample(self.buffer, 3)
        states = torch.stack([state for state, _ in batch])
        rewards = torch.tensor([reward for _, reward in batch])
        return (self.mix(states) * rewards[:, None]).sum(0)


class BothEnds(Replay):
    def forward(self, x):
        self.buffer.appendleft(x)
        if len(self.buffer) > 2:
            self.buffer.rotate(1)
        if len(self.buffer) > 4:
            last, first = self.buffer.pop(), self.buffer.popleft()
            self.buffer.extendleft([last, first * 2])
        return torch.stack(list(reversed(self.buffer))).cumsum(0)


@program(max_graphs=2)
def deque_that_is_kept():
    return with_steps(Replay())


@program(max_graphs=2)
def deque_that_is_cut():
    return with_steps(Window(None))


@program(max_graphs=3)
def deque_that_is_sampled():
    return with_steps(Sampled(6))


@program(max_graphs=3)
def deque_with_two_ends():
    return with_steps(BothEnds(None))


@program()
def deque_that_two_names_mean():
    class Pair(Replay):
        def forward(self, x):
            self.buffer.append(x)
            self.other.append(x * 2)
            return torch.stack(list(self.buffer)).sum(0), len(self.other)

    model = Pair(8)
    model.other = model.buffer

    def part(forward):
        model.other = deque(model.buffer)
        return forward(X)

    return model, [(X,), (X * 2,), (X * 3,), (X * 4,), part, (X * 5,), (X * 6,)]


@program()
def deque_that_runs_empty():
    def take(queue, x):
        total = x
        for _ in range(3):
            total = torch.tanh(total + queue.popleft())
        return total

    return take, [(deque([X] * n), X) for n in (3, 4, 3, 5, 2, 3, 0, 4)]


@program()
def deque_that_changes_while_it_is_read():
    def read(queue, x, grows):
        for item in queue:
            x = torch.tanh(x + item)
            if grows:
                queue.append(item)
        return x

    return read, [(deque([X, X * 2]), X, n == 4) for n in range(8)]


@program(max_graphs=2)
def sliding_window():
    def smooth(values):
        window, result = deque(maxlen=3), []
        for value in values:
            window.append(value)
            result.append(torch.stack(list(window)).mean(0) + sum(window) + max(len(window), 2))
        return torch.stack(result)

    return smooth, [([X * i for i in range(n)],) for n in (3, 1, 4, 2, 6, 5, 3, 7)]


@program()
def search_in_a_deque():
    def search(queue, key, x):
        if key in queue:
            queue.remove(key)
            x = x * 2
        queue += [key, key + 1]
        return torch.relu(x), queue.count(key), queue

    return search, [(deque(range(n)), n // 2 + n % 3, X - 1) for n in range(10)]


# ---- counters and dictionaries


@program(max_graphs=2)
def counts_in_a_loop():
    class Counts(Model):
        def forward(self, words):
            counts, total = Counter(), torch.zeros(3)
            for word in words:
                counts[word] += 1
                total = torch.tanh(self.mix(total) + self.embedding.weight[word] * counts[word])
            return total, counts

    return Counts(), word_lists()


@program(max_graphs=2)
def counts_of_a_list():
    def rate(words, x):
        counts = Counter(words)
        counts.update(words[:2])
        for word, count in counts.most_common(2):
            x = torch.tanh(x * word) + count
        for word, count in counts.items():
            x = x + word * count
        return x, len(counts), counts

    return rate, [(words, X) for (words,) in word_lists()]


@program(max_graphs=2)
def groups_in_a_defaultdict():
    class Groups(Model):
        def forward(self, words):
            groups, total = defaultdict(list), torch.zeros(3)
            for word in words:
                groups[word % 3].append(self.embedding.weight[word])
            for key, group in groups.items():
                total = torch.tanh(self.mix(total) + torch.stack(group).sum(0) * key)
            return total

    return Groups(), word_lists()


@program(max_graphs=2)
def groups_in_a_dict():
    class Groups(Model):
        def forward(self, words):
            groups, total = {}, torch.zeros(3)
            for word in words:
                groups.setdefault(word % 3, []).append(self.embedding.weight[word])
            for group in groups.values():
                total = torch.tanh(self.mix(total) + torch.stack(group).sum(0))
            return total

    return Groups(), word_lists()


@program(max_graphs=2)
def groups_in_a_list():
    class Groups(Model):
        def forward(self, words):
            groups, total = [[] for _ in range(3)], torch.zeros(3)
            for word in words:
                groups[word % 3].append(self.embedding.weight[word])
            for group in groups:
                if group:
                    total = torch.tanh(self.mix(total) + torch.stack(group).sum(0))
            return total

    return Groups(), word_lists()


@program()
def lists_in_a_list_one_of_them_read_by_path():
    def spread(tables, words, x):
        for word in words:
            tables[word % len(tables)].append(word)
            x = torch.tanh(x + word)
        return x, len(words), tables

    def shared(count):
        words = list(range(count))
        return [[], words][:1] + [words.copy()], words

    calls = [(*shared(n), X) for n in (2, 3, 4, 5, 3)]
    words = [1, 2]
    return spread, [*calls, ([[], words], list(words), X), ([[], [3]], [2, 5], X), ([[0], words], words[:], X)]


@program(max_graphs=2)
def counters_and_defaults_that_are_kept():
    class Statistics(Model):
        def __init__(self):
            super().__init__()
            self.values, self.counts = defaultdict(list), Counter()

        def forward(self, key, x):
            self.values[key].append(torch.tanh(self.mix(x)).detach())
            self.counts[key] += 1
            return torch.stack(self.values[key]).mean(0) * self.counts[key]

    source = random.Random(0)
    return Statistics(), [(source.randrange(4), X * i) for i in range(14)]


@program(graph=False)
def defaultdict_that_holds_what_was_given():
    def collect(given, words, x):
        groups = defaultdict(list)
        groups[1] = given
        for word in words:
            groups[word % 3].append(word)
            x = torch.tanh(x * word)
        return x, dict(groups)

    return collect, [([], words, X) for (words,) in word_lists(8)]


@program(graph=False)
def defaultdict_that_calls_the_program():
    made = []

    def zeros():
        made.append(1)
        return torch.zeros(3)

    def collect(words, x):
        totals = defaultdict(zeros)
        for word in words:
            totals[word % 3] = totals[word % 3] + x * word
        return torch.stack(list(totals.values())).sum(0), len(made)

    return collect, [(words, X) for (words,) in word_lists(8)]


class Recent(Model):
    """A cache that forgets what was not used for longest."""

    def __init__(self):
        super().__init__()
        self.cache = OrderedDict()

    def forward(self, key, x):
        if key in self.cache:
            self.cache.move_to_end(key)
            return self.cache[key] + x
        result = torch.tanh(self.mix(x)).detach()
        self.cache[key] = result
        if len(self.cache) > 3:
            self.cache.popitem(last=False)
        return result


@program(max_graphs=3)
def cache_of_recent_results():
    source = random.Random(0)
    return Recent(), [(source.randrange(5), X * i) for i in range(16)]


@program(max_graphs=3)
def items_that_are_deleted():
    def latest(words, x):
        held = {}
        for i, word in enumerate(words):
            held[word] = x * i
            if len(held) > 3:
                del held[min(held)]
        values = list(held.values())
        del values[0]
        for value in values:
            x = torch.tanh(x + value)
        return x

    return latest, [(words, X) for (words,) in word_lists()]


@program()
def items_that_are_deleted_from_what_is_kept():
    def drop(table, key, x):
        y = torch.relu(x) * len(table)
        del table[key]
        return y + len(table)

    return drop, [({i: i for i in range(n)}, n // 2, X) for n in (1, 3, 4, 0, 5)] + [({True: 1, 2: 3}, 1, X)]
