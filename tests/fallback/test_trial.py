"""A new graph is compared with ordinary calls: a slower one goes, whatever the inputs and their order are."""

from __future__ import annotations

import pytest
import torch

import janusc as janus
from janusc import marks
from janusc.fallback import trial
from janusc.fallback.trial import PAIRS, WARM, Trial
from janusc.sentinels import MISS

FIRST = WARM + 2 * PAIRS[0]
BOTH = FIRST + 2 * PAIRS[1]


class Clock:
    """Time that passes only where somebody lets it."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(trial, "clock", lambda: self.now)

    def taking(self, seconds, result="result"):
        def run(*args):
            self.now += seconds * (args[-1] if args and isinstance(args[-1], int) else 1)
            return result

        return run


class Owner:
    def __init__(self):
        self.eager_calls, self.hits, self.verdicts = 0, 0, []

    def judged(self, variant, run, ratio, loses):
        self.verdicts.append((run, ratio, loses))


def tried(clock, graph, ordinary, sizes, calls):
    """Run so many calls with inputs of these sizes in turn; what the owner was told, and after how many calls."""
    owner = Owner()
    run = clock.taking(graph)
    subject = Trial(owner, owner, run)
    function = clock.taking(ordinary)
    for number in range(calls):
        owner.hits += 1
        assert subject.run(function, sizes[number % len(sizes)]) == "result"
        if owner.verdicts:
            assert owner.verdicts[0][0] is run
            return owner, number + 1
    return owner, calls


TURNS = [[1], [1, 50], [50, 1], [1, 1, 9, 9], [1, 2, 3], [1, 2, 4, 8, 16], [3, 1, 1], [9, 1, 1, 1, 1, 1, 1, 1]]


@pytest.mark.parametrize("sizes", TURNS)
def test_a_faster_graph_is_kept_after_the_first_trial(monkeypatch, sizes):
    owner, calls = tried(Clock(monkeypatch), 0.7, 1.0, sizes, BOTH)
    ((_, ratio, loses),) = owner.verdicts
    assert not loses and ratio < 1.0 and calls <= BOTH
    if len(sizes) in (1, 2, 4):
        assert ratio == pytest.approx(0.7) and calls == FIRST


@pytest.mark.parametrize("sizes", [[1], [1, 50], [1, 1, 9, 9]])
def test_a_slower_graph_loses_after_the_second(monkeypatch, sizes):
    owner, calls = tried(Clock(monkeypatch), 1.3, 1.0, sizes, BOTH)
    ((_, ratio, loses),) = owner.verdicts
    assert loses and ratio == pytest.approx(1.3) and calls == BOTH


def test_each_call_is_counted_where_it_ran(monkeypatch):
    owner, calls = tried(Clock(monkeypatch), 1.0, 1.0, [1], BOTH)
    assert owner.eager_calls == PAIRS[0] and owner.hits == calls - PAIRS[0]


def test_a_call_that_the_graph_does_not_take_is_no_sample(monkeypatch):
    clock, owner = Clock(monkeypatch), Owner()
    subject = Trial(owner, owner, clock.taking(5.0, MISS))
    results = [subject.run(clock.taking(1.0)) for _ in range(BOTH)]
    assert MISS in results and not owner.verdicts


def test_a_call_that_fails_is_no_sample(monkeypatch):
    clock, owner = Clock(monkeypatch), Owner()
    subject = Trial(owner, owner, clock.taking(1.0))

    def failing(*args):
        clock.now += 100.0
        raise KeyError("the user's")

    for number in range(2 * BOTH):
        owner.hits += 1
        try:
            subject.run(failing if number % 3 == 0 else clock.taking(1.0))
        except KeyError:
            continue
        if owner.verdicts:
            break
    ((_, ratio, loses),) = owner.verdicts
    assert ratio == pytest.approx(1.0) and not loses and number >= FIRST


def test_calls_inside_of_a_timed_call_are_not_timed(monkeypatch):
    clock, owner = Clock(monkeypatch), Owner()
    run = clock.taking(1.0)
    subject = Trial(owner, owner, lambda function, depth: run())

    def function(depth):
        return subject.run(function, depth - 1) if depth else run()

    for _ in range(FIRST):
        subject.run(function, 3)
    assert len(owner.verdicts) == 1 and owner.eager_calls == PAIRS[0]


def test_arguments_that_do_not_fit_are_a_miss():
    subject = Trial(Owner(), Owner(), lambda function, x: x)
    assert subject.run(print) is MISS and subject.run(print, 1) == 1


def many(x, seconds):
    for _ in range(4):
        x = x * 2 - x
    return x


def with_a_graph():
    f, x = janus.compile(many), torch.ones(3)
    state = marks.state_of(f)
    state.budget.limited = False
    while not state.roster.variants:
        f(x, 0)
    return f, state, state.roster.variants[0], x


def test_a_new_graph_has_a_trial_by_default(monkeypatch):
    f, x = janus.compile(many), torch.ones(3)
    state = marks.state_of(f)
    monkeypatch.setattr(type(state.budget), "forbids", lambda self, hits: False)
    monkeypatch.setattr(trial, "clock", lambda: 0.0)
    while not state.roster.variants:
        f(x, 0)
    (variant,) = state.roster.variants
    assert variant.run is not variant.made.run and variant.ratio is None
    before = janus.stats(f)
    for _ in range(FIRST):
        assert torch.equal(f(x, 0), many(x, 0))
    after = janus.stats(f)
    assert variant.run is variant.made.run and variant.ratio is not None
    assert after.eager_calls - before.eager_calls == PAIRS[0]
    assert after.graph_calls - before.graph_calls == FIRST - PAIRS[0]


def test_what_came_of_it_is_said():
    f, state, variant, x = with_a_graph()
    state.judged(variant, variant.run, 0.75, False)
    assert "tried against ordinary calls: 0.75 x their time" in janus.explain(f)
    state.judged(variant, variant.run, 1.5, True)
    assert not state.roster.variants and janus.stats(f).graphs == 0
    text = str(janus.explain(f))
    assert "1 graph dropped after a trial, since calls took 1.50 times as long in it as without it" in text
    before = janus.stats(f).eager_calls
    for _ in range(50):
        f(x, 0)
    assert janus.stats(f).eager_calls == before + 50 and janus.stats(f).conversions == 1
    assert "the next conversion is tried after" in str(janus.explain(f))


def test_a_graph_that_lost_is_tried_again_later():
    f, state, variant, x = with_a_graph()
    state.judged(variant, variant.run, 1.5, True)
    for _ in range(state.waiting + 4):
        f(x, 0)
    assert janus.stats(f).conversions == 2 and janus.stats(f).graphs == 1


def test_whoever_asks_for_graphs_by_calls_has_no_trial():
    for options in ({"warmup": 1}, {"strict": True}):
        f = janus.compile(many, **options)
        x = torch.ones(3)
        for _ in range(6):
            f(x, 0)
        (variant,) = marks.state_of(f).roster.variants
        assert variant.run is variant.made.run
