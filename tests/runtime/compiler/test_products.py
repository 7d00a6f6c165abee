"""Products of matrices opened for the kernel compiler compute what they did."""

import pytest
import torch

from janusc import torch_private
from janusc.runtime.compiler.products import FEW_TERMS, open_products


def opened(function, *tensors):
    """The traced graph of a function with its products opened, and the names of what it calls."""
    graph = torch_private.compiling.trace(function, tensors)
    open_products(graph.graph)
    graph.graph.lint()
    graph.recompile()
    called = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    torch.testing.assert_close(graph(*tensors), function(*tensors))
    for node in graph.graph.nodes:
        if node.op == "call_function":
            assert isinstance(node.meta["val"], torch.Tensor)
    return called


aten = torch.ops.aten


@pytest.mark.parametrize("bias", [(7,), (5, 7), (1,), (5, 1)])
def test_a_bias_is_added_behind(bias):
    called = opened(torch.addmm, torch.randn(bias), torch.randn(5, 6), torch.randn(6, 7))
    assert aten.addmm.default not in called and aten.mm.default in called


def test_scaled_products_stay():
    called = opened(lambda *ts: torch.addmm(*ts, beta=2, alpha=3), torch.randn(7), torch.randn(5, 6), torch.randn(6, 7))
    assert aten.addmm.default in called or aten.mul.Tensor in called


@pytest.mark.parametrize("terms", range(FEW_TERMS + 2))
def test_products_of_few_terms_are_sums(terms):
    called = opened(torch.mm, torch.randn(5, terms), torch.randn(terms, 7))
    assert (aten.mm.default in called) == (not 1 < terms <= FEW_TERMS and terms != 1)


def test_other_numbers_are_left_alone():
    whole, half = torch.ones(3, 2, dtype=torch.int64), torch.ones(3, 2, dtype=torch.bfloat16)
    for tensor in (whole, half):
        assert aten.mm.default in opened(torch.mm, tensor, tensor.t())
