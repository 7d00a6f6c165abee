"""What to evict and when to try again."""

from hypothesis import given
from hypothesis import strategies as st

from janusc.fallback import policy


def test_waits_double_up_to_a_limit():
    assert [policy.wait_after(n) for n in range(5)] == [0, 2, 4, 8, 16]
    assert policy.wait_after(10**4) == policy.LONGEST_WAIT


@given(st.lists(st.integers(0, 5), min_size=1))
def test_the_least_used_is_the_last_of_the_least(uses):
    index = policy.least_used(uses)
    assert uses[index] == min(uses)
    assert all(u > uses[index] for u in uses[index + 1 :])
