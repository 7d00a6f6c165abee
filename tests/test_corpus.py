"""Every corpus program in every mode is equal to eager, and runs in as few graphs as it says."""

import functools
import gc

import pytest
from corpus import PROGRAMS

import janusc as janus
from janusc.testing import differences, record, report

MODES = {
    "emitted": {"passes": True},
    "no-passes": {"passes": False},
    "interpreter": {"executor": "interpreter"},
}
WATCHED_STACKS = frozenset({"backwards.hooks_that_warn_of_a_line_further_out"})
"""Whose hooks see the frames of the interpreter."""
FAILING_STEPS = frozenset({"backwards.a_step_that_fails", "optimizers.an_error_in_the_step"})
"""Whose errors come from no line of the user's where nothing is emitted: a step is not run again by its eager twin."""


@functools.cache
def eager(name):
    return record(PROGRAMS[name].world)


def compiler(**options):
    return functools.partial(janus.compile, backend="aten", warmup=1, **options)


@pytest.mark.parametrize("name", PROGRAMS)
def test_eager_runs_are_alike(name):
    again = record(PROGRAMS[name].world)
    assert not differences(eager(name), again)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_eager(name, mode):
    program = PROGRAMS[name]
    if program.max_graphs is not None:
        gc.collect()  # functions of one code share graphs, those of programs before this one too while they live
    trace = record(program.world, compiler(**MODES[mode]))
    found = differences(eager(name), trace)
    if mode == "interpreter" and name in FAILING_STEPS:
        found = [difference for difference in found if difference.path not in ("exception line", "exception frames")]
    if mode == "interpreter" and name in WATCHED_STACKS:
        found = [difference for difference in found if difference.path != "warnings"]
    assert not found, report(found, len(trace.calls))
    faults = [text for text in map(janus.explain, trace.decorated) if "a fault of janusc's own" in str(text)]
    assert not faults, faults[0]
    stats = [janus.stats(target) for target in trace.decorated]
    if program.graph:
        why = "\n".join(str(janus.explain(target)) for target in trace.decorated)
        assert sum(s.graph_calls for s in stats) > 0, why
    if program.max_graphs is not None:
        assert max(s.graphs for s in stats) <= program.max_graphs


def test_the_corpus_is_large_enough():
    assert len(PROGRAMS) >= 50
    assert len({name.partition(".")[0] for name in PROGRAMS}) >= 10


def test_an_error_of_the_program_costs_no_conversion():
    """The graph was dropped and made again, ever later, each time the program's own assert failed in it."""
    program = PROGRAMS["errors.an_assert_that_fails_now_and_then"]
    trace = record(program.world, lambda f: janus.compile(f, backend="aten", warmup=1))
    stats = janus.stats(trace.decorated[0])
    assert stats.conversions <= 2, stats
    assert stats.graph_calls >= 10, stats
