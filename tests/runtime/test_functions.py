"""Functions defined in a graph and invoked by name: as emitted, and as the interpreter runs them."""

import gc
import weakref

import pytest
import torch
from sketch import INT, Sketch, emitted, run_once, single

from janusc.lowering.verify import verify
from janusc.runtime.interpreter import executable
from janusc.types import ANY, HostType

BOOL = HostType("bool")


def triangle(body, n, step):
    """``step * (n + (n - 1) + ... + 1)``, by a function that calls itself."""
    inside = Sketch(ANY, INT, INT)
    itself, k, by = inside.params
    ends = inside("operator", "eq", k, 0, out=(BOOL,))
    last = Sketch(ANY, INT, INT).graph(0)
    more = Sketch(ANY, INT, INT)
    less = more("operator", "sub", more.params[1], 1, out=(INT,))
    rest = more("invoke", "triangle", more.params[0], less)
    scaled = more("operator", "mul", more.params[1], more.params[2])
    other = more.graph(more("operator", "add", rest, scaled))
    found = inside("cond", "if", ends, itself, k, by, regions=(last, other))
    function = body("define", "triangle", step, regions=(inside.graph(found),))
    return body("invoke", "triangle", function, n)


@pytest.mark.parametrize("n", [0, 1, 5, 300])
def test_a_function_calls_itself(n):
    assert run_once(triangle, n, 2) == n * (n + 1)


def program(n, step):
    raise AssertionError("the body failed")


def test_the_interpreter_agrees():
    chain = single(program, lambda body, function, *params: triangle(body, *params))
    verify(chain)
    assert executable(chain, {})(program, 4, 3) == emitted(program, chain).run(program, 4, 3) == 30


def test_the_source_names_the_function_and_gives_it_its_inputs():
    chain = single(program, lambda body, function, *params: triangle(body, *params))
    source = emitted(program, chain).source
    assert "def triangle(" in source and "step=step" in source


def test_a_function_keeps_nothing_alive_after_the_call():
    def build(body, x, w):
        inside = Sketch(ANY, ANY, ANY)
        result = inside("operator", "mul", inside.params[1], inside.params[2])
        function = body("define", "scale", w, regions=(inside.graph(result),))
        return body("invoke", "scale", function, x)

    gc.collect()
    gc.disable()
    try:
        weight = torch.ones(2)
        dead = weakref.ref(weight)
        assert torch.equal(run_once(build, torch.ones(2), weight * 1), torch.ones(2))
        del weight
        assert dead() is None
    finally:
        gc.enable()


def test_an_assert_inside_gives_up_the_whole_body():
    def build(body, x):
        inside = Sketch(ANY, ANY)
        inside.check("type", inside.params[1], None, site="deep")
        function = body("define", "visit", regions=(inside.graph(inside.params[1]),))
        return body("invoke", "visit", function, x)

    assert run_once(build, 5, twin=lambda x: ("eager", x)) == ("eager", 5)
