"""What stands in for values during a conversion or a call is never seen by the program."""

import inspect
import sys
import time
import weakref

import torch
from torch import library, nn

from . import ones, program


class Box:
    def __init__(self, **state):
        self.__dict__.update(state)


class Mortal:
    pass


flag = 3


@program(graph=False)
def names_in_scope():

    def f(x, k=2, *rest, opt=5):
        a = k + 1
        y = torch.tanh(x) * a
        names = sorted(locals())
        b = eval("a + k + opt")
        exec("c = 3")
        z = y * b
        d = sorted(vars()) + sorted(dir())
        g = globals()["flag"]
        h = sys._getframe().f_locals["a"]
        w = inspect.currentframe().f_code.co_name
        return (z * g + h, names, d, w, len(rest))

    return (f, [(torch.ones(2),), (torch.ones(2),), (torch.ones(2), 2, 3), (torch.ones(2),), (torch.ones(2), 4)])


@program()
def defaults_seen():
    seen = []

    def f(x, a=None, b=(), *, c=flag, d=None):
        seen.append((a, b, c, d))
        if a is None:
            a = x
        y = torch.tanh(x) * 2
        seen.append(a is x)
        time.time()

        def inner(q=b, *, r=c):
            return (q, r)

        seen.append(inner())
        return (y + c, lambda: (b, c, d))

    def kw(f):
        return f(x=torch.ones(2), d=4)[0]

    def ch(f):
        return f(torch.ones(2), None, (1,), c=2.5)[0]

    return (
        f,
        [lambda f: f(torch.ones(2))[0], lambda f: f(torch.ones(2))[0], lambda f: f(torch.ones(2))[0], kw, ch, kw],
        seen,
    )


@program()
def stand_ins_are_not_seen():
    """Whatever torch calls back while converting."""
    seen = []

    class Sub(nn.Module):
        def forward(self, x):
            return x * 2

    class Fn(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(float(x.sum()))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(float(g.sum()))
            return g

    @library.custom_op("programs::plus_one", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        seen.append(float(x.sum()))
        return x + 1

    def f(x):
        y = Fn.apply(x)
        z = op(y)
        w = torch.vmap(lambda r: (seen.append(type(r).__name__), r * 2)[1])(z[None])
        v = torch.utils.checkpoint.checkpoint(lambda t: (seen.append(float(t.sum())), t * 3)[1], w, use_reentrant=False)
        v.register_hook(lambda g: seen.append(("hook", float(g.sum()))))
        m = list(map(lambda t: (seen.append(t.shape), t)[1], [v]))  # noqa: C417
        s = sorted([3, 1, 2], key=lambda k: (seen.append(k), -k)[1])
        t = torch.func.functional_call(Sub(), {}, (m[0],))
        return t.sum() * s[0]

    return (f, [(torch.full((2,), float(i), requires_grad=True),) for i in (1, 1, 1, 2, 3)], seen)


def noticing(seen):
    """An object and a dictionary that write down what is asked of them."""

    class Lazy:
        @property
        def shape(self):
            seen.append("shape")
            return (2,)

        def __getattr__(self, n):
            seen.append(n)
            if n == "zz":
                raise AttributeError(n)
            return 3

        def __torch_function__(self, *a):
            seen.append("tf")
            return NotImplemented

        def __len__(self):
            seen.append("len")
            return 2

        def __iter__(self):
            seen.append("iter")
            return iter([1, 2])

        def __index__(self):
            seen.append("index")
            return 1

        def __float__(self):
            seen.append("float")
            return 2.0

        def __int__(self):
            seen.append("int")
            return 2

    class D(dict):
        def __missing__(self, k):
            seen.append(("missing", k))
            return 5

        def __contains__(self, k):
            seen.append(("in", k))
            return dict.__contains__(self, k)

        def get(self, k, d=None):
            seen.append(("get", k))
            return d

    return Lazy(), D(a=1)


@program()
def objects_that_notice_reads():
    seen = []
    values, d = noticing(seen)

    def f(x):
        y = torch.tanh(x)
        n = len(values) + sum(values) + values.width + (1 if hasattr(values, "zz") else 0) + getattr(values, "zz", 4)
        y = y * n + values.shape[0]
        y = y + float(values) + int(values) + x[values] + d["q"] + d["a"] + ("a" in d) + d.get("b", 1)
        return y * len(seen)

    return (f, ones(5), seen)


@program()
def what_was_replaced_is_gone():
    box = Box(held=Mortal(), items=[Mortal(), Mortal()], table={"a": Mortal()}, t=torch.zeros(2))

    def f(x):
        refs = [weakref.ref(v) for v in (box.held, *box.items, box.table["a"])]
        y = torch.tanh(x)
        box.held = None
        box.items.pop()
        box.items[0] = 1
        box.table["a"] = 2
        box.t.add_(1)
        box.n = 3
        time.time()
        alive = [r() is not None for r in refs]
        return (y, alive)

    def again(f):
        box.held, box.items, box.table = (Mortal(), [Mortal(), Mortal()], {"a": Mortal()})
        return f(torch.ones(2))

    return (f, [again] * 5, box)


@program()
def what_a_name_held_is_gone():
    """What was bound to a name before does not outlive it from one step to the next."""
    box = Box(refs=[])

    def note(tensor):
        box.refs.append(weakref.ref(tensor))
        return tensor

    def f(x):
        box.refs.clear()
        y = list(map(note, [x * 2]))[0]
        y = torch.tanh(y)
        z = list(map(note, [torch.sin(y) + 1]))[0]
        first = [r() is not None for r in box.refs]
        z = torch.cos(z) + y
        y = z * 2
        time.time()
        second = [r() is not None for r in box.refs]
        return y + z, first, second

    return f, ones(5), box
