"""Mixed precision: regions of autocast in a kernel, short dtypes, and the state of autocast around a block."""

import copy
import gc
import shutil

import pytest
import torch
from torch import nn
from traced import SEEN, compiled

import janusc as janus

NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
STEP = 2**-7
"""From 1 to the next number of bfloat16."""
OTHER = "its results were others"


@pytest.fixture(autouse=True)
def forget():
    gc.collect()  # functions of one code share what they have while one of them is alive
    SEEN.clear()


def region(**options):
    return torch.autocast("cpu", **{"dtype": torch.bfloat16, **options})


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 8))


def batch(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(64, 16, generator=generator), torch.randint(0, 8, (64,), generator=generator)


def trainer(make=network, dtype=torch.bfloat16, enabled=True, cache_enabled=None):
    """A training step with its forward pass in a region, and its model."""
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled):
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, model


def assert_near(found, wanted, share=4 * STEP):
    """Tensors are equal but for the rounding of bfloat16 beside the largest number of all."""
    largest = max(float(w.detach().abs().max()) for w in wanted)
    for f, w in zip(found, wanted):
        assert f.dtype == w.dtype and f.shape == w.shape
        assert float((f.detach() - w.detach()).abs().max()) <= share * largest


def assert_trains_alike(train, calls=6, backend="traced", **options):
    """Steps give what they give eagerly; each call begins with equal weights, since errors add up."""
    (step, model), (eager, other) = train(**options), train(**options)
    step = compiled(step, backend=backend)
    for number in range(calls):
        model.load_state_dict(other.state_dict())
        torch.manual_seed(number)
        found = step(*batch(number))
        torch.manual_seed(number)
        wanted = eager(*batch(number))
        assert_near([found], [wanted], STEP)
        assert_near([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])
        for mine, theirs in zip(model.buffers(), other.buffers()):
            torch.testing.assert_close(mine, theirs, rtol=STEP, atol=STEP)
    return step


def casts(module, dtype=torch.bfloat16):
    """How often each input of a traced graph is cast, itself or a view of it."""
    cast = [n for n in module.graph.nodes if n.name.startswith("convert_element_type") and n.args[1] == dtype]
    roots = [root(node.args[0]) for node in cast]
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    return [roots.count(node) for node in inputs]


def root(node):
    return root(node.args[0]) if node.name.startswith(("view", "alias")) else node


def test_a_step_is_one_kernel():
    step = assert_trains_alike(trainer)
    assert len(SEEN) == 1 and "block 1: a kernel" in str(janus.explain(step))


@NEEDS_COMPILER
def test_a_step_on_compiled_kernels():
    step = assert_trains_alike(trainer, backend="inductor")
    assert "block 1: a kernel" in str(janus.explain(step))


def with_everything():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 8))


def test_statistics_and_draws_in_a_region():
    assert_trains_alike(lambda: trainer(with_everything))
    assert len(SEEN) == 1


@pytest.mark.parametrize("options", [{"enabled": False}, {"dtype": torch.float16}, {"cache_enabled": False}], ids=str)
def test_what_a_region_may_be(options):
    assert_trains_alike(trainer, **options)
    assert len(SEEN) == 1


def twice(w, x, cache_enabled=True):
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=cache_enabled):
        return (x @ w).relu() @ w


def one_region(w, x):
    return twice(w, x).float()


def two_regions(w, x):
    return twice(w, x).float() + twice(w, x.float())


def without_cache(w, x):
    return twice(w, x, cache_enabled=False).float()


def in_and_out(w, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            z = y.float() @ w
        return (z @ w).float()


@pytest.mark.parametrize(("function", "wanted"), [
    (one_region, [1, 1]), (two_regions, [2, 2]), (without_cache, [1, 2]), (in_and_out, [1, 1]),
])  # fmt: skip
def test_a_weight_is_cast_once_in_a_region(function, wanted):
    def step(w, x):
        loss = function(w, x).square().mean()
        loss.backward()
        return loss

    f, x = compiled(step), torch.randn(4, 4)
    for seed in range(4):
        torch.manual_seed(seed)
        weights = [torch.randn(4, 4)] * 2
        mine, theirs = (w.clone().requires_grad_() for w in weights)
        assert_near([f(mine, x)], [step(theirs, x)], STEP)
        assert_near([mine.grad], [theirs.grad], 2 * STEP)
    assert len(SEEN) == 1 and casts(SEEN[0]) == wanted


@pytest.mark.parametrize("backend", ["traced", pytest.param("inductor", marks=NEEDS_COMPILER)])
def test_a_history_that_goes_on(backend):
    def forward(x, y, model):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return nn.functional.cross_entropy(model(x), y)

    model = network()
    other, f = copy.deepcopy(model), compiled(lambda x, y: forward(x, y, model), backend=backend)
    for number in range(5):
        f(*batch(number)).backward()
        forward(*batch(number), other).backward()
        assert_near([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])
    assert "block 1: a kernel" in str(janus.explain(f))


def test_an_input_with_a_history_is_cast_at_each_use():
    """What autocast keeps is of leaves: the gradients of three uses are added in float32."""

    def attend(x, q, k, v):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ q).float() + (x @ k).float() + (x @ v).float()

    f = compiled(attend)
    for seed in range(5):
        torch.manual_seed(seed)
        leaves = [torch.randn(8, 8).requires_grad_() for _ in range(4)]
        gradients = []
        for function in (f, attend):
            function(leaves[0] * 1, *leaves[1:]).square().mean().backward()
            gradients.append([leaf.grad for leaf in leaves])
            for leaf in leaves:
                leaf.grad = None
        for mine, theirs in zip(*gradients):
            assert torch.equal(mine, theirs)
    assert len(SEEN) == 2 and casts(SEEN[0]) == [3, 1, 1, 1]


def test_a_model_of_short_numbers():
    def train():
        model = network().bfloat16()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x.bfloat16()).float(), y)
            loss.backward()
            optimizer.step()
            return loss

        return step, model

    assert_trains_alike(train)
    assert len(SEEN) == 1


# ---- what is set around a block


def test_autocast_from_outside_keeps_casts_of_weights():
    """A step in a region that goes on uses casts of weights from before a step: so do kernels, by having none there."""
    (step, model), (eager, other) = trainer(), trainer()
    step = compiled(step)
    with region(enabled=False):
        for number in range(5):
            assert torch.equal(step(*batch(number)), eager(*batch(number)))
    assert all(map(torch.equal, model.parameters(), other.parameters()))
    assert not SEEN and "keeps what is cast of its weights" in str(janus.explain(step))


def test_a_kernel_is_for_the_outermost_region():
    (step, model), (eager, other) = trainer(), trainer()
    step = compiled(step)
    for number in range(4):
        step(*batch(number))
    assert len(SEEN) == 1
    other.load_state_dict(model.state_dict())
    with region(enabled=False):
        for number in range(3):
            assert torch.equal(step(*batch(number)), eager(*batch(number)))
    assert all(map(torch.equal, model.parameters(), other.parameters()))


def test_autocast_from_outside_without_weights():
    def act(x, y):
        return (x @ y).relu() * 2

    f, (x, y) = compiled(act), torch.randn(2, 4, 4)
    for turn in range(12):
        with region(enabled=turn % 3 > 0, dtype=(torch.bfloat16, torch.float16)[turn % 3 - 1]):
            found = f(x, y)
            assert found.dtype == act(x, y).dtype and torch.equal(found, act(x, y))
    assert len(SEEN) == 3


def test_a_backward_pass_under_autocast_from_outside():
    """Without a cache nothing is kept of weights; the products of the backward pass are cast like others."""

    def step(w, x):
        loss = ((x @ w).float().tanh() * (x @ w)).float().square().mean() + (w * w).sum()
        loss.backward()
        return loss

    f = compiled(step)
    for seed in range(5):
        torch.manual_seed(seed)
        x, mine = torch.randn(2, 4, 4)
        theirs = mine.clone().requires_grad_()
        mine.requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            assert_near([f(mine, x)], [step(theirs, x)], STEP)
        assert_near([mine.grad], [theirs.grad], STEP)
    assert len(SEEN) == 1 and "block 1: a kernel" in str(janus.explain(f))


@NEEDS_COMPILER
def test_compiled_kernels_under_autocast_from_outside():
    """What a kernel calls of torch's own is not cast once more."""

    def act(x, y):
        z = (x @ y).relu() + 1
        with torch.autocast("cpu", enabled=False):
            return (z.float() @ y).exp().sum(1)

    f, (x, y) = compiled(act, backend="inductor"), torch.randn(2, 4, 4)
    for _ in range(4):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(f(x, y), act(x, y), rtol=1e-5, atol=1e-5)
            assert torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    assert "block 1: a kernel" in str(janus.explain(f))


def test_the_usual_dtype_of_regions():
    def act(x, y):
        with torch.autocast("cpu"):
            return (x @ y).relu() * 2

    f, (x, y) = compiled(act), torch.randn(2, 4, 4)
    try:
        for dtype in [torch.bfloat16] * 4 + [torch.float16] * 3:
            torch.set_autocast_dtype("cpu", dtype)
            assert f(x, y).dtype == dtype and torch.equal(f(x, y), act(x, y))
    finally:
        torch.set_autocast_dtype("cpu", torch.bfloat16)
    assert len(SEEN) == 1


def test_a_region_that_warns_does_so_at_each_call():
    def act(x, y):
        with torch.autocast("cpu", dtype=torch.float32):
            return (x @ y).relu() * 2

    f, (x, y) = janus.compile(act, backend="traced", warmup=1), torch.randn(2, 4, 4)
    for _ in range(4):
        with pytest.warns(UserWarning, match="Disabling autocast"):
            assert torch.equal(f(x, y), (x @ y).relu() * 2)
    assert not SEEN


def test_a_pass_in_a_region_alone():
    def forward(w, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x @ w).relu() @ w

    f, x = compiled(forward), torch.randn(4, 4)
    for seed in range(5):
        torch.manual_seed(seed)
        mine = torch.randn(4, 4).requires_grad_()
        theirs = mine.detach().clone().requires_grad_()
        for function, w in ((f, mine), (forward, theirs)):
            loss = function(w, x).float().square().mean()
            with region():
                loss.backward()
        assert torch.equal(mine.grad, theirs.grad)


# ---- scaled losses


def scaled(**options):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3, **options)

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step, model, scaler


@pytest.mark.parametrize("options", [{}, {"enabled": False}], ids=str)
def test_scaled_losses(options):
    (step, model, scaler), (eager, other, known) = scaled(**options), scaled(**options)
    step = janus.compile(step, backend="traced", warmup=1)
    for number in range(9):
        x, y = batch(number)
        if number == 6 and scaler.is_enabled():
            x[0, 0] = float("inf")  # no step, and a smaller scale
        found, wanted = step(x, y), eager(x, y)
        assert torch.equal(found.isfinite(), wanted.isfinite())
        assert scaler.state_dict() == known.state_dict()
        assert_near(model.parameters(), list(other.parameters()), STEP)
    assert len(SEEN) == 1, "the backward pass from the scaled loss is in the kernel"
    assert "block 1: a kernel" in str(janus.explain(step))


# ---- rounding


def chain(x):
    y = (x * 1.1 + 0.3).tanh() * x
    return (y / 3 - x).exp().bfloat16().float() + y.float().bfloat16()


@NEEDS_COMPILER
@pytest.mark.parametrize("function", [
    lambda x: x.half().float() * 2, lambda x: x.bfloat16() + 1, lambda x: (x.bfloat16() + 0.5) * 3 - x,
    lambda x: chain(x.bfloat16()), lambda x: (x.bfloat16() * 3).float().bfloat16().float() - x * 3,
    lambda x: (x.half() * 3 - 1).sigmoid().float() * 5,
])  # fmt: skip
def test_kernels_round_where_operations_do(function):
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * 3
    f = compiled(lambda x: function(x), backend="inductor")
    found = [f(x) for _ in range(4)]
    assert "block 1: a kernel" in str(janus.explain(f))
    assert float((found[-1] - function(x)).abs().max()) <= 1e-6 * float(function(x).abs().max())


FAULTS = {
    "a tenth more": lambda results: [results[0], results[1] * 1.1, *results[2:]],
    "a loss that is off": lambda results: [results[0] * 1.05, *results[1:]],
    "one number": lambda results: [*results[:1], results[1].index_fill(0, torch.tensor([3]), 0.0), *results[2:]],
    "another sign": lambda results: [*results[:-2], -results[-2], results[-1]],
    "nothing": lambda results: [*results[:3], torch.zeros_like(results[3]), *results[4:]],
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_wrong_kernel_is_found(fault):
    name = f"wrong {len(janus.options.BACKENDS)} {id(fault)}"
    janus.register_backend(name, lambda module, examples: lambda *given: fault(module(*given)))
    (step, model), (eager, other) = trainer(), trainer()
    step = janus.compile(step, backend=name, warmup=1)
    for number in range(5):
        assert torch.equal(step(*batch(number)), eager(*batch(number)))
    assert OTHER in str(janus.explain(step))
    assert all(map(torch.equal, model.parameters(), other.parameters()))


def test_a_method_replaced_in_a_region(monkeypatch):
    """What is called by name in a region may be the program's own."""

    def act(x):
        z = x.sin()
        with torch.no_grad():
            y = (x + 1).cosh() * 2
        return y + z

    f, x = compiled(act), torch.ones(3)
    for _ in range(4):
        f(x)
    assert len(SEEN) == 1
    monkeypatch.setattr(torch.Tensor, "cosh", torch.Tensor.sinh, raising=False)
    assert torch.equal(f(x), act(x))
