"""Whatever a program does to itself, its arguments or its surroundings: equal to eager, call by call."""

import copy
import gc
import sys
import threading
import weakref

import pytest
import torch
from processes import in_child
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode
from transparency import PROGRAMS

import janusc as janus
from janusc.testing import differences, record, report

KINDS = {"at-once": {"warmup": 0}, "soon": {"warmup": 1}, "later": {"warmup": 3}}


def compiled(f, **options):
    return janus.compile(f, **{"backend": "aten", "warmup": 1, **options})


def used(f, *args, times=4):
    for _ in range(times):
        result = f(*args)
    return result


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_eager(name, kind):
    program = PROGRAMS[name]
    eager = record(program.world)
    trace = record(program.world, lambda f: compiled(f, **KINDS[kind]))
    found = differences(eager, trace)
    assert not found, report(found, len(trace.calls))
    faults = [text for text in trace.notices if "a fault of janusc's own" in text]
    assert not faults, faults[0]
    if program.graph and kind == "soon":
        why = "\n".join(janus.explain(target) for target in trace.decorated)
        assert sum(janus.stats(target).graph_calls for target in trace.decorated) > 0, why


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU())


# ---- threads and processes


def run_threads(work, count=8):
    wrong = []
    threads = [threading.Thread(target=work, args=(k, wrong)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]


def test_threads_that_convert_one_function_at_a_time():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, n):
            y = self.layer(x)
            for i in range(n):
                y = torch.tanh(y) + i
            if y.sum() > 0:
                y = y * 2
            return y[: x.shape[0] // 2 + 1]

    model = Model()
    plain = Model()
    plain.load_state_dict(model.state_dict())
    compiled(model)

    def work(k, wrong):
        generator = torch.Generator().manual_seed(k)
        for i in range(60):
            x, n = torch.randn(1 + (i * k) % 7, 4, generator=generator), (i + k) % 4
            with torch.set_grad_enabled(bool(k % 2)):
                a, b = model(x, n), plain(x, n)
            if not torch.equal(a, b) or a.requires_grad is not b.requires_grad:
                wrong.append((k, i))

    run_threads(work)
    assert janus.stats(model).calls == 8 * 60


def test_threads_with_state_of_their_own():
    def f(x, state):
        state["n"] += 1
        state["log"].append(state["n"])
        y = x * state["n"]
        if x.sum() > 2:
            state["n"] += 10
        return y + len(state["log"])

    g = compiled(f)

    def work(k, wrong):
        mine, other = {"n": 0, "log": []}, {"n": 0, "log": []}
        for i in range(100):
            x = torch.ones(1 + i % 4) * (k % 3)
            if not torch.equal(g(x, mine), f(x, other)) or mine != other:
                wrong.append((k, i, mine["n"], other["n"]))

    run_threads(work)


def test_eager_is_for_one_thread():
    g = compiled(lambda x: x * 2)
    with janus.eager():
        thread = threading.Thread(target=used, args=(g, torch.ones(2)))
        thread.start()
        thread.join()
    assert janus.stats(g).graph_calls == 3


def test_fork_while_another_thread_converts():
    def f(x, k):
        for _ in range(20):
            x = torch.tanh(x) + k
        return x

    last, stop = [compiled(f)], threading.Event()

    def convert():
        while not stop.is_set():
            g = compiled(f, warmup=0)
            g(torch.ones(3), 1)
            last[0] = g

    def work():
        g, h = last[0], compiled(lambda x: x * 2)
        return torch.equal(g(torch.ones(3), 3), f(torch.ones(3), 3)) and torch.equal(
            used(h, torch.ones(2)), torch.full((2,), 2.0)
        )

    thread = threading.Thread(target=convert)
    thread.start()
    try:
        assert all(in_child(work) for _ in range(5))
    finally:
        stop.set()
        thread.join()


# ---- torch's own transformations, around and inside


@pytest.mark.parametrize("warm", [False, True])
def test_function_transforms_around(warm):
    model = net()

    def f(x):
        y = torch.tanh(model(x)) * 2
        return y / (y.sum() + 1)

    g, x = compiled(f), torch.randn(5, 3)
    if warm:
        used(g, x[0])
    for _ in range(3):
        for transform in (torch.func.vmap,):
            assert torch.equal(transform(g)(x), transform(f)(x))
        for transform in (torch.func.jacrev, torch.func.jacfwd):
            assert torch.equal(transform(g)(x[0]), transform(f)(x[0]))
        assert torch.equal(torch.func.grad(lambda v: g(v).sum())(x[0]), torch.func.grad(lambda v: f(v).sum())(x[0]))
        assert torch.equal(g(x[0]), f(x[0]))
    used(g, x[0], times=8)
    assert janus.stats(g).graph_calls > 0
    assert not janus.stats(g).refused


def test_vmap_counts_and_complains_as_in_eager():
    state = {"n": 0}

    def f(x, held):
        state["n"] += 1
        held.add_(x)
        return held * 2

    def branch(x):
        return x * 2 if x.sum() > 0 else x * 3

    g, h = compiled(f), compiled(branch)
    used(g, torch.ones(3), torch.zeros(3))
    used(h, torch.ones(3))
    x, held = torch.randn(5, 3), torch.zeros(5, 3)
    assert torch.equal(torch.func.vmap(g)(x, held), x * 2)
    assert torch.equal(held, x)
    assert state == {"n": 5}
    with pytest.raises(RuntimeError, match="data-dependent"):
        torch.func.vmap(h)(x)


def test_function_transforms_inside():
    model = net()

    def f(x):
        rows = torch.func.vmap(lambda row: model(row) * 2)(x)
        return rows, torch.func.grad(lambda w: (w**2).sum())(x[0]), torch.func.jvp(torch.sin, (x,), (x,))

    g = compiled(f)
    for _ in range(4):
        x = torch.randn(4, 3)
        for a, b in zip(torch.utils._pytree.tree_leaves(g(x)), torch.utils._pytree.tree_leaves(f(x))):
            assert torch.equal(a, b)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_a_compiled_module(reentrant):
    model, plain = compiled(net()), net()
    used(model, torch.randn(2, 3))
    for _ in range(3):
        x = torch.randn(2, 3, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
        checkpoint(plain, y, use_reentrant=reentrant).sum().backward()
        assert torch.equal(x.grad, y.grad)
        assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), plain.parameters()))


def test_saved_tensors_are_those_of_eager():
    def f(x):
        for _ in range(5):
            x = torch.sin(x) * 1.0
        return x.sum()

    g = compiled(f)
    used(g, torch.ones(3))

    def saved(function):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            function(torch.ones(3, requires_grad=True)).backward()
        return sizes

    assert saved(g) == saved(f)


def test_modes_that_count_see_every_operation():
    model, x = compiled(net()), torch.randn(2, 3)
    used(model, x)
    with FlopCounterMode(display=False) as counted:
        model(x)
    assert counted.get_total_flops() == 2 * 2 * 3 * 3


def test_functional_call_and_average():
    model, x = compiled(net()), torch.randn(2, 3)
    used(model, x)
    doubled = {name: value * 2 for name, value in model.state_dict().items()}
    assert torch.equal(
        torch.func.functional_call(model, doubled, (x,)), torch.func.functional_call(net(), doubled, (x,))
    )
    average = torch.optim.swa_utils.AveragedModel(model)
    average.update_parameters(model)
    before = model(x)
    model[0].weight.data.zero_()
    assert torch.equal(average(x), before)


def test_trace_and_export_see_the_layers():
    model, x = compiled(net()), torch.randn(2, 3)
    used(model, x)
    assert "linear" in str(torch.jit.trace(model, x).inlined_graph)
    assert torch.equal(torch.export.export(model, (x,)).module()(x), model(x))


# ---- who watches the program


def test_a_tracer_sees_every_line():
    def f(x):
        y = x * 2
        return y + 1

    g, lines = compiled(f), []
    used(g, torch.ones(2))

    def watch(frame, event, _):
        if frame.f_code is f.__code__:
            lines.append((event, frame.f_lineno - f.__code__.co_firstlineno))
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        g(torch.ones(2))
    finally:
        sys.settrace(before)
    assert lines == [("call", 0), ("line", 1), ("line", 2), ("return", 2)]


def test_objects_die_when_they_do_in_eager():
    deaths = []

    class Mortal:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            deaths.append(self.name)

    class Holder:
        pass

    holder = Holder()

    def f(x):
        holder.held = Mortal(1)
        holder.held = Mortal(2)
        y = x * 2
        holder.held = None
        return y

    g = compiled(f)
    for _ in range(5):
        g(torch.ones(2))
        assert deaths == [1, 2]
        deaths.clear()


def test_a_failing_call_keeps_no_argument():
    def f(x):
        y = x * 2
        return y.view(7)

    g = compiled(f)
    used(g, torch.ones(7))
    x = torch.ones(5)
    alive = weakref.ref(x)
    with pytest.raises(RuntimeError):
        g(x)
    del x
    assert alive() is None


def test_weights_given_to_a_long_lived_function_die():
    @compiled
    def f(x, model):
        return model(x) * 2

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(x)

    model = Model()
    used(f, torch.ones(3), model)
    alive = weakref.ref(model.layer.weight)
    del model
    gc.collect()
    assert alive() is None


def test_the_owner_of_a_bound_builtin_dies():
    @compiled
    def f(x, act):
        y = x * 2
        return act(y)

    owner = torch.ones(3)
    used(f, torch.ones(3), owner.add)
    assert janus.stats(f).graph_calls > 0
    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is None


def test_strings_and_keys_do_not_make_graphs():
    length = compiled(lambda x, text: x * len(text))
    key = compiled(lambda x, table: x * table["k"])
    for n in range(60):
        assert torch.equal(length(torch.ones(2), "a" * n), torch.full((2,), float(n)))
        key(torch.ones(2), {"k": n, f"other {n}": 1})
    assert janus.stats(length).graphs == janus.stats(key).graphs == 1


def test_deep_copies_have_state_of_their_own():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = nn.Linear(3, 3), 2

        def forward(self, x):
            self.scale += 1
            return self.layer(x) * self.scale

    model, x = compiled(Model()), torch.ones(3)
    used(model, x)
    twin = copy.deepcopy(model)
    twin.scale = 100
    used(twin, x)
    assert (model.scale, twin.scale) == (6, 104)
    assert list(twin.state_dict()) == list(model.state_dict())
