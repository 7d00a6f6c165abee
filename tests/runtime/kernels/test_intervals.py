"""Whatever the inputs are, the elements of a value are in its interval, and where it matters that is narrow."""

import pytest
import torch

from janusc import torch_private
from janusc.runtime.kernels.intervals import intervals_of

INDICES = torch.tensor([[3, -7, 2, 9], [0, 5, -1, 4], [8, 8, -9, 1]])


def places(x):
    return torch.arange(x.shape[1])


FUNCTIONS = {
    (0, 3): lambda x: places(x),
    (-6, 3): lambda x: 3 - torch.arange(0, 12, 3),
    (0, 15): lambda x: (places(x) * 5).flip(0)[:, None].expand(4, 2),
    (2, 5): lambda x: (places(x) - 5).abs(),
    (-3, 0): lambda x: -places(x).clone().view(2, 2),
    (-1, 6): lambda x: x.clamp(-1, 6),
    (0, 7): lambda x: (x + 2) % 8,
    (-4, 4): lambda x: torch.fmod(x, 5),
    (0, 2): lambda x: torch.fmod(places(x), 3),
    (-2, 3): lambda x: torch.where(x > 0, places(x), -2),
    (0, 11): lambda x: x.argmax(),
    (0, 4): lambda x: torch.cat([x, x[:, :1]], 1).max(1)[1],
    (1, 3): lambda x: torch.topk(x, 2, dim=1)[1].clamp_min(1),
    (0, 1): lambda x: (x > 2).long(),
    (10, 30): lambda x: torch.tensor([10, 30, 20])[x.clamp(0, 2)],
}


@pytest.mark.parametrize("expected", FUNCTIONS)
def test_elements_are_in_their_interval(expected):
    function = FUNCTIONS[expected]
    module = torch_private.compiling.trace(lambda x: [function(x)], [INDICES])
    (result,) = module.graph.output_node().args[0]
    known = intervals_of(module)
    assert known[result] == expected
    found = module(INDICES)[0]
    assert expected[0] <= found.min() and found.max() <= expected[1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x: x + 1,
        lambda x: x.float().long(),
        lambda x: x.int().view(torch.int16),
        lambda x: x // x,
        lambda x: torch.arange(4) * 2**62 * 4,
        lambda x: (torch.arange(4) - 2).to(torch.uint8),
        lambda x: torch.add(x, torch.arange(4), alpha=3),
        lambda x: x.abs(),
    ],
)
def test_of_what_is_not_known_it_is_that_of_the_dtype(function):
    module = torch_private.compiling.trace(lambda x: [function(x)], [INDICES])
    (result,) = module.graph.output_node().args[0]
    limits = torch.iinfo(result.meta["val"].dtype)
    assert intervals_of(module)[result] == (limits.min, limits.max)
