"""Programs of the corpus on a CUDA device are equal to eager.

They get there by a default device, under which no block has a kernel: those are tested with steps of their own.
"""

import pytest
import torch
from corpus import PROGRAMS
from on_kernels import CHOSEN

import janusc as janus
from janusc.testing import differences, record, report

from .devices import CUDA, NEEDS_CUDA, TOLERANCE

pytestmark = [pytest.mark.gpu, NEEDS_CUDA]


@pytest.fixture(autouse=True)
def on_cuda():
    """Factories make tensors on the device, in eager mode and compiled alike."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    with torch.device(CUDA):
        yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize("name", CHOSEN)
def test_equal_to_eager(name):
    world = PROGRAMS[name].world
    try:
        eager, again = record(world), record(world)
    except RuntimeError as error:
        pytest.skip(f"the program itself mixes devices: {str(error).partition('.')[0]}")
    if differences(eager, again, TOLERANCE):
        pytest.skip("the program is not like itself on this device")
    trace = record(world, lambda f: janus.compile(f, backend="aten", warmup=1))
    found = differences(eager, trace, TOLERANCE)
    assert not found, report(found, len(trace.calls))
    faults = [text for text in map(str, map(janus.explain, trace.decorated)) if "a fault of janusc's own" in text]
    assert not faults, faults[0]
