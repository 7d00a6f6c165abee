"""Lifetimes: nothing is kept alive, nothing grows with the number of calls or of kinds of input."""

import gc
import tracemalloc
import weakref

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


def test_no_growth_over_many_calls():
    f = compiled(lambda x: x + 1)
    x = torch.ones(2)
    assert used(f, x) > 0
    assert growth(lambda i: f(x), 20_000) < 20_000


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


def test_two_hundred_lengths_are_few_graphs():
    f = compiled(lambda x: (x * 2).sum())
    for n in range(1, 201):
        assert f(torch.ones(n)).item() == 2 * n
    s = janus.stats(f)
    assert s.graphs <= 2 and s.graph_calls >= 190


def test_two_hundred_trip_counts_are_few_graphs():
    def f(xs):
        total = torch.zeros(2)
        for x in xs:
            total = total + x
        return total

    g = compiled(f)
    for n in range(1, 201):
        assert g(torch.ones(n, 2)).tolist() == [n, n]
    s = janus.stats(g)
    assert s.graphs <= 2 and s.graph_calls >= 190


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
