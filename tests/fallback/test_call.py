"""The call state machine, on fake conversions: which call is profiled, converted, run in a graph, run eagerly."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import traceback
import warnings
import weakref

import pytest
from conversions import Fake, Made

from janusc.diagnostics import Diagnostic, JanusWarning, Refusal
from janusc.fallback import cache, policy, report
from janusc.fallback.call import StrictError
from janusc.options import make_options
from janusc.sentinels import MISS


def plain(x=0, *, k=1):
    return x * k


def wrap(convert, function=plain, **options):
    wrapper = cache.wrap(function, make_options(options), convert)
    return wrapper, cache.find_state(wrapper)


def stats(state):
    return report.make_stats(state)


def counts(state):
    s = stats(state)
    return s.eager_calls, s.graph_calls, s.fallbacks


# ---- warm-up and misses


@pytest.mark.parametrize("warmup", [0, 1, 3])
def test_warmup_then_graphs(warmup):
    convert = Fake()
    f, state = wrap(convert, warmup=warmup)
    assert [f(i) for i in range(6)] == list(range(6))
    assert convert.asked == [((warmup,), {})]
    assert counts(state) == (warmup, 6 - warmup, 0)
    assert state.profile.calls == warmup


def test_warmup_calls_are_profiled():
    f, state = wrap(Fake(), warmup=2)
    f(1)
    assert [str(t) for t in state.profile.snapshot().types.values()] == ["=1", "=1"]


def test_a_new_kind_of_input_is_profiled_once_then_converted():
    convert = Fake(key=lambda x, **_: type(x))
    f, state = wrap(convert, warmup=1)
    f(1), f(1), f(1)
    assert f("a") == "a" and len(convert.asked) == 1 and state.profile.calls == 2
    assert f("b") == "b" and len(convert.asked) == 2
    f("c"), f(2)
    s = stats(state)
    assert (s.eager_calls, s.graph_calls, s.guard_misses, s.graphs, s.conversions) == (2, 5, 2, 2, 2)
    assert s.calls == 7


def test_a_specialisation_in_frequent_use_is_tried_first():
    f, state = wrap(Fake(key=lambda x, **_: type(x)), warmup=0)
    f(1)
    f("a"), f("a")
    newest = state.variants[0]
    f(1)
    assert state.variants[0] is newest, "one call changes nothing"
    for _ in range(policy.HITS_TO_FRONT):
        f(1)
    assert state.variants[0] is not newest and newest in state.variants


def test_eviction_takes_the_one_least_used_of_late():
    f, state = wrap(Fake(key=lambda x, **_: x), warmup=0, max_variants=2)
    for x in (1, 2, 2, 1, 1, 1):
        f(x)
    assert sorted(stats(state).variants) == [1, 4]
    f(3), f(3)
    assert stats(state).evictions == 1 and stats(state).graphs == 2
    before = stats(state).graph_calls
    f(1), f(3)
    assert stats(state).graph_calls == before + 2
    assert f(2) == 2 and stats(state).eager_calls == 3


def test_conversions_back_off_but_never_end():
    convert = Fake(key=lambda x, **_: x)
    f, state = wrap(convert, warmup=0, max_variants=2)
    made = []
    for x in range(12_000):
        assert f(x) == x
        made.append(len(convert.asked))
    assert made[-1] < 20
    assert made[-1] > made[500], "still trying"
    assert "let fewer things vary" in report.explain_state(state)


# ---- arguments that do not fit


@pytest.mark.parametrize("times", [0, 1, 2, 5])
@pytest.mark.parametrize("bad", [((1, 2), {}), ((), {"z": 1}), ((1,), {"x": 2})])
def test_a_wrong_call_raises_the_users_type_error(times, bad):
    def convert(*_, listener, enter):
        return Made(lambda function, /, x=0, *, k=1: x * k)

    f, state = wrap(convert, warmup=1)
    for _ in range(times):
        f(1)
    args, kwargs = bad
    with pytest.raises(TypeError) as expected:
        plain(*args, **kwargs)
    with pytest.raises(TypeError) as caught:
        f(*args, **kwargs)
    assert str(caught.value) == str(expected.value)
    assert caught.value.__context__ is None
    assert f(3) == 3
    assert stats(state).calls == times + 2


def test_a_type_error_of_the_users_own_comes_through_untouched():
    error = TypeError("mine")

    def g(x):
        raise error

    calls = []

    def body(listener, function, x):
        calls.append(x)
        return function(x)

    f, state = wrap(Fake(body=body), g, warmup=0)
    for _ in range(2):
        with pytest.raises(TypeError) as caught:
            f(1)
        assert caught.value is error
    assert len(calls) == 2 and stats(state).calls == 2


# ---- refusals and faults


def refusal(text="no graph for this"):
    return Refusal(Diagnostic("JC999", text))


def test_a_refusal_makes_the_function_eager_and_says_so_once():
    convert = Fake(failure=refusal())
    f, state = wrap(convert, warmup=1)
    with pytest.warns(JanusWarning, match="JC999: no graph for this") as caught:
        assert [f(i) for i in range(5)] == list(range(5))
    assert len(caught) == 1
    assert caught[0].filename == __file__ and caught[0].lineno == plain.__code__.co_firstlineno
    assert len(convert.asked) == 2 and not state.direct  # tried again after a while, ever more rarely
    assert counts(state) == (5, 0, 0)
    assert "JC999" in stats(state).refused and "JC999" in report.explain_state(state)


def test_a_function_without_source_is_not_even_profiled():
    space = {}
    exec("def f(x):\n    return x", space)
    f, state = wrap(Fake(), space["f"], warmup=1)
    with pytest.warns(JanusWarning, match="JC101"):
        assert f(1) == 1
    assert state.direct and state.profile.calls == 0


def test_a_refusal_of_one_kind_of_input_leaves_the_others_alone():
    convert = Fake(key=lambda x, **_: type(x))
    f, state = wrap(convert, warmup=0)
    f(1)
    convert.failure = refusal()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(100):
            f("a")
    assert 2 < len(convert.asked) < 10, "tried again, ever more rarely"
    before = stats(state).graph_calls
    f(1)
    assert stats(state).graph_calls == before + 1
    text = report.explain_state(state)
    assert "JC999: no graph for this" in text and "the next conversion is tried after" in text


def test_our_own_fault_never_reaches_the_user():
    f, state = wrap(Fake(failure=KeyError("oops")), warmup=0)
    with pytest.warns(JanusWarning, match="please report this") as caught:
        assert [f(i) for i in range(3)] == [0, 1, 2]
    assert len(caught) == 1 and "\n" not in str(caught[0].message)
    text = report.explain_state(state)
    assert "JC901" in text and "KeyError: 'oops'" in text and "conversions.py" in text, "with the traceback"


def test_a_failed_conversion_of_a_call_that_fails_anyway_is_forgiven():
    def g(x):
        return 1 // x

    convert = Fake(failure=RuntimeError("the sample run fails too"))
    f, state = wrap(convert, g, warmup=1)
    f(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ZeroDivisionError) as caught:
            f(0)
    assert caught.value.__context__ is None
    assert state.verdict is None
    convert.failure = None
    for _ in range(10):
        f(1)
    assert stats(state).graph_calls > 0


def test_guards_that_never_hold_are_given_up_slowly():
    ever_new = itertools.count()
    convert = Fake(key=lambda *_, **__: next(ever_new))
    f, state = wrap(convert, warmup=0)
    assert [f(i) for i in range(200)] == list(range(200))
    assert 2 < len(convert.asked) < 10 and stats(state).graphs == 0
    assert counts(state) == (200, 0, 0)
    assert "JC902" in report.explain_state(state)


# ---- failed assumptions


def failing(site, error, ok=True):
    """A body that is rolled back and finished eagerly, as the runtime reports it."""

    def body(listener, function, *args, **kwargs):
        result = function(*args, **kwargs)
        listener.failed(site(), error, ok)
        return result

    return body


def test_a_failed_assumption_is_refuted_and_the_next_call_converts():
    convert = Fake()
    f, state = wrap(convert, warmup=0)
    f(1)
    convert.body = None
    state.variants[0].run = lambda function, *a, **k: failing(lambda: "s", AssertionError())(
        convert.listeners[0], function, *a, **k
    )
    assert f(2) == 2
    assert state.profile.is_refuted("s") and state.variants == ()
    assert counts(state) == (0, 1, 1)
    assert f(3) == 3 and len(convert.asked) == 2
    s = stats(state)
    assert (s.calls, s.graph_calls, s.fallbacks, s.guard_misses) == (3, 2, 1, 0)


def test_an_assumption_that_fails_again_and_again_ends_in_waiting_not_in_a_loop():
    convert = Fake(body=failing(lambda: "always the same", AssertionError()))
    f, state = wrap(convert, warmup=0)
    for i in range(300):
        assert f(i) == i
    assert len(convert.asked) < 12
    assert stats(state).calls == 300


def test_every_new_assumption_may_fail_without_waiting():
    sites = iter(range(100))
    convert = Fake(body=failing(lambda: f"s{next(sites)}", AssertionError()))
    f, state = wrap(convert, warmup=0)
    for i in range(20):
        f(i)
    assert len(convert.asked) == 20 and stats(state).fallbacks == 20


def test_an_error_that_eager_does_not_have_moves_the_statement_out():
    convert = Fake(body=failing(lambda: None, RuntimeError("spurious")))
    f, state = wrap(convert, warmup=0)
    f(1)
    assert len(state.variants) == 1, "once may be chance"
    f(1)
    assert state.variants == () and any(s.startswith("host:") for s in state.profile.snapshot().refuted)
    f(1)
    assert len(convert.asked) == 2
    assert "RuntimeError: spurious, which eager did not raise" in report.explain_state(state)


def test_the_users_own_errors_teach_nothing():
    def g(x):
        raise ValueError(x)

    def body(listener, function, *args):
        try:
            return function(*args)
        except ValueError as error:
            listener.failed(None, error, False)
            raise

    convert = Fake(body=body)
    f, state = wrap(convert, g, warmup=0)
    for i in range(5):
        with pytest.raises(ValueError):
            f(i)
    assert len(convert.asked) == 1 and len(state.variants) == 1
    assert counts(state) == (0, 0, 5)


# ---- strict


def test_strict_refusal_raises_before_anything_runs():
    ran = []

    def g(x):
        ran.append(x)

    f, _ = wrap(Fake(failure=refusal()), g, warmup=0, strict=True)
    for _ in range(2):
        with pytest.raises(StrictError, match="JC999: no graph for this"):
            f(1)
    assert ran == []


def test_strict_warms_up_and_converts_new_kinds_at_once():
    convert = Fake(key=lambda x, **_: type(x))
    f, state = wrap(convert, warmup=2, strict=True)
    assert [f(1), f(1), f(1), f("a"), f(None or "b")] == [1, 1, 1, "a", "b"]
    assert counts(state) == (2, 3, 0)


def test_strict_reports_our_own_fault_with_its_cause():
    f, _ = wrap(Fake(failure=KeyError("oops")), warmup=0, strict=True)
    with pytest.raises(StrictError) as caught:
        f(1)
    assert isinstance(caught.value.__cause__, KeyError)


def test_strict_tells_of_a_failed_assumption():
    f, state = wrap(Fake(body=failing(lambda: "some:site", AssertionError())), warmup=0, strict=True)
    with pytest.raises(StrictError, match="some:site"):
        f(1)
    assert state.profile.is_refuted("some:site")


# ---- threads, recursion, lifetimes


def test_a_function_called_while_it_is_being_converted_runs_eagerly():
    def g(x):
        return x + 1

    class Calling(Fake):
        def __call__(self, parsed, function, *rest, **named):
            self.inner = f(10)
            return super().__call__(parsed, function, *rest, **named)

    convert = Calling()
    f, state = wrap(convert, g, warmup=0)
    assert f(1) == 2 and convert.inner == 11
    assert counts(state) == (1, 1, 0)


def test_recursion_through_the_wrapper():
    def factorial(n):
        return 1 if n == 0 else n * f(n - 1)

    f, state = wrap(Fake(), factorial, warmup=1)
    assert [f(5) for _ in range(4)] == [120] * 4
    assert counts(state) == (1, 18, 0), "the profiled call goes through its twin all the way down"


def test_recursion_of_a_refused_function_takes_two_frames_a_level():
    space = {"traceback": traceback}
    exec("def depth(n):\n    return len(traceback.extract_stack()) if n == 0 else f(n - 1)", space)
    f, _ = wrap(Fake(), space["depth"], warmup=0)  # without a source it is refused for ever
    space["f"] = f
    with pytest.warns(JanusWarning):
        f(0)
    assert f(10) - f(0) == 20


def test_threads_run_eagerly_while_one_converts():
    started, go_on = threading.Event(), threading.Event()

    class Slow(Fake):
        def __call__(self, *args, **kwargs):
            started.set()
            assert go_on.wait(10)
            return super().__call__(*args, **kwargs)

    convert = Slow()
    f, state = wrap(convert, warmup=0)
    results = []
    thread = threading.Thread(target=lambda: results.append(f(1)))
    thread.start()
    assert started.wait(10)
    assert f(2) == 2
    go_on.set()
    thread.join()
    assert results == [1] and len(convert.asked) == 1
    assert counts(state) == (1, 1, 0)


def test_many_threads_count_every_call():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        f, state = wrap(Fake(key=lambda x, **_: x % 3), warmup=2, max_variants=2)
        wrong = []

        def work():
            for i in range(300):
                if f(i) != i:
                    wrong.append(i)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
    assert stats(state).graphs <= 2


def test_reset_starts_over():
    convert = Fake()
    f, state = wrap(convert, warmup=1)
    for i in range(3):
        f(i)
    state.reset()
    assert stats(state).calls == 0 and state.variants == ()
    for i in range(3):
        f(i)
    assert len(convert.asked) == 2 and counts(state) == (1, 2, 0)


def test_nothing_outlives_the_function():
    class Box:
        pass

    def make():
        def g(box):
            return box

        return g

    g = make()
    f, state = wrap(Fake(), g, warmup=1)
    box = Box()
    for _ in range(3):
        f(box)
    references = [weakref.ref(x) for x in (g, state, box)]
    del g, f, state, box
    gc.collect()
    assert [r() for r in references] == [None] * 3


def test_miss_is_never_a_result():
    f, _ = wrap(Fake(key=lambda x, **_: x), warmup=0)
    assert all(f(i) is not MISS for i in range(20))
