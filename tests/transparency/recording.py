"""Records: dataclasses, named tuples, enumerations, and dictionaries and lists with classes of their own."""

import collections
import dataclasses
import enum
import typing

import torch

from . import ones, program

ONE = torch.ones(3)


class Pair(typing.NamedTuple):
    first: torch.Tensor
    second: float = 2.0

    @property
    def total(self):
        return self.first.sum() + self.second

    def scaled(self, k):
        return Pair(self.first * k, self.second * k)


class Kind(enum.Enum):
    ADD = 1
    SCALE = 2
    TOTAL = ADD  # an alias

    @property
    def factor(self):
        return self.value * 10

    def apply(self, x):
        return x + self.value if self is Kind.ADD else x * self.value

    @classmethod
    def default(cls):
        return cls.SCALE


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()
    AB = A | B


class Named(str, enum.Enum):
    SUM = "sum"
    MEAN = "mean"


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    items: list = dataclasses.field(default_factory=list)
    bias: torch.Tensor | None = None
    total: dataclasses.InitVar[int] = 0

    def __post_init__(self, total):
        self.total_ = total

    @property
    def doubled(self):
        return self.scale * 2


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    scale: float
    shift: float = 1.0


@dataclasses.dataclass
class Slotted:
    __slots__ = ("scale", "held")
    scale: float
    held: torch.Tensor


@program()
def named_tuples_given():
    Plain = collections.namedtuple("Plain", "a b", defaults=[3])

    def f(x, pair, plain):
        y = torch.relu(x) * pair.second + pair.first + pair[0] + plain.b
        a, b = pair
        first, *rest = plain
        z = y + pair.total + pair.scaled(2).second + b
        return (
            z,
            a,
            first,
            rest,
            len(pair),
            pair._fields,
            isinstance(pair, tuple),
            plain == (1, 3),
            plain._asdict(),
            pair,
        )

    plain = Plain(1)
    odd = [(ONE, Pair(ONE, 5.0), Plain(1, 2)), (ONE, Pair(ONE * 2), plain), (ONE, plain, plain), (ONE, (ONE, 1), plain)]
    return f, [*[(ONE, Pair(ONE), plain)] * 4, *odd, (ONE, Pair(ONE), plain)]


@program()
def named_tuples_made():
    Plain = collections.namedtuple("Plain", "a b", defaults=[3])

    def f(x, k):
        y = torch.relu(x)
        pair = Pair(y, k)
        same = Pair(second=k, first=y)
        plain = Plain(y)
        changed = pair._replace(second=7)
        z = pair.first * pair.second + plain.b + changed.second
        for v in pair:
            z = z + v
        return pair, same, plain, changed, z, type(pair).__name__, pair == same if k is None else 0, Pair._make([y, 1])

    return f, [(ONE, k) for k in (1.5, 1.5, 1.5, 2, 3.0, 1.5)]


@program()
def a_named_tuple_returned_and_returned_to():
    State = collections.namedtuple("State", "hidden cell")

    def cell(x, state):
        hidden = torch.tanh(x + state.hidden)
        return State(hidden, state.cell + hidden)

    def f(xs, state):
        outputs = []
        for x in xs:
            state = cell(x, state)
            outputs.append(state.hidden)
        return torch.stack(outputs), state

    zero = State(torch.zeros(2), torch.zeros(2))
    return f, [(torch.ones(n, 2), zero) for n in (3, 3, 3, 2, 5, 3)]


@program()
def torch_results_with_names():
    def f(x):
        result = torch.max(x, dim=1)
        values, indices = x.sort(dim=1)
        top = torch.topk(x, 2)
        return (
            result.values + top.values[:, 0],
            result.indices,
            result[0],
            result,
            values,
            isinstance(top, tuple),
            len(top),
        )

    return f, [(torch.randn(n, 4),) for n in (2, 2, 2, 3, 1)]


@program()
def dataclasses_given():
    def f(x, config, frozen):
        y = torch.relu(x) * config.scale + config.doubled + frozen.shift
        if config.bias is not None:
            y = y + config.bias
        config.items.append(len(config.items))
        config.scale += 1
        bigger = dataclasses.replace(frozen, scale=5.0)
        return y, frozen == Frozen(1.0), frozen < bigger, [f.name for f in dataclasses.fields(config)], repr(frozen)

    configs = [Config(), Config(), Config(), Config(), Config(bias=ONE), Config(3.0, [1, 2]), Config(scale=4)]
    return f, [*[(ONE, c, Frozen(1.0)) for c in configs], (ONE, Config(), Frozen(2.0, 0.0)), (ONE, None, Frozen(1.0))]


@program()
def dataclasses_made():
    @dataclasses.dataclass
    class Output:
        y: torch.Tensor
        loss: torch.Tensor = None
        extra: dict = dataclasses.field(default_factory=dict)

        def total(self):
            return self.y.sum() + self.loss

    def f(x, k):
        y = torch.relu(x) * k
        out = Output(y, loss=y.mean())
        out.extra["k"] = k
        out.y = out.y + 1
        return out, out.total(), Slotted(k, y), Frozen(k), Config(total=5).total_

    return f, [(ONE, k) for k in (2.0, 2.0, 2.0, 3.0, 1)]


@program()
def frozen_dataclass_written():
    def f(x, frozen):
        y = torch.relu(x)
        try:
            frozen.scale = 2
        except dataclasses.FrozenInstanceError as error:
            return y, str(error)
        return y

    return f, [(ONE, Frozen(1.0)) for _ in range(4)] + [(ONE, Config())]


@program()
def enumerations():
    def f(x, kind, level, flags, named):
        y = kind.apply(torch.relu(x)) + kind.factor + level
        if kind is Kind.ADD or kind == Kind.SCALE:
            y = y + kind.value
        if level > Level.LOW and level in (Level.HIGH, 7):
            y = y * level.value
        if Flags.A in flags and flags & Flags.B:
            y = y - flags.value
        if named == "sum":
            y = y.sum()
        table = {Kind.ADD: 1, Kind.SCALE: 2, Level.LOW: 3}
        found = (Kind["ADD"], Kind(2), Kind.default(), Kind.TOTAL, len(Kind), kind in Kind, [k.name for k in Kind])
        return y + table[kind], found, str(kind), f"{level:d}", named.value, repr(flags), Kind.__members__["ADD"], kind

    plain = (ONE, Kind.ADD, Level.LOW, Flags.A, Named.SUM)
    odd = [
        (ONE, Kind.SCALE, Level.HIGH, Flags.AB, Named.MEAN),
        (ONE, Kind.TOTAL, 7, Flags.B, "sum"),
        (ONE, Kind.ADD, Level.HIGH, Flags(0), "mean"),
        (ONE, None, Level.LOW, Flags.A, Named.SUM),
    ]
    return f, [*[plain] * 4, *odd, plain]


@program()
def enumerations_of_the_users_making():
    log = []

    class Odd(enum.Enum):
        A = 1
        B = 2

        def __eq__(self, other):
            log.append("eq")
            return NotImplemented if other is None else True

        def __hash__(self):
            log.append("hash")
            return 7

        def __bool__(self):
            log.append("bool")
            return False

        def __str__(self):
            log.append("str")
            return "odd"

        @classmethod
        def _missing_(cls, value):
            log.append("missing")
            return cls.A

    def f(x, odd):
        y = torch.relu(x)
        if odd == Odd.B:
            y = y + 1
        if odd:
            y = y * 100
        if odd in (1, Odd.B) and odd != Odd.A:
            y = y + 10
        table = {Odd.A: 1}
        table[Odd.B] = 2
        return y, table[odd], str(odd), f"{odd}", Odd(9) is Odd.A, not odd, odd or 5

    return f, [(ONE, v) for v in (Odd.A, Odd.A, Odd.A, Odd.B, Odd.A)], log


@program()
def dictionaries_with_a_class():
    class Missing(dict):
        def __missing__(self, key):
            return len(key)

        def get(self, key, default=None):
            return "own get"

    class Counting(dict):
        reads = 0

        def __getitem__(self, key):
            self.reads += 1
            return super().__getitem__(key)

    class Attributes(dict):
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__

    missing, counting, attributes = Missing(a=1), Counting(a=2), Attributes(a=3)
    ordered = collections.OrderedDict(b=1, a=2)
    default = collections.defaultdict(list)
    counter = collections.Counter("aab")
    chain = collections.ChainMap({"a": 5}, {"b": 6})

    def f(x, key):
        y = torch.relu(x) * missing["a"] + missing[key + "x"] + counting["a"] + attributes.a
        attributes.b = y
        default[key].append(float(y.sum()))
        counter[key] += 1
        ordered.move_to_end("b")
        ordered[key] = 3
        return y + chain["a"] + chain["b"], missing.get("a"), counter.most_common(1), list(ordered), dict(**counting)

    state = (missing, counting, attributes, ordered, default, counter)
    return f, [(ONE, k) for k in ("k", "k", "k", "k", "other", "a")], *state


@program(graph=False)
def default_dictionaries_in_the_call():
    def f(x, items):
        groups = collections.defaultdict(list)
        for i, v in enumerate(items):
            groups[v].append(x * i)
        counts = collections.Counter(items)
        queue = collections.deque(maxlen=2)
        for v in items:
            queue.append(torch.relu(x) + v)
        y = sum(sum(vs) for vs in groups.values()) + counts[1] + counts[99]
        return y, dict(groups), list(queue), groups.default_factory is list, sorted(counts)

    return f, [(ONE, v) for v in ([1, 2, 1], [1, 2, 1], [1, 2, 1], [3], [], [1, 1, 1, 1])]


@program()
def deque_and_list_subclasses():
    class Log(list):
        def append(self, v):
            super().append(v)
            super().append("after")

        def __len__(self):
            return 100

        def __iter__(self):
            yield from (7, 8)

        def __contains__(self, v):
            return v == "anything"

    class Triple(tuple):
        def __getitem__(self, i):
            return 50

    log, triple, window = Log(), Triple((1, 2, 3)), collections.deque(maxlen=3)

    def f(x):
        y = torch.relu(x)
        log.append(1)
        window.append(y)
        a, b = log
        p, q, r = triple
        z = y * len(log) + triple[0] + a + b + p
        for v in triple:
            z = z + v
        return z, "anything" in log, [*log], list(triple), sum(window), (*triple,), window[-1] is y

    return f, ones(5), log, window


@program()
def star_unpacking():
    def f(x, items, table):
        first, *middle, last = items
        *start, _ = items
        (a, *b), c = (items, 1)
        [[p, *q], r] = [items, last]
        y = torch.relu(x) * first + last + len(middle)
        merged = {**table, "k": 1, "z": 2}
        joined = [*items, *middle, *range(2), *{}, *table]

        def inner(*args, k=0, **rest):
            return sum(args) + k + sum(rest.values())

        z = inner(*items, *middle, **table, extra=3)
        return y + z, middle, start, a, b, c, p, q, r, merged, joined, (*items,), {*items}

    values = ([1, 2, 3], [1, 2, 3], [1, 2, 3], (4, 5), [1], [], range(4), "ab", torch.ones(2), {1: 2, 3: 4})
    return f, [*[(ONE, v, {"k": 5}) for v in values], (ONE, [1, 2], {"extra": 1}), (ONE, [1, 2], {"a": 1, "k": 2})]
