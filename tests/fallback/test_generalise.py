"""The third specialisation is made for all kinds of calls, where that is no loss."""

import torch

import janusc as janus


def compiled(function):
    return janus.compile(function, backend="aten", warmup=1)


def run(f, *inputs):
    return [f(*given) for given in inputs for _ in range(2)]


def test_two_kinds_have_a_graph_each_and_three_have_one_together():
    @compiled
    def f(x, scale=None):
        return x * 2 if scale is None else x * scale

    x = torch.ones(2)
    run(f, (x,), (x, 3))
    assert janus.stats(f).graphs == 2
    run(f, (x, x), (x, 2.0), (x,), (x, 3))
    assert janus.stats(f).graphs == 1
    before = janus.stats(f)
    run(f, (x,), (x, x), (x, 3), (x, 2.0))
    assert janus.stats(f).graph_calls == before.graph_calls + 8
    assert torch.equal(f(x, x * 3), x * 3) and torch.equal(f(x), x * 2)


def test_a_class_that_was_never_seen_is_a_miss():
    @compiled
    def f(x, scale=None):
        return x * 2 if scale is None else x * scale

    x = torch.ones(2)
    run(f, (x,), (x, 3), (x, x))
    before = janus.stats(f)
    assert torch.equal(f(x, True), x)
    assert janus.stats(f).guard_misses == before.guard_misses + 1


def test_keys_lengths_and_picked_parts_of_many_kinds():
    parts = torch.nn.ModuleDict({name: torch.nn.Linear(2, 2) for name in "abc"})

    @compiled
    def f(batch, rows):
        out = [parts[name](value) for name, value in batch.items()]
        for row in rows:
            out.append(row + 1)
        return sum(out)

    x = torch.ones(2)
    inputs = [(dict.fromkeys(names, x), [x] * n) for n, names in enumerate(("a", "ab", "c", "abc", "b", "", "ca"))]
    expected = [sum([*(parts[n](v) for n, v in batch.items()), *(row + 1 for row in rows)]) for batch, rows in inputs]
    run(f, *inputs)
    assert janus.stats(f).graphs <= 2
    before = janus.stats(f)
    found = [f(*given) for given in inputs]
    assert all(a is b or torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(found, expected))
    assert janus.stats(f).graph_calls >= before.graph_calls + 6


def test_a_graph_for_all_with_more_ordinary_python_is_not_taken():
    @compiled
    def f(x, how):
        return how(x.sin()) if callable(how) else x.cos() + how.__hash__() * 0

    x = torch.ones(2)
    for how in (1, 2.0, "text", True):
        run(f, (x, how))
    assert janus.stats(f).graph_calls > 0
    for how in (1, 2.0, "text", True):
        assert torch.equal(f(x, how), x.cos())
