"""Statements that make steps: by kernels, also through what a scheduler has put in the place of the method."""

import pytest
import torch
from stepping import Pair, Uncompiled

from janusc.runtime import gradients
from janusc.runtime.kernels import measured
from janusc.runtime.kernels.updates import places
from janusc.runtime.kernels.updates.fused import step_of


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch):
    monkeypatch.setattr(places, "request", Uncompiled)
    monkeypatch.setattr(measured, "LONG", 0.0)


def run(place, pair, count):
    """So many steps of ours by the place, compared with torch's."""
    for _ in range(count):
        pair.set_grads()
        pair.plain.step()
        if not place(pair.ours):
            gradients.step(pair.ours)
        pair.compare()
    return step_of(pair.ours, Uncompiled).made


@pytest.mark.parametrize("cls", [torch.optim.SGD, torch.optim.Adam])
def test_early_steps(cls):
    pair, place = Pair(lambda ps: cls(ps, lr=0.1)), places.EarlyStep()
    assert place.report() == []
    assert run(place, pair, 10) >= 7
    assert "of its steps" in place.report()[0]


def test_measured_steps():
    pair, place = Pair(lambda ps: torch.optim.SGD(ps, lr=0.1)), places.MeasuredStep()
    run(place, pair, measured.OFTEN)
    assert place.report() == []
    assert run(place, pair, 30) > 0


@pytest.mark.parametrize("place", [places.EarlyStep, places.MeasuredStep])
def test_steps_that_have_a_scheduler(place):
    pair = Pair(lambda ps: torch.optim.Adam(ps, lr=0.1))
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9) for optimizer in (pair.plain, pair.ours)]
    made = place()
    for _ in range(measured.OFTEN + 30):
        vars(pair.ours).pop("_opt_called", None)  # which schedulers look at
        run(made, pair, 1)
        assert pair.ours._opt_called is True
        for scheduler in schedulers:
            scheduler.step()
    assert step_of(pair.ours, Uncompiled).made > 10
