"""Relus move behind pools in kernels: same results and gradients, also of ties and of what is no number."""

import pytest
import torch
import torch.nn.functional as F
import traced

INPUTS = {
    "random": lambda: torch.randn(2, 3, 9, 9),
    "ties": lambda: torch.randint(-2, 3, (2, 3, 9, 9)).float(),
    "negative": lambda: -torch.rand(2, 3, 9, 9) - 0.1,
    "nothing": lambda: torch.zeros(2, 3, 9, 9),
    "no numbers": lambda: torch.where(torch.rand(2, 3, 9, 9) < 0.1, float("nan"), torch.randn(2, 3, 9, 9)),
    "infinite": lambda: torch.where(torch.rand(2, 3, 9, 9) < 0.2, float("-inf"), torch.randn(2, 3, 9, 9)),
}
POOLS = {
    "2": {"kernel_size": 2},
    "3, 2, padded": {"kernel_size": 3, "stride": 2, "padding": 1},
    "2, rounded up": {"kernel_size": 2, "ceil_mode": True},
    "2, apart": {"kernel_size": 2, "dilation": 2},
}


def pooled_first():
    """Whether the last traced module has its pool before its relu."""
    names = [str(node.target) for node in traced.SEEN[-1].graph.nodes]
    pool = next(i for i, name in enumerate(names) if "max_pool" in name)
    return any("relu" in name or "clamp_min" in name or "maximum" in name for name in names[pool:])


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("pool", POOLS)
def test_results_and_gradients_stay(inputs, pool):
    torch.manual_seed(1)
    x, weight = INPUTS[inputs](), torch.nn.Parameter(torch.ones(1))
    options = POOLS[pool]

    def step(x):
        y = F.max_pool2d(torch.relu(x * weight), **options)
        loss = (y * y).nansum() + y.nansum()
        loss.backward()
        return y.detach() + 0

    expected = step(x)
    gradient, weight.grad = weight.grad, None
    compiled = traced.compiled(step)
    for _ in range(3):
        weight.grad = None
        found = compiled(x)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(weight.grad, gradient, equal_nan=True)
    assert pooled_first()


def test_which_number_of_a_window_gets_the_gradient():
    x = torch.nn.Parameter(torch.tensor([[[[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, -2.0]]]]))

    def step():
        x.grad = None
        (F.max_pool2d(F.relu(x), 2) * 3).sum().backward()

    compiled = traced.compiled(step)
    for _ in range(3):
        compiled()
    assert x.grad.tolist() == [[[[0.0, 3.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]]


def test_what_else_reads_the_relu_finds_it():
    weight = torch.nn.Parameter(torch.ones(1))

    def step(x):
        y = torch.relu(x * weight)
        (F.max_pool2d(y, 2).sum() + y.sum()).backward()

    compiled = traced.compiled(step)
    for _ in range(3):
        weight.grad = None
        compiled(torch.ones(1, 1, 4, 4))
    assert weight.grad.item() == 20.0


def test_a_pool_that_is_handed_out_has_the_name_of_its_last_operation():
    weight = torch.nn.Parameter(torch.ones(1))

    def step(x):
        y = F.max_pool2d(torch.relu(x * weight), 2)
        y.sum().backward()
        return y

    compiled = traced.compiled(step)
    for _ in range(3):
        found = compiled(torch.ones(1, 1, 4, 4))
    assert found.grad_fn.name() == step(torch.ones(1, 1, 4, 4)).grad_fn.name()
