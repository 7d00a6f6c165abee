"""torch's own check of many tensors at once: what it compares, and that it keeps nothing."""

import gc
import weakref

import pytest
import torch

from janusc import torch_private


class Odd(torch.Tensor):
    pass


def pair():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(3, 4)), torch.randn(5)]


def test_the_same_and_others_like_them_pass():
    first = pair()
    check = torch_private.tensor_guards(first)
    assert check(*first)
    assert check(*pair())
    with torch.no_grad():
        assert check(*first)


OTHERS = {
    "another size": lambda: torch.randn(6),
    "another rank": lambda: torch.randn(5, 1),
    "another dtype": lambda: torch.randn(5, dtype=torch.float64),
    "another device": lambda: torch.randn(5, device="meta"),
    "other strides": lambda: torch.randn(10)[::2],
    "a gradient required": lambda: torch.randn(5, requires_grad=True),
    "a parameter": lambda: torch.nn.Parameter(torch.randn(5), requires_grad=False),
    "a subclass": lambda: torch.randn(5).as_subclass(Odd),
    "another layout": lambda: torch.randn(5).to_sparse(),
    "nothing": lambda: None,
    "a number": lambda: 3.0,
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_others_do_not(make):
    first, second = pair()
    assert not torch_private.tensor_guards([first, second])(first, make())


def test_what_is_switched_on_counts():
    first = pair()
    check = torch_private.tensor_guards(first)
    with torch.autocast("cpu"):
        assert not check(*first)
    with torch.inference_mode():
        assert not check(*first)
    assert check(*first)


def test_nothing_is_kept_alive():
    first = pair()
    check = torch_private.tensor_guards(first)
    gone = [weakref.ref(tensor) for tensor in first]
    del first
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    assert check(*pair())


def test_another_number_of_tensors_is_an_error():
    with pytest.raises(TypeError):
        torch_private.tensor_guards(pair())(*pair()[:1])


def test_without_the_feature_there_is_no_check(monkeypatch):
    monkeypatch.setattr(torch_private, "_guards", None)
    assert torch_private.tensor_guards(pair()) is None
