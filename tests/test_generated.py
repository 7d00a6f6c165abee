"""Programs at random behave under ``compile`` as they do eagerly; a failure prints the seed and a smaller program.

``JANUSC_FUZZ=1`` runs many more of them, until the time of ``JANUSC_FUZZ_SECONDS`` is over (an hour, if not set).
"""

import contextlib
import os
import time

import pytest
from generated.reducing import reduce
from generated.running import Statistics, compare, run_eagerly, write_program

import janusc as janus
from janusc.runtime.transaction import force_abort
from janusc.testing import report

FUZZ = os.environ.get("JANUSC_FUZZ") == "1"
PROGRAMS, BLOCK = (20_000, 50) if FUZZ else (300, 10)
ABORTED, ABORTS = (PROGRAMS, 200) if FUZZ else (40, 5)
END = time.monotonic() + float(os.environ.get("JANUSC_FUZZ_SECONDS", 3600 if FUZZ else 1e9))

pytestmark = pytest.mark.hypothesis  # `make fuzz` selects the property tests


def seeds(first, programs=PROGRAMS):
    for seed in range(first, min(first + BLOCK, programs)):
        if time.monotonic() > END:
            pytest.skip(f"the time for fuzzing was over before seed {seed}")
        yield seed


def check(seed, source, trace, **options):
    found = compare(source, trace, **options)
    if found:
        first = found[0].path

        def fails(text):
            again = compare(text, run_eagerly(text), **options)
            return bool(again) and again[0].path == first

        smaller = reduce(source, fails, seconds=30)
        raise AssertionError(f"seed {seed}, {options}: {report(found, len(trace.calls))}\n{smaller}")


@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_equal_to_eager(first):
    for seed in seeds(first):
        source, trace = write_program(seed)
        for warmup in (1, 2):
            check(seed, source, trace, warmup=warmup)


@contextlib.contextmanager
def aborting(number, fired):
    """One call in which the ``number``-th check fails, unless that has happened in an earlier one."""
    if fired:
        yield
        return
    with force_abort(number) as forced:
        yield
    if forced.fired:
        fired.append(number)


@pytest.mark.parametrize("first", range(0, ABORTED, BLOCK))
def test_every_abort_equals_eager(first):
    for seed in seeds(first, ABORTED):
        source, trace = write_program(seed)
        number = 0
        for _ in range(ABORTS):
            fired = []

            def around(number=number, fired=fired):
                return aborting(number, fired)

            found = compare(source, trace, around=around, warmup=1, abort_hooks=True)
            assert not found, f"seed {seed}, check {number} failing: {report(found, len(trace.calls))}\n{source}"
            if not fired:
                break
            number += 1 if FUZZ else 1 + number // 2


@pytest.mark.parametrize("options", [{"passes": False}, {"executor": "interpreter"}], ids=str)
def test_other_modes_equal_eager(options):
    for seed in range(20):
        source, trace = write_program(seed)
        check(seed, source, trace, warmup=1, **options)


def test_most_of_it_runs_in_graphs():
    statistics = Statistics()
    for seed in range(50):
        source, trace = write_program(seed)
        compare(source, trace, statistics, warmup=1)
    assert statistics.in_graphs >= 0.8 * statistics.programs, statistics
    assert statistics.graph_calls >= 0.5 * statistics.calls, statistics


def test_a_seed_always_gives_the_same_program():
    assert write_program(3)[0] == write_program(3)[0]


def test_a_difference_is_found_and_made_smaller(monkeypatch):
    compile_rightly = janus.compile

    def compile_wrongly(function, **options):
        results = []

        def forgetful(*args):
            results.append(function(*args))
            return results[0]

        return compile_rightly(forgetful, warmup=100, backend="aten")

    monkeypatch.setattr(janus, "compile", compile_wrongly)
    source, trace = write_program(3)
    with pytest.raises(AssertionError, match="seed 3") as error:
        check(3, source, trace)
    smaller = str(error.value).partition("import")[2]
    assert "steps" in smaller and len(smaller) < len(source) / 2
