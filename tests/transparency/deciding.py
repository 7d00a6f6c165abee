"""Objects with a say in operators: comparison, truth, length, membership, hash, arithmetic; chains on tensors."""

import operator

import torch

from . import program

ONE = torch.ones(3)
LOG = []


class Noted:
    """Says each time what it was asked."""

    def __init__(self, name, value=1):
        self.name, self.value = name, value

    def __eq__(self, other):
        LOG.append(f"{self.name} eq")
        return getattr(other, "value", other) == self.value

    def __lt__(self, other):
        LOG.append(f"{self.name} lt")
        return self.value < getattr(other, "value", other)

    def __hash__(self):
        LOG.append(f"{self.name} hash")
        return hash(self.value)

    def __bool__(self):
        LOG.append(f"{self.name} bool")
        return self.value > 0

    def __len__(self):
        LOG.append(f"{self.name} len")
        return self.value

    def __contains__(self, item):
        LOG.append(f"{self.name} contains")
        return item == self.value

    def __index__(self):
        LOG.append(f"{self.name} index")
        return self.value

    def __float__(self):
        LOG.append(f"{self.name} float")
        return float(self.value)

    def __str__(self):
        LOG.append(f"{self.name} str")
        return self.name

    def __format__(self, spec):
        LOG.append(f"{self.name} format")
        return self.name + spec


def fresh(make):
    """The program with an empty log, which is compared too."""

    def made():
        LOG.clear()
        function, calls = make()
        return function, calls, LOG

    made.__module__, made.__name__ = make.__module__, make.__name__
    return made


@program()
@fresh
def comparisons_in_order():
    def f(x, a, b, c):
        y = torch.relu(x)
        if a < b < c:
            y = y + 1
        if a == b or b != c:
            y = y * 2
        return y, a == 1, 1 == a, a is b, sorted([c, a])[0].name, max(a, b).name, not a < c

    def args(*values):
        return (ONE, *(Noted(n, v) for n, v in zip("abc", values)))

    return f, [*[args(1, 2, 3)] * 4, args(3, 2, 1), args(1, 1, 2), args(1, 3, 3)]


@program()
@fresh
def truth_and_length_in_order():
    def f(x, a, b):
        y = torch.relu(x)
        if a and b:
            y = y + 1
        z = a or b
        w = a and b
        if not a:
            y = y - 1
        while a.value < 3 and a:
            a.value += 1
            y = y * 2
        return y, z.name, w.name, len(a), bool(b), [v.name for v in (a, b) if v], (a or b) is z, 1 if b else 2

    return f, [(ONE, Noted("a", v), Noted("b", w)) for v, w in ((1, 1), (1, 1), (1, 1), (0, 1), (1, 0), (0, 0), (5, 2))]


@program()
@fresh
def hashes_and_membership_in_order():
    kept = Noted("kept", 2)

    def f(x, a):
        y = torch.relu(x)
        table = {kept: y, a: y + 1, 1: y + 2}
        found = [a in [kept, 1], 1 in [kept, a], a in table, 2 in table, a in kept, 2 in {kept, a}, (a, 1) == (kept, 1)]
        if 1 in (kept, a):
            y = y * 2
        return y, len(table), table[a], found, [kept, a].index(2), (a,).count(1), {a: 1} == {kept: 1}

    return f, [(ONE, Noted("a", v)) for v in (1, 1, 1, 2, 3)]


@program()
@fresh
def searches_among_objects_that_existed():
    held = [Noted("first", 1), Noted("second", 2)]
    table = {held[0]: 10, held[1]: 20, "text": 30}
    together = (held[0], 5)

    def f(x, n):
        y = torch.relu(x)
        if n in held:
            y = y + 1
        if n in table or n in together:
            y = y * 2
        return y, table.get(n, 7), 1 in held, "text" in table, 2 in together, table["text"], table[2]

    return f, [(ONE, n) for n in (1, 1, 1, 2, 3, "text", 5)]


@program()
@fresh
def conversions_in_order():
    def f(x, a):
        y = torch.relu(x)
        z = y[a] * float(a) + int(a)
        y[a] = 5
        return z, str(a), f"{a:>3} {a!s}", "%s" % a, [10, 20, 30][a], range(a), "ab" * operator.index(a), y.sum(0)  # noqa: UP031

    return f, [(ONE, Noted("a", v)) for v in (1, 1, 1, 2, 0)]


@program()
def arithmetic_from_both_sides():
    log = []

    class Money:
        def __init__(self, v):
            self.v = v

        def __add__(self, other):
            log.append("add")
            return NotImplemented if isinstance(other, str) else Money(self.v + getattr(other, "v", 0))

        def __radd__(self, other):
            log.append("radd")
            return Money(self.v + 100)

        def __iadd__(self, other):
            log.append("iadd")
            self.v += 1
            return self

        def __mul__(self, other):
            log.append("mul")
            return other * self.v

        __rmul__ = __mul__

        def __matmul__(self, other):
            return other.sum() * self.v

        def __getitem__(self, key):
            log.append(key)
            return self.v if key != 5 else self

        def __setitem__(self, key, value):
            log.append((key, "set"))

    class Sub(Money):
        def __radd__(self, other):
            log.append("sub radd goes first")
            return Money(0)

    def f(x, a, b):
        y = torch.relu(x)
        held = a
        a += b
        z = a * y + y * b
        c = a + b
        d = 1 + a
        a[1:2, ...] = 3
        a[0] += 1
        return z, c.v, d.v, held is a, a @ y, a[1, 2], a[5][::2], sum([a, b]).v

    def bad(f):
        return Money(1) + "text"

    calls = [(ONE, Money(1), Money(2)) for _ in range(4)]
    return f, [*calls, (ONE, Money(1), Sub(2)), (ONE, Sub(1), Money(2)), bad, (ONE, 1, 2), (ONE, Money(0), 3)], log


@program()
def identity_and_equality_of_objects():
    class Plain:
        pass

    class Never:
        __hash__ = None

        def __eq__(self, other):
            return NotImplemented

        def __ne__(self, other):
            return "not equal"

    a, b, n = Plain(), Plain(), Never()

    def f(x, p, q):
        y = torch.relu(x)
        return y, p == q, p != q, p is q, p is not None, p == None, n == n, n != 1, p in [q, n], not (p != p)  # noqa: E711

    def learn(f):
        Plain.__eq__ = lambda self, other: True
        return f(ONE, a, b)

    return f, [*[(ONE, a, a)] * 4, (ONE, a, b), (ONE, a, None), (ONE, n, n), (ONE, 1, 1.0), learn, (ONE, a, b)]


@program()
def and_or_on_tensors():
    log = []

    def note(v):
        log.append(1)
        return v

    def f(x, y, scale):
        a = x or y
        b = x and note(y)
        c = note(x) or note(y) or scale
        d = not x
        e = (x and y) or (y and scale) or 0
        z = torch.relu(a) * 2 + (b if x > 0 else y)
        return a is x, a is y, b is y, c, d, e is x, z

    zero, one = torch.tensor(0.0), torch.tensor(1.0)
    cases = ((one, one), (zero, one), (one, zero), (zero, zero), (one, 5), (torch.ones(2), one), (torch.ones(0), one))
    return f, [*[(one, one, 2)] * 4, *[(a, b, s) for a, b in cases for s in (2, 0)]], log


@program()
def chains_of_comparisons_on_tensors():
    log = []

    def note(v):
        log.append(1)
        return v

    def f(x, low, high):
        y = torch.relu(x)
        if low < x.sum() <= note(high) != 7:
            y = y + 1
        inside = 0 <= note(x.mean()) < high > low
        same = x.dtype == torch.float32 is not None
        return y, inside, same, low < high in (2, 3), 1 < 2 < x.numel() == 3, not low < high < 9

    cases = ((0, 5), (4, 5), (0, 1), (0, 7), (9, 2), (torch.tensor(0.0), torch.tensor(2.0)), (torch.zeros(3), 5))
    return f, [*[(ONE, 0, 5)] * 4, *[(ONE, low, high) for low, high in cases]], log


@program()
def conditions_on_all_kinds():
    def f(x, v):
        y = torch.relu(x)
        if v:
            y = y + 1
        return y, not v, bool(v), v or "empty", "full" if v else "none", [1 for _ in range(2) if v], v is None

    class Sized:
        def __len__(self):
            return 0

    class Odd:
        def __bool__(self):
            return 1

    values = (
        (),
        "",
        b"",
        0.0,
        -0.0,
        0j,
        None,
        [],
        {},
        set(),
        frozenset(),
        range(0),
        range(1),
        Sized(),
        Odd(),
        object(),
    )
    tensors = (torch.tensor([]), torch.tensor([0.0]), torch.tensor([[1]]), torch.tensor([1, 2]), torch.tensor(False))
    return f, [*[(ONE, 1)] * 4, *[(ONE, v) for v in (*values, *tensors, "a", NotImplemented if False else ..., 1)]]


@program()
def several_values_at_once():
    def f(x, items):
        a = b = c = torch.relu(x)
        a, b = b, a + 1
        i, items[i], j = 0, 5, 1
        (d, e), *rest = (1, 2), 3, 4
        items[0], items[-1] = items[-1], items[0]
        k = m = []
        k.append(1)
        n, o = p = (a, b)
        (q,) = (c,)
        x.y = z = 3
        return a, b, c, i, j, items, d, e, rest, m, n is a, o is b, p, q is c, z, x.y

    return f, [(torch.ones(3), [1, 2, 3]) for _ in range(5)] + [(torch.ones(3), [1]), (torch.ones(3), {0: 1, -1: 2})]
