"""Lists that are built, sorted and chosen from while the call runs: hypotheses, boxes, candidates."""

import operator

import torch

from . import program

ROWS = [(torch.randn(n, generator=torch.Generator().manual_seed(n)),) for n in (4, 4, 3, 5, 4, 2, 6, 1)]


@program(max_graphs=2)
def beams():
    weight = torch.randn(5, 5)

    def f(x, steps):
        hypotheses = [(0.0, [0], x)]
        done = []
        for _ in range(steps):
            candidates = []
            for score, words, state in hypotheses:
                state = torch.tanh(weight @ state + words[-1])
                values, indices = state.topk(2)
                for value, index in zip(values.tolist(), indices.tolist()):
                    candidates.append((score + value, words + [index], state))
            candidates.sort(key=lambda c: -c[0])
            hypotheses = []
            for candidate in candidates[:2]:
                (done if candidate[1][-1] == 1 else hypotheses).append(candidate)
            if not hypotheses:
                break
        best = max(done + hypotheses, key=lambda c: c[0] / len(c[1]))
        return best[1], best[0], best[2]

    return f, [(torch.randn(5), n) for n in (3, 4, 2, 5, 1, 3)]


@program()
def ties_and_directions():
    def f(x):
        pairs = []
        for i, value in enumerate(x.round().tolist()):
            pairs.append((value, i))
        down = sorted(pairs, key=lambda p: p[0], reverse=True)
        pairs.sort(key=lambda p: p[0])
        first, last = min(pairs, key=lambda p: p[0]), max(pairs, key=lambda p: p[0])
        return pairs, down, first, last, sorted(pairs), x * 2

    return f, ROWS


@program()
def sorted_by_tensors():
    def f(x):
        rows = []
        for value in x:
            rows.append((value * value, value))
        rows.sort(key=lambda r: r[0])
        best = max(rows, key=lambda r: r[1])
        return torch.stack([value for _, value in rows]), best[0]

    return f, ROWS


@program(graph=False)
def objects_that_order_themselves():
    class Version:
        asked = 0

        def __init__(self, number):
            self.number = number

        def __lt__(self, other):
            Version.asked += 1
            return self.number < other.number

    def f(x, versions):
        versions = sorted(versions, key=lambda v: v)
        low = min(versions, key=lambda v: v)
        return x * low.number, [v.number for v in versions], Version.asked

    numbers = (3, 1, 2), (1, 2), (5, 4), (2,), (9, 7, 8)
    return f, [(torch.ones(2), [Version(n) for n in some]) for some in numbers], Version


@program()
def keys_with_effects():
    log = []

    def f(x, limit):
        found = []
        for i in range(limit):
            found.append((x * i).sum().item())

        def key(v):
            log.append(v)
            return -v

        found.sort(key=key)
        return found, x + 1

    return f, [(torch.ones(2), n) for n in (3, 4, 3, 2, 5, 0)], log


@program()
def key_that_looks_at_its_list():
    def f(x):
        found = []
        for v in x.tolist():
            found.append(v)
        found.sort(key=lambda v: (len(found), v))
        return found, x * 2

    return f, ROWS


@program()
def nothing_to_choose_from():
    def f(x):
        found = []
        for v in x.tolist():
            if v > 0:
                found.append((v, "seen"))
        best = max(found, key=lambda p: p[0])
        return best, x * best[0]

    return f, [
        (torch.tensor(v),) for v in ([1.0, 2.0], [3.0], [2.0, 5.0, 1.0], [-1.0], [float("nan"), 1.0], [4.0, -1.0])
    ]


@program()
def items_change_their_type():
    def f(x, n):
        found = []
        for i in range(n):
            found.append(i if i < 4 else x * i)
        total = 0
        for item in found:
            total = total + item
        last = found[-1]
        return total, last, x + 1

    return f, [(torch.ones(2), n) for n in (3, 2, 4, 3, 6, 2, 5, 7, 1, 6)]


@program()
def lists_joined():
    def f(x, n):
        left = [x]
        for i in range(n):
            left = left + [x * i]
        pair = (left, [x] * n)
        a, b = pair
        c = a + b
        return torch.stack(c).sum(0), len(c), c is a

    return f, [(torch.ones(2), n) for n in (2, 3, 2, 1, 4, 0, 5)]


@program()
def sorted_with_functions_of_others():
    def f(x, names):
        by_length = sorted(names, key=len)
        pairs = [(len(n), n) for n in names]
        pairs.sort(key=operator.itemgetter(0))
        return x * len(by_length[-1]), by_length, pairs

    return f, [(torch.ones(2), names) for names in (["ab", "c"], ["a", "bcd"], ["xx", "yy", "z"], [""], ["q", "rr"])]


@program()
def list_of_before_sorted():
    def f(x, scores):
        scores.append(x.sum().item())
        scores.sort(reverse=True)
        return x * scores[0], len(scores)

    scores = [0.5]
    return f, [(torch.ones(n), scores) for n in (1, 2, 3, 2, 5, 1)], scores
