"""Programs of the corpus on kernels are equal to eager, but for the rounding of reordered sums."""

import pytest
from corpus import PROGRAMS
from traced import NAME

import janusc as janus
from janusc.testing import differences, record, report

TRAINING = ("backwards.", "optimizers.", "training.")
SEEN_BY_TRACING = {"replacements.wrapped_functions_of_torch"}
"""Watches functions that torch itself calls while it traces, in this process for a compiler of the user's own."""
CHOSEN = sorted({*(n for n in PROGRAMS if n.startswith(TRAINING)), *list(PROGRAMS)[::8]} - SEEN_BY_TRACING)


@pytest.mark.parametrize("name", CHOSEN)
def test_equal_to_eager_but_for_rounding(name):
    world = PROGRAMS[name].world
    trace = record(world, lambda f: janus.compile(f, backend=NAME, warmup=1))
    found = differences(record(world), trace, 1e-4)
    assert not found, report(found, len(trace.calls))
    faults = [text for text in map(janus.explain, trace.decorated) if "a fault of janusc's own" in str(text)]
    assert not faults, faults[0]
