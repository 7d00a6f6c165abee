"""Random numbers of kernels: eager's, in eager's order, and the generator is left as eager leaves it."""

import shutil

import pytest
import torch
from torch import nn
from torch.nn import functional
from traced import SEEN, compiled

import janusc as janus
from janusc.runtime.transaction import force_abort

NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
FAILING = "fails at its third call"


def failing(module, examples):
    calls = []

    def run(*inputs):
        calls.append(None)
        if len(calls) == 3:
            raise ValueError(FAILING)
        return module(*inputs)

    return run


janus.register_backend(FAILING, failing)

OPS = {
    "dropout": lambda x: functional.dropout(x, 0.3),
    "dropout of all": lambda x: functional.dropout(x, 1.0),
    "dropout in place": lambda x: functional.dropout(x + 1, 0.3, inplace=True),
    "dropout of a transposed tensor": lambda x: functional.dropout(x.transpose(1, 3), 0.4),
    "dropout of images": lambda x: functional.dropout(x.to(memory_format=torch.channels_last), 0.4),
    "alpha_dropout": lambda x: functional.alpha_dropout(x, 0.3, True),
    "feature_alpha_dropout": lambda x: functional.feature_alpha_dropout(x, 0.3, True),
    "dropout2d": lambda x: functional.dropout2d(x, 0.3),
    "rand": lambda x: x + torch.rand(5),
    "randn": lambda x: x * torch.randn(4, 1, 5),
    "rand_like": lambda x: x + torch.rand_like(x),
    "rand_like of a transposed tensor": lambda x: x.transpose(1, 3) + torch.rand_like(x.transpose(1, 3)),
    "randn_like": lambda x: x * torch.randn_like(x),
    "randint": lambda x: x[..., torch.randint(0, 5, (3,))],
    "randint_like": lambda x: x + torch.randint_like(x, 10),
    "randperm": lambda x: x[..., torch.randperm(5)],
    "bernoulli": lambda x: torch.bernoulli(x.detach(), 0.3) * x,
    "bernoulli_": lambda x: (x + 1).bernoulli_(0.2) * x,
    "normal": lambda x: torch.normal(0.0, 1.0, (5,)) * x,
    "normal of means": lambda x: torch.normal(x, 0.5) + x,
    "normal of deviations": lambda x: torch.normal(1.0, x.abs()) * x,
    "normal of both": lambda x: torch.normal(x, x.abs()) + x,
    "normal_": lambda x: (x + 1).normal_(1, 2) * x,
    "uniform_": lambda x: (x + 1).uniform_(-1, 1) + x,
    "exponential_": lambda x: (x + 1).exponential_() * x,
    "gumbel_softmax": lambda x: functional.gumbel_softmax(x, hard=True),
    "attention": lambda x: functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1),
    "fractional_max_pool2d": lambda x: functional.fractional_max_pool2d(x, 2, output_size=(2, 2)),
    "what nobody uses": lambda x: (torch.rand(3), x + 1)[1],
    "several": lambda x: functional.dropout(x + torch.randn(5), 0.5) * torch.rand_like(x),
}
WITH_SOFTMAX = {"attention", "gumbel_softmax"}  # which is traced in parts, and rounds otherwise
BY_CONTENTS = {
    "multinomial": lambda x: x.flatten()[torch.multinomial(x.sigmoid().flatten(), 3)],
    "bernoulli of shares": lambda x: torch.bernoulli(x.detach().sigmoid()) * x,
    "bernoulli_ of shares": lambda x: (x + 1).bernoulli_(x.detach().sigmoid()) * x,
    "poisson": lambda x: torch.poisson(x.detach().exp()) * x,
    "rrelu": lambda x: functional.rrelu(x * 2, training=True),
}


@pytest.fixture(autouse=True)
def forget():
    SEEN.clear()


def drawing(op):
    weight = torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(7))

    def forward(x):
        return op(x * weight) * 2

    return forward, []


def training(op):
    weight = torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(7)).requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def train(x):
        optimizer.zero_grad()
        y = op(x * weight) * 2
        loss = y.sigmoid().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return train, [weight]


def check(make, wrap, calls=8, tolerance=0.0):
    """Calls of both, one generator's state after the other's."""
    (f, ours), (g, theirs) = make(), make()
    f = wrap(f)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    for seed in range(calls):
        x = torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(seed))
        results, states = [], []
        for h in (f, g):
            torch.set_rng_state(state)
            results.append(h(x))
            states.append(torch.get_rng_state())
        torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance)
        assert torch.equal(*states), f"call {seed} leaves the generator elsewhere"
        state = states[0]
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p, q, rtol=tolerance, atol=tolerance)
    return f


@pytest.mark.parametrize("name", OPS)
def test_what_is_drawn_is_eager_s(name):
    check(lambda: drawing(OPS[name]), compiled, tolerance=1e-5 if name in WITH_SOFTMAX else 0.0)
    assert len(SEEN) == 1


@pytest.mark.parametrize("name", OPS)
def test_what_is_drawn_in_a_step_is_eager_s(name):
    check(lambda: training(OPS[name]), compiled, tolerance=1e-4)
    assert len(SEEN) == 1


@NEEDS_COMPILER
@pytest.mark.parametrize("name", ["dropout", "normal_", "gumbel_softmax", "dropout of images", "several"])
@pytest.mark.parametrize("make", [drawing, training])
def test_what_is_drawn_for_compiled_kernels_is_eager_s(name, make):
    def wrap(f):
        return compiled(f, backend="inductor")

    f = check(lambda: make(OPS[name]), wrap, tolerance=1e-4)
    assert "a kernel" in str(janus.explain(f))


@pytest.mark.parametrize("name", BY_CONTENTS)
@pytest.mark.parametrize("make", [drawing, training])
def test_what_is_drawn_by_contents_is_drawn_where_it_stands(name, make):
    check(lambda: make(BY_CONTENTS[name]), compiled, tolerance=1e-4)


@pytest.mark.parametrize("name", ["multinomial", "bernoulli of shares"])
def test_there_are_kernels_around_what_is_drawn_by_contents(name):
    check(lambda: drawing(BY_CONTENTS[name]), compiled)
    assert SEEN


def test_a_kernel_that_fails_gives_back_what_was_drawn():
    f = check(lambda: drawing(OPS["dropout"]), lambda f: compiled(f, backend=FAILING))
    assert FAILING in str(janus.explain(f))


def branching(op):
    weight = torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(7))

    def forward(x):
        y = op(x * weight) * 2
        if y.sum() > 1e9:
            return y
        return torch.rand_like(y) * y + 1

    return forward, []


@pytest.mark.filterwarnings("ignore:janusc")
@pytest.mark.parametrize("make", [branching, training])
def test_what_fails_around_a_kernel_gives_back_what_was_drawn(make):
    number, fired = 0, True
    while fired:
        fired = _fails_at(make, number)
        number += 1
    assert number > 2


def _fails_at(make, number):
    """Whether there is a check of this number in the fourth call of a function, which is made to fail."""
    forced = force_abort(number)
    seen = []

    def wrap(f):
        f = compiled(f, abort_hooks=True, strict=False)

        def call(x):
            seen.append(x)
            if len(seen) != 5:
                return f(x)
            with forced as abort:
                seen.append(abort)
                return f(x)

        return call

    check(lambda: make(OPS["several"]), wrap, tolerance=1e-4)
    assert SEEN
    return seen[5].fired


def test_a_tensor_with_gaps_is_filled_in_eager_s_order():
    def make():
        held = torch.zeros(40, 6)

        def fill(x):
            view = held[:, ::2]
            view.normal_()
            return (view * 2).sum() + x.sum()

        return fill, [held]

    check(make, compiled, tolerance=1e-5)


def test_a_deviation_below_zero_is_an_error():
    def spread(mean, deviation):
        return torch.normal(mean, deviation) * 2 + 1

    f = compiled(spread)
    for _ in range(4):
        f(torch.zeros(3), torch.ones(3))
    assert SEEN
    with pytest.raises(RuntimeError, match="std"):
        f(torch.zeros(3), -torch.ones(3))


def test_a_generator_of_the_users_is_drawn_from():
    def make():
        generator = torch.Generator().manual_seed(5)

        def draw(x):
            return (x + 1).normal_(generator=generator) * 2 + torch.rand(5)

        return draw, []

    check(make, compiled)


def test_dropout_in_a_network():
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(100, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4))
        optimizer = torch.optim.Adam(model.parameters())

        def step(x):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), torch.tensor([0, 1, 2]))
            loss.backward()
            optimizer.step()
            return loss.item()

        return step, list(model.parameters())

    check(make, compiled, tolerance=1e-5)
    assert len(SEEN) == 1
