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


@program()
def functions_that_draw():
    d1, d2, d3, da, dfa = (
        nn.Dropout(0.4),
        nn.Dropout1d(0.4),
        nn.Dropout2d(0.4),
        nn.AlphaDropout(0.4),
        nn.FeatureAlphaDropout(0.4),
    )
    frac = nn.FractionalMaxPool2d(2, output_size=2)
    mha = nn.MultiheadAttention(4, 2, dropout=0.3)
    enc = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3)
    gru = nn.GRU(4, 4, 2, dropout=0.3)

    def f(x, c):
        h = torch.full((3,), 0.5)
        a = (
            torch.rand(3).sum()
            + torch.randn(2, 2).sum()
            + torch.randint(5, (3,)).sum()
            + torch.randint(1, 9, (2,)).sum()
        )
        a = (
            a
            + torch.randperm(5).float()[0]
            + torch.rand_like(h).sum()
            + torch.randn_like(h).sum()
            + torch.randint_like(h, 4).sum()
        )
        a = (
            a
            + torch.bernoulli(h).sum()
            + torch.bernoulli(h, 0.3).sum()
            + torch.multinomial(h, 2)[0]
            + torch.normal(h, h).sum()
        )
        a = (
            a
            + torch.normal(0.0, 1.0, (3,)).sum()
            + torch.poisson(h * 9).sum()
            + h.bernoulli().sum()
            + h.multinomial(2)[1]
        )
        t = torch.empty(3)
        a = (
            a
            + t.normal_().sum()
            + t.uniform_(0, 2).sum()
            + t.exponential_().sum()
            + t.geometric_(0.3).sum()
            + t.log_normal_().sum()
        )
        a = a + t.cauchy_().sum().clamp(-9, 9) + t.random_(0, 9).sum() + t.bernoulli_(0.3).sum() + t.random_(5).sum()
        b = (
            d1(x)
            + F.dropout(x)
            + F.alpha_dropout(x, 0.3, True)
            + da(x)
            + F.rrelu(x, training=True)
            + F.gumbel_softmax(x)
        )
        v = x[None]
        b = b + d2(v)[0] + d3(v[None])[0, 0] + dfa(v[None])[0, 0] + F.feature_alpha_dropout(v, 0.3, True)[0]
        w = F.scaled_dot_product_attention(v, v, v, dropout_p=0.3) + mha(v, v, v)[0] + enc(v) + gru(v)[0]
        p = frac(x.repeat(2, 1)[None, None])
        return (a + b.sum() + w.sum() + p.sum()) * torch.ones(c).max()

    def bad(f):
        try:
            return f(torch.ones(4, 4), 0)
        except RuntimeError:
            return "R"

    return (f, [(torch.randn(4, 4), 1)] * 3 + [bad, bad, (torch.randn(4, 4), 1)])


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
