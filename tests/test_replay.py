"""The torch calls of a call, as the benchmark replays them: the same ones on the same tensors, and nothing else."""

import pathlib
import sys
import weakref

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "bench"))
import replay


class Calls(TorchFunctionMode):
    """Notes which functions are called, and what came out of the last one."""

    def __init__(self):
        super().__init__()
        self.names, self.last = [], None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        self.last = func(*args, **(kwargs or {}))
        return self.last


def calls_of(function):
    with Calls() as calls:
        function()
    return calls


def program(x, layer):
    total = torch.zeros(3)
    for part in torch.split(x, [1, 2], dim=0):
        total = total + layer(part).sum(dim=0)
    largest = torch.stack([total, -total]).max(dim=1)
    return largest.values + largest.indices


def test_the_same_calls_give_the_same_result():
    torch.manual_seed(0)
    x, layer = torch.randn(3, 3), nn.Linear(3, 3)
    made, again = calls_of(lambda: program(x, layer)), calls_of(replay.recorded(lambda: program(x, layer))[0])
    assert len(made.names) > 8
    assert again.names == made.names
    assert torch.equal(again.last, made.last)


def test_a_replay_works_on_what_the_tensors_hold_by_then():
    x = torch.ones(2)
    again, _ = replay.recorded(lambda: x.add_(1).mul(3))
    x.zero_()
    assert calls_of(again).last.tolist() == [3.0, 3.0]


def test_gradients_are_made_again():
    w = torch.ones(2, requires_grad=True)

    def step():
        (w * 2).sum().backward()

    again, _ = replay.recorded(step)
    w.grad = None
    again()
    assert w.grad.tolist() == [2.0, 2.0]


def test_what_no_later_call_needs_is_let_go():
    x, seen = torch.ones(2), []

    class Watching(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.Tensor.neg:
                seen.append(made[0]() is None)
            result = func(*args, **(kwargs or {}))
            made.append(weakref.ref(result))
            return result

    again, _ = replay.recorded(lambda: torch.relu(torch.exp(x) + 1).neg())
    made = []
    with Watching():
        again()
    assert seen == [True]


def test_a_call_without_torch_is_its_result():
    assert replay.recorded(lambda: len("text"))[0]() == 4
