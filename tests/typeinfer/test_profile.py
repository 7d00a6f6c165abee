"""The profile only climbs, and answers what was seen."""

from __future__ import annotations

import threading

import torch
from hypothesis import given
from hypothesis import strategies as st

from janusc.typeinfer.profile import Profile
from janusc.types import ANY, Constant, HostType, TensorType, is_below, type_of

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.5, "a", b"a", [], (1, 2), (1, 3), {}]),
    st.builds(torch.zeros, st.tuples(st.integers(0, 2), st.integers(0, 2))),
)
SITES = st.sampled_from(["a", "b"])


def test_nothing_seen_is_nothing_known():
    profile = Profile()
    assert profile.type_at("s") is None
    assert profile.outcomes("s") == frozenset()
    assert profile.trip_count("s") is None
    assert not profile.is_refuted("s")
    assert profile.calls == 0


def test_types_join():
    profile = Profile()
    profile.observe("s", type_of(1))
    assert profile.type_at("s") == Constant("1", "int")
    profile.observe("s", type_of(2))
    assert profile.type_at("s") == HostType("int")
    profile.observe("s", type_of("x"))
    assert profile.type_at("s") == ANY


def test_a_dimension_that_varies_is_unknown():
    profile = Profile()
    profile.observe("s", type_of(torch.zeros(2, 3)))
    profile.observe("s", type_of(torch.zeros(5, 3)))
    assert profile.type_at("s") == TensorType(torch.float32, (None, 3))


def test_trip_counts_stay_varying():
    profile = Profile()
    for count, expected in [(3, 3), (3, 3), (4, "varies"), (3, "varies")]:
        profile.trips("s", count)
        assert profile.trip_count("s") == expected


def test_outcomes_gather():
    profile = Profile()
    profile.branch("s", True)
    assert profile.outcomes("s") == {True}
    profile.branch("s", False)
    profile.branch("s", True)
    assert profile.outcomes("s") == {True, False}


def test_a_refutation_is_news_once():
    profile = Profile()
    assert profile.refute("s")
    assert not profile.refute("s")
    assert profile.is_refuted("s")


@given(st.lists(st.tuples(SITES, VALUES)), st.lists(st.tuples(SITES, st.integers(0, 3))), st.lists(SITES))
def test_every_step_is_upwards(seen, trips, refuted):
    profile = Profile()
    for site, value in seen:
        before = profile.type_at(site)
        profile.observe(site, type_of(value))
        after = profile.type_at(site)
        assert is_below(type_of(value), after)
        assert before is None or is_below(before, after)
    for site, count in trips:
        before = profile.trip_count(site)
        profile.trips(site, count)
        assert profile.trip_count(site) in (("varies",) if before == "varies" else (count, "varies"))
    for site in refuted:
        before = profile.snapshot().refuted
        profile.refute(site)
        assert before <= profile.snapshot().refuted


@given(st.lists(VALUES, min_size=1), st.randoms())
def test_the_order_of_observations_does_not_matter(values, random):
    one, other = Profile(), Profile()
    for value in values:
        one.observe("s", type_of(value))
    random.shuffle(values)
    for value in values:
        other.observe("s", type_of(value))
    assert one.type_at("s") == other.type_at("s")


def test_a_snapshot_does_not_change():
    profile = Profile()
    profile.observe("s", type_of(1))
    snapshot = profile.snapshot()
    profile.observe("s", type_of(2))
    profile.refute("s")
    assert snapshot.types["s"] == Constant("1", "int")
    assert snapshot.refuted == frozenset()


def test_threads_lose_nothing():
    profile = Profile()

    def work(start):
        for i in range(200):
            profile.observe(f"s{i}", type_of(start))
            profile.branch(f"s{i}", bool(start))
            profile.count_call()

    threads = [threading.Thread(target=work, args=(n,)) for n in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(profile.type_at(f"s{i}") == HostType("int") for i in range(200))
    assert all(profile.outcomes(f"s{i}") == {True, False} for i in range(200))
    assert profile.calls == 400
