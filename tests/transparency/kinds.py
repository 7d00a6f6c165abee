"""Values whose type no guard says: items of carried tuples, numbers taken out of tensors."""

import torch

from . import program

ONE = torch.ones(3)


@program()
def items_of_a_carried_tuple_change_their_kind():
    def f(xs):
        state = (xs.sum(), 1)
        held = (None, xs[0])
        for x in xs:
            h, k = state
            if isinstance(k, int):
                h = h + 100
            state = (h + x.sum(), k * 0.5)
            last, first = held
            if last is None:
                h = h + 1000
            held = (h, first)
        return state, held

    return f, [(torch.ones(n, 3),) for n in (2, 3, 2, 3, 4, 20, 3, 1)]


@program()
def numbers_out_of_tensors_have_the_type_of_the_tensor():
    def f(x):
        v = x.sum().item()
        y = torch.relu(x)
        if isinstance(v, float):
            return y + 1, type(v), f"{v}", v == 3
        return y, type(v), f"{v}", v // 2, x.tolist(), int(x[0]), float(x[0])

    return f, [
        (t,) for t in (ONE, ONE, ONE, ONE.int(), ONE, ONE.bool(), ONE.to(torch.complex64), ONE.half(), ONE.int())
    ]


@program(graph=False)
def dtype_changes_in_a_loop():
    def f(xs, n):
        x = xs
        out = []
        for _ in range(n):
            v = x.sum().item()
            if isinstance(v, float):
                x = x + 1
            out.append(type(v))
            x = x.long()
        return x, out

    return f, [(ONE, n) for n in (2, 3, 2, 3, 4, 20, 3, 1)]


@program()
def dtype_by_branch():
    def f(x, flag):
        if x.sum() > flag:
            y = x.long()
        else:
            y = x * 2.5
        v = y.max().item()
        return torch.relu(y), isinstance(v, float), v, f"{v:>8}"

    return f, [(ONE, n) for n in (2, 2, 2, 9, 4, 2, 9, 1)]
