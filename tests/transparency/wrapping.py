"""Functions around functions: decorators, wraps, partial, callables, caches, bound and unbound methods."""

import contextlib
import functools
import operator

import torch

from . import Call, ones, program

ONE = torch.ones(3)


@program()
def decorators_of_every_shape():
    log = []

    def plain(function):
        def wrapper(*args, **kwargs):
            log.append("plain")
            return function(*args, **kwargs)

        return wrapper

    def with_arguments(factor):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(x, *args, **kwargs):
                return function(x * factor, *args, **kwargs)

            return wrapper

        return decorate

    class Counted:
        def __init__(self, function):
            self.function, self.calls = function, 0

        def __call__(self, *args):
            self.calls += 1
            return self.function(*args) + self.calls

    @plain
    @with_arguments(3)
    def scale(x, k=2):
        return torch.relu(x) * k

    @Counted
    def shift(x):
        return x + 1

    @with_arguments(factor=0.5)
    @Counted
    def both(x):
        return x - 1

    def f(x):
        return scale(x) + scale(x, k=3) + shift(x) + both(x), shift.calls

    return f, ones(5), log, shift


@program()
def decorated_function_compiled():
    def logged(function):
        log = []

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            log.append(len(args))
            return function(*args, **kwargs), list(log)

        return wrapper

    @logged
    def f(x, k=2):
        return torch.relu(x) * k

    return f, [(ONE,), (ONE,), (ONE,), (ONE, 3), Call(ONE, k=4)]


@program()
def replaced_inside_of_a_wrapped_function():
    def make(k):
        def inner(x):
            return torch.relu(x) * k

        return inner

    def wraps(function):
        @functools.wraps(function)
        def wrapper(x):
            return wrapper.__wrapped__(x) + 1

        return wrapper

    wrapped = wraps(make(2))

    def f(x):
        return wrapped(x)

    def change(f):
        wrapped.__wrapped__ = make(5)
        return f(ONE)

    return f, [*ones(4), change, *ones(1)]


@program()
def partials():
    def scale(x, k, *, s=1):
        return torch.relu(x) * k * s

    double = functools.partial(scale, k=2)
    nested = functools.partial(functools.partial(scale, s=3), k=4)
    first = functools.partial(scale, ONE)
    total = functools.partial(sum, [1, 2, 3])
    add = functools.partial(operator.add, ONE)
    clamp = functools.partial(torch.clamp, min=0, max=2)

    class Model:
        factor = 2

        def scaled(self, x, k):
            return x * self.factor * k

        triple = functools.partialmethod(scaled, k=3)

    model = Model()

    def f(x):
        return double(x), nested(x), nested(x, s=1), first(5), total(), add(x), clamp(x * 9), model.triple(x)

    def change(f):
        double.keywords["k"] = 7
        model.factor = 5
        return f(ONE)

    def local(x, n):
        g = functools.partial(scale, k=n)
        return g(x) + 1

    return f, [*ones(4), change, *ones(2)]


@program(graph=False)
def partial_made_in_the_call():
    def scale(x, k, s=1):
        return torch.relu(x) * k * s

    def f(x, n):
        g = functools.partial(scale, k=n)
        h = functools.partial(g, x)
        return g(x) + h(s=2), g.keywords, g.func is scale

    return f, [(ONE, n) for n in (1, 1, 1, 2, 3.0)]


@program()
def partial_compiled():
    def scale(x, k, *, s=1):
        return torch.relu(x) * k * s

    return functools.partial(scale, k=2), [*ones(4), Call(ONE, s=3), Call(ONE, k=5)]


@program()
def methods_as_values():
    class Model:
        def __init__(self, k):
            self.k = k

        def scaled(self, x):
            return torch.relu(x) * self.k

        @staticmethod
        def shifted(x):
            return x + 1

        @classmethod
        def named(cls, x):
            return x * len(cls.__name__)

    class Sub(Model):
        pass

    first, second = Model(2), Sub(3)
    held = first.scaled

    def f(x, pick):
        method = (first if pick else second).scaled
        y = method(x) + held(x) + Model.scaled(second, x) + Model.shifted(x) + second.shifted(x)
        return y + Sub.named(x) + first.named(x), method.__self__ is first

    def override(f):
        first.scaled = lambda x: x * 100
        return f(ONE, True)

    def replace(f):
        del first.scaled
        Sub.scaled = lambda self, x: x - self.k
        return f(ONE, False)

    return f, [*[(ONE, True)] * 4, (ONE, False), override, (ONE, False), replace, (ONE, True)]


@program()
def callable_objects():
    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, x, *, twice=False):
            return x * self.k * (2 if twice else 1)

    class Special(Scale):
        def __call__(self, x, **kwargs):
            return super().__call__(x, **kwargs) + 1

    class Static:
        @staticmethod
        def __call__(x):
            return x - 1

    def f(x, g):
        return g(torch.relu(x)), callable(g), g

    scale, special, static = Scale(2), Special(3), Static()

    def instance_attribute(f):
        scale.__call__ = lambda x: x * 1000  # Python looks on the class
        return f(ONE, scale)

    def class_attribute(f):
        Scale.__call__ = lambda self, x, **_: x * 7
        return f(ONE, scale), f(ONE, special)

    functions = (torch.tanh, abs, functools.partial(Scale(5), twice=True), torch.nn.ReLU(), lambda x: x * 9, len, None)
    calls = [(ONE, g) for g in (special, static, *functions)]
    return f, [*[(ONE, scale)] * 4, *calls, instance_attribute, class_attribute]


@program()
def caches():
    log = []

    @functools.cache
    def factor(n):
        log.append(n)
        return n * 2

    class Model:
        @functools.cached_property
        def weight(self):
            log.append("weight")
            return torch.full((3,), 2.0)

        @functools.cache  # noqa: B019
        def scaled(self, n):
            log.append("scaled")
            return n + 1

    model = Model()

    def f(x, n):
        return torch.relu(x) * factor(n) * model.weight * model.scaled(n)

    def forget(f):
        factor.cache_clear()
        del model.weight
        return f(ONE, 1)

    return f, [*[(ONE, 1)] * 4, (ONE, 2), forget, (ONE, 2)], log


@program()
def single_dispatch():
    @functools.singledispatch
    def scale(v, x):
        return x

    @scale.register
    def _(v: int, x):
        return x * v

    @scale.register
    def _(v: str, x):
        return x + len(v)

    def f(x, v):
        return torch.relu(x) + 1, scale(v, x)

    def register(f):
        @scale.register
        def _(v: float, x):
            return x - v

        return f(ONE, 1.5)

    return f, [*[(ONE, 2)] * 4, (ONE, "text"), (ONE, 1.5), (ONE, True), register, (ONE, 1.5)]


@program(graph=False)
def context_manager_functions():
    log = []

    @contextlib.contextmanager
    def noted(name):
        log.append(f"enter {name}")
        try:
            yield len(name)
        finally:
            log.append(f"leave {name}")

    @noted("decorator")
    def inner(x):
        return x * 2

    def f(x):
        with noted("a") as n:
            y = torch.relu(x) * n
        return inner(y)

    return f, ones(4), log


@program()
def reduce_and_operators():
    def f(x, items):
        y = functools.reduce(lambda a, b: a * b, items, torch.relu(x))
        z = functools.reduce(operator.add, [y, x, x])
        pick = operator.itemgetter(0, -1)(items)
        return z, pick, operator.attrgetter("shape")(x), operator.methodcaller("sum")(x)

    return f, [(ONE, v) for v in ([1, 2], [1, 2], [1, 2], [3, 4, 5], [])]


@program()
def recursion_and_mutual_calls():
    def even(x, n):
        return torch.relu(x) if n == 0 else odd(x + 1, n - 1)

    def odd(x, n):
        return -x if n == 0 else even(x * 2, n - 1)

    def f(x, n):
        def depth(t):
            return 0 if not isinstance(t, tuple) else 1 + max(map(depth, t))

        return even(x, n) + 1, depth(((1,), ((2,),)))

    return f, [(ONE, n) for n in (2, 2, 2, 3, 0, 7)]
