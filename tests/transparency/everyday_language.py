"""Python as people write it in and around models: each construct keeps its meaning, graph or not."""

import functools
import itertools

import torch
from torch import nn

from . import ones, program


@program(graph=False)
def generator_that_is_returned():
    def f(x):
        def produce():
            got = yield x * 2
            try:
                got = yield x * got
            finally:
                kept.append(got)
            return "done"

        return produce()

    kept = []

    def drive(f):
        g = f(torch.ones(2))
        out = [next(g), g.send(7)]
        try:
            g.send(None)
        except StopIteration as stop:
            out.append(stop.value)
        return out, type(g).__name__, kept

    def close(f):
        g = f(torch.ones(2))
        next(g)
        g.send(3)
        g.close()
        return kept

    def untouched(f):
        return len(list(f(torch.ones(2)))) if kept else f(torch.ones(2)).__name__

    return f, [drive, drive, drive, close, untouched]


@program()
def generators_feed_loops():
    def running(xs):
        total = 0
        for x in xs:
            total = total + x
            yield total

    def f(xs, n):
        out = [torch.tanh(t) for t in running(xs)]
        first = next(running(xs), None)
        lazy = (x * k for k, x in enumerate(itertools.islice(itertools.cycle(xs), n)))
        pairs = dict(zip("abc", running(xs)))
        return torch.stack(out).sum(0) + sum(lazy), first, pairs, any(t.sum() > 3 for t in xs)

    def xs(n):
        return [torch.ones(2) * i for i in range(1, n + 1)]

    return f, [(xs(n), k) for n, k in ((3, 2), (3, 2), (3, 2), (2, 5), (3, 0), (5, 5))] + [(xs(1), 4)]


@program()
def super_over_several_bases():
    class Scaled:
        def __init__(self, *args, scale=2, **kwargs):
            super().__init__(*args, **kwargs)
            self.scale = scale

        def forward(self, x):
            return super().forward(x) * self.scale

    class Shifted:
        shift = 1

        def forward(self, x):
            return super().forward(x) + self.shift

    class Model(Scaled, Shifted, nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return y + nn.Linear.forward(self, x) + super(Scaled, self).forward(x)

    model = Model(3, 3, scale=3)

    def change_class(f):
        Shifted.shift = 10
        return f(torch.ones(3))

    def change_bases(f):
        Scaled.forward = lambda self, x: x
        return f(torch.ones(3))

    return model, [*ones(4), change_class, change_bases, *ones(1)]


@program()
def functions_without_source():
    space = {"torch": torch}
    exec("def inner(x, k=3):\n    return torch.relu(x) * k\n", space)
    made = eval("lambda x: x + 1", space)

    def f(x):
        return space["inner"](x) + made(x * 2)

    def again(f):
        exec("def inner(x, k=4):\n    return x * k\n", space)
        return f(torch.ones(3))

    return f, [*ones(5), again, *ones(1)]


@program()
def lambdas_side_by_side():
    x = 10  # the name that all of them use
    fs = [lambda x: x + 1, lambda x: (lambda x: x + 2)(x), lambda x: x * 2 + 3]
    nested = lambda x: [g(x) for g in (lambda x: x - 1, lambda x: x / 2)]
    for late in (lambda y: y + x, lambda y: y * x):
        fs.append(late)
    bound = [lambda v, k=k: v * k for k in range(3)]
    free = [lambda v: v + k for k in range(3)]  # noqa: B023  (late binding is the point)

    def f(t):
        return (
            [g(t) for g in fs],
            nested(t),
            [g(t) for g in bound],
            [g(t) for g in free],
            (lambda *a, **k: a[0] * k["s"])(t, s=2),
        )

    def rebind(f):
        nonlocal x
        x = 20
        return f(torch.ones(2))

    return f, [*ones(4, 2), rebind]


@program()
def subscripts_of_every_form():
    def f(x, i, j):
        return (
            x[-3],
            x[..., 1:2],
            x[i],
            x[i:j],
            x[::2, None],
            x[(i, 1)],
            x[[0, 1]],
            x[torch.tensor([0, 1])],
            x[x > 2],
            x[slice(i, None), ..., -1],
            x[True],
            x[...],
            list(range(10))[i:j],
            "abcdef"[-i:],
            (1, 2, 3)[i],
            {"a": [x]}["a"][0][i, j],
        )

    def a(*size):
        return torch.arange(float(torch.Size(size).numel())).view(size)

    return f, [*[(a(4, 3), 1, 2)] * 4, (a(4, 3), 0, 1), (a(3, 4), -1, 2), (a(3, 2), 1, 2), (a(5, 3), 2, 2)]


@program()
def callee_with_everything_in_it():
    def check(ts, kinds=(torch.Tensor, nn.Parameter)):
        try:
            if any(type(t) is not torch.Tensor for t in ts):
                raise TypeError("odd")
            if all(isinstance(t, kinds) for t in ts) and not [t for t in ts if t is None]:
                return {t.dtype for t in ts}
        except TypeError as error:
            return str(error)
        finally:
            seen.append(len(ts))
        return None

    seen = []

    def f(*ts):
        known = check(ts)
        y = torch.tanh(ts[0]) * 2
        return y + sum(ts[1:], ts[0]), known, max(t.dim() for t in ts)

    t = torch.ones(2)
    return f, [*[(t, t)] * 4, (t,), (t, nn.Parameter(torch.ones(2))), (t, t, t.double())], seen


@program()
def loop_variables_afterwards():
    i_global = 5  # noqa: F841

    def f(x, n):
        for i in range(n):
            x = x + i
        for j, (_k, t) in enumerate([(1, x), (2, x * 2)][:n]):
            last = t * j
        return x * i + _k, i, j, last

    return f, [(torch.ones(2), n) for n in (4, 4, 4, 2, 1, 0, 4)]


@program()
def branches_that_set_different_things():
    def f(x):
        if x.sum() > 0:
            y = x.int()
        elif x.sum() < 0:
            y = torch.cat([x, x])
            extra = 1
        if x.shape[0] > 2:
            extra = 2.5
        return y + extra if x.shape[0] != 3 else y

    values = [[1.0, 1.0, 1.0]] * 4 + [
        [-1.0, -1.0, 0.0],
        [0.0, 0.0, 0.0],
        [1.0, 1.0],
        [-1.0, -1.0],
        [1.0] * 4,
        [-1.0] * 4,
    ]
    return f, [(torch.tensor(v),) for v in values]


@program()
def leaving_loops_on_a_value():
    def f(x, rows):
        for row in rows:
            x = x + row
            if x.sum() > 4:
                break
            if x.sum() < -4:
                return x * 100
        else:
            x = x + 0.5
        while True:
            x = x * 2
            if x.abs().sum() > 50 or not rows:
                break
            for _ in range(3):
                if x.sum() == 0:
                    return None
                continue
        return x

    rows = {
        k: [torch.tensor(float(v)) for v in vs] for k, vs in enumerate([(1, 2, 2), (-4, -4), (1, 1), (), (-1, 0, 0)])
    }
    return f, [(torch.tensor(1.0), rows[k]) for k in (0, 0, 0, 1, 2, 3, 4, 0)]


@program()
def walrus_match_and_formatting():
    def f(x, event):
        if (n := x.shape[0]) > 1 and (total := x.sum()) > 3:
            y = x * n + total
        else:
            y = x
        match event:
            case {"kind": "scale", "by": k}:
                y = y * k
            case [first, *rest] if first:
                y = y + first + len(rest)
            case int() | float():
                y = y - event
            case None:
                pass
            case _:
                y = -y
        return y, f"{list(x.shape)}: {n:>3} {y.sum():.2f} {event!r}", [m for t in x if (m := t + 1) > 1]

    events = [{"kind": "scale", "by": 3}] * 4 + [[1, 2, 3], [0], 4, 2.5, None, "text", {"kind": "other"}]
    return f, [(torch.ones(4), e) for e in events] + [(torch.ones(1), None)]


@program()
def decorators_of_other_people():
    log = []

    def logged(prefix):
        def decorate(function):
            @functools.wraps(function)
            def inner(*args, **kwargs):
                log.append(prefix)
                return function(*args, **kwargs)

            return inner

        return decorate

    def retry(function):
        count = 0

        def inner(x):
            nonlocal count
            count += 1
            return function(x) + count

        return inner

    class Memo:
        def __init__(self, function):
            self.function, self.table = function, {}

        def __call__(self, x, key):
            if key not in self.table:
                self.table[key] = self.function(x)
            return self.table[key]

    @logged("a")
    @retry
    @logged("b")
    def step(x):
        return torch.tanh(x)

    memo = Memo(step)
    cached = functools.lru_cache(maxsize=None)(lambda n: n * 2)
    half = functools.partial(step, x=torch.ones(2))

    def f(x, key):
        return step(x) + memo(x, key) + cached(key) + half()

    return f, [(torch.ones(2), k) for k in (1, 1, 1, 1, 2, 1, 3)], log, memo


@program()
def contexts_of_the_users_own():
    class Scope:
        depth = 0

        def __enter__(self):
            Scope.depth += 1
            return Scope.depth

        def __exit__(self, kind, error, trace):
            Scope.depth -= 1
            return kind is ValueError

    log = []

    def f(x, fail):
        with Scope() as a, Scope() as b:
            y = x * a + b
            if fail and x.sum() > 2:
                raise ValueError("inside")
            log.append(b)
        try:
            return y + Scope.depth
        except UnboundLocalError:
            return None
        finally:
            log.append("end")

    return f, [(torch.ones(k), n) for k, n in ((3, False),) * 4 + ((3, True), (2, True), (3, False))], log


@program()
def inner_function_that_returns_from_a_try():
    def f(x, k):
        def inner(y):
            try:
                return y * k
            finally:
                log.append(len(log))

        log = []
        return inner(inner(x)) + inner(x), log

    return f, [(torch.ones(3), k) for k in (2, 2, 2, 2.5, 2.5, True, True, 2)]
