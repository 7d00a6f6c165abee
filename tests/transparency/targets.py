"""Assignments of every form: what is evaluated when, and where the values go."""

import functools

import torch

from . import ones, program


class Box:
    def __init__(self, **state):
        self.__dict__.update(state)


@program()
def targets_in_order():
    o = Box(a=0, l=[1, 2, 3])
    d = {}

    def f(x):
        o.a, o.l[int(o.a) % 3], d[int(o.a)] = (len(d) + 2, len(d) + 1, x * o.l[0])
        o.a = o.b = len(d)
        (p, *q), r = (o.l, o.b)
        i = 0
        i, o.l[i] = (1, i + 5)
        o.a, o.b = (o.b, o.a + 1)
        return x * p + sum(q) + r + i + o.a

    return (f, ones(7), o, d)


@program()
def same_object_in_a_list():
    a, b = (Box(n=0), Box(n=0))

    def f(x, items):
        for it in items:
            it.n += 1
            x = x + it.n
        for i, it in enumerate(items):
            it.last = i
        return x * items[0].n + items[-1].last

    return (f, [(torch.ones(2), v) for v in ([a, b], [a, b], [a, b], [a, a], [b, a, b], [a, b])], a, b)


@program()
def slices_of_lists():
    values = list(range(6))

    def f(x, k):
        values[1:3] = [k, k, k]
        del values[::3]
        values[-1] = k
        values[k:k] = [x]
        values.append(values[0])
        y = x * len(values)
        values[:] = list(range(6))
        return y + values[2]

    return (f, [(torch.ones(2), k) for k in (1, 1, 1, 2, 0, 3)], values)


@program()
def dict_order():
    d = {"a": 1, "b": 2, "c": 3}

    def f(x, k):
        v = d.pop(k)
        d[k] = v + 1
        d["z"] = d.get("z", 0) + 1
        y = x
        for i, vv in enumerate(d.values()):
            y = y + i * vv
        return (y, list(d), next(iter(d)), list(d.values())[-1], dict(d))

    return (f, [(torch.ones(2), k) for k in ("a", "a", "a", "b", "c", "a")], d)


@program()
def names_of_one_list():
    o = Box()

    def grow(values, v):
        values.append(v)
        values += [v + 1]
        return values

    def f(x):
        a = b = []
        b.append(x)
        c = grow(a, x)
        c.extend(a)
        t = [a, [b]]
        t[1][0].append(7)
        o.l = a
        o.m = t
        n = len(a)
        a = [1]
        return (x * n + len(c), c is b, a, t)

    return (f, ones(6), o)


@program()
def class_list_through_instance():

    class C:
        items = []
        n = 0

    c = C()

    def f(x):
        c.items += [1]
        c.n += 1
        C.n += 10
        return x * len(C.items) + c.n + len(c.items) + C.n

    def fresh(f):
        del c.items
        del c.n
        return f(torch.ones(3))

    return (f, ones(4) + [fresh] + ones(2), c, C)


@program()
def operators_of_the_users_own():

    class V:
        def __init__(self):
            self.t = torch.zeros(3)
            self.n = 0

        def __iadd__(self, o):
            self.t = self.t + o
            self.n += 1
            return self

        def __setitem__(self, k, v):
            self.t[k] = v
            self.n += 1

        def __getitem__(self, k):
            return self.t[k]

        def __delitem__(self, k):
            self.n -= 1

        def __setattr__(self, k, v):
            object.__setattr__(self, k, v)
            self.__dict__.setdefault("sets", []).append(k)

    v = V()
    o = Box(v=v)

    def f(x):
        y = torch.tanh(x)
        o.v += y
        o.v[0] = 5
        o.v[1] += 2
        del o.v[2]
        return y * o.v.n + o.v.t + len(v.sets)

    return (f, ones(6), o)


@program()
def scalars_or_tensors_in_state():
    o = Box(v=1)

    def f(x):
        o.v += 1
        o.v *= 2
        y = x * o.v
        return y

    def t(f):
        o.v = torch.ones(3)
        k = o.v
        return (f(torch.ones(3)), k)

    def fl(f):
        o.v = 1.5
        return f(torch.ones(3))

    def b(f):
        o.v = True
        return f(torch.ones(3))

    return (f, ones(4) + [fl, t, t, b] + ones(2), o)


@program()
def setattr_and_update():
    o = Box(a=1)

    def f(x, names):
        y = torch.tanh(x)
        for i, n in enumerate(names):
            setattr(o, n, getattr(o, n, 0) + i)
        o.__dict__.update(z=len(names))
        vars(o)["w"] = 3
        y = y * o.z + o.w
        if hasattr(o, "q"):
            delattr(o, "q")
        return y + sum(getattr(o, n) for n in names if hasattr(o, n))

    return (f, [(torch.ones(3), n) for n in (["a", "b"], ["a", "b"], ["a", "b"], ["q"], [], ["a"])], o)


@program()
def dict_views_kept():
    d = {"a": 1}

    def f(x):
        keys, vals, items = (d.keys(), d.values(), d.items())
        d["b"] = d.get("b", 0) + 1
        n = len(keys) + sum(vals) + len(items)
        d["c"] = 5
        y = x * n + ("c" in keys)
        del d["c"]
        return (y + len(list(items)), list(keys))

    return (f, ones(5), d)


@program()
def iterate_and_write_elsewhere():
    src = [1, 2, 3]
    dst = []
    d = {}

    def f(x, src, dst):
        for v in src:
            dst.append(v * 2)
            d[v] = d.get(v, 0) + 1
            x = x + v
        for _, v in sorted(d.items()):
            x = x * 1 + v
        for v in list(dst):
            if v > 4:
                dst.remove(v)
        return x + len(dst)

    return (
        f,
        [(torch.ones(2), a, b) for a, b in ((src, dst), (src, dst), (src, dst), ([5], dst), (src, []))],
        src,
        dst,
    )


@program()
def changed_while_iterated():

    def f(x, values, d, mode):
        for v in values:
            x = x + v
            if mode == 1 and len(values) < 6:
                values.append(v + 1)
            if mode == 2:
                values.clear()
        try:
            for k in d:
                x = x * 2
                if mode == 3:
                    d[k + "z"] = 1
        except RuntimeError as e:
            return (x, str(e), values, d)
        return (x, values, d)

    return (f, [(torch.ones(2), [1, 2, 3], {"a": 1}, m) for m in (0, 0, 0, 1, 2, 3, 0)])


@program()
def keys_of_every_kind():
    cache = {}

    class K:
        def __init__(self, v):
            self.v = v

        def __eq__(self, o):
            return self.v == o.v

        def __hash__(self):
            return hash(self.v)

    def f(x, k):
        if k not in cache:
            cache[k] = x * len(cache)
        cache[x.shape] = cache.get(x.shape, 0) + 1
        cache[k, 1] = x
        return cache[k] + cache[x.shape] + len(cache)

    return (
        f,
        [(torch.ones(2), k) for k in ("a", "a", "a", "b")]
        + [(torch.ones(3), K(1)), (torch.ones(3), K(1)), (torch.ones(2), 3.5), (torch.ones(2), None)],
        cache,
    )


@program()
def augmented_of_everything():
    o = Box(i=1, f=1.0, s="a", t=(1,), l=[1], st={1}, d={"a": 1}, x=torch.zeros(2), b=True, n=None, c=1j)

    def f(x):
        o.i += 1
        o.i -= 3
        o.i *= 2
        o.i //= 1
        o.i %= 7
        o.i **= 2
        o.i |= 1
        o.i ^= 5
        o.i <<= 1
        o.i >>= 1
        o.i &= 63
        o.f /= 2
        o.f += 1
        o.s += "b"
        o.t += (2,)
        o.c *= 1j
        o.x += x
        o.x *= 2
        o.x -= 1
        o.x /= 2
        o.x **= 1
        o.b &= False
        o.b |= True
        y = x * o.i + o.f + len(o.s) + len(o.t)
        o.l += [2]
        o.st |= {len(o.st)}
        o.d |= {"b": 2}
        return y + o.x + len(o.l) + len(o.st) + len(o.d)

    return (f, ones(5, 2), o)


@program()
def writes_in_conditions():
    o = Box(n=0, l=[])

    def bump():
        o.n += 1
        return o.n

    def push(v):
        o.l.append(v)
        return len(o.l) > 2

    def f(x):
        a = bump() if x.sum() > 1 else -bump()
        b = push(a) and push(b"x") or push("y")
        c = x.sum() > 1 and bump()
        d = [bump() for _ in range(2) if push(0)]
        y = x * a + o.n
        assert push(1) or True, bump()
        z = (w := bump()) + w
        return (y + z + len(o.l), b, c, d)

    return (f, [(torch.ones(2) * v,) for v in (1, 1, 1, 0.1, 0.1, 1)], o)


@program()
def writes_in_arguments():
    o = Box(n=0, log=[])

    def g(a, b=0, *c, k=0):
        o.log.append((a, b, c, k))
        return a + b

    def nxt():
        o.n += 1
        return o.n

    def f(x):
        y = g(nxt(), nxt(), nxt(), k=nxt()) * x
        z = g(b=nxt(), a=nxt()) + nxt() * y
        t = (nxt(), [nxt(), {nxt(): nxt()}])
        o.log[-1:] = [nxt(), nxt()]
        d = {}
        d[nxt()] = nxt()
        return (z + o.n, t, f"{nxt()} {nxt()}", d)

    return (f, ones(5, 2), o)


@program()
def property_with_a_count():

    class P:
        def __init__(self):
            self._v = torch.zeros(2)
            self.gets = 0

        @property
        def v(self):
            self.gets += 1
            return self._v

        @v.setter
        def v(self, t):
            self._v = t
            self.gets += 100

    p = P()

    def f(x):
        p.v = p.v + x
        p.v += x
        p.v.add_(1)
        p._v = p.v * 2
        return p.v * p.gets

    return (f, ones(5, 2), p)


@program()
def stars_are_copies():

    def g(*a, **k):
        k["new"] = len(a)
        a[0].append(1)
        return k

    def f(x, items, **options):
        options["z"] = 1
        k = g(items, **options)
        options.update(k)
        options.pop("w", None)
        return (x * len(items) + options["new"] + len(options), options, k)

    return (
        f,
        [lambda f: f(torch.ones(2), [], w=3)] * 4
        + [lambda f: f(torch.ones(2), [1]), lambda f: f(torch.ones(2), [], new=7, q=2)],
    )


@program()
def writes_by_a_callback():
    o = Box(v=1, items=[1])

    def tick():
        o.v += 10
        o.items.append(o.v)
        return o.v

    class T:
        def __call__(self):
            return tick()

    t = T()
    tick_ = functools.partial(tick)

    def f(x, cb):
        a = o.v
        values = o.items
        y = x * o.v + len(values)
        cb()
        z = y + o.v + len(values) + values[-1] + a
        o.v = a
        c = cb() + o.v
        return z * c + len(o.items)

    return (f, [(torch.ones(2), cb) for cb in (tick, tick, tick, tick_, t, max if False else tick)], o)
