"""Two numbers compare as the tensors do that they are read from."""

from __future__ import annotations

import itertools
import math
import operator

import numpy
import pytest
import torch

import janusc as janus
from janusc.runtime.truths import TRUTHS

FLOATS = [0.0, -0.0, 0.1, 1 / 3, 1.0, -2.5, 16777216.0, 16777217.0, 3.3e38, 3.5e38, 1e300, 1e-45, math.inf, math.nan]
INTS = [0, 1, -1, 3, 2**24, 2**24 + 1, 2**31, 2**53 + 1, 2**62, 2**62 + 1, -(2**63), 2**63, 2**70]
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


def near(dtype):
    """Values of a dtype, those beside some numbers among them."""
    if not dtype.is_floating_point:
        numbers = (
            [0, 1] if dtype is torch.bool else [0, 1, 3, 200] if dtype is torch.uint8 else [0, 1, -1, 3, 2**24 + 1]
        )
        return [torch.tensor(n, dtype=dtype) for n in numbers]
    found = []
    for number in FLOATS:
        x = torch.tensor(number, dtype=torch.float64).to(dtype)
        found += [x, torch.nextafter(x.float(), torch.tensor(9e9)).to(dtype)]
    return found


def outcome(compare, left, right):
    try:
        return bool(compare(left, right))
    except (RuntimeError, OverflowError, TypeError) as error:
        return type(error)


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_and_a_number_compare_as_in_torch(name, dtype):
    plain, ours = getattr(operator, name), TRUTHS[name]
    for tensor, number in itertools.product(near(dtype), [*FLOATS, *INTS, True, numpy.float64(0.1)]):
        assert outcome(ours, tensor, number) == outcome(plain, tensor, number), (tensor, number)
        assert outcome(ours, number, tensor) == outcome(plain, number, tensor), (number, tensor)


@pytest.mark.parametrize("name", TRUTHS)
def test_two_tensors_compare_as_in_torch(name):
    plain, ours = getattr(operator, name), TRUTHS[name]
    tensors = [x for dtype in DTYPES for x in near(dtype)[:6]]
    tensors += [torch.tensor([0.1]), torch.tensor([[1.0]], requires_grad=True), torch.empty(0), torch.ones(2)]
    for left, right in itertools.product(tensors, tensors):
        if 0 in (left.numel(), right.numel()):
            continue  # torch warns; what is an error here is eager's to say
        assert outcome(ours, left, right) == outcome(plain, left, right), (left, right)


def test_a_subclass_is_asked_itself():
    class Odd(torch.Tensor):
        def __lt__(self, other):
            return "odd"

    assert TRUTHS["lt"](torch.ones(1).as_subclass(Odd), 0) == "odd"
    assert TRUTHS["gt"](0, torch.ones(1).as_subclass(Odd)) == "odd"


def test_a_graph_ends_its_loop_where_eager_does():
    def settle(x, tolerance):
        steps = 0
        while (x - x.mean()).abs().max() > tolerance:
            x = x * 0.5 + x.mean() * 0.5
            steps += 1
            if x.max() == x.min() or steps == 40:
                break
        return x, steps

    compiled = janus.compile(settle, backend="aten", warmup=2)
    for number in range(12):
        x = torch.randn(7, generator=torch.Generator().manual_seed(number))
        expected, found = settle(x, 10.0**-number), compiled(x, 10.0**-number)
        assert torch.equal(expected[0], found[0]) and expected[1] == found[1]
    assert "_jc_gt(" in janus.graphs(compiled)[-1].source
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        janus.compile(lambda x: x if x < 0 else -x, backend="aten", warmup=1)(torch.ones(2))
