"""The order in which operands, keys, texts and defaults are evaluated, and whose variable a name is meanwhile."""

import torch

from . import ones, program

ONE = torch.ones(3)
LOG = []


def note(v):
    LOG.append(v)
    return v


@program()
def keys_before_values():
    LOG.clear()

    def f(x, items):
        y = torch.relu(x)
        table = {note(f"k{i}"): note(i) for i in items}
        display = {note("a"): note(1), note("b"): note(2), note("c"): note(y)}
        table[note("z")] = note(3)
        keys = {note("g"): note(torch.rand(1)) for _ in items}
        return y, table, display, {note(i): note(i * 2) for i in items if note(i) > 1}, keys

    return f, [(ONE, v) for v in ([1, 2], [1, 2], [1, 2], [3], [], [1, 2])], LOG


@program()
def texts_are_made_piece_by_piece():
    def f(x, items):
        y = torch.relu(x)
        text = f"{y} {y.add_(1)} {items} {items.append(1)} {items!r:>20}"
        both = f"{len(items)}{items.pop()} {y.mul_(2).sum().item():.2f} {y}"
        print(y, y.add_(1), sep=f"{y.sum()}")
        return text, both, y

    return f, [(ONE, [5]) for _ in range(5)]


@program()
def arguments_in_order():
    LOG.clear()

    def g(*args, **kwargs):
        return args, kwargs

    def f(x, items):
        y = torch.relu(x)
        a = g(note(1), *note([2]), note(3), k=note(4), **note({"z": 5}), m=note(6))
        b = g(*[note(7)], note(8), *(note(i) for i in (9, 10)))
        c = note(y)[note(0) : note(2) : note(1)]
        items[note(0)] += note(1)
        (items[note(0)], items[note(1)]) = note(3), note(4)
        d = note(1) if note(items[0]) > 5 else note(2)
        return a, b, c, d, items, (lambda v=note(11), *, w=note(12): v + w)(), [note(1), note(2)][note(0)]  # noqa: B008

    return f, [(ONE, [1, 2]) for _ in range(5)] + [(ONE, [9, 9])], LOG


@program()
def operands_that_change_what_was_read():
    state = {"n": 1}

    class Box:
        n = 1

    box = Box()

    def bump(k):
        state["n"] += k
        box.n += k
        return k

    def f(x):
        y = torch.relu(x)
        a = state["n"] + bump(1) + state["n"]
        b = [box.n, bump(2), box.n]
        c = (y, y.add_(1), y.clone(), y.mul_(2), y + 0)
        d = y.sum() + y.zero_().sum() + y.fill_(3).sum()
        e = box.n if bump(1) else None
        state["n"] = state["n"] * bump(1)
        box.n += bump(1) * 10
        return a, b, c, d, e, y

    return f, ones(5), box, state


@program()
def a_comprehension_does_not_show_its_variable():
    i = 7

    def outside(x):
        return x * i

    def f(x, items):
        k = 100

        def inner():
            return x * k

        y = torch.relu(x)
        first = [inner() + k for k in items]
        second = {k: inner() for k in items}
        third = sum(inner() * k for k in items)
        fourth = [outside(x) + i for i in items]
        fifth = [[inner() for k in range(k)] for k in items]
        sixth = any(inner().sum() > k for k in items)
        return y, first, second, third, fourth, fifth, sixth, k

    return f, [(ONE, v) for v in ([1, 2], [1, 2], [1, 2], [3], [], [2, 1])]


@program()
def a_lambda_in_a_condition_of_a_comprehension():
    def f(x, items):
        i = 50
        kept = []
        found = [i for i in items if kept.append(lambda: x * i) is None]  # noqa: B023
        late = [g() for g in kept]
        pairs = [j for i in items for j in (lambda: range(i))() if (lambda v: v < i)(j)]
        return torch.relu(x), found, late, pairs, i

    return f, [(ONE, v) for v in ([1, 2], [1, 2], [1, 2], [3], [], [2, 1])]


@program()
def nested_functions_have_their_own_frames():
    def f(x, n):
        k = n

        def one(k):
            def two():
                nonlocal k
                k += 1
                return k

            two()
            return k + two()

        def three():
            k = 5
            return one(k) + k

        y = torch.relu(x) * one(n) + three()
        z = [one(v) for v in range(n)]
        w = [three() for k in range(n)]
        return y, z, w, k

    return f, [(ONE, n) for n in (2, 2, 2, 3, 0, 2)]


@program()
def defaults_are_made_once_and_shared():
    made = []

    def factory():
        made.append(len(made))
        return []

    def g(x, held=factory(), *, table={}):  # noqa: B006, B008
        held.append(float(x.sum()))
        table[len(held)] = x
        return len(held) + len(table)

    def f(x, local=[]):  # noqa: B006
        local.append(len(local))

        def inner(v, kept=factory()):  # noqa: B008
            kept.append(v)
            return list(kept)

        return torch.relu(x) * g(x) + g(x, []), inner(1), inner(2), len(local)

    return f, ones(5), made, g


@program()
def recursion_through_comprehensions():
    def f(x, tree):
        def total(node):
            return sum(total(v) for v in node) if isinstance(node, list) else node * x

        def depth(node):
            return 1 + max([depth(v) for v in node], default=0) if isinstance(node, list) else 0

        return torch.relu(x) + total(tree), depth(tree), [[v * 2 for v in node if v] for node in tree if node]

    trees = ([[1], [2, 3]], [[1], [2, 3]], [[1], [2, 3]], [[1, 1, 1]], [[]], [[1], [2, 3]])
    return f, [(ONE, t) for t in trees]


@program()
def sets_of_all_kinds():
    known = {1, 2}

    def f(x, items, text):
        y = torch.relu(x)
        small = {i % 3 for i in items}
        display = {1, 2, *items}
        shapes = {tuple(y.shape), (3,)}
        if 2 in small and 5 not in display:
            y = y * len(small)
        known.add(len(items))
        known.discard(7)
        for v in sorted(small | {9}):
            y = y + v
        merged = small & display, small - {0}, small ^ display, small <= display, frozenset(items) == small
        return y, small, display, shapes, merged, text in known, {y} == {y}, len({*text}), set(), max(display)

    calls = [
        (ONE, v, t) for v, t in (([1, 2], "ab"), ([1, 2], "ab"), ([1, 2], "ab"), ([3], 1), ([], "aa"), ([5, 5], ()))
    ]
    return f, calls, known


@program()
def walrus_inside_comprehensions_and_conditions():
    def f(x, items):
        kept = [y for v in items if (y := v * 2) > 2]
        table = {k: (last := v) for k, v in enumerate(items)}
        total = 0
        sums = [total := total + v for v in items]
        z = (a := torch.relu(x)) + (b := a * 2) * b
        c = (d := 1) if (e := items) else (d := 2)
        while (n := len(kept)) < 3:
            kept.append(n)
        return kept, table, sums, total, z, c, d, e, n, last, y

    return f, [(ONE, v) for v in ([1, 2], [1, 2], [1, 2], [3, 4, 5, 6], [0], [], [1, 2])]


@program()
def texts_of_what_changes_next():
    def f(x):
        y = torch.relu(x)
        items = [1]
        first = f"{y} {y.add_(1)} {y.mul_(2)[0]}"
        second = f"{items} {items.append(2)} {items}"
        third = f"{y.sum()}" + f"{y.zero_().sum()}" + f"{y.sum()}"
        return first, second, third, "{} {}".format(y, y.add_(1)), str(y) + str(y.add_(1)), [str(y), y.add_(1)]  # noqa: UP032

    return f, ones(5)


@program()
def views_of_dictionaries_follow_it():
    def f(x, table):
        y = torch.relu(x)
        made = {"a": y}
        keys, values, pairs = made.keys(), made.values(), made.items()
        held = table.keys()
        made["b"] = y + 1
        table["new"] = y
        return list(keys), list(values), list(pairs), list(held), len(keys), "b" in keys

    return f, [(ONE, {"k": 1}) for _ in range(5)]


@program()
def iterators_advance_where_they_are_used():
    def f(x, items):
        y = torch.relu(x)
        it = iter(items)
        pairs = list(zip(it, it))
        both = zip(items, range(9))
        first = next(both, None)
        rest = list(both)
        counted = enumerate(items, 5)
        skipped = next(counted, None)
        for i, v in counted:
            y = y + i * v
        backwards = reversed(items)
        last = next(backwards, None)
        return y, pairs, first, rest, skipped, last, list(backwards), list(it), sum(zip([1], [2]), ())

    return f, [(ONE, v) for v in ([1, 2, 3], [1, 2, 3], [1, 2, 3], [4], [], [1, 2, 3, 4])]


@program(graph=False)
def a_loop_variable_is_kept_by_a_function():
    def f(x, n):
        functions = []
        for i in range(n):

            def g(v, j=i):
                return v * i + j  # noqa: B023

            functions.append(g)
        i = 50
        y = torch.relu(x)
        for g in functions:
            y = y + g(x)
        return y, [h(x) for h in functions]

    return f, [(ONE, n) for n in (2, 2, 2, 3, 0, 2)]
