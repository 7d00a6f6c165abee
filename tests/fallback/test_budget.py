"""A function spends no more on its graphs than a share of what its calls have taken."""

from __future__ import annotations

import threading

import pytest
import torch
from processes import in_child

import janusc as janus
from janusc.diagnostics import Diagnostic, JanusWarning, Refusal
from janusc.fallback import budget as budgets
from janusc.fallback import cache, policy
from janusc.fallback import call as calls
from janusc.fallback.budget import SHARE, Budget
from janusc.options import make_options


class Clock:
    """Seconds that pass only where the test says so."""

    def __init__(self) -> None:
        self.now = 1.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(budgets, "time", made)
    return made


def call(budget: Budget, clock: Clock, seconds: float) -> None:
    start = budget.start()
    clock.now += seconds
    budget.stop(start)


def test_a_conversion_is_forbidden_until_the_calls_have_taken_its_price_over_the_share(clock: Clock) -> None:
    budget = Budget(limited=True, lines=2)
    due = 2 * budgets.SECONDS_A_LINE / SHARE
    call(budget, clock, due * 0.9)
    assert budget.forbids(0) and budget.pending(0) == pytest.approx((due * 0.9, due))
    call(budget, clock, due * 0.2)
    assert not budget.forbids(0) and budget.pending(0) is None


def test_what_was_spent_counts_and_tells_the_next_price(clock: Clock) -> None:
    budget = Budget(limited=True, lines=1)
    call(budget, clock, 10.0)
    budget.spend(0.25)
    budget.spend(0.5, conversions=1)  # 0.75 for one conversion: the second is due at 1.5 in all
    assert budget.forbids(0)
    call(budget, clock, 1.5 / SHARE - 10.0)
    assert not budget.forbids(0)


def test_calls_of_graphs_count_as_eager_ones(clock: Clock) -> None:
    budget = Budget(limited=True, lines=1)
    call(budget, clock, 1.0)
    budget.spend(1.0, conversions=1)
    assert budget.forbids(hits=int(2 / SHARE) - 2)
    assert not budget.forbids(hits=int(2 / SHARE) - 1)


def test_calls_inside_of_a_measured_one_are_not_measured_twice(clock: Clock) -> None:
    budget = Budget(limited=True, lines=1)
    outer = budget.start()
    call(budget, clock, 1.0)
    call(budget, clock, 1.0)
    budget.stop(outer)
    budget.spend(1.0)
    assert budget.pending(0) == pytest.approx((2.0, (1.0 + budgets.SECONDS_A_LINE) / SHARE))


def test_a_profiled_call_spends_what_it_takes_beyond_an_eager_one(clock: Clock) -> None:
    budget = Budget(limited=True, lines=1)
    call(budget, clock, 1.0)
    start = budget.start()
    clock.now += 1.5
    budget.stop_profiling(start, lines=100, weaving=0.25)
    assert budget.pending(0) == pytest.approx((2.0, (0.5 + 100 * budgets.SECONDS_A_LINE) / SHARE))


def test_a_profiled_call_that_does_more_than_others_has_not_spent_all_of_that(clock: Clock) -> None:
    budget = Budget(limited=True, lines=1)
    call(budget, clock, 1.0)
    start = budget.start()
    clock.now += 50.25
    budget.stop_profiling(start, lines=100, weaving=0.25)
    assert budget.pending(0) is None  # 50 s were taken, 1.25 s spent
    budget.spend(5.0)
    assert budget.pending(0) == pytest.approx((50.0, (6.25 + 100 * budgets.SECONDS_A_LINE) / SHARE))


def test_short_calls_are_spared_the_clock_and_count_as_those_before(clock: Clock) -> None:
    budget = Budget(limited=True, lines=10**4)
    assert budget.spare(60) == 0
    for _ in range(budgets.MEASURED - 1):
        call(budget, clock, 1e-4)
    assert budget.spare(60) == 0
    call(budget, clock, 1e-4)
    assert budget.spare(60) == 20 and budget.spare(7) == 7
    pending = budget.pending(3)
    assert pending is not None and pending[0] == pytest.approx((budgets.MEASURED + 27 + 3) * 1e-4)


def test_long_calls_and_calls_inside_of_others_are_all_measured(clock: Clock) -> None:
    long, nested = (Budget(limited=True, lines=10**4) for _ in range(2))
    for _ in range(2 * budgets.MEASURED):
        call(long, clock, 0.01)
        outer = nested.start()
        call(nested, clock, 1e-5)
        nested.stop(outer)
    assert long.spare(60) == nested.spare(60) == 0


def test_a_conversion_of_no_use_waits_until_it_is_a_small_share_of_the_calls(clock: Clock) -> None:
    budget = Budget(limited=True, lines=1)
    assert budget.longest_wait() == 0
    call(budget, clock, 0.001)
    budget.spend(0.25, conversions=1)
    assert budget.longest_wait() == 250 * 100


def test_conversions_that_come_to_nothing_cost_a_small_share_of_the_calls(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "time", clock)
    seconds, tries = 0.001, []

    def step(x):
        clock.now += seconds
        return x + 1

    def convert(*_, **__):
        clock.now += 0.25
        tries.append(clock.now)
        raise Refusal(Diagnostic("JC999", "no graph for this"))

    f = cache.wrap(step, make_options({}), convert)
    with pytest.warns(JanusWarning):
        assert [f(x) for x in range(250_000)] == [*range(1, 250_001)]
    assert tries[-1] - tries[-2] > 0.8 * 0.25 * 100 > policy.LONGEST_WAIT * seconds
    assert 1 < len(tries) * 0.25 < budgets.SHARE * 250_000 * seconds


def test_by_default_most_of_the_calls_that_wait_are_not_measured() -> None:
    f = janus.compile(lambda x: x, backend="aten")
    state = cache.find_state(f)
    assert state is not None
    slow, seen = state.slow, []
    state.slow = lambda *call: seen.append(call) or slow(*call)  # type: ignore[method-assign, func-returns-value]
    state.budget.spend(1000.0)
    assert [f(x) for x in range(1000)] == [*range(1000)]
    assert len(seen) < budgets.MEASURED + 100 and janus.stats(f).eager_calls == 1000


def test_an_unlimited_budget_forbids_nothing_and_measures_nothing(clock: Clock) -> None:
    budget = Budget(limited=False, lines=10**9)
    assert budget.start() is None and not budget.forbids(0) and budget.pending(0) is None


def test_by_default_a_function_waits_until_its_calls_have_taken_long_enough(clock: Clock) -> None:
    def step(x):
        clock.now += 0.01
        return torch.relu(x) + 1

    slow = janus.compile(step, backend="aten")
    for _ in range(3):
        slow(torch.ones(2))
    assert janus.stats(slow).conversions == 0
    assert "  waits: calls have taken 0." in janus.explain(slow)
    state = cache.find_state(slow)
    assert state is not None
    call(state.budget, clock, 10.0)
    for _ in range(5):
        slow(torch.ones(2))
    assert janus.stats(slow).conversions == 1


@pytest.mark.parametrize("options", [{"warmup": 2}, {"strict": True}])
def test_a_number_of_calls_and_strict_do_not_wait(options: dict[str, int]) -> None:
    f = janus.compile(lambda x: torch.relu(x) + 1, backend="aten", **options)
    for _ in range(4):
        f(torch.ones(2))
    assert janus.stats(f).conversions == 1


def test_an_error_ends_the_measured_call(clock: Clock) -> None:
    def fail(x):
        clock.now += 1.0
        raise ValueError("no")

    f = janus.compile(fail, backend="aten")
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            f(torch.ones(2))
    state = cache.find_state(f)
    assert state is not None and state.eager_calls == 2
    state.budget.spend(1.0)
    pending = state.budget.pending(0)
    assert pending is not None and pending[0] == pytest.approx(2.0, abs=0.1)  # the second was profiled


def test_threads_may_measure_at_once() -> None:
    f = janus.compile(lambda x: torch.relu(x) + 1, backend="aten")
    threads = [threading.Thread(target=lambda: [f(torch.ones(2)) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert janus.stats(f).calls == 200


def test_calls_at_once_are_counted_once_and_one_that_does_not_end_keeps_none_out(clock: Clock) -> None:
    budget = Budget(limited=True, lines=1)
    first = budget.start()
    clock.now += 1.0
    second = budget.start()
    clock.now += 2.0
    budget.stop(second)
    call(budget, clock, 1.0)
    budget.spend(1.0)
    assert budget.pending(0) == pytest.approx((3.0, (1.0 + budgets.SECONDS_A_LINE) / SHARE))
    clock.now += 1.0
    budget.stop(first)
    assert budget.pending(0) == pytest.approx((4.0, (1.0 + budgets.SECONDS_A_LINE) / SHARE))


def test_what_was_spent_inside_of_a_call_is_none_of_its_seconds(clock: Clock) -> None:
    budget = Budget(limited=True, lines=1)
    outer = budget.start()
    clock.now += 4.0
    budget.spend(3.0, conversions=1)
    budget.stop(outer)
    assert budget.pending(0) == pytest.approx((1.0, 6.0 / SHARE))


def test_a_child_forked_during_a_call_gets_its_graphs(clock: Clock) -> None:
    def step(x):
        y = torch.relu(x) + 1
        clock.now += 100.0
        if threading.current_thread() is slow:
            inside.set()
            done.wait()
        return y

    f = janus.compile(step, backend="aten")
    inside, done = threading.Event(), threading.Event()
    slow = threading.Thread(target=f, args=(torch.ones(2),))
    slow.start()
    inside.wait()

    def converts():
        for _ in range(8):
            f(torch.ones(2))
        return janus.stats(f).graph_calls > 0

    try:
        assert in_child(converts)
    finally:
        done.set()
        slow.join()


def test_the_mean_is_of_calls_that_are_not_inside_of_others(clock: Clock) -> None:
    budget = Budget(limited=True, lines=1)
    outer = budget.start()
    for _ in range(9):
        call(budget, clock, 0.1)
    clock.now += 0.1
    budget.stop(outer)
    call(budget, clock, 3.0)
    budget.spend(100.0)
    assert budget.pending(hits=10) == pytest.approx((24.0, (100.0 + budgets.SECONDS_A_LINE) / SHARE))
