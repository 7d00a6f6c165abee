"""Convolutions of one channel opened for the kernel compiler compute what they did."""

import pytest
import torch
import torch.nn.functional as F

from janusc import torch_private
from janusc.runtime.compiler.convolutions import CHANNELS, LANES, open_convolutions

aten = torch.ops.aten


def opened(function, *tensors):
    """What the traced graph of a function calls with its convolutions opened; its results are those of the function."""
    graph = torch_private.compiling.trace(function, tensors)
    open_convolutions(graph.graph)
    graph.graph.lint()
    graph.recompile()
    for found, expected in zip(graph(*tensors), function(*tensors), strict=True):
        assert found.stride() == expected.stride()
        scale = expected[expected.isfinite()].abs().max() if expected.numel() else 1  # gradients are sums that cancel
        torch.testing.assert_close(found / scale, expected / scale, equal_nan=True)
    return [node.target for node in graph.graph.nodes if node.op == "call_function"]


def convolution(images, weights, bias=None, **how):
    """One that can be opened, and the gradients of its parameters, as a function of tensors; with its tensors."""

    def function(images, weights, *bias):
        parameters = [t.detach().requires_grad_() for t in (weights, *bias)]
        made = F.conv2d(images, *parameters, **how)
        return made, *torch.autograd.grad(made.sin().sum(), parameters)

    tensors = images, weights, bias
    return function, *(t for t in tensors if t is not None)


def left_alone(called):
    """Whether no convolution was opened, of those that there are."""
    return aten.convolution.default in called and aten.convolution_backward.default in called


def is_open(called):
    """Whether all were."""
    return aten.convolution.default not in called and aten.convolution_backward.default not in called


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("how", [{}, {"padding": 2}, {"padding": (1, 2)}, {"padding": "same"}, {"padding": (0, 3)}])
@pytest.mark.parametrize("kernel", [(5, 5), (3, 1), (1, 3), (2, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_few_weights_are_a_sum(dtype, how, kernel, bias):
    given = torch.randn(3, 1, 9, 21, dtype=dtype), torch.randn(6, 1, *kernel, dtype=dtype)
    assert is_open(opened(*convolution(*given, torch.randn(6, dtype=dtype) if bias else None, **how)))


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_is_no_number_stays_where_it_is(value):
    images = torch.ones(2, 1, 18, 18)
    images[1, 0, 4, 5] = value

    def function(images, weights):
        return (F.conv2d(images, weights, padding=1),)

    called = opened(function, images, torch.ones(3, 1, 3, 3))
    assert aten.convolution.default not in called


def test_the_layout_of_images_of_one_channel_does_not_matter():
    images = torch.randn(3, 18, 20, 1).permute(0, 3, 1, 2)
    convolution_of_layout = convolution(images, torch.randn(4, 1, 3, 3))
    opened(*convolution_of_layout)


@pytest.mark.parametrize(
    "images, weights, how",
    [
        ((2, 2, 20, 20), (6, 2, 3, 3), {}),
        ((2, 1, 20, 20), (CHANNELS, 1, 3, 3), {}),
        ((2, 1, 20, 20), (6, 1, 5, 6), {}),
        ((2, 1, 20, 20), (6, 1, 1, 1), {}),
        ((2, 1, 20, LANES + 1), (6, 1, 3, 3), {}),
        ((2, 1, 40, 40), (6, 1, 3, 3), {"stride": 2}),
        ((2, 1, 40, 40), (6, 1, 3, 3), {"dilation": (1, 2)}),
        ((2, 2, 20, 20), (4, 1, 3, 3), {"groups": 2}),
        ((0, 1, 20, 20), (6, 1, 3, 3), {}),
        ((2, 1, 20), (6, 1, 3), {}),
    ],
)
def test_others_are_left_alone(images, weights, how):
    def function(images, weights):
        weights = weights.detach().requires_grad_()
        made = (F.conv1d if images.dim() == 3 else F.conv2d)(images, weights, **how)
        return made, *torch.autograd.grad(made.sin().sum(), [weights])

    assert left_alone(opened(function, torch.randn(images), torch.randn(weights)))


def test_where_the_images_have_a_gradient_that_is_not_opened():
    def function(images, weights):
        given = [t.detach().requires_grad_() for t in (images, weights)]
        made = F.conv2d(*given)
        return made, *torch.autograd.grad(made.sin().sum(), given)

    called = opened(function, torch.randn(2, 1, 20, 20), torch.randn(3, 1, 3, 3))
    assert aten.convolution.default not in called and aten.convolution_backward.default in called


def test_other_numbers_are_left_alone():
    def function(images, weights):
        return (F.conv2d(images, weights),)

    called = opened(function, torch.randn(2, 1, 20, 20).bfloat16(), torch.randn(3, 1, 3, 3).bfloat16())
    assert aten.convolution.default in called


def test_without_the_operation_that_lays_out_all_are_left_alone(monkeypatch):
    monkeypatch.setattr(torch_private.compiling, "laying_out", lambda: None)
    assert left_alone(opened(*convolution(torch.randn(2, 1, 20, 20), torch.randn(3, 1, 3, 3))))
