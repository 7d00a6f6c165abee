"""What a kernel would compute otherwise is left to the operations; what it hands out can be used as in eager mode."""

import pytest
import torch
from torch import nn
from traced import SEEN, compiled

import janusc as janus

X = torch.arange(40) / 10


@pytest.fixture(autouse=True)
def forget():
    SEEN.clear()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.half().bfloat16().float() * 2,
        lambda x: x // 0.1 + 1,
        lambda x: torch.floor_divide(x, x + 1).sin(),
        lambda x: torch.div(x, 0.1, rounding_mode="floor") + 1,
    ],
)
def test_no_kernel_where_it_would_give_other_numbers(function):
    f = compiled(function)
    for _ in range(3):
        assert torch.equal(f(X), function(X))
    assert not SEEN and "no kernel" in str(janus.explain(f))


def test_whole_numbers_and_truncated_quotients_have_kernels():
    f = compiled(lambda x: (x.long() // 2 + 1, torch.div(x, 0.1, rounding_mode="trunc") + 1))
    for _ in range(3):
        f(X)
    assert len(SEEN) == 1


def changed(f):
    loss, squares = f(torch.ones(3))
    squares.mul_(2)
    loss.detach_()
    return loss, squares, squares.grad_fn.name(), loss.requires_grad


def test_what_is_handed_out_may_be_changed_in_place():
    weight = nn.Parameter(torch.ones(3))

    def step(x):
        squares = (x * weight).pow(2)
        loss = squares.sum()
        loss.backward()
        return loss, squares

    f = compiled(step)
    for _ in range(4):
        (*ours, name, requires), (*eager, known, needs) = changed(f), changed(step)
        assert (name, requires) == (known, needs) and all(map(torch.equal, ours, eager))
    assert len(SEEN) == 1
