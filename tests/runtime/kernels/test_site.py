"""Kernels in the place of blocks: what they take, what they leave behind, and when they are left out."""

import shutil
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional
from traced import SEEN, compiled

import janusc as janus
from janusc import torch_private
from janusc.runtime.kernels import kernel
from janusc.testing import assert_equivalent

NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


@pytest.fixture(autouse=True)
def forget():
    SEEN.clear()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def batch(size=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, 3, generator=generator), torch.randint(2, (size,), generator=generator)


def trainer(model=None, optimizer=None, result=lambda loss, out: loss.item()):
    model = network() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) if optimizer is None else optimizer

    def step(x, y):
        optimizer.zero_grad()
        out = model(x)
        loss = functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        return result(loss, out)

    return step, model


def world(result=lambda loss, out: loss.item()):
    def make():
        step, model = trainer(result=result)
        return step, model

    return make


def check(make, calls, tolerance=1e-5, **options):
    assert_equivalent(make, calls=calls, factory=True, tolerance=tolerance, compiler=lambda f: compiled(f, **options))


def test_a_step_is_one_kernel():
    check(world(), [batch(seed=i) for i in range(6)])
    assert len(SEEN) == 1
    outputs = SEEN[0].graph.output_node().args[0]
    assert len(outputs) == 2 + 4 + 1, "the loss, what the model gave, four gradients, and that all classes are some"


@NEEDS_COMPILER
def test_a_step_on_compiled_kernels():
    (step, model), (eager, other) = trainer(), trainer()
    step = compiled(step, backend="inductor")
    for number in range(12):
        assert step(*batch(seed=number)) == pytest.approx(eager(*batch(seed=number)), rel=1e-5)
    for p, q in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(p, q)
        torch.testing.assert_close(p.grad, q.grad)
        assert p.grad.stride() == q.grad.stride()


@pytest.mark.parametrize("result", [lambda loss, out: loss, lambda loss, out: out.detach(), lambda loss, out: out])
def test_what_is_handed_out_is_like_eager(result):
    check(world(result), [batch(seed=i) for i in range(4)])


def test_what_is_handed_out_has_a_history_that_is_used_up():
    step, _ = trainer(result=lambda loss, out: loss)
    step = compiled(step)
    for _ in range(4):
        loss = step(*batch())
    assert SEEN and loss.grad_fn.__class__.__name__ == "NllLossBackward0" and not loss.is_leaf
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_a_new_size_is_a_new_kernel_and_there_are_few_of_them():
    check(world(), [batch(size) for size in (5, 5, 5, 2, 2, 7, 1, 5, 3, 9, 9, 4, 2)])
    assert len(SEEN) == 4


@pytest.mark.parametrize("change", ["strides", "dtype", "requires_grad"])
def test_inputs_of_another_class_are_not_taken(change):
    x, y = batch(3)
    other = {
        "strides": lambda: torch.empty(3, 3).t().copy_(x),
        "dtype": lambda: x.double(),
        "requires_grad": lambda: x.clone().requires_grad_(),
    }[change]()

    def make():
        model = network().double() if change == "dtype" else network()
        step, model = trainer(model)
        return (lambda x, y: step(x.to(model[0].weight.dtype), y)) if change == "dtype" else step, model

    check(make, [(x, y)] * 3 + [(other, y)] * 3 + [(x, y)] * 2)


def test_gradients_are_added_to_what_is_there():
    def make():
        model = network()

        def step(x, y):
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            return loss.item()

        return step, model

    check(make, [batch(seed=i) for i in range(5)])
    assert len(SEEN) == 1


def test_equal_gradients_are_tensors_of_their_own():
    def make():
        a, b = (nn.Parameter(torch.ones(3)) for _ in range(2))
        optimizer = torch.optim.SGD([a, b], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = ((a + b) * x).sum()
            loss.backward()
            optimizer.step()
            return loss.item()

        def touch(f):
            result = f(torch.ones(3))
            a.grad.add_(1)
            return result, b.grad.clone()

        return step, [a, b], touch

    check(lambda: make()[:2], [(torch.ones(3),)] * 4)
    step, (a, b), touch = make()
    step = compiled(step)
    for _ in range(4):
        assert touch(step)[1].tolist() == [1, 1, 1]


def test_hooks_are_called():
    def make():
        step, model = trainer()
        seen = []
        model[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
        return step, [model, seen]

    assert_equivalent(
        make, calls=[batch()] * 5, factory=True, tolerance=1e-5, compiler=lambda f: compiled(f, strict=False)
    )


def test_a_hook_that_comes_late_is_called():
    step, model = trainer()
    step = compiled(step, strict=False)
    for _ in range(4):
        step(*batch())
    seen = []
    model[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(1))
    step(*batch())
    model[0].weight.register_hook(lambda g: seen.append(2))
    janus.reset(step)
    step(*batch())
    assert seen == [1, 2, 1]


def test_batch_norm_writes_its_statistics():
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
        return trainer(model)

    check(make, [batch(seed=i) for i in range(6)])
    assert len(SEEN) == 1
    schemas = [getattr(node.target, "_schema", None) for node in SEEN[0].graph.nodes]
    assert not any(schema.is_mutable for schema in schemas if schema is not None)


def test_what_is_drawn_is_drawn_as_in_eager_mode():
    def make():
        torch.manual_seed(0)
        return trainer(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)))

    check(make, [batch(seed=i) for i in range(5)])


def test_attention_without_dropout_draws_nothing():
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(4))
    rate = [0.0]

    def step(x):
        loss = functional.scaled_dot_product_attention(x * weight, x, x, dropout_p=rate[0], is_causal=True).sum()
        loss.backward()
        return loss.item()

    step = compiled(step, strict=False)
    x = torch.randn(2, 3, 5, 4)
    for _ in range(3):
        step(x)
    assert len(SEEN) == 1
    rate[0] = 0.5
    for _ in range(4):
        step(x)
    inputs = [sum(node.op == "placeholder" for node in module.graph.nodes) for module in SEEN]
    assert len(inputs) == 2 and inputs[1] == inputs[0] + 1, "what is dropped is drawn before, and is an input"


def test_no_gradients_no_history():
    model = network()

    def predict(x):
        with torch.no_grad():
            return model(x).softmax(-1)

    assert_equivalent(predict, batch()[0], calls=5, tolerance=1e-5, compiler=compiled)
    assert len(SEEN) == 1


def test_modes_that_change_operations_are_another_class():
    def predict(x):
        with torch.no_grad():
            return (x @ x.t()).relu() * 2

    f = compiled(predict)
    x = torch.randn(4, 4)
    for _ in range(4):
        f(x)
    assert len(SEEN) == 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert f(x).dtype == predict(x).dtype == torch.bfloat16


def test_written_memory_that_is_an_input_too():
    """The kernel would read what the program has overwritten."""

    def add(a, b):
        with torch.no_grad():
            a.mul_(2)
            return a + b.tanh() + 1

    def make():
        return add, [torch.ones(3), torch.ones(3)]

    def apart(f):
        return f(torch.ones(3), torch.ones(3)).tolist()

    def same(f):
        x = torch.ones(3)
        return f(x, x).tolist(), x.tolist()

    check(make, [apart, apart, apart, same, apart, same])


def test_an_unusual_compiler_is_refused():
    with pytest.raises(ValueError, match="already"):
        janus.register_backend("aten", lambda module, examples: module)
    with pytest.raises(TypeError, match="a name and a function"):
        janus.register_backend("other", 3)
    with pytest.raises(ValueError, match="backend"):
        janus.compile(lambda x: x, backend="unheard of")


def test_guards_of_tensors_know_sizes_and_strides():
    x = torch.zeros(2, 3)
    check = torch_private.tensor_guards([x])
    assert check(torch.ones(2, 3))
    for other in (torch.zeros(3, 2), torch.zeros(3, 2).t(), x.double(), torch.zeros(2, 3, requires_grad=True)):
        assert not check(other)


@pytest.mark.parametrize("fails", ["compiler", "kernel"])
def test_what_fails_in_a_kernel_is_none_of_the_programs_business(fails):
    def broken(*tensors):
        raise AssertionError("expected size 3==4")

    def compiler(module, examples):
        if fails == "compiler":
            broken()
        return broken

    janus.register_backend(f"broken {fails}", compiler)
    made = []

    def keep(f):
        made.append(compiled(f, backend=f"broken {fails}"))
        return made[-1]

    assert_equivalent(world(), calls=[batch()] * 4, factory=True, compiler=keep)
    stats = janus.stats(made[0])
    assert stats.fallbacks == 0 and stats.graph_calls == 3
    assert f"its {fails} failed: AssertionError: expected size 3==4" in str(janus.explain(made[0]))


def test_what_only_numbers_are_asked_of_needs_no_history(monkeypatch):
    made = []
    monkeypatch.setattr(kernel, "spent", lambda name: made.append(name) or (lambda boxed, *leaves: boxed[0]))
    model = network()

    def asked(x, y):
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        print(end="")
        return loss.item(), loss.detach()

    def handed_out(x, y):
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    for function, histories in ((asked, 0), (handed_out, 1)):
        step = compiled(function)
        for _ in range(3):
            step(*batch())
        assert len(made) == histories


def test_what_a_kernel_has_made_lives_as_long_as_its_names():
    refs = []

    @janus.opaque
    def note(tensor=None):
        alive = [r() is not None for r in refs]
        refs[:] = [] if tensor is None else [weakref.ref(tensor)]
        return alive

    def f(x):
        y = torch.tanh(x * 2)
        z = torch.sin(y) + 1
        note(z)
        z = torch.cos(y) + y
        return z, note()

    made = compiled(f, strict=False)
    for _ in range(4):
        assert made(torch.ones(3))[1] == [False]
    assert "a kernel" in janus.explain(made)
