"""The lattice laws that the termination argument rests on, and the types of common values."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from janusc import types
from janusc.types import ANY, Constant, HostType, TensorType, TupleType, is_below, join, join_all, type_of

DIMENSIONS = st.one_of(st.none(), st.integers(0, 3))
SHAPES = st.one_of(st.none(), st.lists(DIMENSIONS, max_size=3).map(tuple))
DTYPES = st.sampled_from([None, torch.float32, torch.int64])
TENSORS = st.builds(TensorType, DTYPES, SHAPES)
CONSTANTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 1),
    st.sampled_from([0.0, -0.0, 1.0, float("nan")]),
    st.sampled_from(["", "a"]),
).map(type_of)
HOSTS = st.sampled_from(["int", "float", "tuple", "str", "mine.Thing"]).map(HostType)
LEAVES = st.one_of(TENSORS, CONSTANTS, HOSTS, st.just(ANY))
TYPES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3).map(lambda items: TupleType(tuple(items))), max_leaves=6
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=90),
        st.lists(st.integers(0, 2), max_size=3).map(torch.zeros),
        st.just([]),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


def height(t):
    """How many strict steps upwards are left at most; each join that changes a type must take at least one."""
    if isinstance(t, TensorType):
        known = 1 + sum(d is not None for d in t.shape) if t.shape is not None else 0
        return 1 + known + (t.dtype is not None)
    if isinstance(t, TupleType):
        return 2 + sum(map(height, t.items))
    return {types.Constant: 2, types.HostType: 1, types.Anything: 0}[type(t)]


@given(TYPES)
def test_join_is_idempotent(a):
    assert join(a, a) == a


@given(TYPES, TYPES)
def test_join_is_commutative(a, b):
    assert join(a, b) == join(b, a)


@given(TYPES, TYPES, TYPES)
def test_join_is_associative(a, b, c):
    assert join(join(a, b), c) == join(a, join(b, c))


@given(TYPES, TYPES)
def test_join_is_an_upper_bound(a, b):
    assert is_below(a, join(a, b))
    assert is_below(b, join(a, b))


@given(TYPES, TYPES, TYPES, TYPES)
def test_join_is_the_least_upper_bound(a, b, c, d):
    bound = join(join(b, c), join(a, d))
    assert is_below(a, bound)
    assert is_below(b, bound)
    assert is_below(join(a, b), bound)


@given(TYPES, TYPES, TYPES)
def test_join_is_monotone(a, b, c):
    higher = join(a, b)
    assert is_below(join(a, c), join(higher, c))


@given(TYPES, TYPES)
def test_the_order_is_antisymmetric(a, b):
    if is_below(a, b) and is_below(b, a):
        assert a == b


@given(TYPES)
def test_any_is_the_top(a):
    assert join(a, ANY) == ANY
    assert is_below(a, ANY)


@given(TYPES, TYPES)
def test_every_step_upwards_uses_up_height(a, b):
    higher = join(a, b)
    assert higher == a or height(higher) < height(a)


@given(TYPES, st.lists(TYPES, max_size=12))
def test_a_climb_ends(start, seen):
    climbed, changes = start, 0
    for each in seen:
        higher = join(climbed, each)
        changes += higher != climbed
        climbed = higher
    assert changes <= height(start)


@given(st.lists(TYPES, min_size=1, max_size=5), st.randoms())
def test_join_all_does_not_depend_on_order(items, random):
    shuffled = list(items)
    random.shuffle(shuffled)
    assert join_all(items) == join_all(shuffled)


def test_join_all_of_nothing_is_any():
    assert join_all([]) == ANY


@given(VALUES)
def test_the_type_of_a_value_is_the_same_each_time(value):
    assert type_of(value) == type_of(value)
    assert hash(type_of(value)) == hash(type_of(value))


@given(TYPES)
def test_a_type_prints_as_one_line(a):
    assert str(a)
    assert "\n" not in str(a)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "=None"),
        (True, "=True"),
        (3, "=3"),
        ("a", "='a'"),
        ("a" * 100, "str"),
        ([1], "list"),
        ((1, "b"), "(=1, ='b')"),
        (torch.zeros(2, 3), "float32[2,3]"),
        (torch.nn.Parameter(torch.zeros(1)), "float32[1]"),
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
    ],
)
def test_type_of(value, text):
    assert str(type_of(value)) == text


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        (1, 1, "=1"),
        (1, 2, "int"),
        (1, True, "any"),
        (1, 1.0, "any"),
        (0.0, -0.0, "float"),
        (float("nan"), float("nan"), "=nan"),
        ((1, 2), (1, 3), "(=1, int)"),
        ((1, 2), (1,), "tuple"),
        ((1, 2), [1, 2], "any"),
        (torch.zeros(2, 3), torch.zeros(4, 3), "float32[?,3]"),
        (torch.zeros(2, 3), torch.zeros(2), "float32[...]"),
        (torch.zeros(2, dtype=torch.bool), torch.zeros((), dtype=torch.bool), "bool[...]"),
        (True, False, "bool"),
        (torch.zeros(2), torch.zeros((), dtype=torch.bool), "tensor"),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int64), "tensor[2]"),
        (torch.zeros(2), None, "any"),
    ],
)
def test_join_of_what_was_seen(left, right, text):
    assert str(join(type_of(left), type_of(right))) == text


def test_a_tensor_subclass_is_no_plain_tensor():
    class Mine(torch.Tensor):
        pass

    assert isinstance(type_of(torch.zeros(2).as_subclass(Mine)), HostType)


def test_constants_tell_equal_values_of_other_types_apart():
    assert type_of(1) != type_of(True) != type_of(1.0)
    assert type_of(0.0) != type_of(-0.0)
    assert isinstance(type_of(1), Constant)
