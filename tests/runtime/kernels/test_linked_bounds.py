"""Kernels of blocks whose history goes on, where contents may be odd: indices, pools, layouts, batched tangents."""

import shutil

import pytest
import torch
from linked_cases import LAYERS, assert_like_eager, is_linked, tensors, two_layers, warmed
from torch import nn
from torch.nn import functional
from traced import SEEN, compiled

import janusc as janus

NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
ROWS = 300


@pytest.fixture(autouse=True)
def forget():
    SEEN.clear()


def outcome(f, index, table):
    try:
        found = f(index, table)
        found.square().sum().backward()
    except (IndexError, RuntimeError) as error:
        return None, type(error), str(error)
    gradient, table.grad = table.grad, None
    return is_linked(found), found.detach(), gradient


def taken(index, table):
    return functional.embedding(index, table).tanh() * 2


def gathered(index, table):
    return table.gather(0, index[:, None].expand(-1, 64)).tanh() * 2


def picked(index, table):
    return table[index].tanh() * 2


@NEEDS_COMPILER
@pytest.mark.parametrize("function", [taken, gathered, picked])
@pytest.mark.parametrize("bad", [ROWS, -ROWS - 1, 1 << 60])
def test_an_index_out_of_bounds_is_left_to_the_operations(function, bad, two_threads):
    table = torch.randn(ROWS, 64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    good = torch.arange(ROWS) % 7
    odd = good.clone()
    odd[5] = bad
    f = janus.compile(function, backend="inductor", warmup=1, strict=True)
    for number, index in enumerate((good, good, good, odd, good)):
        wanted, found = outcome(function, index, table), outcome(f, index, table)
        assert (wanted[0] is None) == (found[0] is None) == (index is odd)
        if index is odd:
            assert found[1:] == wanted[1:]
        else:
            assert found[0] == (number > 1), janus.explain(f)
            torch.testing.assert_close(found[1:], wanted[1:])


def test_an_index_that_nobody_sees_change_fails_in_the_backward_pass_as_in_eager_mode():
    def f(x, index):
        return x.gather(0, index).tanh() * 3

    def act(f):
        x, index = torch.randn(4, 3, requires_grad=True), torch.zeros(2, 3, dtype=torch.int64)
        y = f(x, index)
        index.data.fill_(99)
        with pytest.raises(RuntimeError, match="index 99 is out of bounds") as raised:
            y.sum().backward()
        return is_linked(y), type(raised.value), x.grad

    made = compiled(f)
    for _ in range(3):
        made(torch.randn(4, 3, requires_grad=True), torch.zeros(2, 3, dtype=torch.int64))
    assert act(f) == (False, RuntimeError, None)
    assert act(made) == (True, RuntimeError, None)


def pooled(x, w):
    return functional.max_pool2d(torch.relu(x * w), 2)


def test_a_history_that_others_see_ends_in_the_pool():
    def act(f, given):
        y = f(**given)
        name = y.grad_fn.name()
        y.mul_(2)  # which torch has not kept
        y.sum().backward()
        return name

    assert_like_eager(pooled, act, x=(1, 2, 6, 6), w=(1,))


def test_windows_without_a_largest_number():
    made = warmed(pooled, x=(1, 2, 6, 6), w=(1,))
    for odd in (float("nan"), float("-inf"), 1.0):
        results = []
        for f in (pooled, made):
            given = tensors(x=(1, 2, 6, 6), w=(1,))
            given["x"].data[0, 0] = odd
            y = f(**given)
            y.sum().backward()
            results.append([y.detach(), given["x"].grad, given["w"].grad])
        torch.testing.assert_close(*results, equal_nan=True)
    assert is_linked(y)


def test_what_is_kept_in_another_layout_is_never_used():
    def compiler(module, examples):
        if any("tangent" in str(node.target) for node in module.graph.nodes):
            return module
        return lambda *inputs: [x.t().contiguous().t() for x in module(*inputs)]

    janus.register_backend("turning", compiler)
    made = warmed(two_layers, backend="turning", **LAYERS)
    assert not is_linked(made(**tensors(**LAYERS)))


def test_batched_tangents():
    def act(f, given):
        y = f(**given)
        directions = torch.eye(y.numel()).reshape(-1, *y.shape)
        return torch.autograd.grad(y, list(given.values()), directions, is_grads_batched=True)

    assert_like_eager(two_layers, act, **LAYERS)


def test_jacobians():
    made = warmed(two_layers, **LAYERS)
    given = tuple(x.detach() for x in tensors(**LAYERS).values())
    for vectorize in (False, True):
        wanted, found = (
            torch.autograd.functional.jacobian(lambda *a, f=f: f(*a), given, vectorize=vectorize)
            for f in (two_layers, made)
        )
        torch.testing.assert_close(found, wanted)


def test_what_computes_nothing_with_a_history_needs_none():
    weight = nn.Parameter(torch.ones(3, 2))

    def metrics(x, y):
        return ((x @ weight).argmax(1) == y).float().mean()

    made = compiled(metrics)
    for _ in range(4):
        found = made(torch.ones(4, 3), torch.zeros(4))
    assert len(SEEN) == 1 and not found.requires_grad and found.item() == 1.0
