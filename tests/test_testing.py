"""The equivalence harness catches every kind of difference: it is run on compilers that are wrong in one way each."""

import random
import re
import warnings

import numpy
import pytest
import torch
from corpus import PROGRAMS
from torch import nn

from janusc.testing import Call, assert_equivalent, differences, record

counter = 0


class Box:
    items = []

    def __init__(self):
        self.value = 0

    def bump(self, x):
        self.value += 1
        return x * self.value


def affine(x):
    return x * 2 + 1


def pair(x):
    return x * 2, {"a": x + 1, "b": [x, 1]}


def first_row(x):
    return x[0]


def itself(x):
    return x


def in_place(x):
    x.add_(1)
    return x * 2


def count(x):
    global counter
    counter += 1
    return x * counter


def on_class(x):
    Box.items.append(1)
    return x


def noisy(x):
    print("one")
    print("two")
    warnings.warn("careful", stacklevel=1)
    return x


def picky(x):
    if x.sum() > 0:
        raise ValueError("positive", 1)
    return x


def drawing(x):
    return x + torch.rand(2) + random.random() + numpy.random.rand()


def with_default(x, total=[0]):  # noqa: B006
    total[0] += 1
    return x + total[0]


def closure():
    state = [0]

    def f(x):
        state[0] += 1
        return x * 1

    return f


ONES = torch.ones(2, 2)
LEAF = torch.ones(2, 2, requires_grad=True)


def changed(change):
    """A compiler whose results are changed."""
    return lambda f: lambda *args: change(f(*args), *args)


def before(action):
    """A compiler that does something wrong before each call."""

    def compiler(f):
        def g(*args):
            action(f, *args)
            return f(*args)

        return g

    return compiler


def raising(handle):
    """A compiler that turns an exception into something else."""

    def compiler(f):
        def g(*args):
            try:
                return f(*args)
            except ValueError as error:
                return handle(error)

        return g

    return compiler


def on_a_copy(f):
    return lambda x: f(x.clone())


def cached(f):
    results = []

    def g(*args):
        results.append(results[0] if results else f(*args))
        return results[0]

    return g


def reusing_a_buffer(f):
    buffer = torch.empty(2)
    return lambda x: buffer.copy_(f(x))


def twice(f, *args):
    f(*args)


def reset_state(function):
    function.__closure__[0].cell_contents[0] = 0


def through_another_frame(f):
    return lambda x: f(x)


def elsewhere(error):
    raise type(error)(*error.args)


def elsewhere_unchained(error):
    raise type(error)(*error.args) from None


def other_type(error):
    raise KeyError(*error.args) from None


def other_arguments(error):
    error.args = ("positive", 2)
    raise error


def quiet(f):
    def g(*args):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return f(*args)

    return g


MUTANTS = {
    "value": (affine, ONES, changed(lambda y, x: y + 1e-6), r"result differs"),
    "one bit": (affine, ONES, changed(lambda y, x: torch.nextafter(y, y + 1)), r"result differs"),
    "sign of zero": (lambda x: x * 0, ONES, changed(lambda y, x: -y), r"result differs"),
    "number": (lambda x: 1, ONES, changed(lambda y, x: 1.0), r"result differs\n.*\(int\)\n.*\(float\)"),
    "truth": (lambda x: 1, ONES, changed(lambda y, x: True), r"result differs"),
    "dtype": (affine, ONES, changed(lambda y, x: y.double()), r"result\.dtype differs"),
    "shape": (affine, ONES, changed(lambda y, x: y[None]), r"result\.shape differs"),
    "stride": (affine, ONES, changed(lambda y, x: y.t().contiguous().t()), r"result\.stride differs"),
    "offset": (affine, ONES, changed(lambda y, x: torch.cat([y, y])[2:]), r"result\.storage_offset differs"),
    "requires_grad": (affine, LEAF, changed(lambda y, x: y.detach()), r"result\.requires_grad differs"),
    "gradient": (affine, LEAF, changed(lambda y, x: y * 2 - y.detach()), r"gradient of argument 0 differs"),
    "no gradient": (affine, LEAF, changed(lambda y, x: y.detach() + x * 0), r"gradient of argument 0 differs"),
    "leaf": (affine, LEAF, changed(lambda y, x: y.detach().requires_grad_()), r"result\.is_leaf differs"),
    "parameter": (affine, ONES, changed(lambda y, x: nn.Parameter(y, False)), r"result: type differs"),
    "container": (pair, ONES, changed(lambda y, x: list(y)), r"result: type differs"),
    "length": (pair, ONES, changed(lambda y, x: (*y, 1)), r"len\(result\) differs"),
    "nested": (pair, ONES, changed(lambda y, x: (y[0], {**y[1], "b": [x, 2]})), r"result\[1\]\['b'\]\[1\] differs"),
    "key order": (
        pair,
        ONES,
        changed(lambda y, x: (y[0], dict(reversed(y[1].items())))),
        r"list\(result\[1\]\) differs",
    ),
    "view lost": (first_row, ONES, changed(lambda y, x: y.clone()), r"result\.storage differs"),
    "identity lost": (itself, ONES, changed(lambda y, x: y.view(2, 2)), r"result differs\n.*same object as argument 0"),
    "identity made": (lambda x: x + 0, ONES, changed(lambda y, x: x), r"result: type differs"),
    "argument not written": (in_place, ONES, on_a_copy, r"argument 0 differs"),
    "argument written twice": (in_place, ONES, before(lambda f, x: x.add_(1)), r"argument 0 differs"),
    "gradient accumulated": (
        affine,
        LEAF,
        before(lambda f, x: f(x).sum().backward()),
        r"argument 0\.grad: type differs",
    ),
    "global": (count, ONES, before(lambda f, x: f.__globals__.update(counter=0)), r"global counter differs"),
    "cell": (closure(), ONES, before(lambda f, x: reset_state(f)), r"call 2 of 4: function:state\[0\] differs"),
    "default": (with_default, ONES, before(twice), r"call 1 of 4: function\.__defaults__\[0\]\[0\] differs"),
    "attribute": (Box().bump, ONES, before(lambda f, x: f(x)), r"function\.__self__\.value differs"),
    "output twice": (noisy, ONES, before(lambda f, x: print("one")), r"standard output differs"),
    "warning dropped": (noisy, ONES, quiet, r"warnings differs"),
    "warning added": (affine, ONES, before(lambda f, x: warnings.warn("x", stacklevel=1)), r"warnings differs"),
    "torch stream": (drawing, torch.ones(2), before(lambda f, x: torch.rand(1)), r"torch random state differs"),
    "python stream": (drawing, torch.ones(2), before(lambda f, x: random.random()), r"python random state differs"),
    "numpy stream": (drawing, torch.ones(2), before(lambda f, x: numpy.random.rand()), r"numpy random state differs"),
    "order of draws": (
        lambda x: torch.rand(2) - torch.rand(2),
        ONES,
        lambda f: lambda x: -(torch.rand(2) - torch.rand(2)),
        r"result differs",
    ),
    "exception swallowed": (picky, ONES, raising(lambda error: None), r"exception differs"),
    "exception invented": (picky, -ONES, before(lambda f, x: {}[1]), r"exception differs\n.*None\n.*KeyError"),
    "exception type": (picky, ONES, raising(other_type), r"exception differs"),
    "exception arguments": (picky, ONES, raising(other_arguments), r"exception arguments\[1\] differs"),
    "exception frames": (picky, ONES, through_another_frame, r"exception frames differs"),
    "exception line": (picky, ONES, raising(elsewhere_unchained), r"exception line differs"),
    "exception chain": (picky, ONES, raising(elsewhere), r"in this call also: exception chain"),
    "grad mode": (affine, ONES, before(lambda f, x: torch.set_grad_enabled(False)), r"grad mode differs"),
    "stale": (lambda x: x + torch.rand(1), ONES, cached, r"call 2 of 4: "),
    "earlier result": (drawing, torch.ones(2), reusing_a_buffer, r"call 2 of 4: result of call 1"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_compiler_is_caught(name):
    function, argument, compiler, message = MUTANTS[name]
    with pytest.raises(AssertionError) as caught:
        assert_equivalent(function, argument, compiler=compiler)
    assert re.search(message, str(caught.value)), str(caught.value)


@pytest.mark.parametrize("name", MUTANTS)
def test_the_identity_is_accepted(name):
    function, argument, _, _ = MUTANTS[name]
    assert_equivalent(function, argument, compiler=lambda f: f)


def test_a_module_and_its_buffers():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))

    def forgets_statistics(m):
        def forward(x):
            saved = m[1].running_mean.clone()
            y = m(x)
            m[1].running_mean.copy_(saved)
            return y

        return forward

    before = {k: v.clone() for k, v in model.state_dict().items()}
    assert_equivalent(model, torch.randn(3, 2), compiler=lambda m: m)
    with pytest.raises(AssertionError, match=r"call 1 of 4: function\.1\.running_mean differs"):
        assert_equivalent(model, torch.randn(3, 2), compiler=forgets_statistics)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_the_callers_objects_stay_as_they_are():
    global counter
    counter = 7
    items, box, x = [1], Box(), torch.zeros(2)

    def f(x, box):
        global counter
        counter += 1
        items.append(x)
        x.add_(1)
        box.value += 1
        return torch.rand(1)

    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert_equivalent(f, x, box, compiler=lambda f: f)
    assert (counter, items, box.value, x.tolist()) == (7, [1], 0, [0.0, 0.0])
    assert torch.equal(torch.get_rng_state(), state)


def test_sharing_between_closure_and_arguments_is_kept():
    shared = torch.zeros(2)

    def f(x):
        shared.add_(1)
        return x * 2, x is shared

    seen = []

    def look(f):
        return lambda x: seen.append(f(x)[1])

    with pytest.raises(AssertionError):
        assert_equivalent(f, shared, calls=1, compiler=look)
    assert seen == [True]


def test_state_on_a_class():
    def make():
        Box.items.clear()
        return on_class

    assert_equivalent(make, ONES, factory=True, compiler=lambda f: f)
    with pytest.raises(AssertionError, match=r"len\(Box\.items\) differs"):
        assert_equivalent(make, ONES, factory=True, compiler=before(twice))


def test_a_factory_with_state_and_steps():
    def make():
        box = Box()
        return (lambda x: box.bump(x)), box

    def step(f, box):
        box.value = 10
        return f(torch.ones(1))

    calls = [(torch.ones(1),), step, Call(x=torch.ones(1))]
    assert_equivalent(make, calls=calls, factory=True, compiler=lambda f: f)

    def forgetful(f):
        first = []
        return lambda x: first[0] if first else first.append(f(x)) or first[0]

    with pytest.raises(AssertionError, match="call 2 of 3: function:box.value differs"):
        assert_equivalent(make, calls=calls, factory=True, compiler=forgetful)


def test_tolerance_is_for_values_only():
    almost = changed(lambda y, x: y * (1 + 1e-6))
    assert_equivalent(affine, ONES, compiler=almost, tolerance=1e-4)
    with pytest.raises(AssertionError, match="dtype"):
        assert_equivalent(affine, ONES, compiler=changed(lambda y, x: y.double()), tolerance=1e-4)


def test_tolerance_is_for_numbers_in_texts_too():
    def told(x):
        print(f"loss {x.sum().item() / 3}")
        return (x.numel(), x.sum().item() / 3)

    assert_equivalent(told, ONES, compiler=lambda f: lambda x: f(x * (1 + 1e-6)), tolerance=1e-4)
    for other in (lambda x: f"{x}", lambda x: x * 1.01):
        with pytest.raises(AssertionError):
            assert_equivalent(told, ONES, compiler=lambda f, o=other: lambda x: f(o(x)), tolerance=1e-4)
    with pytest.raises(AssertionError, match="standard output"):
        assert_equivalent(told, ONES, compiler=lambda f: lambda x: f(x * (1 + 1e-6)))


def test_differences_name_the_call_and_show_both_sides():
    with pytest.raises(AssertionError) as caught:
        assert_equivalent(affine, torch.ones(1), calls=2, compiler=changed(lambda y, x: y - 1))
    text = str(caught.value)
    assert text == "call 1 of 2: result differs\n  eager:    tensor([3.])\n  compiled: tensor([2.])"


def test_misuse_is_explained():
    with pytest.raises(TypeError, match="either inputs or a list of calls"):
        assert_equivalent(affine, ONES, calls=[(ONES,)], compiler=lambda f: f)
    with pytest.raises(TypeError, match="needs factory=True"):
        assert_equivalent(affine, calls=[lambda f: f(ONES)], compiler=lambda f: f)


def test_a_trace_is_the_same_every_time():
    world = PROGRAMS["effects.torch_random"].world
    one, two = record(world), record(world)
    assert [list(c) for c in one.calls] == [list(c) for c in two.calls]
    assert not differences(one, two)
