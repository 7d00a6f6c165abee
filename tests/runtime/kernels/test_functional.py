"""Writes as values: the same results, or a refusal where another name for the same memory is used later."""

import pytest
import torch

from janusc import torch_private
from janusc.runtime.kernels.functional import Unfit, make_functional


def added_to_a_view(x):
    made = x @ x
    view = made.t()
    view.add_(x)
    return view * 2, view.t() + 1


def written_twice(x):
    made = x.exp()
    made.mul_(2)
    part = made.view(-1)
    part.add_(1)
    return part + 1


def seen_by_another_name(x):
    made = x @ x
    view = made.t()
    view.add_(x)
    return made * 2


def seen_by_an_earlier_view(x):
    made = x.exp()
    row = made.view(-1)
    made.add_(1)
    return row * 1


def seen_by_its_first_name(x):
    made = x.exp()
    part = made.view(-1)
    part.add_(1)
    return made * 1


def an_input_by_another_name(x):
    x.view(-1).add_(1)
    return x.new_ones(2)


@pytest.mark.parametrize("function", [added_to_a_view, written_twice])
def test_a_write_that_is_seen_by_its_own_name_is_a_value(function):
    x = torch.randn(3, 3)
    module = torch_private.compiling.trace(function, [x])
    make_functional(module)
    assert not any(getattr(n.target, "_schema", None) and n.target._schema.is_mutable for n in module.graph.nodes)
    expected, found = function(x), module(x)
    pairs = zip(expected, found) if isinstance(expected, tuple) else [(expected, found)]
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    "function",
    [seen_by_another_name, seen_by_an_earlier_view, seen_by_its_first_name, an_input_by_another_name],
)
def test_a_write_that_is_seen_by_another_name_is_refused(function):
    module = torch_private.compiling.trace(function, [torch.randn(3, 3)])
    with pytest.raises(Unfit):
        make_functional(module)
