"""Straight-line programs: arithmetic, views, dtypes, containers, ways to pass arguments."""

import torch

from . import Call, program


@program(max_graphs=2)
def arithmetic():
    def f(x, y):
        z = (x + y) * 2 - x / (y.abs() + 1)
        return -z @ x.T

    def args(*shape):
        return torch.randn(shape), torch.randn(shape)

    return f, [args(2, 3), args(2, 3), args(2, 3), args(4, 3), args(5, 3), args(4, 3)]


@program()
def broadcast_and_shapes():
    def f(x, y):
        n, m = x.shape[0], y.size(-1)
        return (x.unsqueeze(1) * y).reshape(n, -1), n * m

    return f, [
        (torch.randn(2), torch.randn(3)),
        (torch.randn(2), torch.randn(3)),
        (torch.randn(2), torch.randn(3)),
        (torch.randn(5), torch.randn(1, 1)),
        (torch.randn(0), torch.randn(3)),
        (torch.randn(2), torch.randn(3)),
    ]


@program()
def views_alias_the_input():
    def f(x):
        rows = x[1:, ::2]
        return rows, x.t(), x.view(-1), rows.transpose(0, 1)[..., -1]

    return f, [
        (torch.randn(3, 4),),
        (torch.randn(3, 4),),
        (torch.randn(3, 4),),
        (torch.randn(4, 4),),
        (torch.randn(3, 4),),
    ]


@program()
def layouts():
    def f(x):
        return torch.copysign(x, x.mT.contiguous().mT), torch.index_select(x, 0, torch.tensor([0])), x.relu() + 1

    def turned():
        return torch.randn(5, 4).mT

    return f, [(turned(),), (turned(),), (turned(),), (torch.randn(4, 5),), (torch.randn(4, 6)[:, 1:],), (turned(),)]


@program()
def dtype_promotion():
    def f(x, y, z):
        return x * y + z, (x > 0).sum(), x.int() // 2

    half = torch.tensor(1.5, dtype=torch.float16)
    whole = torch.tensor([3], dtype=torch.int64)
    args = (half, torch.tensor(2.0), torch.tensor([0.25], dtype=torch.float16))
    return f, [args, args, args, args, (torch.tensor(1.5), 2, whole), (whole, whole, True), args]


@program(max_graphs=2)
def python_scalars():
    def f(x, a, b):
        return x + a**b, a // b, a % b, -a // b, 2**-1, 1 < a < 9, divmod(a, b)

    x = torch.ones(1)
    return f, [(x, 7, 2), (x, 7, 2), (x, 7, 2), (x, 8, 3), (x, 9, 2), (x, 7.0, 2), (x, 7, 2)]


@program(max_graphs=2)
def changing_rate():
    def f(x, rate):
        return x - x * rate

    return f, [(torch.ones(3), 0.1 / (i + 1)) for i in range(8)]


@program()
def bool_int_and_float_of_one_value():
    def f(x, n):
        return x * n, n

    x = torch.arange(3)
    return f, [(x, 1), (x, 1), (x, 1), (x, True), (x, 1.0), (x, 1), (x, -0.0), (x, 0.0)]


@program()
def keyword_arguments():
    def f(x, *, scale=2.0, shift=None):
        y = torch.sum(input=x, dim=-1, keepdim=True) * scale
        return y if shift is None else torch.add(y, shift, alpha=3)

    x = torch.randn(2, 3)
    return f, [
        Call(x),
        Call(x),
        Call(x, scale=2.0),
        Call(x, shift=torch.ones(2, 1)),
        Call(x=x, scale=3.0),
        Call(x, scale=torch.tensor(2.0)),
        Call(x),
    ]


@program()
def advanced_indexing():
    def f(x, index):
        y = x.clone()
        y[0] = 1
        y[:, 1:3] *= 2
        y[index, -1] += 10
        y[y > 5] = 0
        return y, x[index], x[None, ..., 0]

    return f, [
        (torch.randn(3, 4), torch.tensor([0, 2])),
        (torch.randn(3, 4), torch.tensor([0, 2])),
        (torch.randn(3, 4), torch.tensor([1, 1])),
        (torch.randn(3, 4), [2, 0]),
        (torch.randn(4, 5), 1),
        (torch.randn(3, 4), torch.tensor([0, 2])),
    ]


@program()
def format_strings():
    def f(x, name):
        text = f"{name!r:>8}|{x.shape[0]:03d}|{float(x.sum()):.2f}|{x.dtype}"
        return x * len(name), text, "%s-%d" % (name, x.ndim)

    return f, [
        (torch.ones(3), "ab"),
        (torch.ones(3), "ab"),
        (torch.ones(3), "abc"),
        (torch.ones(4) * 2, "d"),
        (torch.ones(3), "ab"),
    ]


@program()
def build_containers():
    def f(x, y):
        pair = (x + 1, [y * 2, {"sum": x + y, "parts": (x, y)}])
        first, [second, table] = pair
        table["extra"] = first - second
        head, *rest = [first, second, table["sum"], x]
        return {**table, "n": len(rest)}, pair, [head, *rest], {1, 2}, slice(1, None)

    def args():
        return torch.randn(2), torch.randn(2)

    return f, [args(), args(), args(), (torch.ones(2, requires_grad=True), torch.ones(2)), args()]


@program()
def starred_calls():
    def f(xs, options):
        parts = [x * 2 for x in xs]
        return torch.cat([*parts, torch.zeros(1)], **options), torch.stack(parts, *[0]).sum(*[], **{})

    return f, [
        ([torch.ones(2), torch.ones(2)], {"dim": 0}),
        ([torch.ones(2), torch.ones(2)], {"dim": 0}),
        ([torch.ones(2), torch.ones(2)], {}),
        ([torch.ones(2)] * 3, {"dim": -1}),
        ([torch.ones(2), torch.ones(2)], {"dim": 0}),
    ]


@program()
def default_tensor_changed_in_place():
    def f(x, total=torch.zeros(2), seen=[]):
        total.add_(x)
        seen.append(len(seen))
        return total * 1

    f.__defaults__ = (torch.zeros(2), [])
    other = torch.ones(2)
    return f, [(torch.ones(2),)] * 4 + [(torch.ones(2), other), (torch.ones(2),)]


@program()
def scatter_and_sort():
    def f(x, labels):
        order = x.argsort(dim=0, stable=True)
        one_hot = torch.zeros(x.shape[0], 4).scatter_(1, labels[:, None], 1.0)
        values, indices = x.topk(2)
        return x[order], one_hot, values, indices, torch.unique(labels)

    return f, [
        (torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0, 3, 1])),
        (torch.tensor([1.0, 1.0, 2.0]), torch.tensor([0, 3, 1])),
        (torch.tensor([3.0, 1.0, 2.0]), torch.tensor([2, 2, 2])),
        (torch.tensor([3.0, 1.0, 2.0, 0.0]), torch.tensor([0, 0, 0, 3])),
        (torch.tensor([3.0, 1.0, float("nan")]), torch.tensor([0, 3, 1])),
    ]


@program()
def gradients_of_inputs():
    def f(x, w):
        h = torch.tanh(x @ w)
        return torch.diagonal_scatter(h, h.sum(0)), (h.detach() * w).sum()

    def args(grad=True):
        return torch.randn(3, 3, requires_grad=grad), torch.randn(3, 3, requires_grad=True)

    return f, [args(), args(), args(), args(False), args()]


@program()
def complex_and_integer_tensors():
    def f(x):
        return x * 2, x.conj() if x.is_complex() else -x, x.abs()

    return f, [
        (torch.arange(4),),
        (torch.arange(4),),
        (torch.arange(4),),
        (torch.tensor([1 + 2j, -1j]),),
        (torch.arange(4, dtype=torch.uint8),),
        (torch.tensor([True]).float().bfloat16(),),
    ]


@program()
def named_results():
    def f(x):
        top = x.max(dim=1)
        u, s, v = torch.linalg.svd(x, full_matrices=False)
        return top, top.indices + 1, top[0] - x.topk(1)[-1].sum(), s, x.shape, x.shape[1:], x.dtype

    return f, [(torch.eye(2, 3),), (torch.eye(2, 3),), (torch.eye(2, 3) * 2,), (torch.eye(4, 3),), (torch.eye(2, 3),)]


@program()
def multiple_and_augmented_assignment():
    def f(x, n):
        a = b = x * 2
        a += 1
        (c, d), e = (b, b - 1), n
        e *= 2
        e <<= 1
        items = [a]
        items += (c, d)
        a = a - b
        del b
        return a, c is d, items, e

    return f, [(torch.ones(2), 1), (torch.ones(2), 1), (torch.ones(2), 1), (torch.ones(2), 5), (torch.ones(3), 1)]


@program()
def a_shape_of_another_rank():
    def f(x):
        total = 0
        for n in x.shape:
            total = total + n
        return torch.relu(x) * total, sum(x.shape), [*x.size()], (1, *x.shape)

    return f, [(torch.ones(4),), (torch.ones(4),), (torch.ones(6, 4),), (torch.ones(2, 3, 4),), (torch.ones(4),)]


@program()
def unpacking_a_shape_of_another_rank():
    def f(x):
        n, m = x.shape
        return torch.relu(x) * n + m

    return f, [
        (torch.ones(2, 3),),
        (torch.ones(2, 3),),
        (torch.ones(4, 3),),
        (torch.ones(2, 3, 4),),
        (torch.ones(2, 3),),
    ]


@program(max_graphs=2)
def softmax_in_every_spelling():
    def f(x, dim):
        plain = torch.nn.functional.softmax(x, dim=-1) * torch.nn.functional.log_softmax(x, dim)
        return plain + torch.nn.functional.softmax(x, 1, dtype=torch.float64), torch.nn.functional.softmax(x, dim=dim)

    return f, [(torch.randn(3, 4), n) for n in (0, 0, 1, -1, 1, 2, 0)]
