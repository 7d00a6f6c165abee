"""Members of enumerations, named tuples and match cases, whose classes change under the program."""

import collections
import enum

import torch

from . import program

ONE = torch.ones(3)

Pair = collections.namedtuple("Pair", "a b")


@program()
def members_with_state():
    class Mode(enum.Enum):
        FAST = [1, 2]
        SLOW = {"k": 2}

        def __init__(self, held):
            self.calls = 0
            self.weight = torch.ones(3)

        def run(self, x):
            self.calls += 1
            return x * self.calls + self.weight

        @property
        def size(self):
            return len(self.value)

        @classmethod
        def first(cls):
            return next(iter(cls))

        @staticmethod
        def twice(x):
            return x * 2

    def f(x, mode):
        y = torch.relu(x) * Mode.FAST.value[0] + mode.size + len(Mode.SLOW.value)
        if mode is Mode.FAST:
            y = y + 1
        return mode.run(y), mode.calls, Mode.first() is mode, mode.name, Mode.twice(y)

    def grow(f):
        Mode.FAST.value.append(3)
        Mode.FAST.value[0] = 7
        Mode.SLOW.weight = torch.zeros(3)
        return f(ONE, Mode.FAST), f(ONE, Mode.SLOW)

    def patch(f):
        Mode.run = lambda self, x: x - 1
        Mode.size = property(lambda self: 50)
        return f(ONE, Mode.FAST)

    return (
        f,
        [*[(ONE, Mode.FAST)] * 4, (ONE, Mode.SLOW), grow, patch, (ONE, Mode.FAST)],
        Mode.FAST.value,
        Mode.SLOW.value,
    )


@program()
def named_tuples_alias_and_change():
    class Sub(Pair):
        extra = 1

        def total(self):
            return self.a.sum() + self.b

        def __len__(self):
            return 2

    def f(x, pair, other):
        y = torch.relu(x)
        pair.a.add_(1)
        z = y + other.a + pair[0] + len(pair)
        for i, v in enumerate(other):
            z = z + v * i
        return (
            z,
            pair.a is other.a,
            pair is other,
            hasattr(pair, "a"),
            getattr(pair, "c", 5),
            pair.b == other.b,
            pair,
            (*pair,),
            [*other],
        )

    shared = torch.zeros(3)
    p, q = Pair(shared, 2), Pair(torch.zeros(3), 3)

    def learn(f):
        Pair.__getitem__ = lambda self, i: 100
        try:
            return f(ONE, q, q)
        finally:
            del Pair.__getitem__

    def rename(f):
        held = Pair.a
        Pair.a = property(lambda self: torch.full((3,), 9.0))
        try:
            return f(ONE, q, q)
        finally:
            Pair.a = held

    return f, [
        *[(ONE, p, q)] * 4,
        (ONE, p, p),
        (ONE, p, Pair(shared, 2)),
        (ONE, Sub(shared, 1), q),
        learn,
        rename,
        (ONE, p, q),
        (ONE, Pair(1, 2), q),
    ]


def _operation(log):
    class Op:
        __match_args__ = ("kind", "k")

        def __init__(self, kind, k):
            self.kind, self.k = kind, k

        @property
        def noted(self):
            log.append(self.kind)
            return self.k

    return Op


@program()
def match_inside_callee_and_loop():
    log = []

    Op = _operation(log)

    def apply(x, op):
        match op:
            case Op("scale", k):
                return x * k
            case Op("shift", k=k) if k > 1:
                return x + k
            case Op(kind, noted=n):
                return x - n * len(kind)
            case {"fn": fn, **rest}:
                return fn(x) + len(rest)
            case None | False:
                return x
        return -x

    def f(x, ops):
        y = torch.relu(x)
        for op in ops:
            y = apply(y, op)
        match len(ops):
            case 0:
                out = y * 0
            case 1 | 2 as n:
                out = y + n
            case n if n % 2:
                out = y - n
        return out, n if ops else None

    def change(f):
        Op.__match_args__ = ("k", "kind")
        return f(ONE, [Op("scale", 2)])

    a = [Op("scale", 2), Op("shift", 2)]
    more = [
        [Op("shift", 1)],
        [Op("x", 1), None, Op("scale", 3)],
        [],
        [{"fn": torch.tanh}],
        [5],
        [False, None],
        [1, 2, 3, 4],
    ]

    def mutate(f):
        a[0].kind = "shift"
        return f(ONE, a)

    return f, [*[(ONE, a)] * 4, *[(ONE, m) for m in more], mutate, change, (ONE, a)], log
