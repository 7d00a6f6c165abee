"""Tests of the program's own on what a block computes: a kernel says whether they go as they did."""

import pytest
import torch
import torch.nn.functional as F
from asserting import Asserting, Leaving, Raising, Training
from stepped import STEPPED, run_beside_eager

import janusc as janus

pytestmark = pytest.mark.usefixtures("uncompiled")


def batch(bad=False):
    x = torch.randn(4, 3)
    return torch.full_like(x, torch.nan) if bad else x, torch.tensor([0, 1, 1, 0])


def test_a_test_that_once_goes_the_other_way(finished):
    torch.manual_seed(0)
    compiled = run_beside_eager(Leaving, [batch(number == 10) for number in range(14)])
    assert len(finished) >= 6
    assert janus.stats(compiled).fallbacks == 1


@pytest.mark.parametrize(("make", "error"), [(Asserting, AssertionError), (Raising, ValueError)])
def test_a_test_that_ends_the_step(make, error, finished):
    torch.manual_seed(0)
    ours = make()
    compiled = janus.compile(ours.step, backend=STEPPED, warmup=1)
    for _ in range(8):
        compiled(*batch())
    count, before = len(finished), [p.detach().clone() for p in ours.net.parameters()]
    assert count >= 4
    with pytest.raises(error):
        compiled(*batch(True))
    assert all(map(torch.equal, before, (p.detach() for p in ours.net.parameters()))) and len(finished) == count
    assert all(p.grad is None for p in ours.net.parameters())


def test_the_truth_of_several_elements_is_torchs_error():
    class Several(Training):
        def step(self, x, y, several):
            self.optimizer.zero_grad()
            out = self.net(x)
            if out.flatten()[:several] > 1e9:
                return -1.0
            loss = F.cross_entropy(out, y)
            loss.backward()
            self.optimizer.step()
            return loss.item()

    torch.manual_seed(0)
    ours = Several()
    compiled = janus.compile(ours.step, backend=STEPPED, warmup=1)
    for _ in range(8):
        compiled(*batch(), 1)
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        compiled(*batch(), 2)
