"""What to evict and when to try again."""

from hypothesis import given
from hypothesis import strategies as st

from janusc.fallback import places, policy


def test_waits_double_up_to_a_limit():
    assert [policy.wait_after(n) for n in range(5)] == [0, 2, 4, 8, 16]
    assert policy.wait_after(10**4) == policy.LONGEST_WAIT
    assert policy.wait_after(10**4, 10**6) == 10**6 and policy.wait_after(3, 10**6) == 8


@given(st.lists(st.integers(0, 5), min_size=1))
def test_the_least_used_is_the_last_of_the_least(uses):
    index = policy.least_used(uses)
    assert uses[index] == min(uses)
    assert all(u > uses[index] for u in uses[index + 1 :])


AT = "tests.TestNet.forward@4:0:7:8-20"


def test_the_kind_of_a_site_is_not_looked_for_in_the_name_of_its_function():
    assert [places.is_new_way(f"{AT}:{kind}") for kind in ("CompareTest", "unseen", "side True")] == [True] * 3
    assert not any(
        places.is_new_way(f"{AT}:{kind}") for kind in ("type", "item", "item:tensor", "Raise", "unseen:type")
    )
    assert places.is_raise(f"{AT}:Raise") and not places.is_raise(f"{AT}:RaiseTest")
    assert places.kind_of("the arguments") == places.kind_of(AT) == ""


def test_waits_after_rests_go_up_to_the_price_of_a_conversion():
    assert [policy.wait_after_rests(n, 10**6) for n in range(4)] == [0, 4096, 4 * 4096, 16 * 4096]
    assert policy.wait_after_rests(10**4, 10**6) == 10**6


def test_a_specialisation_is_worth_asking_by_what_it_saves_and_costs():
    assert policy.is_worth_asking(16, 256, 1.0, 0) and not policy.is_worth_asking(15, 256, 1.0, 0)
    price = 1.0 / policy.COLD
    assert policy.is_worth_asking(80, 100, price, 10.0) and not policy.is_worth_asking(79, 100, price, 10.0)
    assert policy.is_worth_asking(0, 10**6, price, 1000.0), "not worth a thought"
    assert not policy.is_worth_asking(0, 10**6, price, 999.0)


def test_looks_do_not_fall_on_the_same_of_a_few_kinds_in_turn():
    assert all({n * policy.LOOK % kinds for n in range(kinds)} == {*range(kinds)} for kinds in range(2, policy.LOOK))
