"""An instrumented call is the ordinary call, to the last side effect, and it records what happened."""

from __future__ import annotations

import functools
import itertools
import sys
import traceback
import types
import warnings

import pytest
import torch
from from_source import define

from janusc import marks
from janusc.frontend import parse
from janusc.typeinfer.instrument import Instrumenter, instrument, parameter_site, truth_site
from janusc.typeinfer.profile import Profile
from janusc.types import Constant, HostType, TensorType, TupleType


def twin_of(function):
    profile = Profile()
    twin = Instrumenter(profile).twin(function)
    assert twin is not function, "it was not instrumented"
    return twin, profile


def facts(function, kind):
    """The nodes of a kind in the function, in the order of the source."""
    parsed = parse.parse(function)
    found = [n for n in parse.gast.walk(parsed.tree) if type(n).__name__ == kind]
    return parsed, sorted(found, key=lambda n: (n.lineno, n.col_offset))


# ---- what is recorded


def test_branches_of_every_test():
    f = define(
        """
def f(x, y):
    if x and not y:
        x = 1 if y else 2
    while x > 5:
        x -= 1
    assert x, y
    return [i for i in range(4) if i % 2]
"""
    )
    twin, profile = twin_of(f)
    assert twin(3, 0) == f(3, 0)
    parsed, tests = facts(f, "If")
    assert profile.outcomes(truth_site(parsed, tests[0].test)) == {True}
    x, not_y = tests[0].test.values
    assert profile.outcomes(truth_site(parsed, x)) == {True}
    assert profile.outcomes(truth_site(parsed, not_y.operand)) == {False}
    assert profile.outcomes(truth_site(parsed, facts(f, "IfExp")[1][0].test)) == {False}
    assert profile.outcomes(truth_site(parsed, facts(f, "While")[1][0].test)) == {False}
    assert profile.outcomes(truth_site(parsed, facts(f, "Assert")[1][0].test)) == {True}
    condition = facts(f, "ListComp")[1][0].generators[0].ifs[0]
    assert profile.outcomes(truth_site(parsed, condition)) == {True, False}


def test_trip_counts():
    f = define(
        """
def f(n, stop=None):
    for i in range(n):
        for j in range(2):
            if stop == (i, j):
                return i
        k = 0
        while k < i:
            k += 1
    else:
        return -1
"""
    )
    twin, profile = twin_of(f)
    assert twin(3) == -1
    parsed, loops = facts(f, "For")
    assert [profile.trip_count(parse.site(parsed, loop)) for loop in loops] == [3, 2]
    assert profile.trip_count(parse.site(parsed, facts(f, "While")[1][0])) == "varies"
    assert twin(3, (1, 0)) == 1
    assert [profile.trip_count(parse.site(parsed, loop)) for loop in loops] == ["varies", "varies"]


def test_a_loop_left_by_an_exception_says_nothing_of_its_length():
    f = define(
        """
def f(items):
    for item in items:
        1 / item
"""
    )
    twin, profile = twin_of(f)
    twin([1, 1, 1])
    with pytest.raises(ZeroDivisionError):
        twin([1, 0])
    try:
        raise ValueError
    except ValueError:  # an exception that is being handled outside is none of the loop's
        twin([2, 2, 2])
    parsed, loops = facts(f, "For")
    assert profile.trip_count(parse.site(parsed, loops[0])) == 3


def test_types_of_parameters_calls_and_assignments():
    f = define(
        """
import torch
def f(x, *rest, scale=2, **options):
    y = torch.relu(x)
    a, b = y, (scale, "s")
    c: float = 0.5
    return float(c)
"""
    )
    twin, profile = twin_of(f)
    twin(torch.zeros(2, 3))
    parsed = parse.parse(f)
    arguments = parsed.tree.args
    names = [*arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    seen = [profile.type_at(parameter_site(parsed, name)) for name in names]
    tensor = TensorType(torch.float32, (2, 3))
    assert seen == [tensor, TupleType(()), Constant("2", "int"), HostType("dict")]
    pair = TupleType((tensor, TupleType((Constant("2", "int"), Constant("'s'", "str")))))
    assert [profile.type_at(parse.site(parsed, n)) for n in facts(f, "Assign")[1]] == [tensor, pair]
    assert [profile.type_at(parse.site(parsed, n)) for n in facts(f, "Call")[1]] == [tensor, Constant("0.5", "float")]


def test_callees_record_into_the_same_profile():
    class Inner(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def method(self, x):
            return x + 1 if x is not None else x

        def forward(self, x):
            return self.method(self.inner(x))

    def f(model, x):
        return model(x)

    twin, profile = twin_of(f)
    model, x = Outer(), torch.ones(2)
    assert torch.equal(twin(model, x), f(model, x))
    for function in (Outer.forward, Outer.method, Inner.forward):
        parsed, parameters = facts(function, "FunctionDef")
        assert profile.type_at(parameter_site(parsed, parameters[0].args.args[1])) == TensorType(torch.float32, (2,))


def test_hooks_run_and_only_once():
    class Doubled(torch.nn.Module):
        def forward(self, x):
            return x * 2

    calls = []
    model = Doubled()

    def f(x):
        return model(x)

    twin, _ = twin_of(f)
    model.register_forward_hook(lambda module, args, out: calls.append("own") or out + 1)
    assert twin(1) == 3 and calls == ["own"]
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: calls.append("global"))
    try:
        twin(1)
    finally:
        handle.remove()
    assert calls == ["own", "global", "own"]


@pytest.mark.parametrize("where", ["function", "class", "instance", "method"])
def test_opaque_code_is_not_looked_into(where):
    class Model(torch.nn.Module):
        def forward(self, x):
            return x

    def g(x):
        return x

    model = Model()
    target, call = {
        "function": (g, g),
        "class": (Model, model),
        "instance": (model, model),
        "method": (Model.forward, model.forward),
    }[where]

    def f(h):
        return h(1)

    twin, profile = twin_of(f)
    marks.mark_opaque(target)
    assert twin(call) == 1
    assert not any(
        site.startswith((f"{__name__}.test_opaque", "program")) and ".g@" in site for site in profile.snapshot().types
    )
    assert not any("Model.forward@" in site for site in profile.snapshot().types)
    twin(Model().forward if where == "instance" else lambda x: x)
    assert len({site.split("@")[0] for site in profile.snapshot().types}) == 2, "others still are"


# ---- what stays as it was


class Flag:
    def __init__(self, value):
        self.value, self.asked = value, 0

    def __bool__(self):
        self.asked += 1
        return self.value


@pytest.mark.parametrize(
    "test", ["a", "not a", "a and b", "a or b", "not (a and b)", "(a or b) and c", "a and b or not c"]
)
def test_truth_is_asked_as_often_as_in_the_plain_call(test):
    f = define(f"def f(a, b, c):\n    return 1 if {test} else 2")
    twin, _ = twin_of(f)
    for values in itertools.product([True, False], repeat=3):
        plain, probed = [Flag(v) for v in values], [Flag(v) for v in values]
        assert f(*plain) == twin(*probed)
        assert [x.asked for x in plain] == [x.asked for x in probed]


def test_the_value_of_and_and_or_is_the_operand():
    f = define("def f(a, b):\n    return a and b, a or b, not a")
    twin, _ = twin_of(f)
    for a, b in itertools.product([[], [1], 0, "x"], repeat=2):
        assert twin(a, b) == f(a, b)


def test_frames_names_and_tracebacks_are_the_users():
    f = define(
        '''
def f(x, *, k: int = 3):
    """Doc."""
    for i in [1, 0]:
        if x:
            g(i)

def g(i):
    return 1 / i
'''
    )
    twin, _ = twin_of(f)
    for name in (
        "__name__",
        "__qualname__",
        "__doc__",
        "__module__",
        "__defaults__",
        "__kwdefaults__",
        "__annotations__",
    ):
        assert getattr(twin, name) == getattr(f, name)
    frames = []
    for function in (f, twin):
        with pytest.raises(ZeroDivisionError) as caught:
            function(1)
        tail = traceback.extract_tb(caught.value.__traceback__)[1:]
        frames.append([(s.filename, s.lineno, s.name) for s in tail])
        assert caught.value.__context__ is None
    assert frames[0] == frames[1]


def test_warnings_come_from_the_users_line():
    f = define("import warnings\ndef f():\n    for i in range(2):\n        warnings.warn('w', stacklevel=1)")
    twin, _ = twin_of(f)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        twin()
    assert [(w.filename, w.lineno) for w in caught] == [(f.__code__.co_filename, 4)] * 2


def test_closures_globals_and_defaults_are_shared():
    def make():
        count = 0

        def bump(step=1):
            nonlocal count
            for _ in range(step):
                count += 1
            return count

        return bump, lambda: count

    bump, read = make()
    twin, _ = twin_of(bump)
    assert (bump(), twin(), twin(3), bump(), read()) == (1, 2, 5, 6, 6)


def test_super_works():
    class Base:
        def value(self):
            return 1

    class Derived(Base):
        def value(self):
            return super().value() + 1

    twin, _ = twin_of(Derived.value)
    assert twin(Derived()) == 2


def test_a_function_that_sees_its_own_frame_is_left_alone():
    def f(x):
        names = locals
        return sorted(names())

    assert Instrumenter(Profile()).twin(f)(1) == ["names", "x"] == f(1)


def test_generators_inside_keep_being_lazy():
    def f(items):
        made = (print(i) or i for i in items if i)
        return next(made)

    twin, _ = twin_of(f)
    assert twin([0, 2, 3]) == 2


def test_wrappers_and_partials_are_called_as_they_are():
    def inner(x):
        return x + 1

    @functools.wraps(inner)
    def outer(x):
        return inner(x) * 2

    def f(x):
        return outer(x), functools.partial(inner, x)()

    twin, _ = twin_of(f)
    assert twin(1) == (4, 2)


def test_recursion_stays_as_deep():
    f = define("def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)")
    twin, _ = twin_of(f)
    # probes return before the callee runs, so a level takes one frame as before
    assert twin(sys.getrecursionlimit() // 2) == sys.getrecursionlimit() // 2


def test_values_are_not_kept():
    class Box:
        pass

    def f(make):
        box = make()
        return box

    import weakref

    twin, _ = twin_of(f)
    reference = weakref.ref(twin(Box))
    assert reference() is None


def test_a_huge_int_is_no_problem():
    f = define("def f(x):\n    y = x * 10\n    return y")
    twin, _ = twin_of(f)
    assert twin(10**6000) == 10**6001


def test_one_template_per_code():
    def make(n):
        def f(x):
            return x + n

        return f

    instrumenter = Instrumenter(Profile())
    one, two = instrumenter.twin(make(1)), instrumenter.twin(make(2))
    assert one.__code__ is two.__code__
    assert (one(1), two(1)) == (2, 3)


def test_instrument_binds_to_any_function_of_the_code():
    def f(x):
        return x

    profile = Profile()
    template = instrument(parse.parse(f), profile)
    assert isinstance(template.bind(f), types.FunctionType)
    assert template.bind(f)(3) == 3
    assert profile.snapshot().types


def test_a_display_that_a_generator_runs_over_is_the_tuple_that_python_makes_of_it():
    def f(a):
        return (x for x in [a, 2]), (x for x in [])

    twin = Instrumenter(Profile()).twin(f)
    for made, plain in zip(twin(1), f(1)):
        assert type(made.gi_frame.f_locals[".0"]) is type(plain.gi_frame.f_locals[".0"])
    assert list(twin(1)[0]) == [1, 2]
