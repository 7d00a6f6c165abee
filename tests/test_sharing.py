"""Functions of one ``def`` share what was learned and converted: closures, lambdas, and what a loop makes anew."""

import copy
import gc
import weakref

import torch

import janusc as janus

X = torch.arange(3.0)


def compiled(function, **options):
    return janus.compile(function, warmup=2, backend="aten", **options)


def scaled(weight, steps, bias=0):
    def f(x):
        for _ in range(steps):
            x = torch.tanh(x * weight) + bias
        return x

    return f


def test_a_function_made_in_each_turn_is_converted_once():
    for turn in range(30):

        @compiled
        def f(x, turn=turn):
            return torch.tanh(x * 2) * turn + x

        assert torch.equal(f(X), torch.tanh(X * 2) * turn + X)
    stats = janus.stats(f)
    assert stats.conversions == 1 and stats.graph_calls == 28


def test_many_closures_have_one_graph_and_values_of_their_own():
    weights = [torch.full((3,), 0.25 * i) for i in range(20)]
    functions = [scaled(w, 3, i) for i, w in enumerate(weights)]
    many = [compiled(f) for f in functions]
    for _ in range(2):
        for f, plain in zip(many, functions):
            assert torch.equal(f(X), plain(X))
    assert janus.stats(many[0]).conversions == 1 and janus.stats(many[0]).graph_calls == 38


def test_closures_of_other_structure_are_other_graphs():
    functions = [scaled(w, n) for w in (2.0, torch.ones(3), torch.ones(3, dtype=torch.float64)) for n in (2, 2, 5)]
    many = [compiled(f) for f in functions]
    for _ in range(4):
        for f, plain in zip(many, functions):
            result, expected = f(X), plain(X)
            assert torch.equal(result, expected) and result.dtype == expected.dtype
    assert 1 <= janus.stats(many[0]).graphs <= 4


def test_a_function_that_is_compiled_again_starts_afresh():
    function = scaled(torch.ones(3), 2)
    first, second = compiled(function), compiled(function)
    for _ in range(4):
        first(X)
    assert janus.stats(first).calls == 4 and janus.stats(second).calls == 0


def test_other_options_are_not_shared():
    weight = torch.ones(3)
    first, other = compiled(scaled(weight, 2)), compiled(scaled(weight, 2), max_variants=3)
    first(X)
    assert janus.stats(first).calls == 1 and janus.stats(other).calls == 0


def test_what_is_shared_keeps_no_closure_alive():
    weights = [torch.full((3,), float(i)) for i in range(4)]
    held = [weakref.ref(w) for w in weights]
    keep = compiled(scaled(weights[0], 2))
    for w in weights:
        compiled(scaled(w, 2))(X)
    del w, weights
    gc.collect()
    assert [ref() is None for ref in held] == [False, True, True, True]
    assert torch.equal(keep(X), scaled(torch.zeros(3), 2)(X))


def test_errors_and_writes_are_those_of_the_closure_that_is_called():
    def counter(log, limit):
        def f(x):
            if len(log) >= limit:
                raise ValueError(f"{limit} are enough")
            log.append(x.sum() * limit)
            return x + limit

        return f

    logs = [[] for _ in range(6)]
    many = [compiled(counter(log, i + 1)) for i, log in enumerate(logs)]
    errors = []
    for _ in range(4):
        for f in many:
            try:
                f(X)
            except ValueError as error:
                errors.append(str(error))
    assert [len(log) for log in logs] == [1, 2, 3, 4, 4, 4]
    assert errors == ["1 are enough", "1 are enough", "2 are enough", "1 are enough", "2 are enough", "3 are enough"]


class Cell(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.linear(x)) + self.linear.in_features


def test_many_instances_have_one_graph():
    cells = [Cell(3) for _ in range(15)]
    many = [compiled(cell) for cell in cells]
    for _ in range(3):
        for cell in many:
            cell(X)
    assert janus.stats(many[0]).conversions == 1
    assert all(torch.equal(cell(X), Cell.forward(cell, X)) for cell in cells)


def stack(depth, width=4):
    layers = [layer for _ in range(depth) for layer in (torch.nn.Linear(width, width), torch.nn.Tanh())]
    return torch.nn.Sequential(*layers)


def test_modules_of_one_class_that_are_built_differently_have_graphs_of_their_own():
    torch.manual_seed(0)
    plain = [stack(depth) for depth in range(1, 21)]
    many = [compiled(copy.deepcopy(module)) for module in plain]
    x = torch.randn(2, 4)
    before = janus.stats(many[0])
    for _ in range(10):
        for module, model in zip(plain, many):
            assert torch.equal(model(x), module(x))
    stats = janus.stats(many[0])
    assert stats.evictions == before.evictions and stats.conversions - before.conversions <= 20
    assert stats.graph_calls - before.graph_calls >= 150


def test_what_was_learned_of_modules_goes_with_them():
    class Own(torch.nn.Sequential):
        def forward(self, x):
            return super().forward(x)

    def use(depth):
        layers = [torch.nn.Linear(3, 3) for _ in range(depth)]
        model = janus.compile(Own(*layers), warmup=0, backend="aten", max_variants=2)
        model(X), model(X)
        return model

    kept = [use(depth) for depth in range(1, 6)]
    for depth in range(6, 20):
        use(depth)
        gc.collect()
    assert janus.stats(kept[0]).graphs <= 12 and janus.stats(kept[0]).evictions > 0


def test_functions_that_one_decorator_made_are_known_by_what_they_wrap():
    class Pair:
        @torch.no_grad()
        def double(self, x):
            return torch.tanh(x) * 2

        @torch.no_grad()
        def halve(self, x):
            return torch.tanh(x) / 2

    double, halve = compiled(Pair().double), compiled(Pair().halve)
    for _ in range(4):
        assert torch.equal(double(X), torch.tanh(X) * 2) and torch.equal(halve(X), torch.tanh(X) / 2)
    assert "halve" in str(janus.explain(halve)) and "double" not in str(janus.explain(halve))
    assert janus.stats(double).conversions == janus.stats(halve).conversions == 1
