"""Texts made of values that vary, by every way that Python has."""

import torch

from . import program

ONE = torch.ones(2)


@program()
def percent_formats():
    log = []

    def f(x, n, name):
        y = torch.tanh(x) * n
        log.append("%s has %d of %5.2f" % (name, n, y.sum()))
        log.append("%r" % name + "%%" + "%x" % n)
        log.append("%s" % y)
        y.add_(1)
        log.append("%s" % y)
        print("mean %.3f, %s" % (y.mean(), x.shape[0]))
        return y

    return f, [(ONE, n, name) for n, name in [(1, "a"), (1, "a"), (2, "b"), (1, "a"), (3, "it's"), (2, "%s")]], log


@program()
def percent_formats_that_do_not_fit():
    def f(x, n, pattern):
        y = torch.tanh(x)
        try:
            text = "%d and %d" % (n, 2)
            text += pattern % n
        except (TypeError, ValueError) as error:
            text = type(error).__name__
        return y * len(text)

    return f, [
        (ONE, n, p) for n, p in [(1, "%d"), (1, "%d"), (2, "%s"), (1, "%d %d"), ("x", "%s"), (1, "%"), (2, "%d")]
    ]


@program()
def percent_formats_of_objects():
    class Named:
        def __init__(self):
            self.asked = 0

        def __str__(self):
            self.asked += 1
            return f"named {self.asked}"

    named = Named()

    def f(x, table):
        y = torch.tanh(x)
        first = "%s" % named
        second = "%(a)s of %(b)d" % table
        third = "%s" % (table,)
        return y * 2, first, second, third

    return f, [(ONE, {"a": 1, "b": n}) for n in (1, 1, 2, 3, 1)], named


@program()
def joined_and_formatted():
    def f(x, n, name):
        y = torch.tanh(x) * n
        words = [name, str(n), f"{y.sum():.2f}", repr(name), "{} and {:>4}".format(n, name)]
        return y, "|".join(words), name.upper() + f"{n:03d}"

    return f, [(ONE, n, name) for n, name in [(1, "a"), (1, "a"), (2, "b"), (1, "a"), (30, "long")]]
