"""Tensors changed in place: through views, flags and outputs, with and without a history."""

import torch
import torch.nn.functional as F
from torch import nn

from . import ones, program


class Box:
    def __init__(self, **state):
        self.__dict__.update(state)


@program()
def items_and_methods():
    h = torch.arange(12.0).reshape(3, 4)
    ex = torch.ones(1, 4)
    it = torch.zeros(3, dtype=torch.long)
    bb = torch.zeros(3, dtype=torch.bool)

    def f(x, i):
        h.T[0] = 1
        h[:, ::2] *= 2
        h[i, 1:] -= x[1:]
        h[h > 50] = 0
        h[[0, 2]] += 1
        h[torch.tensor([1]), i] = 9
        e = ex.expand(3, 4)
        ex.add_(1)
        it[i] += 1
        it.bitwise_or_(2)
        bb.logical_xor_(torch.tensor([True, False, True]))
        h.view(-1)[::5] = -1
        h.narrow(0, i % 3, 1).fill_(2)
        h.select(1, 3).copy_(x[:3])
        torch.relu_(h)
        h.clamp_(max=40).sqrt_()
        return h.sum() * x + e + it.sum() + bb.sum()

    return (f, [(torch.ones(4), i) for i in (0, 0, 0, 1, 2, -1, 0)], h, ex, it, bb)


@program()
def error_in_the_middle():
    h = torch.zeros(3)
    values = []

    def f(x, i):
        h.add_(1)
        values.append(i)
        h[i] = 5
        h.mul_(2)
        values.append("ok")
        return h + x

    def bad(f):
        try:
            return f(torch.ones(3), 7)
        except IndexError:
            return "IndexError"

    return (f, [(torch.ones(3), i) for i in (0, 0, 1)] + [bad, bad, (torch.ones(3), 2), bad], h, values)


@program()
def argument_that_becomes_a_buffer():
    o = Box()

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.zeros(3))
            self.h = []

        def forward(self, x):
            self.b = x
            x.add_(1)
            self.h.append(self.b)
            y = self.b * 2
            self.b += 1
            o.t = self.b[1:]
            o.t.mul_(3)
            return (self.b, y, x, o.t)

    return (M(), ones(6), o)


@program()
def buffer_toggles():

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", None)
            self.n = 0

        def forward(self, x):
            self.n += 1
            if self.b is None:
                self.b = x * 1
            else:
                self.b[:] = self.b + x
            if self.n % 4 == 0:
                self.b = None
                return x
            return self.b * 2

    return (M(), ones(10))


@program()
def view_of_what_is_rebound():
    o = Box(t=torch.zeros(4))

    def f(x):
        v = o.t[:2]
        o.t = o.t + 1
        v.add_(5)
        w = o.t.view(2, 2)
        o.t.add_(1)
        w[0] = 9
        u = o.t
        o.t = w.clone().view(-1)
        u.zero_()
        return x[:1] * v.sum() + w.sum() + o.t

    return (f, ones(5), o)


@program()
def views_and_what_may_be_one():

    def g(t):
        return t

    def h(t):
        return (t.view(-1), t)

    def f(x):
        a = g(x)
        b, c = h(a)
        b.add_(1)
        c[0] = 5
        d = a.contiguous()
        d.mul_(2)
        e = a.to(a.dtype)
        e.sub_(1)
        k = a.reshape(-1)
        k[1] = 0
        z = a.clone()
        z.fill_(3)
        m = a.expand_as(a)
        m.add_(1)
        return (x, x is a, b, z)

    return (f, [(torch.ones(3),) for _ in range(4)] + [(torch.ones(2, 2).T[0],), (torch.ones(4)[::2],)])


@program()
def with_a_history():
    w = torch.randn(3, requires_grad=True)

    def f(x):
        y = x * w
        y.add_(1)
        y[0] = 2
        z = y.exp()
        v = z[1:]
        v.mul_(2)
        z2 = z * 1
        z2 += w
        t = torch.zeros(3)
        t[1:] = w[1:]
        t.add_(z)
        with torch.no_grad():
            t2 = t.clone()
            t2.add_(1)
        return (z.sum() + z2.sum() + t.sum(), t2, y)

    return (f, [(torch.randn(3),) for _ in range(5)], w)


@program()
def saved_for_the_backward_pass():
    w = torch.randn(3, requires_grad=True)

    def f(x, bad):
        y = (x * w).exp()
        z = y.sum()
        if bad:
            y.mul_(2)
        try:
            z.backward()
        except RuntimeError as e:
            return "modified" if "modified by an inplace" in str(e) else str(e)
        g = w.grad.clone()
        w.grad = None
        return g

    return (f, [(torch.ones(3), b) for b in (0, 0, 0, 1, 1, 0)], w)


@program()
def leaf_that_requires_grad():
    w = torch.ones(3, requires_grad=True)
    log = []

    def f(x, bad):
        log.append(1)
        y = x * w
        if bad:
            w.add_(1)
        log.append(2)
        return y

    def b(f):
        try:
            return f(torch.ones(3), True)
        except RuntimeError as e:
            return type(e).__name__

    return (f, [(torch.ones(3), False)] * 4 + [b, b, (torch.ones(3), False)], w, log)


@program()
def inference_tensors():
    h = torch.zeros(3)
    with torch.inference_mode():
        q = torch.zeros(3)

    def f(x, t):
        t.add_(x)
        y = t * 2
        t[0] = 1
        return y + t.sum()

    def inf(f):
        with torch.inference_mode():
            return f(torch.ones(3), q).clone()

    def out(f):
        try:
            return f(torch.ones(3), q)
        except RuntimeError as e:
            return type(e).__name__

    return (f, [(torch.ones(3), h)] * 4 + [inf, inf, out, (torch.ones(3), h)], h)


@program()
def shape_changes():

    def f(x):
        t = x.clone()
        n0 = t.shape[0]
        t.unsqueeze_(0)
        n1 = t.shape[0]
        t.squeeze_()
        t.t_() if t.dim() == 2 else None
        t.resize_(2)
        n2 = t.shape[0]
        u = t.requires_grad_()
        g = t.requires_grad
        v = (t * 2).detach_()
        t2 = torch.zeros(2, 3)
        t2.transpose_(0, 1)
        s = t2.shape
        return (n0 * 100 + n1 * 10 + n2, g, v, s, t2.stride(), u is t)

    return (f, ones(5))


@program()
def shape_of_an_argument_changes():

    def f(x):
        a = x.shape
        x.t_()
        b = x.shape[0]
        y = x * b
        x.unsqueeze_(0)
        return (y.sum(0) + x.dim() + len(x), a)

    return (f, [lambda f: f(torch.ones(2, 3))] * 5 + [lambda f: f(torch.ones(3, 4))])


@program()
def flags():
    d = nn.Dropout(0.5, inplace=True)
    r = nn.ReLU(inplace=True)
    h = torch.zeros(3)

    def f(x, flag):
        y = r(x)
        a = y is x
        z = F.relu(h, inplace=flag)
        b = z is h
        w = F.leaky_relu(x, 0.1, flag)
        v = F.dropout(z, 0.5, True, flag)
        u = d(w)
        h.sub_(1)
        return (y + z + w + v + u, a, b)

    return (f, [(torch.randn(3), fl) for fl in (True, True, True, False, True, 0)], h)


@program()
def outputs():
    o = torch.zeros(3)
    q = torch.zeros(0)

    def f(x):
        torch.add(x, 1, out=o)
        y = o * 2
        r = torch.mul(x, 3, out=o)
        torch.cat([x, x], out=q)
        return (y + o + q.sum(), r is o, q.shape)

    return (f, ones(5), o, q)
