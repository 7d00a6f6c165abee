"""Programs of the corpus on kernels are equal to eager, but for the rounding of reordered sums."""

import pytest
from corpus import PROGRAMS
from traced import NAME

import janusc as janus
from janusc.testing import differences, record, report

TRAINING = ("backwards.", "optimizers.", "training.")
CHOSEN = sorted({*(name for name in PROGRAMS if name.startswith(TRAINING)), *list(PROGRAMS)[::8]})


@pytest.mark.parametrize("name", CHOSEN)
def test_equal_to_eager_but_for_rounding(name):
    world = PROGRAMS[name].world
    trace = record(world, lambda f: janus.compile(f, backend=NAME, warmup=1))
    found = differences(record(world), trace, 1e-4)
    assert not found, report(found, len(trace.calls))
    faults = [text for text in map(janus.explain, trace.decorated) if "a fault of janusc's own" in str(text)]
    assert not faults, faults[0]
