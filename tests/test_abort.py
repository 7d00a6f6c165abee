"""Abort everywhere: each check in every corpus graph is made to fail, one at a time, and all must equal eager."""

import contextlib
import functools
import os

import on_kernels
import pytest
from corpus import PROGRAMS

import janusc as janus
from janusc.runtime.transaction import force_abort
from janusc.testing import differences, record, report

EVERY = os.environ.get("JANUSC_FUZZ") == "1"
LONG = "models.", "recursion", "rollouts.", "numbers.", "ordering.", "sequences.", "worklists."


def run(name, number, backend="aten"):
    """One run of a program with the ``number``-th check failing in the first call that has so many."""
    fired = []

    @contextlib.contextmanager
    def around():
        if any(fired):
            yield
            return
        with force_abort(number) as forced:
            yield
        fired.append(forced.fired)

    compiler = functools.partial(janus.compile, backend=backend, warmup=1, abort_hooks=True)
    return record(PROGRAMS[name].world, compiler, around=around), any(fired)


def numbers(name):
    """Each check; of programs that have hundreds, ever fewer unless there is time for all."""
    number = 0
    while True:
        yield number
        number += 1 + number // 3 if name.startswith(LONG) and not EVERY else 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_abort_equals_eager(name):
    eager = record(PROGRAMS[name].world)
    for number in numbers(name):
        trace, fired = run(name, number)
        found = differences(eager, trace)
        assert not found, f"check {number} failing: {report(found, len(trace.calls))}"
        if not fired:
            break


@pytest.mark.parametrize("name", on_kernels.CHOSEN[:: 1 if on_kernels.EVERY else 32])
def test_every_abort_on_kernels_equals_eager_but_for_rounding(name):
    eager = record(PROGRAMS[name].world)
    number, fired = 0, True
    while fired:
        trace, fired = run(name, number, on_kernels.BACKEND)
        found = differences(eager, trace, on_kernels.tolerance_of(name))
        assert not found, f"check {number} failing: {report(found, len(trace.calls))}"
        number += 1 + number // 3


def test_a_forced_abort_falls_back():
    trace, fired = run("straight.arithmetic", 0)
    assert fired
    (target,) = trace.decorated
    assert janus.stats(target).fallbacks + janus.stats(target).guard_misses >= 1


def test_beyond_the_last_check_nothing_fails():
    trace, fired = run("straight.arithmetic", 100_000)
    assert not fired
    assert janus.stats(trace.decorated[0]).fallbacks == 0
