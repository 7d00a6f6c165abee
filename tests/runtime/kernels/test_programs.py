"""Programs of the corpus on kernels are equal to eager, but for the rounding of reordered sums."""

import pytest
from corpus import PROGRAMS
from on_kernels import BACKEND, CHOSEN, tolerance_of

import janusc as janus
from janusc.runtime.kernels.check import WRONG
from janusc.testing import differences, record, report


@pytest.mark.parametrize("name", CHOSEN)
def test_equal_to_eager_but_for_rounding(name):
    world = PROGRAMS[name].world
    trace = record(world, lambda f: janus.compile(f, backend=BACKEND, warmup=1))
    found = differences(record(world), trace, tolerance_of(name))
    assert not found, report(found, len(trace.calls))
    said = [str(janus.explain(target)) for target in trace.decorated]
    faults = [text for text in said if "a fault of janusc's own" in text or WRONG in text]
    assert not faults, faults[0]
