"""Calls: closures, lambdas, every way to pass arguments, comprehensions, wrappers, callables, recursion."""

import contextlib
import functools
import operator

import torch
from torch import nn

from . import Call, program

ONE = torch.ones(1)


def helper(x):
    return x + 20


def ones(count):
    return [(torch.ones(1),) for _ in range(count)]


@program(max_graphs=2)
def closure():
    def make(scale, weight):
        def f(x):
            return x * scale + weight

        return f

    return make(3.0, torch.tensor([2.0])), ones(4) + [(torch.ones(2, 1),)]


@program()
def lambdas():
    nested = (lambda x: lambda x: x * 2)(0), lambda x: x * 3, lambda x, k=5: x * k

    def f(x, which):
        y = (lambda v: v + which)(x)
        return nested[which](y)

    return f, [(ONE, w) for w in (0, 0, 0, 1, 2, 0)]


@program()
def compiled_lambda():
    weight = torch.randn(2, 2)
    return (lambda x, *, k=2: (x @ weight) * k), [Call(torch.ones(1, 2)) for _ in range(4)] + [
        Call(torch.ones(1, 2), k=3)
    ]


@program()
def keyword_only_and_positional_only():
    def inner(a, /, b, *, c=1, **rest):
        return a * 2 + b * c + sum(rest.values())

    def f(x, y, /, *, c=2):
        return inner(x, y, c=c) + inner(x, b=y, c=1, d=3)

    return f, [
        Call(ONE, ONE),
        Call(ONE, ONE),
        Call(ONE, ONE),
        Call(ONE, ONE, c=5),
        Call(ONE, 2),
        Call(ONE, b=1),
        Call(ONE, ONE),
    ]


@program()
def variable_arguments():
    def inner(*args, **kwargs):
        return sum(args) * kwargs.get("scale", 1), len(args), sorted(kwargs)

    def f(*args, **kwargs):
        return inner(*args[1:], args[0] * 2, **kwargs, extra=0)

    return f, [
        Call(ONE, ONE),
        Call(ONE, ONE),
        Call(ONE, ONE, scale=2),
        Call(ONE, ONE, ONE),
        Call(ONE),
        Call(ONE, extra=1),
        Call(),
        Call(ONE, ONE),
    ]


@program()
def nested_functions():
    def f(x, n):
        total = x * 0

        def add(y):
            nonlocal total
            total = total + y
            return total

        def twice(g, y):
            return g(g(y))

        for _ in range(n):
            twice(add, x)
        return total

    return f, [(ONE, n) for n in (2, 2, 2, 3, 0, 2)]


@program()
def comprehensions():
    def f(xs, limit):
        kept = [x * i for i, x in enumerate(xs) if x.sum() > limit]
        table = {len(k): k + 1 for k in kept}
        lazy = sum(v.sum() for v in table.values())
        pairs = [(a, b) for a in kept for b in kept if a is not b]
        return kept, table, lazy, len(pairs), {i for i in range(len(xs))}

    def args(*values, limit=0):
        return [torch.full((i + 1,), float(v)) for i, v in enumerate(values)], limit

    return f, [args(1, 2, 3), args(1, 2, 3), args(1, 2, 3), args(1, -2, 3), args(), args(1, 2), args(1, 2, 3, limit=7)]


@program()
def wrapped_helper():
    log = []

    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            log.append(function.__name__)
            return function(*args, **kwargs) + len(log)

        return wrapper

    @logged
    def scale(x, k=2):
        return x * k

    def f(x):
        return scale(x) + scale(x, k=3)

    return f, ones(5), log


@program()
def partial_functions():
    def power(x, n, scale=1):
        return x**n * scale

    cube = functools.partial(power, n=3)
    half = functools.partial(cube, scale=0.5)

    def f(x, g):
        return half(x) + g(x)

    return f, [(ONE * 2, g) for g in (cube, cube, cube, half, torch.exp, functools.partial(torch.add, other=1), cube)]


@program()
def helper_is_rebound():
    global helper

    def first(x):
        return x + 20

    helper = first

    def f(x):
        return helper(x) * 2

    def rebind(f):
        global helper
        helper = lambda x: x * 3
        return f(ONE)

    return f, [*ones(4), rebind, *ones(2)]


@program()
def helper_default_changes():
    def inner(x, k=2, *, j=1):
        return x * k + j

    def f(x):
        return inner(x)

    def change(f):
        inner.__defaults__ = (5,)
        inner.__kwdefaults__["j"] = 7
        return f(ONE)

    def change_code(f):
        inner.__code__ = (lambda x, k=2, *, j=1: x - k).__code__
        return f(ONE)

    return f, [*ones(4), change, change_code, *ones(1)]


@program()
def callable_instances():
    class Affine:
        def __init__(self, a):
            self.a = a

        def __call__(self, x, *more):
            self.a = self.a + len(more)
            return x * self.a

        def __matmul__(self, other):
            return other + self.a

        def __getitem__(self, key):
            return self.a * key

        def __len__(self):
            return 4

        def __bool__(self):
            return self.a > 2

        def __contains__(self, item):
            return item == self.a

    affine = Affine(1)

    def f(x, more):
        y = affine(x, *more)
        z = y if affine else -y
        return affine @ z + affine[2] + len(affine), 3 in affine

    return f, [(ONE, ()), (ONE, ()), (ONE, ()), (ONE, (1, 2)), (ONE, ()), (ONE, (1,))]


@program(graph=False)
def recursion_over_a_tree():
    layer = nn.Linear(2, 2)

    def node(tree):
        if isinstance(tree, torch.Tensor):
            return layer(tree)
        return torch.tanh(sum(node(child) for child in tree))

    a, b = torch.ones(2), torch.zeros(2)
    return node, [((a, b),), ((a, b),), ((a, b),), (a,), (((a, b), a),), ((a, (b, (a, a)), b),), ((a, b),)]


@program(graph=False)
def recursion_over_a_number():
    def power(x, n):
        if n == 0:
            return torch.ones_like(x)
        half = power(x, n // 2)
        return half * half * (x if n % 2 else 1)

    return power, [(ONE * 2, n) for n in (5, 5, 5, 8, 0, 13, 5)]


@program(graph=False)  # the tensor work is in callbacks of builtins
def builtin_functions():
    def f(xs, names):
        longest = max(names, key=len)
        order = sorted(range(len(xs)), key=lambda i: -xs[i].sum().item())
        chosen = list(map(operator.neg, [xs[i] for i in order]))
        flags = [any(n.startswith("a") for n in names), all(names), list(reversed(names)), abs(-len(names))]
        return (
            chosen,
            dict(zip(names, xs)),
            longest,
            flags,
            list(filter(None, names)),
            round(2.567, 1),
            str(len(xs)),
            min(3, len(xs)),
        )

    xs = [torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([2.0])]
    names = ["ab", "c", "def"]
    return f, [(xs, names), (xs, names), (xs, names), (xs[::-1], names), (xs[:2], ["", "z"]), (xs, names)]


@program()
def string_methods():
    def f(x, spec):
        parts = spec.strip().lower().split(",")
        for part in parts:
            op, _, value = part.partition("=")
            x = x + int(value) if op == "add" else x * float(value or 1)
        return x, ",".join(reversed(parts))

    return f, [(ONE, s) for s in ("add=1,mul=2", "add=1,mul=2", " ADD=1,mul=2", "mul=3", "add=x", "", "add=1,mul=2")]


@program(graph=False)
def user_context_manager():
    events = []

    class Scope:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            events.append(f"enter {self.name}")
            return len(events)

        def __exit__(self, kind, error, trace):
            events.append(f"exit {self.name} {kind and kind.__name__}")
            return self.name == "swallow"

    @contextlib.contextmanager
    def doubled():
        events.append("in")
        try:
            yield 2
        finally:
            events.append("out")

    def f(x, name):
        with Scope(name) as n, doubled() as k:
            y = x[0] * k + n
            if name == "swallow":
                raise ValueError(name)
        return y

    return (
        f,
        [(ONE, "a"), (ONE, "a"), (ONE, "a"), (torch.ones(0), "b"), (ONE, "a"), (torch.ones(0), "swallow"), (ONE, "a")],
        events,
    )


@program(graph=False)
def escaping_generator():
    def f(x):
        def g():
            got = yield x * 1
            yield x * 2 if got is None else x * got
            return "done"

        return g()

    def drive(f):
        it = f(ONE)
        values = [next(it), it.send(7), type(it).__name__]
        with contextlib.suppress(StopIteration):
            next(it)
        return values

    return f, [drive] * 5


@program(graph=False)
def generator_function():
    def f(x):
        for i in range(3):
            x = x + i
            yield x

    return f, [lambda f: list(f(ONE)), lambda f: list(f(ONE)), lambda f: next(f(ONE)), lambda f: list(f(ONE))]


@program(graph=False)
def returned_closures():
    def f(x, k):
        y = x * k

        def later(z):
            return y + z

        return later, [lambda: y]

    def use(k):
        def step(f):
            later, [thunk] = f(ONE, k)
            return later(ONE), thunk(), later.__name__, later.__qualname__

        return step

    return f, [use(1), use(1), use(1), use(2), use(1)]


@program()
def optional_and_mixed_types():
    def f(x, y=None):
        if y is None:
            return x * 2
        return x + y

    return f, [(ONE,), (ONE,), (ONE,), (ONE, ONE), (ONE, 2), (ONE, 2.5), (ONE, None), (3, 4), (ONE, nn.Parameter(ONE))]


@program()
def tensor_subclass_and_parameter():
    class Tagged(torch.Tensor):
        pass

    def f(x):
        return x * 2 + 1

    return f, [(ONE,), (ONE,), (ONE,), (nn.Parameter(torch.ones(1)),), (torch.ones(1).as_subclass(Tagged),), (ONE,)]


@program()
def autograd_function():
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, limit):
            ctx.limit = limit
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g.clamp(-ctx.limit, ctx.limit), None

    def f(x, limit):
        return (Clip.apply(x, limit) * 10).sum()

    return f, [(torch.ones(2, requires_grad=True), v) for v in (1.0, 1.0, 1.0, 0.5, 20.0)]


@program()
def same_function_for_many_methods():
    class Counter:
        def __init__(self, start):
            self.n = start

        def go(self, x):
            self.n += 1
            return x + self.n

    def f(method, x):
        return method(x)

    a, b = Counter(0), Counter(10)
    return f, [(a.go, ONE), (a.go, ONE), (a.go, ONE), (b.go, ONE), (torch.neg, ONE), (a.go, ONE)]
