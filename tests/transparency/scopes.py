"""Where a name belongs: walrus, comprehensions, lambdas, class bodies, closures over loops."""

import functools

import torch

from . import ones, program

ONE = torch.ones(3)
FACTOR = 2
GLOBAL = "global"


@program()
def walrus_everywhere():
    def f(x, limit):
        if (n := x.shape[0]) > 1 and (total := x.sum()) < limit:
            y = x * n + total
        else:
            y = x + n
        while (y := y * 2).max() < limit:
            pass
        squares = [last := i * i for i in range(n)]
        found = any((hit := v) > 2 for v in squares)
        return y[(k := n - 1)], last, found, hit, k, (a := 1, b := a + 1), b

    sizes = [(torch.ones(n), limit) for n in (3, 3, 3, 3, 4, 1, 2) for limit in (9.0, 100.0)]
    return f, sizes


@program()
def walrus_in_an_unreached_operand():
    def f(x, flag):
        if flag and (y := x * 2).sum() > 0:
            pass
        z = torch.relu(x)
        return z + y

    return f, [(ONE, flag) for flag in (True, True, True, True, False, True, 0, 1)]


@program()
def comprehension_variables_are_its_own():
    def f(x, items):
        i, j = 100, x
        doubled = [j * i for i in items]
        table = {i: j * 2 for i, j in enumerate(items)}
        nested = [(i, j) for i in items for j in range(i) if j % 2]
        outer = [[j + i for j in range(i)] for i in items]
        kept = {i % 2 for i in items}
        lazy = sum(i for i in items)
        return torch.relu(x) * i, j, doubled, table, nested, outer, kept, lazy

    return f, [(ONE, v) for v in ([1, 2, 3], [1, 2, 3], [1, 2, 3], [3, 2, 1], [], [4], (1, 2), range(3))]


@program(graph=False)
def first_iterable_is_evaluated_outside():
    class Holder:
        items = [1, 2, 3]
        scaled = [i * FACTOR for i in items]
        try:
            bad = [items[0] for _ in range(2)]
        except NameError:
            bad = None

    def f(x):
        class Local:
            factor = 3
            values = [v * 2 for v in range(factor)]
            try:
                broken = [factor for _ in range(1)]
            except NameError:
                broken = "not visible"

        return torch.relu(x) * Local.factor, Local.values, Local.broken, Holder.scaled, Holder.bad

    return f, ones(5)


@program(graph=False)
def late_binding_lambdas():
    def f(x, n):
        late = [lambda: x * i for i in range(n)]  # noqa: B023
        early = [lambda i=i: x * i for i in range(n)]
        loop = []
        for k in range(n):
            loop.append(lambda: x + k)  # noqa: B023
        return [g() for g in late], [g() for g in early], [g() for g in loop], torch.relu(x)

    return f, [(ONE, n) for n in (3, 3, 3, 2, 1, 3)]


@program(graph=False)
def late_binding_of_a_local_that_changes():
    def f(x, n):
        scale = 1

        def scaled(v):
            return v * scale  # noqa: F821

        y = scaled(torch.relu(x))
        scale = 2
        y = y + scaled(x)
        for scale in range(n):  # noqa: B007
            y = y + scaled(x)
        del scale
        try:
            return scaled(y)
        except NameError as error:
            return y, type(error).__name__, str(error)

    return f, [(ONE, n) for n in (3, 3, 3, 0, 5, 1)]


@program()
def cells_shared_by_two_closures():
    def make():
        count, held = 0, []

        def up(x):
            nonlocal count
            count += 1
            held.append(count)
            return x * count

        def down(x):
            nonlocal count
            count -= 2
            return x * count + len(held)

        return up, down

    up, down = make()

    def f(x, flag):
        y = up(x)
        if flag:
            y = y + down(x)
        return torch.relu(y) + up(x)

    return f, [(ONE, flag) for flag in (True, True, True, False, True, 0)], up, down


@program()
def several_lambdas_on_one_line():
    f, g, h = (lambda x: x * 2), (lambda x: x * 3), (lambda x: (lambda y: y + 1)(x) * 4)  # fmt: skip
    table = {"f": f, "g": g, "h": h}
    pick = lambda k: table[k]

    def run(x, name):
        return torch.relu(pick(name)(x)) + (lambda a: a)(1) + (lambda a: a * 2)(2)

    return run, [(ONE, k) for k in ("f", "f", "f", "g", "h", "f", "h")]


def _same_line():
    return (lambda x: torch.relu(x) * 2), (lambda x: torch.relu(x) * 3)


@program()
def second_lambda_of_a_line_compiled():
    return _same_line()[1], ones(5)


@program()
def lambda_defaults_and_stars():
    scale = lambda x, /, k=2, *rest, s=1, **named: x * k * s + sum(rest) + sum(named.values())

    def f(x, n):
        return scale(torch.relu(x)), scale(x, n), scale(x, n, 1, 2), scale(x, s=n, z=1), scale(x, k=n)

    def change(f):
        scale.__defaults__ = (5,)
        scale.__kwdefaults__ = {"s": 7}
        return f(ONE, 3)

    return f, [*[(ONE, 3)] * 4, change, (ONE, 3), (ONE, 4)]


@program()
def class_bodies_inside_the_call():
    def f(x, n):
        offset = n

        class Layer:
            scale = offset * 2

            def __init__(self, bias):
                self.bias = bias

            def __call__(self, v):
                return v * self.scale + self.bias + offset

        class Sub(Layer):
            def __call__(self, v):
                return super().__call__(v) * 2

        y = torch.relu(x)
        return Sub(1)(y), Layer(2)(y), Sub.scale, Sub.__qualname__, Sub.__mro__[1].__name__

    return f, [(ONE, n) for n in (1, 1, 1, 2, 1)]


@program(graph=False)
def functions_made_and_kept():
    made = []

    def f(x, k):
        @functools.wraps(f)
        def scaled(v):
            return v * k

        made.append(scaled)
        return torch.relu(x) + sum(g(x) for g in made)

    return f, [(ONE, k) for k in (1, 2, 3, 4, 5)], made


@program(graph=False)
def returned_closures_share_what_they_captured():
    def f(x):
        total = torch.relu(x)

        def add(v):
            nonlocal total
            total = total + v
            return total

        def read():
            return total

        add(x)
        return add, read, total

    def use(f):
        add, read, total = f(ONE)
        add(ONE)
        return read(), total, add.__name__, add.__closure__ is not None

    return f, [use] * 5


@program()
def names_of_all_scopes_at_once():
    name = "enclosing"

    def f(x):
        found = [GLOBAL, name]

        def inner():
            nonlocal_name = "inner"

            def deeper():
                global FACTOR
                FACTOR += 1
                return GLOBAL, name, nonlocal_name, FACTOR

            return deeper()

        def shadow():
            name = "shadowed"
            GLOBAL = 1
            return name, GLOBAL

        return torch.relu(x) * len(found), inner(), shadow(), name

    def reset(f):
        global FACTOR
        FACTOR = 2
        return f(ONE)

    return f, [reset, *ones(4), reset]


@program()
def unbound_in_the_enclosing_scope():
    def make():
        def f(x):
            return torch.relu(x) * later

        def bind(value):
            nonlocal later
            later = value

        def unbind():
            nonlocal later
            del later

        later = 2
        return f, bind, unbind

    f, bind, unbind = make()
    return f, [*ones(4), lambda g: unbind(), *ones(2), lambda g: bind(5), *ones(2)]
