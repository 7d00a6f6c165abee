"""When a call must be plain Python."""

from __future__ import annotations

import contextvars
import sys
import threading

import pytest
import torch
from conversions import Fake
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from janusc.fallback import cache, report
from janusc.fallback.eager import SWITCH, eager, runs_eagerly
from janusc.options import make_options


def plain(x):
    return x + 1


@pytest.fixture
def compiled():
    f = cache.wrap(plain, make_options({"warmup": 0}), Fake())
    f(torch.ones(1))
    return f


def graph_calls(f):
    return report.make_stats(cache.find_state(f)).graph_calls


class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Dispatches(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("watcher", [eager, Functions, Dispatches])
def test_watched_calls_are_plain(compiled, watcher):
    before = graph_calls(compiled)
    with watcher():
        assert runs_eagerly()
        compiled(torch.ones(1))
    assert graph_calls(compiled) == before
    compiled(torch.ones(1))
    assert graph_calls(compiled) == before + 1


def test_a_default_device_is_no_watcher(compiled):
    before = graph_calls(compiled)
    with torch.device("meta"):
        compiled(torch.ones(1))
    assert graph_calls(compiled) == before + 1


def test_a_debugger_sees_the_users_code(compiled):
    before, lines, old = graph_calls(compiled), [], sys.gettrace()

    def trace(frame, event, argument):
        if frame.f_code is plain.__code__:
            lines.append(event)
        return trace

    sys.settrace(trace)
    try:
        compiled(torch.ones(1))
    finally:
        sys.settrace(old)
    assert "line" in lines and graph_calls(compiled) == before


def test_jit_tracing_sees_the_users_code(compiled):
    before = graph_calls(compiled)
    traced = torch.jit.trace(compiled, torch.ones(1), check_trace=False)
    assert graph_calls(compiled) == before
    assert traced(torch.ones(1)).item() == 2


def test_torch_compile_reads_the_users_code(compiled):
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    f = torch.compile(compiled, backend=backend, fullgraph=True)
    assert f(torch.ones(1)).item() == 2
    assert len(seen) == 1


def test_symbolic_tracing_sees_the_users_code():
    f = cache.wrap(plain, make_options({"warmup": 0}), Fake(key=lambda x: type(x)))

    class Model(torch.nn.Module):
        def forward(self, x):
            return f(x)

    graph = torch.fx.symbolic_trace(Model()).graph
    assert [node.op for node in graph.nodes] == ["placeholder", "call_function", "output"]


def test_eager_nests_and_ends():
    with eager():
        with eager():
            pass
        assert runs_eagerly()
    assert not runs_eagerly() and SWITCH.open == 0


def test_eager_ends_with_an_exception():
    with pytest.raises(ValueError), eager():
        raise ValueError
    assert not runs_eagerly() and SWITCH.open == 0


def test_eager_is_for_this_thread_or_task_only(compiled):
    before = graph_calls(compiled)
    with eager():
        thread = threading.Thread(target=contextvars.Context().run, args=(compiled, torch.ones(1)))
        thread.start()
        thread.join()
    assert graph_calls(compiled) == before + 1


def test_eager_decorates():
    @eager()
    def f():
        return runs_eagerly()

    assert f() and not runs_eagerly()
