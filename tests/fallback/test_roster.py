"""Which specialisations are asked, and which rest: counted by how often their guards are read."""

from __future__ import annotations

import random
import types

import pytest
import torch
from conversions import Fake, Made

import janusc as janus
from janusc.diagnostics import Diagnostic, JanusWarning, Refusal
from janusc.fallback import cache, policy, report
from janusc.fallback.roster import Roster
from janusc.fallback.sharers import Sharers
from janusc.fallback.variant import Variant
from janusc.locks import make_lock
from janusc.options import make_options
from janusc.sentinels import MISS


def plain(x=0):
    return x + 1


class Kinds:
    """A converter whose graphs take one value of the argument each; ``reads`` counts how often guards were read."""

    def __init__(self) -> None:
        self.reads = 0
        self.fake = Fake(key=self._key)

    def _key(self, x=0):
        self.reads += 1
        return x


def wrap(kinds, **options):
    f = cache.wrap(plain, make_options({"warmup": 0, **options}), kinds.fake)
    return f, cache.find_state(f)


def call(f, inputs):
    for x in inputs:
        assert f(x) == x + 1


def refuse(kinds):
    kinds.fake.failure = Refusal(Diagnostic("JC999", "no graph for this"))


def of_many_kinds(count, seed=0):
    generator = random.Random(seed)
    return [generator.randrange(40) for _ in range(count)]


def graph_calls(state):
    return report.make_stats(state).graph_calls


def test_inputs_of_too_many_kinds_read_hardly_a_guard() -> None:
    kinds = Kinds()
    f, state = wrap(kinds)
    call(f, of_many_kinds(10_000))
    stats = report.make_stats(state)
    assert stats.resting > 0
    kinds.reads = 0
    call(f, of_many_kinds(20_000, seed=1))
    assert kinds.reads < 0.5 * 20_000, "eight graphs would be read some seven times a call"
    assert report.make_stats(state).conversions - stats.conversions <= 5


def test_what_rests_comes_back_when_the_inputs_are_few() -> None:
    kinds = Kinds()
    f, state = wrap(kinds)
    call(f, of_many_kinds(10_000))
    assert len(state.roster.resting) > 1
    first, second = (next(x for x in range(40) if v.run(plain, x) is not MISS) for v in state.roster.resting[:2])
    asked, before = len(kinds.fake.asked), graph_calls(state)
    call(f, [first] * 500)
    assert graph_calls(state) - before >= 500 - policy.LOOK
    call(f, [first, second] * 500)
    assert graph_calls(state) - before >= 1500 - 3 * policy.LOOK
    assert len(kinds.fake.asked) == asked, "nothing is converted for that"


def test_calls_that_alternate_with_ones_no_graph_is_for_find_what_rests() -> None:
    kinds = Kinds()
    f, state = wrap(kinds)
    call(f, [0, 0])
    refuse(kinds)
    call(f, [1] * 3000)
    assert report.make_stats(state).resting == 1
    before = graph_calls(state)
    call(f, [0, 1] * 1000)
    assert report.make_stats(state).resting == 0
    assert graph_calls(state) - before > 700


def test_a_phase_without_graphs_costs_the_next_one_a_look() -> None:
    kinds = Kinds()
    f, state = wrap(kinds)
    call(f, [0, 1] * 1000)
    refuse(kinds)
    call(f, range(2, 3000))
    assert report.make_stats(state).graphs == 0 and state.roster.rests == 0, "they were of use for a time"
    before = graph_calls(state)
    call(f, [0, 1] * 1000)
    assert graph_calls(state) - before >= 2000 - 2 * policy.LOOK
    assert report.make_stats(state).graphs == 2


@pytest.mark.parametrize("share", [2, 8])
def test_rare_inputs_that_miss_let_no_graph_rest(share: int) -> None:
    kinds = Kinds()
    f, state = wrap(kinds)
    call(f, sorted([*range(share)] * 2))
    refuse(kinds)
    call(f, [x % (share + 1) for x in range(9 * policy.REVIEW)])
    stats = report.make_stats(state)
    assert (stats.graphs, stats.resting) == (share, 0) and stats.guard_misses > policy.REVIEW


def test_many_modules_of_one_class_keep_their_graphs_beside_one_that_has_none() -> None:
    class Layer(torch.nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.depth = depth

        def forward(self, x):
            return x + 1

    kinds = Fake(key=lambda self, x: self.depth)
    f = cache.wrap(Layer.forward, make_options({"warmup": 0}), kinds)
    state = cache.find_state(f)
    layers = [Layer(depth) for depth in range(20)]
    for layer in layers:
        f(layer, 1), f(layer, 1)
    assert len(state.variants) == 20 and state.roster.crowded
    kinds.failure = Refusal(Diagnostic("JC999", "no graph for this"))
    odd = Layer(100)
    before = graph_calls(state)
    for _ in range(3 * policy.REVIEW):
        for layer in (*layers, odd):
            assert f(layer, 1) == 2
    assert len(state.variants) == 20 and graph_calls(state) - before == 60 * policy.REVIEW


def test_one_function_is_not_asked_for_whom_its_calls_are() -> None:
    f, state = wrap(Kinds())
    call(f, [x % 6 for x in range(60)])
    assert len(state.variants) == 6 and not state.roster.crowded


def test_when_the_inputs_are_of_few_new_kinds_each_has_a_graph_soon() -> None:
    kinds = Kinds()
    f, state = wrap(kinds)
    call(f, of_many_kinds(30_000))
    asked = len(kinds.fake.asked)
    state.setbacks = 0  # those of evictions wait, too
    call(f, [40 + x % 3 for x in range(state.waiting + 2000)])
    assert len(kinds.fake.asked) == asked + 3 and state.roster.rests == 0
    before = graph_calls(state)
    call(f, [40, 41, 42] * 100)
    assert graph_calls(state) == before + 300


def test_what_rests_is_said_with_when_it_is_asked_again() -> None:
    kinds = Kinds()
    f, state = wrap(kinds)
    call(f, [0])
    refuse(kinds)
    call(f, [1] * 2000)
    text = report.explain_state(state)
    assert "  runs in graphs\n" in text and "\n  0 graphs in use" in text
    assert (
        "\n  1 graph at rest, since asking took longer than was saved by the calls taken: "
        f"one call in {policy.LOOK} that no graph takes asks again, and what takes such calls is back in use\n"
    ) in text
    assert "\n  the next conversion is tried after " in text
    assert "\ngraph 1 (at rest): 1 call, 0 of them finished eagerly\n" in text
    assert len(report.list_graphs(state)) == 1
    waits = state.waiting + state.skip
    asked = len(kinds.fake.asked)
    call(f, [1] * waits)
    assert len(kinds.fake.asked) == asked
    call(f, [1])
    assert len(kinds.fake.asked) == asked + 1, "as it was said"


def test_arguments_that_do_not_fit_are_left_to_the_users_function() -> None:
    def run(function, /, x=0):
        return x + 1 if x == 0 else MISS

    f = cache.wrap(plain, make_options({"warmup": 0}), lambda *_, **__: Made(run))
    state = cache.find_state(f)
    f(0)
    state.waiting = 10**6
    call(f, [1] * 2000)
    assert state.roster.resting
    for _ in range(2 * policy.LOOK):
        with pytest.raises(TypeError, match="plain"):
            f(1, 2)
    assert f(1) == 2


def test_what_rests_and_fails_when_asked_is_dropped() -> None:
    def fail(listener, function, x):
        result = function(x)
        if failing:
            listener.failed("s", AssertionError(), True)
        return result

    failing = False
    kinds = Kinds()
    kinds.fake.body = fail
    f, state = wrap(kinds)
    call(f, [0])
    refuse(kinds)
    call(f, [1] * 2000)
    assert state.roster.resting
    failing = True
    call(f, [0] * (policy.LOOK + 1))
    assert state.profile.is_refuted("s") and not state.roster.resting
    assert report.make_stats(state).fallbacks == 1


def test_strict_functions_let_none_rest() -> None:
    f, state = wrap(Kinds(), strict=True)
    call(f, of_many_kinds(1000)[:12])
    assert not state.roster.resting


def test_a_function_that_is_refused_is_still_asked_for_the_graphs_it_has() -> None:
    kinds = Kinds()
    f, state = wrap(kinds)
    call(f, [0])
    kinds.fake.failure = KeyError("a fault of ours")
    with pytest.warns(JanusWarning):
        call(f, [1, 1])
    assert not state.direct
    before = graph_calls(state)
    call(f, [0] * 10)
    assert graph_calls(state) == before + 10
    call(f, [1] * 3000)
    assert state.roster.resting and not state.direct
    call(f, [0] * 200)
    assert state.variants and graph_calls(state) > before + 10
    kinds.reads = 0
    state.failed(state.variants[0], "s", AssertionError(), True, "")
    assert state.direct
    call(f, [0, 1] * 100)
    assert not kinds.reads and len(kinds.fake.asked) == 2


def test_a_function_that_can_not_be_read_asks_nothing() -> None:
    space: dict[str, types.FunctionType] = {}
    exec("def f(x):\n    return x + 1", space)
    f = cache.wrap(space["f"], make_options({"warmup": 1}), Fake())
    state = cache.find_state(f)
    with pytest.warns(JanusWarning, match="JC101"):
        call(f, range(300))
    assert state.direct and state.skip > 10**6 and report.make_stats(state).calls == 300


# ---- on its own


def made(owner, run) -> Variant:
    variant = Variant(owner)
    variant.run = run
    return variant


def test_a_guard_that_holds_after_all_takes_the_call() -> None:
    roster = Roster(make_lock(), Sharers(plain))
    answers = iter([MISS, 5])
    variant = made(None, lambda function, x: next(answers))
    roster.add(variant)
    roster.misses = policy.REVIEW
    assert roster.look(plain, (4,), {}, each=1e-9) == 5
    assert variant.hits == 1 and roster.variants == (variant,)


@pytest.mark.parametrize(("each", "rests"), [(1e-9, True), (0.0, True), (10.0, False)])
def test_calls_that_take_long_may_ask_in_vain(each: float, rests: bool) -> None:
    roster = Roster(make_lock(), Sharers(plain))
    roster.add(made(None, lambda function, x: MISS))
    roster.misses = policy.REVIEW - 1
    assert roster.look(plain, (4,), {}, each) is MISS and not roster.resting
    roster.misses += 1
    assert roster.look(plain, (4,), {}, each) is MISS and bool(roster.resting) is rests


def test_a_new_graph_has_time_of_its_own() -> None:
    roster = Roster(make_lock(), Sharers(plain))
    old, new = (made(None, lambda function, x: MISS) for _ in range(2))
    roster.add(old)
    roster.misses = policy.REVIEW
    roster.add(new)
    roster.look(plain, (4,), {}, 0.0)
    assert (roster.variants, roster.resting) == ((new,), (old,))


def test_room_is_made_by_those_that_rest() -> None:
    kinds = Kinds()
    f, state = wrap(kinds, max_variants=2)
    call(f, [0])
    state.waiting = 3000
    call(f, [1] * 3000)
    assert state.roster.resting
    state.waiting = state.skip = 0
    call(f, [1, 1])
    state.waiting = state.skip = 0
    call(f, [2, 2])
    assert [len(state.variants), len(state.roster.resting)] == [2, 0] and state.evictions == 1


def test_by_default_a_short_function_of_many_kinds_reads_hardly_a_guard() -> None:
    """With real graphs and a real clock; how often guards are read is bounded by misses and looks alone."""
    layers = []
    for k in range(40):

        class Layer:
            def __init__(self, k=k):
                self.weight = torch.full((3,), float(k))

            def apply(self, x):
                return torch.tanh(x) * self.weight

        layers.append(Layer())

    def f(layer, x):
        return layer.apply(x) + 1

    graph = janus.compile(f, backend="aten", warmup=1)
    x = torch.arange(3.0)
    for k in of_many_kinds(6000):
        assert torch.equal(graph(layers[k], x), f(layers[k], x))
    stats = janus.stats(graph)
    assert stats.graphs + stats.resting > 1 and stats.guard_misses < 3000
