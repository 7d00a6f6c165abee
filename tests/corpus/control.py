"""Control flow: stable and deviating branches, loops of every kind, early exits, Boolean operators."""

import torch
from torch import nn

from . import program

ONE = torch.ones(1)


def ones(*values):
    return [(torch.tensor([float(v)]),) for v in values]


@program(max_graphs=1)
def stable_branch():
    def f(x, flag=False):
        if flag:
            return x - 1
        if x.sum() > 0:
            y = x * 2
        else:
            y = x * 3
        return y

    return f, ones(1, 2, 3, 4, 5)


@program(max_graphs=3)
def deviating_branch():
    def f(x):
        if x.sum() > 0:
            y = x * 2
        elif x.sum() < 0:
            y = (x - 1).int()
        else:
            y = torch.cat([x, x])
        return y + 1

    return f, ones(1, 2, 3, -1, 4, 0, -2, 5, 0, 1)


@program(max_graphs=3)
def alternating_branch():
    def f(x):
        if x.mean() > 0:
            x = x * 2
        x = x + 1
        if x.mean() > 3:
            x = x - 3
        return x

    return f, ones(1, -1, 2, -2, 3, -9, 4, 1, -1)


@program(max_graphs=2)
def tensor_rows():
    def f(xs):
        total = torch.zeros(xs.shape[1])
        for row in xs:
            total = total * 0.5 + row
        return total

    return f, [(torch.randn(n, 3),) for n in (4, 4, 4, 2, 7, 1, 4)]


@program()
def no_rows():
    def f(xs):
        last = None
        for row in xs:
            last = row * 2
        return last

    return f, [(torch.randn(n, 3),) for n in (2, 2, 2, 0, 2, 0)]


@program(max_graphs=2)
def range_loop():
    def f(x, n):
        for i in range(n):
            x = x * 2 + i
        return x, n

    return f, [(ONE, n) for n in (3, 3, 3, 5, 0, 8, 3)]


@program(max_graphs=2)
def list_loop_with_index():
    def f(xs):
        out = {}
        for i, (a, b) in enumerate(zip(xs, xs[1:])):
            out[i] = a + b
        for k, v in out.items():
            out[k] = v * k
        return out

    return f, [([torch.full((2,), float(i)) for i in range(n)],) for n in (4, 4, 4, 3, 6, 1, 4)]


@program()
def layers_in_a_loop():
    layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    def f(x, skip):
        for i, layer in enumerate(layers):
            if i == skip:
                continue
            x = torch.relu(layer(x)) + x
        return x

    return f, [(torch.randn(1, 2), s) for s in (-1, -1, -1, 0, 1, -1)]


@program()
def while_loop():
    def f(x, limit):
        steps = 0
        while x.norm() < limit:
            x = x * 1.5
            steps += 1
        return x, steps

    return f, [(ONE, 5.0), (ONE, 5.0), (ONE, 5.0), (ONE, 50.0), (ONE, 0.0), (ONE, 5.0)]


@program()
def while_with_python_counter():
    def f(x, n):
        while n:
            n -= 1
            x = x + n
        else:
            x = -x
        return x

    return f, [(ONE, n) for n in (3, 3, 3, 6, 0, 3)]


@program()
def break_return_and_else():
    def f(x):
        for i in range(10):
            x = x + 1
            if x.sum() > 4:
                break
            if x.sum() < -4:
                return x * 100, i
        else:
            return x * 0, -1
        return x, i

    return f, ones(1, 1, 1, -9, 3.5, -5.5, float("nan"), 1)


@program()
def continue_in_while():
    def f(x, n):
        total, i = x * 0, 0
        while i < n:
            i += 1
            if i % 2:
                continue
            total = total + x * i
        return total

    return f, [(ONE, n) for n in (4, 4, 4, 7, 1, 4)]


@program()
def nested_loops():
    def f(x, n, m):
        for i in range(n):
            for j in range(m):
                if j > i:
                    break
                x = x + i * j
            else:
                x = x * 2
        return x

    return f, [(ONE, 3, 2), (ONE, 3, 2), (ONE, 3, 2), (ONE, 2, 3), (ONE, 4, 1), (ONE, 0, 9), (ONE, 3, 2)]


@program()
def loop_over_a_growing_list():
    def f(x, n):
        todo, done = [x], []
        for item in todo:
            if len(todo) < n:
                todo.append(item * 2)
            done.append(item + 1)
        return torch.cat(done)

    return f, [(ONE, n) for n in (3, 3, 3, 5, 1, 3)]


@program()
def conditional_expressions():
    def f(x, y=None, flag=0):
        z = x if y is None else x + y
        z = (z * 2 if flag else z) if flag >= 0 else -z
        return z, "big" if z.sum() > 10 else "small"

    return f, [(ONE,), (ONE,), (ONE,), (ONE, ONE * 20), (ONE, None, 1), (ONE, ONE, -1), (ONE,)]


@program()
def and_or_not():
    calls = []

    def note(value):
        calls.append(value)
        return value

    def f(x, a, b):
        keep = note(a) and note(b) or note(0)
        z = x + 1 if not a or x.sum() > 2 and b else x
        return z, keep, x.any() and x.all()

    return f, [(ONE, 1, 2), (ONE, 1, 2), (ONE, 1, 2), (ONE, 0, 2), (ONE, 1, 0), (ONE * 3, 1, ""), (ONE, 1, 2)], calls


@program()
def default_by_or():
    def f(x, maybe):
        z = maybe or x.sum()
        return z * 2

    zero = torch.tensor(0.0)
    return f, [(ONE, ONE), (ONE, ONE), (ONE, ONE), (ONE, zero), (ONE, None), (ONE, 3), (ONE, torch.ones(2)), (ONE, ONE)]


@program()
def chained_comparison():
    def f(x, low, high):
        inside = low < x.sum() <= high != 7
        return x * 2 if inside else x - 1, inside

    return f, [(ONE, 0, 2), (ONE, 0, 2), (ONE, 0, 2), (ONE, 1, 2), (ONE, 0, 7), (ONE, 2, 1), (ONE, 0, 2)]


@program()
def asserts():
    def f(x, n):
        assert n >= 0, f"negative: {n}"
        assert x.ndim == 1
        return x * n

    return f, [(ONE, 1), (ONE, 1), (ONE, 1), (ONE, -1), (ONE, 2), (torch.ones(1, 1), 1), (ONE, 1)]


@program()
def membership_and_identity():
    def f(x, mode, table):
        if mode in ("sum", "mean"):
            y = getattr(x, mode)()
        elif mode not in table:
            y = x
        else:
            y = x * table[mode]
        return y, mode is None, type(x) is torch.Tensor, isinstance(y, (torch.Tensor, int))

    table = {"twice": 2, "half": 0.5}
    x = torch.arange(3.0)
    return f, [(x, m, table) for m in ("sum", "sum", "sum", "mean", "twice", "half", None, "other", "sum")]


@program()
def local_on_one_path_only():
    def f(x):
        if x.sum() > 0:
            y = x.int()
        elif x.sum() < 0:
            y = x.repeat(2)
        return y  # unbound for a sum of zero

    return f, ones(1, 1, 1, -1, 0, 1, 0)


@program()
def loop_variable_afterwards():
    def f(x, n):
        for i in range(n):
            x = x + 1
        return x, i

    return f, [(ONE, n) for n in (4, 4, 4, 0, 2, 0, 4)]


@program(graph=False)
def match_and_walrus():
    def f(x, m):
        if (n := x.shape[0]) > 1:
            x = x * n
        match m:
            case {"op": "add", "v": v}:
                x = x + v
            case [a, *rest]:
                x = x - a + len(rest)
            case _:
                pass
        return x, f"{m!r}:{n:>2}"

    add = {"op": "add", "v": 1}
    return f, [(torch.ones(2), m) for m in (add, add, add, [1, 2], None, add)] + [(ONE, add)]


@program()
def try_and_except():
    def f(x):
        y = x + 0
        try:
            z = torch.tensor(1) // x
        except RuntimeError:
            z = x + 2
        finally:
            y = y * 3
        return y - z

    return f, [(torch.tensor(v),) for v in (1, 1, 1, 0, 2, 0, 1)]


@program()
def with_blocks():
    def f(x, w):
        with torch.no_grad():
            mean = (x * w).mean()
            flag = torch.is_grad_enabled()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
            with torch.autocast("cpu", enabled=False):
                z = x @ w
        with torch.set_grad_enabled(flag or w.shape[0] == 2):
            u = w * 2
        return y, z - mean, u, flag

    def inside(f):
        with torch.no_grad():
            return f(torch.randn(2, 2), torch.randn(2, 2, requires_grad=True))

    def cast(f):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return f(torch.randn(2, 2), torch.randn(2, 2, requires_grad=True))

    args = [(torch.randn(2, 2), torch.randn(2, 2, requires_grad=True)) for _ in range(4)]
    return f, [*args, inside, cast, (torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)), args[0]]


@program()
def early_return_by_shape():
    def f(x):
        if x.dim() == 0:
            return x.reshape(1)
        if len(x) == 0:
            return None
        return x[0] if x.shape[-1] > 2 else [x, x * 2]

    shapes = [(3, 3), (3, 3), (3, 3), (), (0,), (2, 2), (3, 3), (5, 4)]
    return f, [(torch.randn(s),) for s in shapes]


@program(max_graphs=2)
def greedy_decode():
    def f(x, n):
        tokens = []
        for i in range(n):
            x = torch.tanh(x + i)
            token = int(x.argmax())
            tokens.append(token)
            if token == 2:
                break
        return tokens

    return f, [(torch.randn(4), 5 + i) for i in range(10)]


@program()
def experts():
    def f(x, route, weights):
        out = torch.zeros_like(x)
        for e in range(weights.shape[0]):
            index = (route == e).nonzero().flatten()
            if index.numel():
                out[index] = x[index] * weights[e]
        return out

    weights = torch.tensor([1.0, 10.0, 100.0])
    routes = ([0, 1, 2], [2, 1, 0], [0, 1, 2], [2, 2, 2], [1, 1, 0], [0, 1, 2])
    return f, [(torch.ones(3), torch.tensor(r), weights) for r in routes]
