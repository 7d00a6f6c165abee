"""A number beside a tensor may be a tensor that was made before: nothing tells the two apart."""

from __future__ import annotations

import operator

import pytest
import torch

import janusc as janus
from janusc.runtime import numbers

OPERATIONS = {
    "x + n": operator.add,
    "x - n": operator.sub,
    "x * n": operator.mul,
    "x / n": operator.truediv,
    "n + x": lambda x, n: n + x,
    "n * x": lambda x, n: n * x,
    "x.add_(n)": lambda x, n: x.add_(n),
    "x.sub_(n)": lambda x, n: x.sub_(n),
    "x.mul_(n)": lambda x, n: x.mul_(n),
    "x.div_(n)": lambda x, n: x.div_(n),
}
NUMBERS = [0.5, 1, -3, 0.1, 1 / 3, 2**24, -(2**24), 1e30, -1e-30, 0, 0.0, -0.0, 16777217.0, 3.4e-45]
SHAPES = [(), (1,), (0,), (7,), (33, 65), (2, 3, 5, 4)]


def sample(dtype, shape, strided, needs):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=dtype) * 3
    if strided and x.dim() > 1:
        x = x.transpose(0, 1)[:, ::2]
    return x.requires_grad_(needs)


def bits(x):
    return x.detach().contiguous().view(torch.int32 if x.dtype is torch.float32 else torch.int64).tolist(), x.stride()


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OPERATIONS)
def test_torch_computes_the_same_with_the_tensor(name, dtype, needs):
    """What the emitted code relies on."""
    for number in NUMBERS:
        prepared = numbers.tensors(repr(number))(dtype, None)
        for shape in SHAPES:
            for strided in (False, True):
                found = []
                for given in (number, prepared):
                    x = sample(dtype, shape, strided, needs)
                    y = OPERATIONS[name](x * 1, given)
                    if needs:
                        y.backward(torch.ones_like(y) / 3)
                    found.append((bits(y), y.dtype, y.grad_fn and y.grad_fn.name(), needs and bits(x.grad)))
                assert found[0] == found[1], (number, shape, strided)


COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("compare", COMPARISONS)
def test_torch_compares_the_same_with_the_tensor(compare, dtype):
    for number in NUMBERS:
        prepared = numbers.tensors(repr(number))(dtype, None)
        near = torch.tensor([number, 0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-45], dtype=dtype)
        near = torch.cat([near, near.nextafter(near + 1), near.nextafter(near - 1)])
        for x in (near, near[0], near[:0], near.repeat(7, 3).t()[::2], near.clone().requires_grad_()):
            a, b = compare(x, number), compare(x, prepared)
            assert torch.equal(a, b) and a.stride() == b.stride() and a.dtype is b.dtype is torch.bool
            assert torch.equal(compare(number, x), compare(prepared, x))


def compared(x):
    near = x < 0.1, x <= 0.1, x > 0.1, x >= 0.1, x == 0.1, x != 0.1
    return near, (0.1 < x, 0.1 <= x, 0.1 > x, 0.1 >= x, x == 3, 3 != x), x[(x > 0) & (2.5 >= x)]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool]
)
def test_a_graph_compares_with_numbers_as_eager_does(dtype):
    f = janus.compile(compared, backend="aten", warmup=1)
    for shift in range(4):
        x = (
            (torch.tensor([0.1, 0.2, 0.0, -0.0, 3.0, 1e-9, float("nan"), 0.1 + 1e-8]) + shift % 2)
            .nan_to_num(7.0)
            .to(dtype)
        )
        assert repr(f(x)) == repr(compared(x))
    assert janus.stats(f).graph_calls > 0
    if dtype is torch.float32:
        source = janus.graphs(f)[0].source
        assert "x < number_0_1(x.dtype, 0.1)" in source and "x > number_0_1(x.dtype, 0.1)" in source


def program(x, y):
    z = 0.5 * x + y * 2 - 1
    z = z / 3 + (1 - y)
    z *= 0.25
    z += 1
    z.mul_(0.9)
    return z.add(2), 3 + z, z.sub(0.125), -0.0 * z, z * 16777217 + 1e300


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int64]
)
def test_a_graph_computes_with_numbers_what_eager_does(dtype, needs):
    def run(f):
        x = (torch.arange(12).view(3, 4) - 5).to(dtype)
        if needs and dtype.is_floating_point:
            x.requires_grad_()
        try:
            results = f(x, x + 2)
        except (RuntimeError, TypeError) as error:
            return str(error)
        if x.requires_grad:
            sum(r.sum() for r in results).backward()
        return [(r.dtype, repr(r.detach()), r.grad_fn and r.grad_fn.name()) for r in results], repr(x.grad)

    f = janus.compile(program, backend="aten", warmup=1)
    for _ in range(4):
        assert run(f) == run(program)
    assert janus.stats(f).graph_calls > 0
    if dtype is torch.float32:
        assert "number_0_5(x.dtype, 0.5)" in janus.graphs(f)[0].source


def test_a_graph_made_in_inference_mode_may_train_later():
    def f(x):
        return (x * 0.375).sum()

    compiled = janus.compile(f, backend="aten", warmup=0)
    with torch.inference_mode():
        compiled(torch.ones(2))
    x = torch.ones(2, requires_grad=True)
    for _ in range(3):
        compiled(x).backward()
    assert x.grad.tolist() == [1.125, 1.125] and janus.stats(compiled).graph_calls > 0


def test_a_number_of_run_time_that_comes_up_again_is_a_tensor():
    numbers._seen.clear()
    for number in (0.3, -2.5e-3):
        first, second, third = (numbers.prepared(torch.float32, number) for _ in range(3))
        assert first == second == number and type(second) is float
        assert type(third) is torch.Tensor and third.dtype is torch.float32 and third.item() == pytest.approx(number)
    for number in (0.0, -0.0, float("nan"), float("inf"), 1e300):
        assert all(type(numbers.prepared(torch.float32, number)) is float for _ in range(4))
    assert all(type(numbers.prepared(torch.float16, 0.25)) is float for _ in range(4))
    for number in range(5000):
        numbers.prepared(torch.float64, number + 0.5)
    assert len(numbers._seen) <= numbers._MOST_SEEN


def test_steps_with_changing_rates_are_those_of_eager():
    def descend(x, rates):
        for rate in rates:
            x = x - rate * (x * 2 - 1)
            x = (1.5 - rate) * x / (rate + 2.0) + rate
        return x

    f = janus.compile(descend, backend="aten", warmup=2)
    for dtype in (torch.float32, torch.float64, torch.float16):
        for rates in ([0.1, 0.2], [0.1], [0.1, 0.0, -0.0, 0.3, 0.1], [1e300, 0.1], [float("nan")], [0.1] * 7):
            x = torch.linspace(-1, 1, 6, dtype=dtype)
            assert repr(f(x, rates)) == repr(descend(x, rates))
    assert janus.stats(f).graph_calls > 10 and "_jc_prepared(" in janus.graphs(f)[0].source
