"""Effects on the world outside: output, environment, random streams, warnings, numpy."""

import io
import logging
import os
import random
import sys
import tempfile
import warnings

import numpy
import torch
from torch.nn import functional

from . import program


def ones(count, *shape):
    return [(torch.ones(shape or (2,)) * (i + 1),) for i in range(count)]


@program()
def prints_in_order():
    def f(x, tag="plain"):
        print("start", tag, x.shape)
        y = x * 2
        print(y.mean(), f"{y.sum().item():.1f}", sep="|", end=";\n")
        z = y + 1
        if z.sum() > 100:
            print("large", file=sys.stderr)
        print()
        return z

    return f, [*ones(4), (torch.ones(2) * 100,), (torch.ones(3), "other"), *ones(1)]


@program()
def print_sees_the_value_of_the_moment():
    def f(x, items):
        items.append(1)
        print(items, x)
        x.add_(1)
        items.append(2)
        print(items, x)
        return x

    shared = []
    return f, [(torch.zeros(2), shared) for _ in range(5)]


@program()
def environment():
    def f(x):
        if int(os.getenv("JANUSC_TEST_FLAG", "0")):
            return x + 1
        return x - len(os.environ.get("JANUSC_TEST_WORD", ""))

    def put(name, value):
        def step(f):
            os.environ[name] = value
            return f(torch.ones(2))

        return step

    return f, [*ones(4), put("JANUSC_TEST_FLAG", "1"), put("JANUSC_TEST_FLAG", "0"), put("JANUSC_TEST_WORD", "four")]


@program()
def python_random():
    def f(x):
        order = list(range(8))
        random.shuffle(order)
        k = random.choice([1, 2, 3])
        return x * k + random.random(), order

    def seeded(f):
        random.seed(3)
        return f(torch.ones(2))

    return f, [*ones(4), seeded, seeded]


@program()
def numpy_random():
    generator = numpy.random.default_rng(5)

    def f(x):
        noise = numpy.random.uniform(size=2)
        return x + torch.from_numpy(noise), generator.integers(0, 100), noise

    return f, ones(5)


@program()
def torch_random():
    def f(x):
        noise = torch.randn_like(x)
        mask = torch.rand(x.shape) > 0.5
        y = functional.dropout(x + noise, 0.5, True)
        return torch.where(mask, y, noise), torch.randperm(4), torch.bernoulli(torch.full((3,), 0.5))

    def seeded(f):
        torch.manual_seed(11)
        return f(torch.ones(2))

    return f, [*ones(4), seeded, seeded, (torch.ones(3),)]


@program()
def own_generator():
    generator = torch.Generator().manual_seed(2)

    def f(x):
        return x + torch.rand(2, generator=generator), torch.rand(1)

    return f, ones(5)


@program()
def random_branch():
    def f(x):
        if torch.rand(()) < 0.5:
            x = x * 2
        for _ in range(int(torch.randint(1, 3, ()))):
            x = x + torch.rand(2)
        return x

    return f, ones(8)


@program()
def seeds_inside():
    def f(x, seed):
        torch.manual_seed(seed)
        a = torch.rand(2)
        state = torch.get_rng_state()
        b = torch.rand(2)
        torch.set_rng_state(state)
        return a + x, b - torch.rand(2)

    return f, [(torch.ones(2), s) for s in (0, 0, 0, 1, 0)]


@program()
def warns():
    def f(x):
        y = x * 2
        if x.sum() > 5:
            warnings.warn("large input", stacklevel=1)
        return y

    return f, ones(6)


@program()
def logs():
    records = []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append((record.levelname, record.getMessage(), record.funcName))

    logger = logging.Logger("corpus")
    logger.addHandler(Keep())

    def f(x):
        logger.info("mean %.2f", x.mean().item())
        y = x + 1
        logger.debug("done")
        return y

    return f, ones(5), records


@program()
def numpy_round_trip():
    def f(x):
        a = x.numpy() * 2
        a[0] = -1
        y = torch.from_numpy(numpy.cumsum(a))
        return y + x, a

    return f, [*ones(5), (torch.ones(4, dtype=torch.float64),)]


@program()
def items_and_conversions():
    def f(x):
        n = int(x.sum())
        values = x.tolist()
        return torch.full((n % 4,), float(x[0])) * bool(x.any()), values, x.sum().item() + 0.5

    return f, [(torch.tensor(v),) for v in ([1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [2.0, 3.0], [0.0, 0.0], [1.5, 2.0])]


@program(graph=False)
def writes_a_file():
    path = os.path.join(tempfile.gettempdir(), f"janusc-corpus-{os.getpid()}.txt")

    def f(x):
        y = x * 2
        with open(path, "a") as out:
            out.write(f"{y.sum().item()}\n")
        return y + 1

    def read(f):
        result = f(torch.ones(2))
        with open(path) as lines:
            return result, lines.read()

    def remove(f):
        result = read(f)
        os.remove(path)
        return result

    return f, [*ones(3), read, read, remove]


@program()
def modes_are_left_as_found():
    def f(x, on):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(on)
        y = x * 2
        if on:
            torch.set_grad_enabled(before)
        return y, before

    x = torch.ones(2, requires_grad=True)
    return f, [(x, True), (x, True), (x, True), (x, False), (x, True), (x, False)]


@program()
def default_dtype():
    def f(x):
        return x + torch.zeros(2), torch.tensor(1.0)

    def double(f):
        torch.set_default_dtype(torch.float64)
        return f(torch.ones(2))

    return f, [*ones(4), double, *ones(1)]


@program(max_graphs=1)
def print_in_a_loop_of_any_length():
    def f(xs, k):
        h = torch.zeros(2)
        for i, x in enumerate(xs):
            h = torch.tanh(h + x)
            print("step", i, h.sum())
            if h.sum() > k:
                print("big", end="!\n")
        return h

    return f, [(torch.ones(n, 2), 1.9) for n in (3, 9, 12, 5, 1)]


@program()
def a_function_that_only_hands_on():
    """All that it calls is ordinary Python to it, but has graphs of its own."""
    log, one = io.StringIO(), torch.ones(2)

    def inner(x):
        y = torch.tanh(x) * 2
        log.write(f"{len(x)}\n")
        return torch.relu(y) + 1

    def f(xs):
        return [inner(x) for x in xs]

    return f, [([one, one],)] * 5 + [([one],), ([],), ([one, torch.ones(3)],)], log
