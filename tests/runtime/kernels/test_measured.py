"""Blocks that get kernels when they are called often, and keep the faster way."""

import shutil

import pytest
import torch
from test_site import batch, trainer
from torch import nn

import janusc as janus
from janusc.runtime.backends.compiled import Kernels
from janusc.runtime.kernels import linked_check, measured
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.makers import made_here
from janusc.runtime.kernels.measured import MeasuredSite

NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


class Clock:
    """Time goes by as it is told to: between the start and the end of operations, and of kernels."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Maker:
    """Makes kernels that take some time, by a clock, when it is told to."""

    def __init__(self, clock, seconds, results=lambda results: results):
        self.clock, self.seconds, self.results = clock, seconds, results
        self.ready, self.asked, self.waits = False, 0, 0
        self.error = None

    def __call__(self, graph, objects, sample):
        self.asked += 1

        def compiler(module):
            def run(tensors):
                self.clock.now += self.seconds
                return self.results(list(module(*tensors)))

            return run

        self.made = made_here(compiler)(graph, objects, sample)
        return self

    def poll(self):
        if self.error:
            raise Unfit(self.error)
        return self.made.poll() if self.ready else None

    def wait(self):
        self.waits += 1
        self.ready = True


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(measured, "clock", made)
    monkeypatch.setattr(measured, "LONG", 1.0)
    return made


def step_of(maker, clock, make=trainer):
    """A step whose operations take one second, and the site of its block."""
    sites = []

    class Site(MeasuredSite):
        def __init__(self, *args):
            super().__init__(*args)
            sites.append(self)

        def __call__(self, *args):
            result = super().__call__(*args)
            clock.now += result is None
            return result

    from janusc.runtime.backends.base import BACKENDS

    name = f"measured {id(maker)}"
    BACKENDS.register(name, Kernels(name, maker, Site))
    step, model = make()
    return janus.compile(step, backend=name, warmup=1), model, sites


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_the_faster_way_is_kept(clock, seconds):
    maker = Maker(clock, seconds)
    step, _, sites = step_of(maker, clock)
    for _ in range(100):
        step(*batch())
    (site,) = sites
    (known,) = site.classes
    assert maker.asked == 1 and known.kernel is None and known.phase is measured._asked_for
    maker.ready = True
    for _ in range(60):
        step(*batch())
    assert known.ratio == pytest.approx(seconds)
    assert known.phase is (measured._use if seconds < 1 else measured._operations)
    before = clock.now
    step(*batch())
    assert clock.now - before == min(seconds, 1.0)


def model_alone():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    return lambda x: model(x).tanh(), model


@pytest.mark.parametrize(("seconds", "is_used", "text"), [
    (0.8, True, "a kernel, 0.80 x"),
    (2.0, False, "no kernel: it was slower, 2.00 x"),
])  # fmt: skip
def test_the_faster_way_is_kept_where_backward_passes_are_timed_elsewhere(clock, monkeypatch, seconds, is_used, text):
    monkeypatch.setattr(linked_check, "clock", lambda: 0.0)
    maker = Maker(clock, seconds)
    f, _, sites = step_of(maker, clock, model_alone)
    maker.ready = True
    for _ in range(160):
        f(batch()[0]).sum().backward()
    (known,) = sites[0].classes
    assert known.kernel.passes and known.ratio == pytest.approx(seconds)
    assert known.is_faster is is_used and text in str(janus.explain(f))


def test_what_the_first_of_some_calls_in_a_row_takes_longer_is_left_out(clock):
    maker = Maker(clock, 0.5)
    maker.ready = True
    step, _, sites = step_of(maker, clock)
    before, ways = 0.0, []
    for _ in range(100):
        took, before = clock.now - before, clock.now
        ways.append(took == 1.0)
        if sites:
            maker.seconds = 9.0 if ways[-1] else 0.5  # as it is where others have used the processor's caches
        step(*batch())
    (known,) = sites[0].classes
    assert known.ratio == 0.5 and known.phase is measured._use


def test_a_trial_is_repeated_much_later(clock, monkeypatch):
    monkeypatch.setattr(measured, "LATER", 200)
    maker = Maker(clock, 0.5)
    maker.ready = True
    step, _, sites = step_of(maker, clock)
    for _ in range(150):
        step(*batch())
    (known,) = sites[0].classes
    assert known.phase is measured._use
    maker.seconds = 3.0  # another machine, so to speak
    for _ in range(300):
        step(*batch())
    assert known.phase is measured._operations and known.ratio == pytest.approx(3.0)


def test_a_short_run_asks_for_nothing(clock, monkeypatch):
    maker = Maker(clock, 0.5)
    step, _, _ = step_of(maker, clock)
    for _ in range(measured.OFTEN - 1):
        step(*batch())
    assert not maker.asked
    monkeypatch.setattr(measured, "LONG", 1e9)
    for _ in range(100):
        step(*batch())
    assert not maker.asked


def test_what_can_not_be_made_is_not_asked_for_again(clock):
    maker = Maker(clock, 0.5)
    maker.error = "no compiler"
    step, _, sites = step_of(maker, clock)
    for _ in range(100):
        step(*batch())
    (known,) = sites[0].classes
    assert maker.asked == 1 and known.failure == "no compiler" and known.phase is measured._operations


def test_deterministic_algorithms_wait_at_a_fixed_call(clock):
    maker = Maker(clock, 9.0)
    step, _, sites = step_of(maker, clock)
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(2 * measured.OFTEN):
            step(*batch())
    finally:
        torch.use_deterministic_algorithms(False)
    (known,) = sites[0].classes
    assert maker.waits == 1 and known.phase is measured._use, "however slow it is"


def test_many_kinds_of_inputs_put_a_block_to_sleep(clock):
    maker = Maker(clock, 0.5)
    step, _, sites = step_of(maker, clock)
    for size in range(1, measured.STRANGE + 20):
        step(*batch(size))
    assert not sites[0].awake and not maker.asked


def test_inputs_and_weights_are_not_kept_alive(clock):
    import gc
    import weakref

    maker = Maker(clock, 0.5)
    maker.ready = True
    step, model, _ = step_of(maker, clock)
    for _ in range(100):
        x, y = batch()
        step(x, y)
    seen = [weakref.ref(t) for t in (x, y, *model.parameters())]
    del x, y, model, step
    gc.collect()
    assert [ref() for ref in seen] == [None] * len(seen)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_kernel_that_is_wrong_is_never_used(clock, index):
    def spoil(results):
        results[index] = results[index] * 1.05
        return results

    eager, _ = trainer()
    maker = Maker(clock, 0.5, spoil)
    maker.ready = True
    compiled, _, sites = step_of(maker, clock)
    for number in range(100):
        assert compiled(*batch(seed=number)) == eager(*batch(seed=number))
    (known,) = sites[0].classes
    assert maker.asked == 1 and known.phase is measured._operations
    assert "its results were others than those of its operations" in str(janus.explain(compiled))


def test_what_is_compared_with_is_given_back(clock):
    maker = Maker(clock, 0.5)
    maker.ready = True
    step, _, sites = step_of(maker, clock)
    for _ in range(100):
        step(*batch())
    (known,) = sites[0].classes
    assert known.check is None and known.phase is measured._use and known.strikes == 0


def test_what_an_error_in_the_operations_left_is_not_compared_later(clock):
    maker = Maker(clock, 0.5)
    maker.ready = True
    step, _, sites = step_of(maker, clock)
    for _ in range(100):
        step(*batch())
    (known,) = sites[0].classes
    assert known.phase is measured._use
    sites[0].running = known
    step(*batch())
    assert sites[0].running is None and known.seconds == ([], [])


@NEEDS_COMPILER
def test_a_real_kernel_comes_while_the_program_runs(monkeypatch):
    monkeypatch.setattr(measured, "LONG", 0.0)
    model, other = (trainer(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))) for _ in range(2))
    other[1].load_state_dict(model[1].state_dict())
    step, eager = janus.compile(model[0], warmup=1), other[0]
    for number in range(measured.OFTEN - 1):
        assert step(*batch(seed=number)) == eager(*batch(seed=number))
    janus.wait(step)
    for number in range(60):
        assert step(*batch(seed=number)) == pytest.approx(eager(*batch(seed=number)), rel=1e-4)
    assert "kernel" in str(janus.explain(step))


@NEEDS_COMPILER
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam])
def test_steps_by_kernels_in_a_graph(make, monkeypatch):
    monkeypatch.setattr(measured, "LONG", 0.0)
    models = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [make(model.parameters(), lr=0.05) for model in models]
    step, eager = (trainer(model, optimizer)[0] for model, optimizer in zip(models, optimizers))
    step = janus.compile(step, backend="inductor", warmup=1)
    for number in range(20):
        assert step(*batch(seed=number)) == pytest.approx(eager(*batch(seed=number)), rel=1e-4)
        if number == 10:
            for optimizer in optimizers:
                optimizer.param_groups[0]["lr"] = 0.01
    assert "of its steps" in str(janus.explain(step))
    left, right = (optimizer.state_dict() for optimizer in optimizers)
    assert left["param_groups"] == right["param_groups"] and left["state"].keys() == right["state"].keys()
    for index, entry in right["state"].items():
        for name, value in entry.items():
            torch.testing.assert_close(left["state"][index][name], value)
