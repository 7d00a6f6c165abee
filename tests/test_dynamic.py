"""The dynamic programs of the benchmark: equal to eager, few graphs whatever the input, nothing eager after warm-up."""

import pathlib
import sys

import pytest
import torch

import janusc as janus

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "bench"))
programs = pytest.importorskip("dynamic_programs", reason="needs the packages of the benchmark")

CALLS, WARMUP, GRAPHS = 30, 10, 3


def run(name, decorate):
    case = programs.make(name, decorate)
    return case, [case.call(number) for number in range(CALLS)]


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_few_graphs_and_the_results_of_eager(name):
    eager, expected = run(name, lambda target: target)
    case, found = run(name, lambda target: janus.compile(target, backend="aten", warmup=2))
    assert programs.same(expected, found)
    assert all(torch.equal(a, b) for a, b in zip(eager.state, case.state, strict=True))
    for target in case.targets:
        stats, why = janus.stats(target), str(janus.explain(target))
        assert stats.graphs <= GRAPHS, why
        assert stats.graph_calls >= 0.7 * stats.calls, why


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_nothing_is_eager_after_warm_up(name):
    case, _ = run(name, lambda target: janus.compile(target, backend="aten", warmup=WARMUP, strict=True))
    assert all(janus.stats(target).fallbacks == 0 for target in case.targets)
