"""What a user holds after ``compile`` is the same kind of thing as before, and the module-level functions answer."""

import copy
import inspect
import pickle
import types
import warnings

import pytest
import torch
from torch import nn

import janusc as janus


def plain(x: torch.Tensor, /, scale: float = 2.0, *rest: int, shift: "int" = 1, **options: int) -> torch.Tensor:
    """Scale and shift."""
    return x * scale + shift


plain.tag = "kept"


@janus.compile(warmup=1, backend="aten")
def decorated(x, k=3):
    """Decorated at import."""
    return x * k


class Net(nn.Module):
    """A small net."""

    def __init__(self, width=2):
        super().__init__()
        self.inner = nn.Linear(2, width)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Runs it."""
        self.steps += 1
        return self.inner(x).relu()


@janus.compile(warmup=1, backend="aten")
class CompiledNet(Net):
    """A compiled net."""

    def forward(self, x):
        return super().forward(x) + 1


def compiled(f, **options):
    return janus.compile(f, **{"warmup": 1, "backend": "aten", **options})


def run(f, *args, times=4):
    return [f(*args) for _ in range(times)]


# ---- functions


def test_a_function_stays_a_function():
    f = compiled(plain)
    assert isinstance(f, types.FunctionType) and inspect.isfunction(f)
    assert f is not plain
    assert inspect.signature(f) == inspect.signature(plain)
    for name in (
        "__name__",
        "__qualname__",
        "__module__",
        "__doc__",
        "__annotations__",
        "__defaults__",
        "__kwdefaults__",
    ):
        assert getattr(f, name) == getattr(plain, name), name
    assert f.tag == "kept"
    assert inspect.getsource(f) == inspect.getsource(plain)
    assert inspect.get_annotations(f, eval_str=True)["shift"] is int


def test_a_function_pickles_and_copies():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated
    assert copy.copy(decorated) is decorated


def test_ways_to_decorate():
    @janus.compile
    def bare(x):
        return x + 1

    @janus.compile()
    def called(x):
        return x + 1

    @janus.compile(warmup=0)
    def with_options(x):
        return x + 1

    for f in (bare, called, with_options, janus.compile(lambda x: x + 1)):
        assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
    assert bare.__name__ == "bare"


def test_methods_bind():
    class Thing:
        def __init__(self, k):
            self.k = k

        @compiled
        def go(self, x):
            return x + self.k

        @staticmethod
        @compiled
        def still(x):
            return x * 2

        @classmethod
        @compiled
        def of(cls, x):
            return cls, x * 3

    one, two = Thing(1), Thing(2)
    x = torch.ones(1)
    for _ in range(4):
        assert (one.go(x).item(), two.go(x).item(), Thing.go(one, x).item()) == (2, 3, 2)
        assert Thing.still(x).item() == 2 and one.still(x).item() == 2
        assert Thing.of(x)[0] is Thing and one.of(x)[1].item() == 3
    assert one.go.__self__ is one and inspect.ismethod(one.go)
    assert janus.stats(Thing.go).graph_calls > 0


def test_a_bound_method():
    net = Net()
    f = compiled(net.forward)
    x = torch.ones(1, 2)
    assert all(torch.equal(y, net(x)) for y in run(f, x))
    assert janus.stats(f).graph_calls > 0
    assert "forward" not in vars(net)


def test_keyword_and_default_arguments_are_passed_on():
    f = compiled(plain)
    x = torch.ones(1)
    for _ in range(4):
        assert f(x).item() == 3
        assert f(x, 4.0, shift=0).item() == 4
        assert f(x, 4.0, 5, 6, shift=0, more=1).item() == 4


# ---- modules


def test_a_module_instance_stays_itself():
    net = Net()
    keys, size = list(net.state_dict()), len(list(net.modules()))
    same = compiled(net)
    assert same is net and type(net) is Net and isinstance(net, Net)
    run(net, torch.ones(1, 2))
    assert janus.stats(net).graph_calls > 0
    assert list(net.state_dict()) == keys and len(list(net.modules())) == size
    assert net.forward.__doc__ == "Runs it."
    assert inspect.signature(net.forward) == inspect.signature(Net().forward)
    assert net.steps.item() == 4
    assert repr(net) == repr(Net())


def test_a_module_instance_is_copied_with_its_own_weights():
    net = compiled(Net())
    x = torch.ones(1, 2)
    run(net, x)
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.inner.weight.zero_()
        twin.inner.bias.fill_(7.0)
    before = net(x)
    for _ in range(4):
        assert twin(x).tolist() == [[7.0, 7.0]]
        assert torch.equal(net(x), before)
    assert (net.steps.item(), twin.steps.item()) == (9, 8)


def test_a_module_instance_pickles():
    net = compiled(Net())
    x = torch.ones(1, 2)
    expected = run(net, x)[0]
    twin = pickle.loads(pickle.dumps(net))
    assert type(twin) is Net and all(torch.equal(y, expected) for y in run(twin, x))


def test_a_module_class_stays_itself():
    assert isinstance(CompiledNet, type) and issubclass(CompiledNet, Net) and CompiledNet.__doc__ == "A compiled net."
    net = CompiledNet()
    x = torch.ones(1, 2)
    run(net, x)
    assert isinstance(net, CompiledNet)
    twin = pickle.loads(pickle.dumps(net))
    assert type(twin) is CompiledNet and torch.equal(twin(x), net(x))
    assert list(net.state_dict()) == ["steps", "inner.weight", "inner.bias"]
    assert "forward" not in vars(net)
    assert janus.stats(CompiledNet).graph_calls > 0


def test_compiled_weights_still_train():
    net = compiled(Net())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    before = net.inner.bias.detach().clone()
    for _ in range(4):
        optimizer.zero_grad()
        (net(torch.ones(1, 2)) + net.inner.bias).sum().backward()
        optimizer.step()
    assert not torch.equal(before, net.inner.bias)


# ---- module-level functions


def test_stats_count():
    f = compiled(lambda x: x + 1)
    run(f, torch.ones(2), times=5)
    s = janus.stats(f)
    assert (s.calls, s.eager_calls, s.graph_calls, s.graphs, s.fallbacks, s.guard_misses) == (5, 1, 4, 1, 0, 0)
    assert 0 < s.conversion_seconds < 10


def test_stats_count_fallbacks():
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    g = compiled(f)
    run(g, torch.ones(2))
    assert g(-torch.ones(2)).tolist() == [-2.0, -2.0]
    s = janus.stats(g)
    assert s.fallbacks == 1 and s.calls == s.eager_calls + s.graph_calls + s.fallbacks == 5


def test_stats_of_something_else():
    with pytest.raises(TypeError, match="not compiled"):
        janus.stats(plain)


def test_warmup_is_respected():
    for warmup in (0, 1, 3):
        f = compiled(lambda x: x + 1, warmup=warmup)
        run(f, torch.ones(2), times=5)
        assert janus.stats(f).eager_calls == warmup


def test_explain_names_the_users_lines():
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x

    g = compiled(f)
    assert "f" in str(janus.explain(g))
    run(g, torch.ones(2))
    g(-torch.ones(2))
    text = str(janus.explain(g))
    assert "test_interface.py" in text
    assert "if x.sum() > 0:" in text


def test_explain_gives_the_reason_for_eager_execution():
    def f(x):
        yield x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        g = compiled(f)
        run(g, 1)
    text = str(janus.explain(g))
    assert "JC104" in text and "runs eagerly; results unaffected" in text


def test_graphs_print():
    f = compiled(lambda x: torch.relu(x) + 1)
    run(f, torch.ones(2))
    text = str(janus.graphs(f))
    assert "relu" in text and "add" in text


def test_eager_context():
    f = compiled(lambda x: x + 1)
    run(f, torch.ones(2))
    graph_calls = janus.stats(f).graph_calls
    with janus.eager():
        run(f, torch.ones(2))
    assert janus.stats(f).graph_calls == graph_calls
    run(f, torch.ones(2), times=1)
    assert janus.stats(f).graph_calls == graph_calls + 1


def test_opaque_is_called_as_it_is():
    seen = []

    @janus.opaque
    def secret(x):
        seen.append(len(seen))
        return x * 2

    f = compiled(lambda x: secret(x + 1) + 1)
    results = run(f, torch.ones(2), times=5)
    assert seen == [0, 1, 2, 3, 4] and results[-1].tolist() == [5.0, 5.0]
    assert secret.__name__ == "secret"


def test_reset_forgets():
    f = compiled(lambda x: x + 1)
    run(f, torch.ones(2))
    janus.reset(f)
    s = janus.stats(f)
    assert (s.calls, s.graphs, s.graph_calls) == (0, 0, 0)
    run(f, torch.ones(2))
    assert janus.stats(f).graph_calls == 3


def test_strict_names_the_reason():
    @janus.compile(strict=True, warmup=1, backend="aten")
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    x = torch.ones(2)
    assert f(x).tolist() == f(x).tolist() == [2.0, 2.0]
    with pytest.raises(janus.JanusError, match="sum|if|assum"):
        f(-x)


def test_strict_lets_the_users_own_errors_through():
    @janus.compile(strict=True, warmup=1, backend="aten")
    def f(x, y):
        return x @ y

    good = torch.ones(2, 2)
    run(f, good, good)
    with pytest.raises(RuntimeError, match="cannot be multiplied|size mismatch"):
        f(good, torch.ones(3, 3))


def test_strict_has_nothing_against_a_call_without_tensor_work():
    @janus.compile(strict=True, warmup=3, backend="aten")
    def total(tree):
        return tree if isinstance(tree, torch.Tensor) else product(tree[0]) + product(tree[1])

    def product(tree):
        return tree if isinstance(tree, torch.Tensor) else product(tree[0]) * product(tree[1])

    @janus.compile(strict=True, warmup=1, backend="aten")
    def half(x, n):
        return None if n == 0 else x / n

    two = torch.full((2,), 2.0)
    for _ in range(3):
        assert total((two, two)).tolist() == [4.0, 4.0]
        assert total((two, (two, two))).tolist() == [6.0, 6.0]
        assert total(two) is two
        assert half(two, 2).tolist() == [1.0, 1.0]
        assert half(two, 0) is None
    assert janus.stats(total).graph_calls >= 3 and janus.stats(half).graph_calls >= 2
