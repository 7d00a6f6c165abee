"""Lifetimes: nothing is kept alive, nothing grows with the number of calls or of kinds of input."""

import gc
import os
import sys
import time
import tracemalloc
import warnings
import weakref

import pytest
import torch
from torch import nn

import janusc as janus


def compiled(f, **options):
    return janus.compile(f, **{"warmup": 1, "backend": "aten", **options})


def used(f, *args, times=4):
    for _ in range(times):
        f(*args)
    return janus.stats(f).graph_calls


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x) + 1


@janus.compile(warmup=1, backend="aten")
class Whole(Net):
    def forward(self, x):
        return super().forward(x) * 2


def test_weights_die_with_a_compiled_instance():
    net = compiled(Net())
    assert used(net, torch.ones(1, 2)) > 0
    weight = weakref.ref(net.inner.weight)
    del net
    gc.collect()
    assert weight() is None


def test_weights_die_with_an_instance_of_a_compiled_class():
    net = Whole()
    for _ in range(4):
        net(torch.ones(1, 2))
    assert janus.stats(Whole).graph_calls > 0
    weight, module = weakref.ref(net.inner.weight), weakref.ref(net)
    del net
    gc.collect()
    assert weight() is None and module() is None


def test_weights_die_with_a_compiled_closure():
    net = Net()
    f = compiled((lambda inner: lambda x: inner(x) * 2)(net))
    assert used(f, torch.ones(1, 2)) > 0
    weight = weakref.ref(net.inner.weight)
    del f, net
    gc.collect()
    assert weight() is None


def test_arguments_are_not_kept():
    f = compiled(lambda m, x: m(x) * 2)
    net, x = nn.Linear(2, 2), torch.ones(1, 2)
    assert used(f, net, x) > 0
    references = [weakref.ref(net), weakref.ref(net.weight), weakref.ref(x)]
    del net, x
    gc.collect()
    assert [r() for r in references] == [None, None, None]


def test_results_are_not_kept():
    f = compiled(lambda x: x * 2 + 1)
    assert used(f, torch.ones(2)) > 0
    result = f(torch.ones(2))
    reference = weakref.ref(result)
    del result
    assert reference() is None, "a result must die without the garbage collector's help"


def test_an_exception_keeps_nothing():
    def f(x, y):
        return x + y

    g = compiled(f)
    assert used(g, torch.ones(2), torch.ones(2)) > 0
    bad = torch.ones(3)
    reference = weakref.ref(bad)
    for _ in range(3):
        try:
            g(torch.ones(2), bad)
        except RuntimeError:
            pass
    del bad
    gc.collect()
    assert reference() is None


def test_the_function_itself_dies():
    def make():
        def f(x):
            return x + 1

        return f

    f = make()
    g = compiled(f)
    assert used(g, torch.ones(2)) > 0
    reference = weakref.ref(f)
    del f, g
    gc.collect()
    assert reference() is None


def growth(f, calls):
    """Bytes that Python holds more after so many calls."""
    for i in range(300):
        f(i)
    gc.collect()
    tracemalloc.start()
    try:
        for i in range(300):
            f(i)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for i in range(calls):
            f(i)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def blocks_grown(f, calls, before=300):
    """Objects that Python holds more after so many calls; cheap enough for very many."""
    for i in range(before):
        f(i)
    gc.collect()
    before = sys.getallocatedblocks()
    for i in range(calls):
        f(i)
    gc.collect()
    return sys.getallocatedblocks() - before


def test_no_growth_over_a_hundred_thousand_calls():
    f = compiled(lambda x: x + 1)
    x = torch.ones(2)
    assert used(f, x) > 0
    assert blocks_grown(lambda i: f(x), 100_000) < 300
    assert janus.stats(f).graph_calls > 100_000


class Busy(nn.Module):
    """Whatever a step does: state, random numbers, changes in place, ordinary statements, a failing assumption."""

    def __init__(self):
        super().__init__()
        self.layer, self.drop, self.calls, self.log, self.table = nn.Linear(2, 2), nn.Dropout(0.5), 0, [], {}
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x, i):
        self.calls += 1
        self.log.append(i)
        self.table[i % 3] = x
        self.mean.mul_(0.9).add_(x.detach(), alpha=0.1)
        y = self.drop(self.layer(x))
        open(os.devnull).close()
        if i % 7 == 3:
            y = y * 2
        if len(self.log) > 5:
            self.log.clear()
        return torch.relu(y) + float(self.mean[0])


def test_no_growth_over_many_busy_steps():
    f, x = compiled(Busy()), torch.ones(2)

    def step(i):
        f(x, i).sum().backward()

    assert blocks_grown(step, 500) < 100
    assert janus.stats(f).graph_calls > 500


def test_no_growth_where_functions_are_compiled_again_and_again():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x) + 1

    def work(i):
        x = torch.ones(2)
        for f in (compiled(lambda x: x * i), compiled(Model()), compiled(Model().forward)):
            f(x), f(x)

    assert blocks_grown(work, 60, before=30) < 1_500


def test_no_growth_where_every_input_is_of_another_kind():
    kinds = [torch.float32, torch.float64, torch.int32, torch.int64, torch.bfloat16, torch.complex64, torch.bool]
    f = compiled(lambda x, d: sum(d.values(), x), max_variants=2)

    def call(i):
        f(torch.ones(2, dtype=kinds[i % 7]), {f"key {i % 11}": 1, "other": i % 5})

    assert blocks_grown(call, 600) < 600
    assert janus.stats(f).graphs <= 2


def test_no_growth_over_many_scalars_and_objects():
    class Box:
        def __init__(self, value):
            self.value = value

    f = compiled(lambda x, box, rate: x * box.value + rate)
    x = torch.ones(2)
    assert used(f, x, Box(1), 0.5) > 0
    assert growth(lambda i: f(x, Box(i), 0.1 * i), 2_000) < 20_000
    assert janus.stats(f).graphs <= 2


def test_no_growth_over_failing_calls():
    f = compiled(lambda x, y: x + y)
    x, bad = torch.ones(2), torch.ones(3)
    assert used(f, x, x) > 0

    def call(i):
        try:
            f(x, bad if i % 2 else x)
        except RuntimeError:
            pass

    assert growth(call, 1_000) < 50_000


def test_a_thousand_lengths_of_a_tensor_are_few_graphs():
    f = compiled(lambda x: (x * 2).sum())
    for n in range(1, 1001):
        assert f(torch.ones(n)).item() == 2 * n
    s = janus.stats(f)
    assert s.graphs <= 2 and s.graph_calls >= 990


def total(items):
    result = torch.zeros(2)
    for item in items:
        result = result + item
    return result


def counted(n):
    result = torch.zeros(2)
    for _ in range(n):
        result = result + 1
    return result


KINDS = {
    "rows": (total, lambda n: torch.ones(n, 2)),
    "a list of tensors": (total, lambda n: [torch.ones(2)] * n),
    "a tuple of numbers": (total, lambda n: (1,) * n),
    "a list of numbers": (total, lambda n: [1.0] * n),
    "a count": (counted, lambda n: n),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_lengths_of_a_loop_are_few_graphs(kind):
    f, make = KINDS[kind]
    g = compiled(f)
    for n in [*range(1, 12), *range(12, 1001, 19), 1000]:
        assert g(make(n)).tolist() == [n, n]
    s = janus.stats(g)
    assert s.graphs <= 3 and s.conversions <= 5 and s.graph_calls >= 55


def test_a_thousand_lengths_of_what_is_followed_item_by_item_are_bounded():
    """Keys of dictionaries and starred arguments make a graph for each length; most calls run eagerly then."""
    f = compiled(lambda x, d, *rest: sum(d.values(), x) + len(rest), max_variants=4)
    for n in range(1, 1001, 2):
        d = {f"key {i}": 1 for i in range(n % 40)}
        assert f(torch.zeros(1), d, *range(n % 17)).item() == n % 40 + n % 17
    s = janus.stats(f)
    assert s.graphs <= 4 and s.conversions <= 40


def test_variants_are_bounded():
    kinds = [torch.float32, torch.float64, torch.int32, torch.int64, torch.bfloat16, torch.complex64]
    f = compiled(lambda x, mode: x + 1 if mode == "a" else x * len(mode), max_variants=3)
    for _ in range(3):
        for dtype in kinds:
            for mode in ("a", "b", "cc"):
                x = torch.ones(2, dtype=dtype)
                for _ in range(2):
                    assert f(x, mode).dtype is dtype
    assert janus.stats(f).graphs <= 3


def test_fresh_closures_share_and_die():
    def make(k):
        @compiled
        def f(x):
            return x + k

        return f

    references = []
    for k in range(30):
        f = make(torch.tensor(float(k)))
        for _ in range(3):
            assert f(torch.ones(1)).item() == k + 1
        references.append(weakref.ref(f))
        del f
    gc.collect()
    assert [r for r in references if r() is not None] == []


def test_a_refused_conversion_keeps_no_argument_alive():
    def f(t):
        n = 0

        def count():
            nonlocal n
            n += 1

        list(map(lambda _: count(), range(2)))  # noqa: C417 (what makes a conversion be refused)
        return t["value"] * n

    g = janus.compile(f, warmup=0)
    gc.collect()
    gc.disable()
    try:
        t = {"value": torch.ones(2)}
        value = weakref.ref(t["value"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            g(t)
        assert janus.stats(g).graph_calls == 0
        del t
        assert value() is None
    finally:
        gc.enable()


class Held:
    """Says when it ends."""

    def __init__(self, log):
        time.time()
        self.size, self.log = 2.0, log

    def __del__(self):
        self.log.append("end")


def test_what_a_graph_gives_up_ends_before_the_ordinary_python_after_it():
    log = []

    @compiled
    def f(x):
        held = Held(log)
        size = held.size
        y = torch.tanh(x * size) + 1
        held = None
        log.append(time.time() > 0)
        return torch.relu(y) * 2, held

    used(f, torch.ones(2), times=6)
    assert log == ["end", True] * 6
    assert janus.stats(f).graph_calls >= 2
