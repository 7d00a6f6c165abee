"""Where a program has put something in the place of a method of torch's, no kernel computes what torch's would."""

import pytest
import torch
from traced import compiled

import janusc as janus
from janusc.runtime.kernels.kernel import Kernel


def f(x, y):
    z = x.mul(y) + 1
    return z.tanh() - y


def on_kernel(*args):
    made = compiled(f)
    for _ in range(4):
        made(*args)
    assert "a kernel" in janus.explain(made)
    return made


X, Y = torch.linspace(-1, 1, 4), torch.linspace(0, 2, 4)


@pytest.mark.parametrize("name", ["mul", "tanh", "__add__", "__sub__"])
def test_a_method_of_the_class_is_replaced_for_a_while(monkeypatch, name):
    made, plain, seen = on_kernel(X, Y), getattr(torch.Tensor, name), []

    def replaced(self, *args):
        seen.append(name)
        return plain(self, *args)

    for _ in range(2):  # the second time it stands in the class, as torch's own
        with monkeypatch.context() as patch:
            patch.setattr(torch.Tensor, name, replaced)
            wanted = f(X, Y)
            assert seen == [name]
            assert torch.equal(made(X, Y), wanted)
            assert seen == [name, name]
        assert torch.equal(made(X, Y), f(X, Y)) and seen == [name, name]
        seen.clear()


def test_an_input_has_a_method_of_its_own():
    made, x = on_kernel(X, Y), X.clone()
    x.mul = lambda y: y * 100
    assert torch.equal(made(x, Y), f(x, Y))
    assert torch.equal(made(X, Y), f(X, Y))


def test_other_attributes_of_an_input_do_not_matter(monkeypatch):
    made, x, used = on_kernel(X, Y), X.clone(), []
    x.label = "x"
    run = Kernel.run
    monkeypatch.setattr(Kernel, "run", lambda *args: used.append(run(*args)) or used[-1])
    assert torch.equal(made(x, Y), f(x, Y))
    assert used[0] is not None


def test_a_wrapped_inner_backward_pass_is_called(monkeypatch):
    weight, inner, seen = torch.ones(4, requires_grad=True), torch.autograd.backward, []

    def step(x):
        loss = (weight * x).sum()
        loss.backward()
        return loss.detach()

    made = compiled(step)
    for _ in range(4):
        made(X)
    monkeypatch.setattr(torch.autograd, "backward", lambda *args, **kwargs: seen.append(1) or inner(*args, **kwargs))
    made(X)
    assert seen == [1]
