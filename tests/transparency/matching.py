"""``match``: every kind of pattern, guards, captures, and classes with a say in it."""

import collections
import dataclasses
import enum

import torch

from . import ones, program

ONE = torch.ones(3)
LIMIT = 2


class Kind(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


@dataclasses.dataclass
class Scale:
    factor: float
    shift: float = 0.0


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


Pair = collections.namedtuple("Pair", "first second")


@program()
def match_on_values():
    def f(x, op, n):
        match op:
            case "double":
                y = x * 2
            case "triple" | "thrice":
                y = x * 3
            case None:
                y = x - 1
            case True:
                y = x + 100
            case -1 | 1.5:
                y = -x
            case Kind.SUM:
                y = x.sum()
            case Kind.MEAN if n > LIMIT:
                y = x.mean()
            case _:
                y = x
        return torch.relu(y) + n

    odd = ("triple", "thrice", None, True, 1, -1, 1.5, 1.0, Kind.SUM, Kind.MEAN, "other", "double")
    return f, [*[(ONE, "double", 1)] * 4, *[(ONE, op, n) for op in odd for n in (1, 3)]]


@program()
def match_on_sequences():
    def f(x, items):
        y = torch.relu(x)
        match items:
            case []:
                return y
            case [a]:
                return y + a
            case [a, (b, c)]:
                return y + a + b * c
            case [1, *rest, last] if last > 2:
                return y * last, rest
            case (a, b, *_):
                return y - a - b, locals_of(a, b)
            case str(text):
                return y, text
            case int() | float() as number:
                return y * number
            case _:
                return y - 1

    def locals_of(a, b):
        return {"a": a, "b": b}

    plain = [1.0]
    values = ([], plain, [1, (2, 3)], [1, 5, 6, 7], [1, 5, 6, 1], (1, 2), Pair(1, 2), "text", b"ab", 3, 4.5, True, None)
    more = (collections.deque([1, 2]), {1, 2}, range(4), plain)
    return f, [*[(ONE, plain)] * 4, *[(ONE, v) for v in (*values, *more)]]


@program()
def match_on_mappings():
    def f(x, message):
        y = torch.relu(x)
        match message:
            case {"op": "add", "value": v}:
                y = y + v
            case {"op": "scale", "by": int(k) | float(k), **rest}:
                y = y * k + len(rest)
            case {"op": op}:
                y = y - len(op)
            case {}:
                y = y - 1
        return y

    class Missing(dict):
        def __missing__(self, key):
            raise AssertionError

    messages = (
        {"op": "scale", "by": 2, "more": 1},
        {"op": "scale", "by": "x"},
        {"op": "other"},
        {},
        collections.defaultdict(list),
        Missing(op="add"),
        None,
        [("op", "add")],
        collections.OrderedDict(op="add", value=7),
    )
    return f, [*[(ONE, {"op": "add", "value": 1})] * 4, *[(ONE, m) for m in messages]]


@program()
def match_on_classes():
    def f(x, shape):
        match shape:
            case Scale(factor, shift=0.0):
                y = x * factor
            case Scale(factor=k, shift=s):
                y = x * k + s
            case Point(0, y=0):
                y = x * 0
            case Point(a, b) if (c := a + b) > 3:
                y = x + c
            case Pair(torch.Tensor() as t, _):
                y = x + t
            case torch.Tensor():
                y = x - shape
            case _:
                raise TypeError(f"no case for {type(shape).__name__}")
        return torch.relu(y)

    values = (Scale(2.0, 1.0), Point(0, 0), Point(2, 2), Point(1, 1), Pair(ONE, 1), Pair(1, 1), ONE * 2, None)
    return f, [*[(ONE, Scale(2.0))] * 4, *[(ONE, v) for v in values], (ONE, Scale(2.0))]


@program()
def match_captures_stay_bound():
    def f(x, items):
        first = last = None
        match items:
            case [first, 2, last]:
                pass
            case [first, *_]:
                last = 0
        y = torch.relu(x)
        for item in items:
            match item:
                case 0:
                    continue
                case 9:
                    break
                case int(n):
                    y = y + n
        else:
            y = y * 2
        return y, first, last

    lists = ([3, 2, 4], [3, 2, 5], [3, 0], [], [1, 9, 2], [0, 0])
    return f, [*[(ONE, [1, 2, 3])] * 4, *[(ONE, v) for v in lists]]


@program()
def match_asks_the_users_methods():
    log = []

    class Odd(type):
        def __instancecheck__(cls, instance):
            log.append("instance")
            return isinstance(instance, int) and instance % 2 == 1

    class IsOdd(metaclass=Odd):
        pass

    class Always:
        def __eq__(self, other):
            log.append(f"eq {other}")
            return other == 4

        __hash__ = None

    class Names:
        always = Always()

    def f(x, n):
        match n:
            case IsOdd():
                y = x * 2
            case Names.always:
                y = x * 3
            case _:
                y = x * 4
        return torch.relu(y)

    return f, [*[(ONE, 1)] * 4, (ONE, 2), (ONE, 4), (ONE, "a"), (ONE, 1)], log


@program()
def match_on_a_tensor_value():
    def f(x):
        match x.shape:
            case (n,):
                y = x * n
            case (n, 3):
                y = x.sum(0) * n
            case (_, _, *rest):
                y = x.flatten()[: len(rest) + 1]
        match x.dtype:
            case torch.float32:
                return torch.relu(y)
            case torch.float64:
                return y - 1
        return y

    shapes = ((2, 3), (4, 3), (2, 2), (1, 2, 3, 4), (5,))
    return f, [*ones(4, 3), *[(torch.ones(s),) for s in shapes], (ONE.double(),), (ONE.int(),)]
