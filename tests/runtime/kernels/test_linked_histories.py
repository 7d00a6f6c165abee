"""Histories with kernels in them: what a pass frees and misses, and gradients of gradients, are as in eager mode."""

import pytest
import torch
from linked_cases import LAYERS, assert_like_eager, assert_same, is_linked, outcome, tensors, two_layers, warmed
from torch import nn
from torch.nn import functional
from traced import compiled

from janusc.runtime.kernels.linking import LinkedKernel

# ---- histories


def several(x, w):
    y = x @ w
    return y, y.tanh() * 2, (y.exp() + 1).argmax(-1), (y * y).detach()


def test_each_output_has_the_last_node_of_eager():
    def act(f, given):
        outputs = f(**given)
        (outputs[0].sum() + outputs[1].prod()).backward()
        return [(x.requires_grad, None if x.grad_fn is None else x.grad_fn.name()) for x in outputs], outputs[1]

    assert_like_eager(several, act, x=(2, 3), w=(3, 4))


def test_an_output_that_is_renamed_is_changed_in_place_as_in_eager():
    def f(x, w):
        y = (x * w).exp()
        return y, (y + 1).tanh()

    def act(f, given):
        y, z = f(**given)
        z.add_(1)
        (y.sum() + z.sum()).backward()

    def other(f, given):
        y, z = f(**given)
        y.add_(1)
        (y.sum() + z.sum()).backward()

    for each in (act, other):
        assert_like_eager(f, each, x=(2, 3), w=(2, 3))


def twice(first, second):
    def act(f, given):
        outputs = f(**given)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        first(outputs, given)
        return second(outputs, given)

    return act


def whole(retain=False):
    return lambda outputs, given: sum(x.sum() for x in outputs).backward(retain_graph=retain)


def only(index):
    return lambda outputs, given: outputs[index].sum().backward()


def towards(*names):
    return lambda outputs, given: torch.autograd.grad(sum(x.sum() for x in outputs), [given[name] for name in names])


def apart(x, v, w):
    return x * v, x * w


def added(x, v, w):
    return (x * v).tanh() + x * w


def linear(x, v, w):
    return (x + v) * 2 + w


def scaled(x, v, w):
    return (x + v - w) * 2


def nothing_kept(x, v, w):
    return (x + v - w).sum(0, keepdim=True).expand(2, 3)


PASSES = [whole(), whole(True), only(0), only(-1), towards("v"), towards("w"), towards("x"), towards("w", "v")]


@pytest.mark.parametrize("f", [two_layers, apart, added, linear, scaled, nothing_kept])
def test_a_second_pass_fails_where_it_fails_in_eager(f):
    shapes = LAYERS if f is two_layers else {"x": (3,), "v": (3,), "w": (3,)}
    made = warmed(f, **shapes)
    for i, first in enumerate(PASSES):
        for j, second in enumerate(PASSES):
            results = [outcome(twice(first, second), g, tensors(**shapes)) for g in (f, made)]
            assert_same(results[1], results[0], (i, j))
    outputs = made(**tensors(**shapes))
    assert all(map(is_linked, outputs if isinstance(outputs, tuple) else (outputs,)))


def test_a_pass_that_fails_leaves_the_history_usable():
    def act(f, given):
        y = f(**given)
        hook = given["v"].register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.sum().backward(retain_graph=True)
        hook.remove()
        for x in given.values():
            x.grad = None
        y.sum().backward()

    assert_like_eager(two_layers, act, **LAYERS)


# ---- gradients of gradients


def test_gradients_of_gradients():
    def act(f, given):
        (g,) = torch.autograd.grad(f(**given).square().sum(), given["x"], create_graph=True)
        (g.norm(dim=-1) - 1).square().mean().backward()
        return g

    assert_like_eager(two_layers, act, **LAYERS)


def test_gradients_of_gradients_of_gradients_of_two_inputs_of_which_one_is_made_of_the_other():
    def act(f, given):
        x = given["x"] * 2
        for _ in range(3):  # strides are others than those of the warm-up
            y = f(x=x, v=x.t() * 3, w=given["w"]).square().sum()
        for _ in range(3):
            (y,) = torch.autograd.grad(y, given["x"], create_graph=True)
            y = y.square().sum()
        y.backward()
        return y

    assert_like_eager(lambda x, v, w: (x @ v).sigmoid() @ w, act, x=(3, 4), v=(4, 3), w=(3, 2))


def test_what_is_no_part_of_the_history_may_change_before_an_ordinary_pass():
    def act(f, given):
        y = f(**given)
        with torch.no_grad():
            given["b"].add_(1)
        y.sum().backward()

    assert_like_eager(lambda x, b: (x + b).tanh(), act, x=(3,), b=(3,))
    made = warmed(lambda x, b: (x + b).tanh(), x=(3,), b=(3,))
    given = tensors(x=(3,), b=(3,))
    y = made(**given)
    with torch.no_grad():
        given["b"].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):  # eager could, this can't: it says so
        torch.autograd.grad(y.sum(), given["x"], create_graph=True)


def dropped(x, v, w):
    return functional.dropout((x @ v).tanh(), 0.5) @ w


def test_what_was_drawn_is_kept():
    def act(f, given):
        torch.manual_seed(5)
        y = f(**given)
        y.square().sum().backward(retain_graph=True)
        drawn = torch.rand(2)
        (g,) = torch.autograd.grad(y.square().sum(), given["x"], create_graph=True)
        g.square().sum().backward()
        return y, drawn, torch.rand(2)

    assert_like_eager(dropped, act, **LAYERS)


# ---- changes in between


def changing(name):
    def act(f, given):
        outputs = f(**given)
        with torch.no_grad():
            (given[name] if name in given else outputs).mul_(2)
        outputs.sum().backward()

    return act


CHANGED = {
    "linear": (lambda x, w, b: functional.linear(x, w, b) * 3, {"x": (5, 3), "w": (2, 3), "b": (2,)}),
    "no gradient of x": (lambda x, w, b: functional.linear(x, w, b).tanh(), {"X": (5, 3), "w": (2, 3), "b": (2,)}),
    "no gradient of w": (lambda x, w, b: functional.linear(x, w, b).relu(), {"x": (5, 3), "W": (2, 3), "b": (2,)}),
    "cube": (lambda x, w, b: (x * w + b).pow(3) + 1, {"x": (3,), "w": (3,), "b": (3,)}),
    "view of a result": (lambda x, w, b: (x * w + b).exp().view(3, 2).t(), {"x": (6,), "w": (6,), "b": (6,)}),
    "part of a result": (lambda x, w, b: (x * w + b).exp()[1:], {"x": (6,), "w": (6,), "b": (6,)}),
    "views of inputs": (lambda x, w, b: x.t() @ w.t() @ b.view(2, 2), {"x": (2, 2), "w": (2, 2), "b": (4,)}),
    "normed": (lambda x, w, b: functional.layer_norm(x, (3,), w, b) + 1, {"x": (5, 3), "w": (3,), "b": (3,)}),
}


@pytest.mark.parametrize("case", CHANGED)
@pytest.mark.parametrize("name", ["x", "w", "b", "output"])
def test_what_is_changed_before_the_pass_is_missed_where_eager_misses_it(case, name):
    f, shapes = CHANGED[case]
    assert_like_eager(f, changing(name), **shapes)


def test_buffers_that_are_written_are_no_part_of_a_pass():
    def make():
        torch.manual_seed(0)
        return nn.BatchNorm1d(3), nn.Linear(3, 3)

    def run(norm, linear, f):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
        for number in range(5):
            first, second = f(norm, linear, x), f(norm, linear, x + number)
            (first * second).sum().backward()
        return norm.running_mean, norm.num_batches_tracked, norm.weight.grad, linear.weight.grad, second

    def f(norm, linear, x):
        return norm(linear(x)).relu()

    results = [run(*make(), g) for g in (f, compiled(f))]
    assert is_linked(results[1][-1])
    assert_same(results[1], results[0], rtol=1e-3, atol=1e-4)


# ---- between histories


def judged(fakes, w):
    return (fakes.detach() @ w).tanh() + 1


def learn_in_turns(f, given):
    fakes = given["fakes"] * 2
    f(**{**given, "fakes": fakes}).sum().backward()
    (fakes.exp() * 3).sum().backward()


def test_the_history_of_an_input_that_is_detached_is_left_for_another_pass():
    assert_like_eager(judged, learn_in_turns, fakes=(3, 4), w=(4, 4))


def pair(one, other, v, w):
    return (one @ v).tanh() * 2, (other @ w).tanh() * 3


def in_two_passes(before):
    def act(f, given):
        first, second = f(**{**given, "one": before(given["one"]), "other": before(given["other"])})
        first.sum().backward()
        second.sum().backward()

    return act


@pytest.mark.parametrize(("before", "used"), [(lambda x: x, True), (torch.exp, False)])
def test_an_input_that_not_all_outputs_need_may_be_no_result(before, used):
    """A pass from an output would use up the history of what it does not depend on."""
    assert_like_eager(pair, in_two_passes(before), used=used, one=(3, 4), other=(3, 4), v=(4, 4), w=(4, 4))


# ---- data that is set to another tensor


def of_views(x, v, w):
    return functional.linear(functional.linear(x, v).tanh(), w).tanh()


def of_tensors_themselves(x, v, w):
    return ((x * v).tanh() * w).tanh()


def set_between(name, *size):
    def act(f, given):
        made, before = f(**given), given[name].data
        given[name].data = torch.full(size, 0.5)
        try:
            made.square().sum().backward()
        finally:
            given[name].data = before

    return act


@pytest.mark.parametrize("name", ["x", "v", "w"])
@pytest.mark.parametrize("f", [of_views, of_tensors_themselves])
def test_a_pass_finds_what_data_was_set_to_where_eager_keeps_the_tensor_itself(f, name):
    assert_like_eager(f, set_between(name, 4, 4), x=(4, 4), v=(4, 4), w=(4, 4))


@pytest.mark.parametrize("name", ["v", "w"])
def test_a_pass_reads_no_memory_that_is_not_there_where_data_has_another_size(name, monkeypatch):
    act, differentiate, found = set_between(name, 1, 2), LinkedKernel.differentiate, []

    def seen(*arguments):
        found.append(differentiate(*arguments))
        return found[-1]

    monkeypatch.setattr(LinkedKernel, "differentiate", seen)
    for f in (of_tensors_themselves, warmed(of_tensors_themselves, x=(4, 4), v=(4, 4), w=(4, 4))):
        with pytest.raises(RuntimeError):
            act(f, tensors(x=(4, 4), v=(4, 4), w=(4, 4)))
    assert found[-1] is None  # its kernel was not asked: made for another size, it would read what lies behind
