"""Interrupts, and what signal handlers and other threads raise: never lost, and a graph has run before them or not."""

import ctypes
import gc
import random
import signal
import threading
import time
import traceback
import types
import weakref

import pytest
import torch
from torch import nn

import janusc as janus

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers"),
    # raised in a callback of the garbage collector, an interrupt is lost: Python says so, and nobody can help it
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Expired(Exception):
    """What a time limit of the user's raises."""


class Net(nn.Module):
    """Writes to everything that a graph can write to, so that half a call would show."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("last", torch.zeros(3))
        self.calls, self.log, self.table, self.scale = 0, [], {"n": 0}, torch.ones(3)

    def forward(self, x, fail):
        self.calls += 1
        self.total += x
        self.log.append(self.calls)
        noise = torch.rand(3)
        for _ in range(3):
            x = torch.tanh(x) + noise * 0
        self.table["n"] = self.calls
        self.last = x * self.calls
        self.scale = self.scale + 1
        with torch.no_grad():
            self.total *= 1
        y = x.view(3 - fail)
        self.table["m"] = self.calls
        self.total += 1
        return y

    def state(self):
        values = (self.calls, len(self.log), self.log[-1:], self.table["n"], self.table.get("m", 0))
        return values, self.total[0].item(), self.scale[0].item(), self.last.sum().item(), torch.is_grad_enabled()


def expected(calls, net=None):
    """The state after so many calls with ones: all of it, or nothing."""
    net = net or Net()
    while net.calls < calls:
        net(torch.ones(3), 0)
    return net.state()


def raise_interrupt(number, frame):
    raise KeyboardInterrupt


def raise_expired(number, frame):
    raise Expired("too late")


@pytest.fixture(
    params=[(raise_interrupt, KeyboardInterrupt), (raise_expired, Expired)], ids=["interrupt", "time limit"]
)
def limit(request):
    """A function that calls another with a signal underway; says whether the signal was seen, and the class raised."""
    handler, kind = request.param
    before = signal.signal(signal.SIGALRM, handler)
    arrived = []

    def call(seconds, function, *args):
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                function(*args)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except kind as error:
            arrived.append([(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)])
            return True
        return False

    yield call, arrived
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_graph_has_run_before_or_after_an_interrupt(limit):
    call, arrived = limit
    net = janus.compile(Net(), warmup=1)
    x = torch.ones(3)
    for _ in range(4):
        net(x, 0)
    assert janus.stats(net).graph_calls >= 2
    draw, count, plain = random.Random(1), 4, Net()
    for _ in range(400):
        torch.manual_seed(0)
        before = net.calls
        interrupted = call(draw.uniform(1e-6, 3e-4), net, x, 0)
        drawn = torch.rand(1).item()  # the first number after the seed, or the one after those of the call
        assert net.calls in (count, count + 1), "a call was lost or made twice"
        assert interrupted or net.calls == count + 1
        count = net.calls
        assert net.state() == expected(count, plain)
        torch.manual_seed(0)
        numbers = torch.rand(1).item(), (torch.rand(2), torch.rand(1))[1].item()
        assert drawn == numbers[net.calls - before]
    assert len(arrived) > 50
    assert janus.stats(net).refused is None


def test_a_rollback_is_finished_in_spite_of_an_interrupt(limit):
    call, arrived = limit
    net = janus.compile(Net(), warmup=0)
    x = torch.ones(3)
    for _ in range(3):
        net(x, 0)
    draw, count = random.Random(2), 3
    for _ in range(200):
        before = net.state()

        def attempt():
            with pytest.raises(RuntimeError, match="invalid for input"):
                net(x, 1)

        interrupted = call(draw.uniform(1e-6, 5e-4), attempt)
        # the graph failed and was undone; the eager run of the same call went as far as it got
        assert net.calls in (count, count + 1)
        assert interrupted or net.calls == count + 1
        if net.calls == count:
            assert net.state()[0][:1] == before[0][:1] and len(net.log) == len(set(net.log))
        count = net.calls
        assert sorted(net.log) == list(dict.fromkeys(net.log))
        torch.set_grad_enabled(True)  # an interrupt at the edge of a plain ``with`` block may leave it set
    assert len(arrived) > 50


def test_the_interrupt_names_the_users_line(limit):
    call, arrived = limit

    def f(x):
        for _ in range(200):
            x = torch.tanh(x)
        return x

    g = janus.compile(f, warmup=0)
    g(torch.ones(2000))
    lines = range(f.__code__.co_firstlineno, f.__code__.co_firstlineno + 4)
    for _ in range(20):
        call(0.001, g, torch.ones(100_000))
    inside = 0
    for frames in arrived:
        mine = [item for item in frames if item[0].co_name == "f"]
        assert all(code.co_filename == __file__ and line in lines for code, line in mine) and len(mine) <= 1
        inside += len(mine)
    assert inside > 10


def test_an_interrupt_during_a_conversion_leaves_no_trace(limit):
    call, arrived = limit
    draw = random.Random(3)

    def run(warmup):
        class Fresh(Net):
            forward = types.FunctionType(Net.forward.__code__, globals(), "forward")

        net = janus.compile(Fresh(), warmup=warmup)
        x = torch.ones(3)
        for _ in range(3):
            count = net.calls
            if call(draw.uniform(1e-4, 0.03), net, x, 0):
                assert net.calls in (count, count + 1)
        torch.set_grad_enabled(True)
        count = net.calls
        for _ in range(8):
            net(x, 0)
        assert net.calls == count + 8
        stats = janus.stats(net)
        assert stats.graph_calls >= 1 and stats.refused is None
        assert "a fault of janusc's own" not in janus.explain(net)

    for number in range(20):
        run(number % 2)
    assert len(arrived) >= 5


def test_an_interrupt_between_graphs_is_as_in_ordinary_python(limit):
    call, arrived = limit
    done = []

    def f(x):
        y = torch.tanh(x) * 2
        done.append(time.sleep(0.0005))
        z = y * 3
        done.append(time.sleep(0.0005))
        return z + 1

    g = janus.compile(f, warmup=1)
    for _ in range(4):
        g(torch.ones(3))
    for _ in range(30):
        count = len(done)
        interrupted = call(random.uniform(1e-5, 2e-3), g, torch.ones(3))
        assert len(done) <= count + 2 and (interrupted or len(done) == count + 2)
    assert len(arrived) > 5 and janus.stats(g).fallbacks == 0


def test_what_another_thread_raises_here_is_not_taken_for_a_failing_graph():
    class Stopped(Exception):
        pass

    counts = {"n": 0}

    def f(x):
        counts["n"] += 1
        for _ in range(400):
            x = torch.tanh(x)
        return x

    g = janus.compile(f, warmup=0)
    g(torch.ones(20_000))
    raised = 0
    for _ in range(10):
        target = threading.get_ident()

        def stop(target=target):
            time.sleep(0.002)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), ctypes.py_object(Stopped))

        thread = threading.Thread(target=stop)
        before = counts["n"]
        try:
            thread.start()
            while True:
                g(torch.ones(20_000))
                before = counts["n"]
        except Stopped:
            raised += 1
            assert counts["n"] in (before, before + 1)
        thread.join()
    assert raised == 10 and janus.stats(g).fallbacks == 0


def test_exit_and_interrupt_of_the_users_own():
    def f(x, stop):
        y = x * 2
        if stop:
            raise SystemExit(3)
        return y

    def handler(x, stop):
        try:
            return f(x, stop)
        except BaseException as error:
            return type(error).__name__, error.args

    g, h = janus.compile(f, warmup=1), janus.compile(handler, warmup=1)
    for _ in range(3):
        g(torch.ones(2), False)
        h(torch.ones(2), False)
    with pytest.raises(SystemExit) as caught:
        g(torch.ones(2), True)
    assert caught.value.code == 3
    assert h(torch.ones(2), True) == ("SystemExit", (3,))


def test_a_handler_that_raises_nothing_changes_nothing():
    calls = []
    before = signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
    try:
        net = janus.compile(Net(), warmup=1)
        for _ in range(300):
            signal.setitimer(signal.ITIMER_REAL, 5e-5)
            net(torch.ones(3), 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert calls and net.state() == expected(300) and janus.stats(net).fallbacks == 0


def test_a_handler_may_call_the_function_itself():
    net = janus.compile(Net(), warmup=1)
    nested = []
    before = signal.signal(signal.SIGALRM, lambda *_: nested.append(double(torch.ones(2))))

    @janus.compile(warmup=1)
    def double(x):
        for _ in range(20):
            x = x * 2
        return x

    try:
        for _ in range(200):
            signal.setitimer(signal.ITIMER_REAL, 5e-5)
            double(torch.ones(3))
            net(torch.ones(3), 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert nested and all(torch.equal(x, torch.full((2,), 2.0**20)) for x in nested)
    assert net.state() == expected(200)


def test_nothing_is_left_of_an_interrupted_call():
    def f(x):
        for _ in range(400):
            x = torch.tanh(x)
        return x

    g = janus.compile(f, warmup=0)
    g(torch.ones(20_000))
    before = signal.signal(signal.SIGALRM, raise_interrupt)
    gc.disable()
    try:
        x = torch.ones(20_000)
        alive = weakref.ref(x)
        signal.setitimer(signal.ITIMER_REAL, 1e-3)
        try:
            while True:
                g(x)
        except KeyboardInterrupt:
            pass
        del x
        assert alive() is None
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
