"""Kernels of blocks whose history goes on: gradients, errors and what is kept are as in eager mode."""

import gc
import shutil
import threading
import weakref

import pytest
import torch
from linked_cases import LAYERS, assert_like_eager, back, is_linked, tensors, two_layers, warmed
from torch import nn
from traced import SEEN, compiled

import janusc as janus

NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


@pytest.fixture(autouse=True)
def forget():
    SEEN.clear()


def test_gradients_are_those_of_eager():
    assert_like_eager(two_layers, back, **LAYERS)


def test_what_requires_no_gradient_gets_none():
    assert_like_eager(two_layers, back, X=(5, 3), v=(3, 4), W=(4, 2))


@pytest.mark.parametrize("tangent", [
    lambda y: torch.ones(()).expand(y.shape),
    lambda y: torch.arange(10.0).reshape(2, 5).t(),
    lambda y: torch.ones(1, 2).expand(5, 2),
    lambda y: torch.arange(20.0)[::2].reshape(5, 2),
])  # fmt: skip
def test_tangents_of_any_layout(tangent):
    def act(f, given):
        y = f(**given)
        y.backward(tangent(y))

    assert_like_eager(two_layers, act, **LAYERS)


def models():
    torch.manual_seed(0)
    yield "perceptron", nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 2)), (5, 3)
    yield "norms", nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2), nn.Softmax(-1)), (5, 3)
    yield "statistics", nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.SiLU(), nn.Linear(8, 2)), (5, 3)
    yield "images", nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()), (2, 1, 8, 8)
    yield "attention", nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 5, 8)


@pytest.mark.parametrize(("name", "model", "shape"), list(models()), ids=lambda x: x if isinstance(x, str) else "")
def test_a_model_alone(name, model, shape):
    import copy

    other = compiled(copy.deepcopy(model))
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other)]
    linked = 0
    for number in range(6):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(number))
        names = []
        for m, optimizer in zip((model, other), optimizers):
            optimizer.zero_grad()
            out = m(x)
            out.square().mean().backward()
            optimizer.step()
            names.append(out.grad_fn.name())
        linked += is_linked(out)
        assert names[0] == names[1]
    assert linked >= 4, janus.explain(other)
    torch.testing.assert_close(other.state_dict(), model.state_dict())


@NEEDS_COMPILER
def test_compiled_kernels():
    assert_like_eager(two_layers, back, backend="inductor", **LAYERS)

    def cell(x, h, c):
        i, f, o, g = torch.cat([x, h], -1).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def act(f, given):
        h, c = f(**given)
        (h.sum() + c.square().sum()).backward()

    assert_like_eager(cell, act, backend="inductor", x=(2, 4), h=(2, 4), c=(2, 2))


# ---- what is not used


def test_what_no_used_output_depends_on_gets_no_gradient():
    def f(x, v, w):
        return (x * v).tanh(), (x * w).sigmoid() * x

    for index in (0, 1):
        assert_like_eager(f, lambda f, given, index=index: f(**given)[index].sum().backward(), x=(3,), v=(3,), w=(3,))


def test_an_output_that_is_not_used_gives_nothing_and_no_nan():
    def f(x, w):
        y = x * w
        return y.exp(), (y * 0).log()

    assert_like_eager(f, lambda f, given: f(**given)[0].sum().backward(), x=(3,), w=(3,))


# ---- who watches


def test_hooks():
    def act(f, given):
        seen = []
        x = given["x"] * 1
        x.retain_grad()
        x.register_hook(lambda g: seen.append(("x", g.clone())))
        y = f(x=x, v=given["v"], w=given["w"])
        y.register_hook(lambda g: g + 1)
        y.retain_grad()
        y.sum().backward()
        return seen, x.grad, y.grad

    assert_like_eager(two_layers, act, **LAYERS)


def test_hooks_of_leaves_are_called_in_the_order_of_eager():
    def act(f, given):
        seen = []
        for name, x in given.items():
            x.register_hook(lambda g, name=name: seen.append(name))
            x.register_post_accumulate_grad_hook(lambda p, name=name: seen.append((name, p.grad.clone())))
        back(f, given)
        return seen

    assert_like_eager(two_layers, act, used=False, **LAYERS)


@pytest.mark.parametrize("moment", [
    lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    lambda: torch.autograd.graph.save_on_cpu(),
    lambda: torch.autograd.detect_anomaly(check_nan=False),
    lambda: torch.profiler.profile(),
    lambda: torch.autograd.forward_ad.dual_level(),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_no_kernel_while_somebody_watches(moment):
    def act(f, given):
        with moment():
            back(f, given)

    assert_like_eager(two_layers, act, used=False, **LAYERS)


def test_no_kernel_in_transforms():
    made = warmed(two_layers, **LAYERS)
    given = {name: x.detach() for name, x in tensors(**LAYERS).items()}
    x, *rest = given.values()
    wanted, found = (
        torch.func.grad(lambda x, f=f: f(x=x, v=given["v"], w=given["w"]).sum())(x) for f in (two_layers, made)
    )
    torch.testing.assert_close(found, wanted)
    wanted, found = (
        torch.func.jvp(lambda x, f=f: f(x=x, v=rest[0], w=rest[1]), (x,), (x,)) for f in (two_layers, made)
    )
    torch.testing.assert_close(found, wanted)


def test_autocast_in_the_backward_pass_alone():
    def act(f, given):
        y = f(**given).square().sum()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y.backward()

    assert_like_eager(two_layers, act, **LAYERS)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomalies_in_the_backward_pass_alone():
    def act(f, given):
        y = f(**given)
        with torch.autograd.detect_anomaly():
            y.backward(torch.full_like(y, float("nan")))

    assert_like_eager(two_layers, act, **LAYERS)


def test_a_pass_in_another_thread():
    def act(f, given):
        y = f(**given)
        thread = threading.Thread(target=lambda: y.sum().backward())
        thread.start()
        thread.join()

    assert_like_eager(two_layers, act, **LAYERS)


# ---- memory


@pytest.mark.parametrize("retain", [False, True])
def test_nothing_is_kept_for_longer_than_in_eager(retain):
    def alive(f):
        x = torch.ones(3)
        middle = (torch.ones(3, requires_grad=True) * x).requires_grad_()
        y = f(middle, x)
        refs = [weakref.ref(x), weakref.ref(y)]
        loss = y.sum()
        del x, middle, y
        loss.backward(retain_graph=retain)
        return [ref() is not None for ref in refs], loss

    def f(x, y):
        return (x * y).tanh() * 3

    made = compiled(f)
    gc.disable()
    try:
        for _ in range(5):
            wanted, found = alive(f), alive(made)
        assert is_linked_from(found[1]) and found[0][0] == wanted[0][0]
        y = made(torch.ones(3, requires_grad=True), torch.ones(3))
        ref = weakref.ref(y.grad_fn)
        y.sum().backward()
        del y
        assert ref() is None, "a cycle"
    finally:
        gc.enable()


def is_linked_from(loss):
    return isinstance(loss.grad_fn.next_functions[0][0], torch.autograd.function.BackwardCFunction)


def test_gradients_are_tensors_of_their_own():
    def act(f, given):
        y = f(**given)
        tangent = torch.ones(3)
        y.backward(tangent)
        given["x"].grad.add_(1)
        given["v"].grad.mul_(5)
        return tangent

    assert_like_eager(lambda x, v, w: x + v + w.view(3), act, x=(3,), v=(3,), w=(3, 1))


# ---- what there is no kernel for


def test_outputs_that_are_inputs_or_views_of_them():
    def f(x, w):
        return x.view(-1), (x * w).tanh() * 2

    def act(f, given):
        x = given["x"] * 1
        view, y = f(x=x, w=given["w"])
        view.add_(1)
        (view.sum() + y.sum()).backward()
        return view

    assert_like_eager(f, act, used=False, x=(2, 3), w=(2, 3))


def test_what_is_written_and_differentiated():
    def f(x, w, state):
        y = (x * w).tanh()
        state.copy_(y)
        return (y * state).exp()

    def run(f):
        given = tensors(x=(3,), w=(3,))
        state = torch.zeros(3)
        return f(**given, state=state), state.requires_grad

    made = compiled(f, strict=False)
    for _ in range(5):
        torch.testing.assert_close(run(made), run(f))


@pytest.mark.parametrize("half", [0, 1])
def test_a_kernel_with_a_wrong_gradient_is_never_used(half):
    def compiler(module, examples):
        is_backward = any("tangent" in str(node.target) for node in module.graph.nodes)

        def run(*inputs):
            results = list(module(*inputs))
            if is_backward == bool(half):
                results[0] = results[0] * 1.05
            return results

        return run

    name = f"wrong {half}"
    janus.register_backend(name, compiler)
    made = warmed(two_layers, backend=name, **LAYERS)
    assert not is_linked(made(**tensors(**LAYERS)))
    assert "its results were others than those of its operations" in str(janus.explain(made))


def test_a_kernel_that_fails_in_the_backward_pass_leaves_it_to_the_operations():
    calls = []

    def compiler(module, examples):
        if not any("tangent" in str(node.target) for node in module.graph.nodes):
            return module

        def run(*inputs):
            calls.append(1)
            assert len(calls) <= 4, "expected size 3==4"
            return module(*inputs)

        return run

    janus.register_backend("failing", compiler)
    assert_like_eager(two_layers, back, backend="failing", **LAYERS)
    assert len(calls) == 5
