"""Wrappers, and the way from whatever the user holds to what is known about it."""

from __future__ import annotations

import functools
import gc
import inspect
import math
import warnings
import weakref

import pytest
import torch
from conversions import Fake

from janusc import marks
from janusc.diagnostics import Diagnostic
from janusc.fallback import cache
from janusc.options import make_options

OPTIONS = make_options({"warmup": 0})


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def make():
    def f(x, k=1):
        return x * k

    return f


def test_marks_see_through_wrappers():
    f = make()
    wrapper = cache.wrap(f, OPTIONS, Fake())
    assert marks.original_of(wrapper) is f and marks.original_of(f) is None and marks.original_of(len) is None
    model = Model()
    method = model.forward
    bound = cache.wrap_bound(method, cache.wrap_shared(Model.forward, OPTIONS, Fake()))
    assert marks.original_of(bound) == method
    assert marks.state_of(bound) is marks.state_of(cache.wrap_shared(Model.forward, OPTIONS, Fake()))


def test_a_bound_wrapper_has_the_bound_signature():
    bound = cache.wrap_bound(Model().forward, cache.wrap_shared(Model.forward, OPTIONS, Fake()))
    assert str(inspect.signature(bound)) == "(x)"
    assert [bound(i) for i in range(3)] == [1, 2, 3]


def test_shared_wrappers_are_shared_by_function_and_options():
    f = make()
    one = cache.wrap_shared(f, OPTIONS, Fake())
    assert cache.wrap_shared(f, OPTIONS, Fake()) is one
    assert cache.wrap_shared(f, make_options({}), Fake()) is not one
    assert cache.wrap_shared(make(), OPTIONS, Fake()) is not one
    reference = weakref.ref(f)
    del f, one
    gc.collect()
    assert reference() is None


def test_state_is_found_from_everything_around_a_wrapper():
    wrapper = cache.wrap_shared(Model.forward, OPTIONS, Fake())
    state = marks.state_of(wrapper)
    other = type("Other", (Model,), {"forward": wrapper})

    @functools.wraps(wrapper)
    def decorated(*args):
        return wrapper(*args)

    for target in (
        wrapper,
        other,
        other(),
        other().forward,
        functools.partial(wrapper, 1),
        staticmethod(wrapper),
        decorated,
    ):
        assert cache.find_state(target) is state
    for target in (Model, Model(), make(), len, 3, functools.partial(len)):
        assert cache.find_state(target) is None


def test_what_is_left_unchanged_has_its_reason():
    def generator():
        yield 1

    with pytest.warns(match="JC999"):
        cache.keep_unchanged(generator, Diagnostic("JC999", "no"), OPTIONS, Fake())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.keep_unchanged(generator, Diagnostic("JC999", "no"), OPTIONS, Fake())
    assert cache.find_state(generator).verdict.code == "JC999"
    reference = weakref.ref(generator)
    del generator
    gc.collect()
    assert reference() is None


def test_user_attributes_stay_but_nothing_is_added():
    f = make()
    f.tag = "mine"
    wrapper = cache.wrap(f, OPTIONS, Fake())
    assert set(vars(wrapper)) == {"tag", "__wrapped__"}


class Unhashable:
    __hash__ = None

    def __eq__(self, other):
        raise AssertionError("a user's __eq__ was called")

    def __call__(self, x):
        return x


@pytest.mark.parametrize(
    "target", [make(), Model, Model(), Unhashable(), math.hypot, "text".upper], ids=lambda t: type(t).__name__
)
def test_opaque_marks_by_identity(target):
    assert not marks.is_opaque(target)
    marks.mark_opaque(target)
    assert marks.is_opaque(target)
    assert not marks.is_opaque(make()) and not marks.is_opaque(Unhashable())


def test_opaque_marks_reach_bound_methods():
    class Thing(Model):
        pass

    thing, other = Thing(), Thing()
    marks.mark_opaque(thing)
    assert marks.is_opaque(thing.forward) and not marks.is_opaque(other.forward)
    marks.mark_opaque(Thing.forward)
    assert marks.is_opaque(other.forward)


def test_opaque_marks_die_with_their_target():
    f = make()
    marks.mark_opaque(f)
    before = len(marks._opaque)
    del f
    gc.collect()
    assert len(marks._opaque) == before - 1
