"""Every function that draws, numbers of every kind as state, and state that two compiled functions share."""

import decimal
import fractions

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import janusc

from . import ones, program


class Box:
    def __init__(self, **state):
        self.__dict__.update(state)


def calls_that_fail_in_the_middle(f, make):
    """Calls that succeed, fail after all draws, and succeed again."""

    def bad(f):
        try:
            return f(make(), 0)
        except RuntimeError as error:
            return type(error).__name__

    return f, [*((make(), 1) for _ in range(3)), bad, bad, (make(), 1)]


@program()
def functions_that_draw():
    def f(x, count):
        h = torch.full((3,), 0.5)
        a = [torch.rand(3), torch.randn(2, 2), torch.randint(5, (3,)), torch.randint(1, 9, (2,)), torch.randperm(5)]
        b = [torch.rand_like(h), torch.randn_like(h), torch.randint_like(h, 4), torch.bernoulli(h), h.bernoulli()]
        c = [torch.bernoulli(h, 0.3), torch.multinomial(h, 2), h.multinomial(2), torch.normal(h, h)]
        d = [torch.normal(0.0, 1.0, (3,)), torch.poisson(h * 9), torch.rand_like(x)]
        return a, b, c, d, torch.ones(count).max()

    return calls_that_fail_in_the_middle(f, lambda: torch.randn(4, 4))


@program()
def methods_that_draw():
    def f(x, count):
        a = x.normal_().sum() + x.uniform_(0, 2).sum() + x.exponential_().sum() + x.geometric_(0.3).sum()
        b = x.log_normal_().sum() + x.cauchy_().sum() + x.random_(0, 9).sum() + x.bernoulli_(0.3).sum()
        return a, b, x.random_(5).sum() * torch.ones(count).max()

    return calls_that_fail_in_the_middle(f, lambda: torch.randn(4, 4))


@program()
def layers_that_draw():
    layers = [nn.Dropout(0.4), nn.Dropout1d(0.4), nn.AlphaDropout(0.4)]
    planes = [nn.Dropout2d(0.4), nn.FeatureAlphaDropout(0.4)]
    attention, encoder = nn.MultiheadAttention(4, 2, dropout=0.3), nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3)
    recurrent, pool = nn.GRU(4, 4, 2, dropout=0.3), nn.FractionalMaxPool2d(2, output_size=2)

    def f(x, count):
        for layer in layers:
            x = layer(x)
        y = F.dropout(x) + F.alpha_dropout(x, 0.3, True) + F.rrelu(x, training=True) + F.gumbel_softmax(x)
        v = y[None, None]
        for layer in planes:
            v = layer(v)
        v = F.feature_alpha_dropout(v[0], 0.3, True)
        w = F.scaled_dot_product_attention(v, v, v, dropout_p=0.3) + attention(v, v, v)[0] + encoder(v)
        return (w + recurrent(v)[0]) * torch.ones(count).max(), pool(x.repeat(2, 1)[None, None])

    return calls_that_fail_in_the_middle(f, lambda: torch.randn(4, 4))


@program()
def numbers_of_many_kinds():
    o = Box(
        a=np.int64(1),
        b=np.float32(1.5),
        c=decimal.Decimal("1.1"),
        d=fractions.Fraction(1, 3),
        e=True,
        f=10**30,
        g=1j,
        h=torch.tensor(1),
        i=-0.0,
        j=float("nan"),
    )

    def f(x):
        o.a += 1
        o.b *= 2
        o.c += 1
        o.d += 1
        o.e += 1
        o.f *= 2
        o.g *= 1j
        o.h += 1
        o.i *= 1
        o.j += 1
        y = x * int(o.a) + float(o.b)
        y = y * o.a + o.h + o.e + o.i + o.b
        return (y + float(o.d), o.f, o.c, o.i, type(o.a).__name__, type(o.e).__name__)

    return (f, ones(6), o)


@program()
def finally_and_else_write():
    o = Box(n=0, log=[])

    def f(x, mode):
        try:
            o.n += 1
            y = torch.tanh(x) * o.n
            if mode == 1:
                raise KeyError("k")
            if mode == 2:
                y = y.view(17)
            if mode == 3:
                return y
        except KeyError as e:
            o.log.append(str(e))
            y = x
        except RuntimeError:
            o.n += 100
            y = x * 2
        else:
            o.log.append("else")
        finally:
            o.n += 10
            o.log.append("finally")
        while True:
            try:
                o.n += 1
                if o.n % 3 == 0:
                    break
                continue
            finally:
                o.log.append("loop")
        return y * o.n

    return (f, [(torch.ones(2), m) for m in (0, 0, 0, 1, 2, 3, 0, 1)], o)


@program()
def shared_state_of_two_compiled():
    o = Box(n=0, t=torch.zeros(2))

    def inner(x):
        o.n += 1
        o.t.add_(1)
        return x * o.n + o.t

    g = janusc.compile(inner, warmup=0)

    def f(x):
        a = g(x)
        o.n += 5
        b = inner(x) + o.n
        return a + b + g(b)

    return (f, ones(6, 2), o)
