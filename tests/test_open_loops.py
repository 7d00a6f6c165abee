"""What the corpus compares with eager has run in loops of steps, and in the graphs of callees."""

import pytest
from corpus import PROGRAMS

import janusc as janus
from janusc import marks
from janusc.lowering.ir import Mark
from janusc.testing import record

HELPER = "rollouts.a_helper_with_graphs_of_its_own"
ROLLOUTS = [name for name in PROGRAMS if name.startswith("rollouts.") and name != HELPER]


def compiled(name):
    trace = record(PROGRAMS[name].world, lambda f: janus.compile(f, backend="aten", warmup=1))
    (target,) = trace.decorated
    return target


@pytest.mark.parametrize("name", ROLLOUTS)
def test_a_loop_with_ordinary_python_stays_a_loop(name):
    target = compiled(name)
    opened = [view for view in janus.graphs(target) if any(isinstance(step, Mark) for step in view.chain.steps)]
    assert sum(view.calls for view in opened) > 0, janus.explain(target)


def test_what_ordinary_python_calls_runs_in_graphs():
    target = compiled(HELPER)
    states = marks.state_of(target).callees.states()
    assert sum(variant.hits - variant.fallbacks for state in states for variant in state.variants) > 0
    assert "called by ordinary Python: " in janus.explain(target)


def test_what_was_false_in_a_pass_is_not_assumed_again():
    """A test whose sides can't both be in the graph was taken to go as in the call at hand, after each failure."""
    stats = janus.stats(compiled("rollouts.a_buffer_of_bounded_length"))
    assert stats.fallbacks <= 3, stats
    assert stats.graph_calls >= 25, stats
