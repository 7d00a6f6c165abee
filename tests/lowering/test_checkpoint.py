"""What a statement that can't be converted has left behind is undone, all of it."""

from __future__ import annotations

import torch

import janusc as janus
from janusc.lowering import builder, lowering
from janusc.lowering.lowering import Lowering
from janusc.typeinfer.profile import Profile

ALWAYS = {"open", "handed_on"}  # of the whole lowering, and yet with guards behind them


def test_all_that_belongs_to_a_segment_is_in_a_checkpoint():
    lo = Lowering(Profile(), lambda f: f, lambda f: False)
    before = dict(vars(lo)), dict(vars(lo.builder))
    lo.start_segment()
    renewed = [{k for k, v in vars(o).items() if v is not known[k]} for o, known in zip((lo, lo.builder), before)]
    assert renewed[0] == set(lowering._OF_A_SEGMENT) - ALWAYS
    assert renewed[1] == {*builder.OF_A_SEGMENT, "regions"}


class Settings:
    count = 0


@janus.opaque
def noted(settings, y):
    settings.count += 1
    return y * settings.count


def test_nothing_is_assumed_of_what_only_ordinary_python_reads():
    settings = Settings()

    def f(x):
        y = torch.relu(x) * 2
        z = noted(settings, y) if settings.count + 1 else y
        return torch.tanh(z)

    graph = janus.compile(f, backend="aten", warmup=1)
    for k in range(8):
        before, settings.count = settings.count, k
        assert torch.equal(graph(torch.ones(3)), torch.tanh(torch.full((3,), 2.0) * (k + 1)))
        assert settings.count == k + 1, before
    stats = janus.stats(graph)
    assert (stats.conversions, stats.guard_misses, stats.fallbacks) == (1, 0, 0), janus.explain(graph)
