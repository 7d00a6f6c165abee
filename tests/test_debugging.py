"""Whoever steps through a program sees the user's own frames and lines, and graphs come back when nobody looks."""

import asyncio
import io
import os
import pdb  # noqa: T100
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import janusc as janus

WARMUPS = (0, 1, 3)


def compiled(f, warmup=1):
    return janus.compile(f, backend="aten", warmup=warmup)


def used(f, *args, times=5):
    for _ in range(times):
        result = f(*args)
    return result


@pytest.fixture
def stops(monkeypatch):
    """What a debugger sees at each ``breakpoint()``: name, line and variables of the frame and of its caller's."""
    seen = []

    def hook():
        frame = sys._getframe(1)
        outer = frame.f_back
        around = [name for name in sorted(outer.f_locals) if not name.startswith("_jc_")]  # those of a profiled call
        seen.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals), around))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    return seen


def stopping(x, k):
    y = x * 2
    z = y + 1
    breakpoint()  # noqa: T100
    return z * k


def stopping_if(x, k, debug=False):
    y = x * 2
    print(end="")
    z = torch.relu(y)
    if debug:
        breakpoint()  # noqa: T100
    return z * k


def inner(x, debug):
    u = x + 1
    if debug:
        breakpoint()  # noqa: T100
    return u


def outer(x, debug):
    y = x * 2
    print(end="")
    return torch.relu(inner(y, debug)) + y


class Stopping(nn.Module):
    def forward(self, x):
        y = x * 2
        breakpoint()  # noqa: T100
        return y


@pytest.mark.filterwarnings("ignore::janusc.JanusWarning")
@pytest.mark.parametrize("warmup", WARMUPS)
def test_a_breakpoint_stops_in_the_users_frame(stops, warmup):
    g = compiled(stopping, warmup)
    used(g, torch.ones(2), 3, times=6)
    line = stopping.__code__.co_firstlineno + 3
    assert [stop[:3] for stop in stops] == [("stopping", line, ["k", "x", "y", "z"])] * 6
    assert janus.stats(g).graph_calls == 0
    assert "calls a debugger" in janus.explain(g)


@pytest.mark.filterwarnings("ignore::janusc.JanusWarning")
@pytest.mark.parametrize("warmup", WARMUPS)
def test_a_breakpoint_that_is_reached_late_stops_in_the_users_frame(stops, warmup):
    g = compiled(stopping_if, warmup)
    used(g, torch.ones(2), 3)
    assert not stops
    assert g(torch.ones(2), 3, True).tolist() == [6.0, 6.0]
    assert [stop[2] for stop in stops] == [["debug", "k", "x", "y", "z"]]


@pytest.mark.filterwarnings("ignore::janusc.JanusWarning")
@pytest.mark.parametrize("warmup", WARMUPS)
def test_a_breakpoint_in_a_callee_shows_the_frame_of_its_caller(stops, warmup):
    g = compiled(outer, warmup)
    used(g, torch.ones(2), False)
    assert not stops
    used(g, torch.ones(2), True)
    line = inner.__code__.co_firstlineno + 3
    assert stops == [("inner", line, ["debug", "u", "x"], ["debug", "x", "y"])] * 5


def names_around():
    """The variables of the caller, but for those of a profiled call."""
    return [name for name in sorted(sys._getframe(1).f_locals) if not name.startswith("_jc_")]


def asking(x, k):
    y = x * k
    z = y + 1
    names = names_around()
    return torch.relu(z) * 2, names


@pytest.mark.filterwarnings("ignore::janusc.JanusWarning")
@pytest.mark.parametrize("warmup", WARMUPS)
def test_a_helper_that_looks_at_its_caller_sees_all_of_it(warmup):
    g = compiled(asking, warmup)
    for _ in range(5):
        assert g(torch.ones(2), 3)[1] == ["k", "x", "y", "z"]


@pytest.mark.filterwarnings("ignore::janusc.JanusWarning")
def test_a_breakpoint_in_a_module(stops):
    model = compiled(Stopping())
    used(model, torch.ones(2))
    assert [stop[2] for stop in stops] == [["self", "x", "y"]] * 5


@pytest.mark.filterwarnings("ignore::janusc.JanusWarning")
@pytest.mark.parametrize("warmup", WARMUPS)
def test_a_debugger_steps_through_the_users_lines(warmup):
    session = io.StringIO()

    def f(x, k):
        y = x * k
        pdb.Pdb(stdin=io.StringIO("p k\nn\nn\np sorted(locals())\nc\n"), stdout=session, nosigint=True).set_trace()
        z = y + 1
        return z

    g = compiled(f, warmup)
    for k in range(1, 6):
        assert g(torch.ones(2), k).tolist() == [k + 1.0] * 2
        said = session.getvalue()
        assert f"(Pdb) {k}\n" in said
        assert "-> return z" in said
        assert "'k', 'session', 'x', 'y', 'z']" in said
        session.truncate(session.seek(0))


def helper(x, n):
    for i in range(n):
        x = x + i
    return x


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(2, 2), 0

    def forward(self, x):
        self.calls += 1
        y = self.layer(x)
        print(end="")
        if self.calls % 2:
            y = helper(y, 2)
        return torch.relu(y)


def lines_of(call):
    """The lines of this file that a tracer sees during a call, but for those of the test itself."""
    lines, before = [], sys.gettrace()

    def watch(frame, event, _):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name != "<lambda>":
            lines.append((frame.f_code.co_name, event, frame.f_lineno))
            return watch
        return None

    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("kind", ["instance", "method", "function"])
@pytest.mark.parametrize("warm", [0, 1, 6])
def test_a_tracer_sees_the_lines_of_everything_inlined(kind, warm):
    plain, model, x = Layers(), Layers(), torch.ones(1, 2)
    model.load_state_dict(plain.state_dict())
    targets = {
        "instance": lambda: compiled(model),
        "method": lambda: compiled(model.forward),
        "function": lambda: compiled(lambda x: model(x)),
    }
    call = targets[kind]()
    for _ in range(warm):
        assert torch.equal(call(x), plain(x))
    for _ in range(3):
        seen, expected = lines_of(lambda: call(x)), lines_of(lambda: plain(x))
        assert seen == expected
        assert len(seen) > 5
    used(call, x, times=5)
    assert janus.stats(call).graph_calls > 0  # nobody looks any more


def test_a_tracer_of_other_threads_does_not_matter_here():
    g = compiled(lambda x: x * 2)
    used(g, torch.ones(2))
    before, seen = janus.stats(g), []
    threading.settrace(lambda frame, event, _: seen.append(frame.f_code.co_name))
    try:
        thread = threading.Thread(target=used, args=(g, torch.ones(2)), kwargs={"times": 2})
        thread.start()
        thread.join()
    finally:
        threading.settrace(None)
    assert janus.stats(g).eager_calls == before.eager_calls + 2
    assert seen.count("<lambda>") == 2
    g(torch.ones(2))
    assert janus.stats(g).graph_calls == before.graph_calls + 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in Python 3.12")
@pytest.mark.parametrize("name", ["DEBUGGER_ID", "COVERAGE_ID"])
def test_a_monitoring_tool_sees_the_users_lines(name):
    def f(x):
        y = x * 2
        return y + 1

    g, lines, monitoring = compiled(f), [], sys.monitoring
    used(g, torch.ones(2))
    graph_calls, slot, event = janus.stats(g).graph_calls, getattr(monitoring, name), monitoring.events.LINE
    monitoring.use_tool_id(slot, "a test")
    try:
        monitoring.register_callback(slot, event, lambda code, line: lines.append(line - code.co_firstlineno))
        monitoring.set_local_events(slot, f.__code__, event)
        g(torch.ones(2))
    finally:
        monitoring.set_local_events(slot, f.__code__, 0)
        monitoring.free_tool_id(slot)
    assert lines == [1, 2]
    assert janus.stats(g).graph_calls == graph_calls
    g(torch.ones(2))
    assert janus.stats(g).graph_calls == graph_calls + 1


# ---- switched off


def test_eager_makes_everything_plain_python():
    model, seen = compiled(Layers(), warmup=0), []

    @janus.compile(warmup=0, backend="aten")
    def f(x):
        seen.append(sys._current_frames()[threading.get_ident()].f_code)
        return model(x)

    with janus.eager():
        lines = lines_of(lambda: used(f, torch.ones(1, 2)))
        for target in (f, model):
            stats = janus.stats(target)
            assert (stats.calls, stats.eager_calls, stats.conversions) == (5, 5, 0)
    assert seen == [f.__wrapped__.__code__] * 5
    assert ("forward", "line", Layers.forward.__code__.co_firstlineno + 1) in lines
    used(model, torch.ones(1, 2))
    assert janus.stats(model).graph_calls > 0


def test_eager_is_for_one_task():
    g = compiled(lambda x: x * 2, warmup=0)

    async def work(plain, counts):
        for _ in range(3):
            if plain:
                with janus.eager():
                    await asyncio.sleep(0)
                    before = janus.stats(g).eager_calls
                    g(torch.ones(2))
                    counts.append(janus.stats(g).eager_calls - before)
            else:
                await asyncio.sleep(0)
                before = janus.stats(g).graph_calls
                g(torch.ones(2))
                counts.append(janus.stats(g).graph_calls - before)

    async def run():
        counts = []
        await asyncio.gather(work(True, counts), work(False, counts))
        return counts

    assert asyncio.run(run()) == [1] * 6


SWITCHED = """
import torch, janusc as janus
@janus.compile(warmup=0)
def f(x): return x * 2
@janus.compile(warmup=0)
class Model(torch.nn.Module):
    def forward(self, x): return x * 3
model, other = Model(), janus.compile(torch.nn.Sequential(torch.nn.Linear(2, 2)), warmup=0)
for _ in range(4): f(torch.ones(2)), model(torch.ones(2)), other(torch.ones(2))
print([janus.stats(t).eager_calls for t in (f, Model, other)], [janus.stats(t).graph_calls for t in (f, model, other)])
"""


def test_a_whole_process_is_switched_by_its_environment(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SWITCHED)
    root = os.path.dirname(os.path.dirname(janus.__file__))
    said = {}
    for value in ("1", "0"):
        environment = {**os.environ, "JANUSC_EAGER": value, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
        said[value] = subprocess.Popen(
            [sys.executable, program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    texts = {value: process.communicate(timeout=120)[0].strip() for value, process in said.items()}
    assert texts == {"1": "[4, 4, 4] [0, 0, 0]", "0": "[0, 0, 0] [4, 4, 4]"}
