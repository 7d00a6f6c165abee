"""The two runs of the equivalence harness start alike, and leave the caller's objects as they were."""

import contextvars
import os
import threading

import pytest
import torch
from torch import nn
from wrong_compilers import ONES, doing, double, returning

import janusc as janus
from janusc.testing import assert_equivalent

total = 0
variable = contextvars.ContextVar("variable", default=0)
LEAF = torch.ones(2, requires_grad=True)


def test_what_is_compiled_already_is_compared_with_plain_python():
    ran = []

    @janus.compile(warmup=0, backend="aten")
    def f(x):
        ran.append(1)
        return x * 2

    class Model(nn.Module):
        def forward(self, x):
            return f(x) + 1

    model = janus.compile(Model(), backend="aten", warmup=1)
    for target in (f, model):
        assert_equivalent(target, ONES, graph=True)
        with pytest.raises(AssertionError, match="result differs"):
            assert_equivalent(target, ONES, compiler=returning(lambda y: y + 1))
    assert janus.stats(f).graph_calls == 0 and ran == []


class Counted(nn.Module):
    made = [0]

    def __init__(self):
        super().__init__()
        self.scale = [1]

    def forward(self, x, seen=[]):  # noqa: B006
        global total
        total += 1
        self.made.append(total)
        seen.append(x)
        self.scale[0] += 1
        return x * (total + len(self.made) + len(seen) + self.scale[0])


def test_both_runs_start_from_the_callers_state_and_leave_it_alone():
    global total
    total = 5
    model = Counted()
    count = 0

    def f(x):
        nonlocal count
        count += 1
        f.calls = f.calls + 1
        return model(x) * count

    f.calls = 0
    for _ in range(2):
        assert_equivalent(f, ONES)
        assert_equivalent(model, ONES)
        with pytest.raises(AssertionError):
            assert_equivalent(f, ONES, compiler=doing(lambda x: model(x)))
    assert (total, count, f.calls, model.scale, Counted.made) == (5, 0, 0, [1], [0])
    assert Counted.forward.__defaults__ == ([],)
    assert variable.get() == 0 and torch.get_default_dtype() is torch.float32 and "JANUSC_TEST_ONLY" not in os.environ


def test_the_callers_state_is_put_back_after_an_error():
    global total
    total, held = 5, [0]

    def f(x):
        global total
        total += 1
        held.append(1)
        return x * 1

    def broken(g):
        raise RuntimeError("this compiler is broken")

    with pytest.raises(RuntimeError, match="broken"):
        assert_equivalent(f, ONES, compiler=broken)
    assert (total, held) == (5, [0])


@pytest.mark.parametrize("made", [lambda: (i for i in [1]), threading.Lock, lambda: LEAF * 2])
def test_an_argument_that_cant_be_copied_is_explained(made):
    with pytest.raises(TypeError, match=r"copy of its own of the arguments.*factory=True"):
        assert_equivalent(lambda x: None, made())


def test_an_iterator_is_looked_into_and_not_run_on():
    def make():
        return next, iter([1, 2, 3, 4])

    def step(f, state):
        return f(state)

    assert_equivalent(make, calls=[step, step], factory=True, compiler=lambda f: f)
    with pytest.raises(AssertionError, match=r"call 1 of 2: state 0: left\[1\] differs"):
        assert_equivalent(make, calls=[step, step], factory=True, compiler=lambda f: lambda i: (f(i), f(i))[1])


def test_each_call_may_have_inputs_of_its_own():
    calls = [(torch.ones(n),) for n in (2, 3)] + [(torch.ones(2, dtype=torch.int64),), (3,)]
    assert_equivalent(double, calls=calls)
    with pytest.raises(AssertionError, match="call 3 of 4: result.dtype differs"):
        assert_equivalent(double, calls=calls, compiler=lambda f: lambda x: f(x) if x is 3 else f(x) * 1.0)  # noqa: F632
