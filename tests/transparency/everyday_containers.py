"""Containers, records and arguments as people use them: the objects that come out are the true ones."""

import abc
import collections
import functools
import itertools
import operator

import torch

from . import Call, ones, program


@program()
def containers_of_the_standard_library():
    def f(x, words):
        groups = collections.defaultdict(list)
        for w in words:
            groups[len(w)].append(w)
        made = dict(a=x, b=x * 2)  # noqa: C408
        kept = list(filter(lambda t: t.sum() > 2, made.values()))
        counts = collections.Counter(words)
        queue = collections.deque([x], maxlen=2)
        queue.append(x + 1)
        queue.appendleft(x + 2)
        ordered = collections.OrderedDict(sorted(made.items()))
        ordered.move_to_end("a")
        total = functools.reduce(operator.add, kept, x)
        chain = collections.ChainMap({"k": 1}, {"k": 2, "j": 3})
        return (
            total + sum(map(torch.sum, queue)) + len(groups) + chain["j"],
            dict(groups),
            counts.most_common(1),
            list(ordered),
            type(groups).__name__,
            set(words) & {"a", "bb"},
            frozenset(words),
            sorted(words, key=len, reverse=True),
            list(reversed(words)),
            [*zip(words, itertools.count())],
        )

    return f, [(torch.ones(3) * k, w) for k, w in ((1, ["a", "bb", "a"]),) * 4 + ((0, ["c"]), (1, []), (5, ["dd"] * 3))]


@program()
def tensors_in_boolean_places():
    def f(x, maybe, flag):
        z = maybe or x.sum()
        low, high = min(x.sum(), x.prod()), max(x[0], x[1], x[2])
        both = x[0] and x[1]
        w = x if x.any() and not flag else -x
        inside = 0 < x.sum() < 10
        chosen = [t for t in x if t > 0.5 if t < 5]
        if not x.min():
            w = w + 1
        assert x.max() < 100, "too large"
        return z, low, high, both, w, inside, chosen, x.sum() == 3, all(x), bool(maybe), [z, w][x[0] > 1]

    one, zero = torch.tensor(1.0), torch.tensor(0.0)
    base = torch.ones(3)
    calls = [(base, one, False)] * 4
    calls += [
        (base, zero, False),
        (base, None, False),
        (base * 0, one, True),
        (base * 7, 0, True),
        (base * 200, one, False),
    ]
    return f, [*calls, (base, base, False)]


@program()
def records_of_every_kind():
    Point = collections.namedtuple("Point", "a b", defaults=[2])

    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self, x): ...

    class Square(Shape):
        side = 2

        def area(self, x):
            return x * self.side**2

        @classmethod
        def default(cls):
            return cls()

        @staticmethod
        def unit():
            return 1

    def f(x, p):
        q = Point(x, b=p.b + 1)._replace(a=p.a)
        a, b = q
        shape = Square.default()
        return q, a + b + shape.area(x) + shape.unit() + Square.unit(), q.a is p.a, q == (a, b), Point._fields

    return f, [(torch.ones(2), Point(3, k)) for k in (1, 1, 1, 1, 2)] + [Call(torch.ones(2), p=Point(4))]


@program()
def arguments_spread_and_gathered():
    def inner(a, /, b, *rest, c=3, **more):
        return a + b + sum(rest) + c + sum(more.values())

    def f(x, *args, scale=1, **kwargs):
        y = inner(x, *args, **kwargs) * scale
        z = inner(*[x, 1], c=2, d=4)
        _first, *middle, last = [x, *args, y]
        return y, z, middle, last, {**kwargs, "x": x}, [*args, *kwargs]

    x = torch.ones(2)
    return f, [
        *[Call(x, 1, 2, c=5)] * 4,
        Call(x, 1),
        Call(x, 1, 2, 3, e=4, scale=2),
        Call(x, 2, c=5, e=1, f=2),
        Call(x),
        Call(x, b=1),
        Call(x, 1, b=2),
    ]


@program()
def deletion_and_scope():
    def f(x, table):
        y = x * 2
        del x
        table.pop("old", None)
        del table["gone"]
        numbers = [1, 2, 3]
        del numbers[0], numbers[-1:]
        squares = [i * i for i in numbers]
        x = y + squares[0]
        y = {k: x * v for k, v in table.items()}
        return x, y, numbers

    return f, [(torch.ones(2), {"gone": 1, "old": 2, "k": 3}) for _ in range(5)] + [(torch.ones(2), {"k": 1})]


@program()
def containers_that_hold_themselves():
    def f(x):
        a = b = []
        a.append(x * 2)
        b.append(a)
        table = {}
        table["self"] = table
        table["list"] = [table]
        items = [1]
        items += [items]
        items[0] = (items,)
        items.extend(items)
        return torch.relu(x), b, table, items

    return f, ones(4)


@program()
def views_of_a_dict_that_are_kept():
    def f(x, table):
        made = {"a": x * 2, "b": x}
        keys, values = made.keys(), table.values()
        made["c"] = x + 1
        table["new"] = x
        return made["c"] * 2, keys, values, {"a": x}.items(), "-".join(made.keys()), max(t.sum() for t in made.values())

    return f, [(torch.ones(2), {"k": torch.ones(2)}) for _ in range(4)] + [(torch.ones(2), {})]


@program()
def methods_of_texts_and_numbers():
    def f(x, text):
        parts = ("a-b".partition("-"), "a b".split(), (1.5).as_integer_ratio(), slice(1, 9, 2).indices(5), b"ab".hex())
        known = text.partition("-"), text.split("-"), text[::-1], "abcdef"[-len(text) :], [*text], text.zfill(5)
        return x * len(text) + len(parts), parts, known, x[...], f"{text!r:>6}|{x.shape[0]=}"

    return f, [(torch.ones(2), text) for text in ("a-b", "a-b", "a-b", "", "-", "abc")]
