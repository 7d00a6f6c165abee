"""The equivalence harness reaches all that a program can change: for each kind of state there is a wrong compiler.

A case makes a function, its argument and the wrong thing that is done before each compiled call, or with its result.
"""

import contextvars
import copy
import io
import os
import random
import re
import sys
import types
import warnings

import numpy
import pytest
import torch
from torch import nn
from wrong_compilers import ONES, around, doing, double, returning

from janusc.testing import assert_equivalent

variable = contextvars.ContextVar("variable", default=0)
total = 0
CASES = {}


def case(message):
    def register(make):
        CASES[make.__name__.replace("_", " ")] = make, message
        return make

    return register


# ---- what tensors are, beside their values


@case(r"result: kind differs")
def conjugate_bit():
    return (lambda x: x.conj()), torch.ones(2, dtype=torch.cfloat), returning(lambda y: y.resolve_conj())


@case(r"result: kind differs")
def inference_tensor():
    def compiler(f):
        return torch.inference_mode()(f)

    return double, ONES, compiler


@case(r"result\.layout differs")
def layout():
    return (lambda x: x.to_sparse()), ONES, returning(lambda y: y.to_dense())


@case(r"result: storage size differs")
def memory_kept_alive():
    return double, ONES, returning(lambda y: torch.cat([y, y])[:2])


@case(r"result\.tag\[0\] differs")
def attribute_of_a_tensor():
    def f(x):
        y = x * 2
        y.tag = [1]
        return y

    return f, ONES, returning(lambda y: setattr(y, "tag", [2]) or y)


@case(r"gradient of function:y differs")
def gradient_of_a_tensor_that_is_no_leaf():
    def make():
        leaf = torch.ones(2, 3, requires_grad=True)
        y = leaf * 2
        return lambda x: y * x

    return make, ONES, returning(lambda z: z * 2 - z.detach()), True


@case(r"gradient of function:weight by the result of the call before differs|gradients by the result")
def gradient_of_the_result_of_an_earlier_call():
    weight, saved = torch.ones(3, requires_grad=True), torch.ones(3)

    def f(x):
        assert saved is not None
        return weight * saved

    return f, ONES, lambda g: doing(lambda x: g.__closure__[0].cell_contents.add_(0))(g)


@case(r"gradient of argument 0 by result\[1\] differs")
def gradient_beside_one_that_fails():
    def f(x):
        y = x * 2
        y.sum().backward()
        return x.exp().sum() if x.grad is None else (x**2).sigmoid_().pow_(2), x * 3

    def compiler(g):
        def h(x):
            y, z = g(x)
            return y, z * 2 - z.detach()

        return h

    return f, torch.ones(2, 3, requires_grad=True), compiler


@case(r"result: writeable differs")
def read_only_array():
    return (lambda x: numpy.zeros(2)), ONES, returning(lambda y: y.setflags(write=False) or y)


@case(r"result\[1\]\.storage differs")
def memory_shared_with_numpy():
    def f(x):
        held = numpy.zeros(3)
        return held, torch.from_numpy(held)

    return f, ONES, returning(lambda y: (y[0], y[1].clone()))


# ---- state behind objects that hide it


@case(r"function:state")
def generator_that_was_run():
    def make():
        state = (i for i in range(9))

        def f(x):
            assert state is not None
            return x * 1

        return f

    return make, ONES, lambda g: doing(lambda x: next(g.__closure__[0].cell_contents))(g), True


@case(r"function:state\[0\]: left differs|function:state")
def iterator_inside_zip_and_enumerate():
    def make():
        state = [zip([1, 2, 3, 4, 5], enumerate([1, 2, 3, 4, 5]))]

        def f(x):
            assert state is not None
            return x * 1

        return f

    return make, ONES, lambda g: doing(lambda x: next(g.__closure__[0].cell_contents[0]))(g), True


@case(r"function:state differs")
def random_object_of_python():
    return around(random.Random(1), lambda state: state.random())


@case(r"function:state\.state")
def generator_of_numpy():
    return around(numpy.random.default_rng(1), lambda state: state.random())


@case(r"function:state\.state")
def legacy_generator_of_numpy():
    return around(numpy.random.RandomState(1), lambda state: state.rand())


@case(r"function:state differs")
def generator_of_torch():
    return around(torch.Generator(), lambda state: torch.rand(1, generator=state))


@case(r"function:state differs")
def text_in_memory():
    return around(io.StringIO("abc"), lambda state: state.write("d"))


@case(r"global variable\.get\(\) differs")
def context_variable():
    def f(x):
        variable.set(0)
        return x * 1

    return f, ONES, returning(lambda y: variable.set(1) and y)


@case(r"function:state\.__context__|function:state\.args")
def error_that_is_kept():
    def change(error):
        error.args = (1,)

    return around(ValueError(0), change)


@case(r"\.note differs")
def member_of_a_set():
    class Member:
        note = ""

    def change(state):
        next(iter(state)).note = "changed"

    return around({Member()}, change)


@case(r"function:state\.value differs")
def slots():
    class Slotted:
        __slots__ = ("value",)

    state = Slotted()
    state.value = 0
    return around(state, lambda state: setattr(state, "value", 1))


# ---- code that is reached by other code


@case(r"global total differs")
def global_of_a_method():
    class Counter:
        def bump(self, x):
            global total
            total += 1
            return x * 1

    counter = Counter()
    return (lambda x: counter.bump(x)), ONES, doing(lambda x: globals().update(total=total + 1))


@case(r"Tool\.note:log")
def closure_of_a_method():
    log = []

    class Tool:
        def note(self):
            log.append(1)

    tool = Tool()

    def f(x):
        tool.note()
        return x * 1

    return f, ONES, doing(lambda x: Tool.note.__closure__[0].cell_contents.append(2))


@case(r"default.*__defaults__|__defaults__")
def default_of_a_static_method():
    class Tool:
        @staticmethod
        def note(log=[]):  # noqa: B006
            log.append(1)

    def f(x):
        Tool.note()
        return x * 1

    return f, ONES, doing(lambda x: Tool.note())


@case(r"_forward_hooks: 0:log")
def closure_of_a_hook():
    log = []

    def hook(module, args, output):
        log.append(1)

    model = nn.Linear(3, 3)
    model.register_forward_hook(hook)
    return model, ONES, lambda m: m.forward


@case(r"not in state_dict differs")
def persistence_of_a_buffer():
    model = nn.Linear(3, 3)
    model.register_buffer("extra", torch.ones(1))
    return model, ONES, lambda m: doing(lambda x: m.register_buffer("extra", m.extra, persistent=False))(m)


@case(r"_state_of_a_test\.count differs")
def data_of_another_module():
    module = types.ModuleType("_state_of_a_test")
    module.count = 0
    namespace = {"module": module, "__name__": "one"}
    exec("def f(x):\n    module.count += 1\n    return x * 1\n", namespace)
    return namespace["f"], ONES, doing(lambda x: setattr(module, "count", 7))


@case(r"global.*counted differs")
def global_of_a_function_of_another_module():
    other = {"counted": 0, "__name__": "another"}
    exec("def helper(x):\n    global counted\n    counted += 1\n    return x * counted\n", other)
    helper = other["helper"]
    return (lambda x: helper(x)), ONES, doing(lambda x: other.update(counted=7))


@case(r"function:bump:count differs")
def cell_shared_by_two_functions():
    count = 0

    def bump():
        nonlocal count
        count += 1

    def f(x):
        bump()
        return x * count

    return f, ONES, doing(lambda x: bump())


# ---- effects


@case(r"order of output differs")
def order_of_two_streams():
    def f(x):
        print("one")
        print("two", file=sys.stderr)
        return x * 1

    def compiler(g):
        def h(x):
            print("two", file=sys.stderr)
            print("one")
            return x * 1

        return h

    return f, ONES, compiler


@case(r"standard error differs")
def standard_error():
    return double, ONES, doing(lambda x: print("more", file=sys.stderr))


@case(r"warnings differs")
def line_of_a_warning():
    def f(x):
        warnings.warn("careful", stacklevel=1)
        return x * 1

    def compiler(g):
        def h(x):
            with warnings.catch_warnings(record=True) as caught:
                y = g(x)
            for one in caught:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno + 1)
            return y

        return h

    return f, ONES, compiler


@case(r"environment differs")
def environment():
    return double, ONES, doing(lambda x: os.environ.update(JANUSC_TEST_ONLY="1"))


@case(r"default dtype differs")
def default_dtype():
    return double, ONES, doing(lambda x: torch.set_default_dtype(torch.float64))


@case(r"deterministic algorithms differs")
def deterministic_algorithms():
    return double, ONES, doing(lambda x: torch.use_deterministic_algorithms(True))


@case(r"recursion limit differs")
def recursion_limit():
    return double, ONES, doing(lambda x: sys.setrecursionlimit(sys.getrecursionlimit() + 7))


@case(r"default device differs")
def default_device():
    return double, ONES, doing(lambda x: torch.set_default_device("meta"))


# ---- exceptions


def wrapping(x):
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise ValueError("outer") from error


def mapped(change):
    def compiler(f):
        def g(*args):
            try:
                return f(*args)
            except Exception as error:
                change(error)
                raise

        return g

    return compiler


@case(r"exception chain differs")
def arguments_of_the_cause():
    return wrapping, ONES, mapped(lambda error: setattr(error.__cause__, "args", ("other",)))


@case(r"exception chain differs")
def cause_of_the_cause():
    return wrapping, ONES, mapped(lambda error: setattr(error.__cause__, "__cause__", OSError()))


@case(r"exception attributes\['__notes__'\]|exception attributes")
def note_on_an_exception():
    return wrapping, ONES, mapped(lambda error: setattr(error, "__notes__", ["more"]))


@case(r"also: exception object, ")
def very_exception_that_is_kept():
    kept = ValueError("kept")

    def f(x):
        raise kept

    def compiler(g):
        def h(x):
            try:
                return g(x)
            except ValueError as error:
                raise copy.copy(error).with_traceback(error.__traceback__) from None

        return h

    return f, ONES, compiler


def run_case(name, compiler=None):
    function, argument, wrong, *factory = CASES[name][0]()
    assert_equivalent(function, argument, compiler=compiler or wrong, factory=bool(factory))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_a_wrong_compiler_is_caught(name):
    with pytest.raises(AssertionError) as caught:
        run_case(name)
    assert re.search(CASES[name][1], str(caught.value)), str(caught.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_the_identity_is_accepted(name):
    run_case(name, compiler=lambda f: f)
