"""Any cut of a function into two outlined ranges is the function."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import programs
from sources import function_of, namespace_of
from test_jumps import result_of

from janusc.frontend import liveness, outline, parse
from janusc.sentinels import UNBOUND


def cut_in_two(function: Any, place: int) -> Any:
    """The function as two ranges; the second one is called with what the first one returns."""
    parsed = parse.parse(function)
    place %= len(parsed.body)
    live = liveness.live_in(parsed.body[place:])
    bound = tuple(sorted(name for name in live if name in parsed.local_names or name.startswith("_jc_")))
    first = outline.outline(parsed, parsed.body[:place], parsed.parameters, bound, "first").bind(function)
    second = outline.outline(parsed, parsed.body[place:], bound, None, "second").bind(function)
    return lambda *args: second(*first(*args))


@settings(deadline=None, max_examples=max(60, settings().max_examples))
@given(programs(), st.integers(0, 10**6), st.integers(0, 20))
def test_generated_programs(text: str, seed: int, place: int) -> None:
    for offset in range(3):
        cut = result_of(text, seed + offset, lambda function: cut_in_two(function, place))
        assert cut == result_of(text, seed + offset)


def test_unbound_names_pass_through() -> None:
    function = function_of("def f(x):\n    if x:\n        y = 1\n    z = 2\n    return y\n")
    parsed = parse.parse(function)
    first = outline.outline(parsed, parsed.body[:2], ("x",), ("y", "z"), "first").bind(function)
    assert first(1) == (1, 2)
    assert first(0) == (UNBOUND, 2)
    rest = outline.outline(parsed, parsed.body[2:], ("y",), None, "rest").bind(function)
    assert rest(1) == 1
    with pytest.raises(UnboundLocalError):
        rest(UNBOUND)


def test_unbound_live_in_that_an_inner_function_captures() -> None:
    function = function_of("def f(x):\n    if x:\n        y = 1\n    g = lambda: y\n    return g\n")
    parsed = parse.parse(function)
    rest = outline.outline(parsed, parsed.body[1:], ("y",), None, "rest").bind(function)
    assert rest(3)() == 3
    with pytest.raises(NameError):
        rest(UNBOUND)()


def test_deleted_names_are_unbound_at_the_end() -> None:
    function = function_of("def f(x):\n    y = x\n    del x\n    return y\n")
    parsed = parse.parse(function)
    assert outline.outline(parsed, parsed.body[:2], ("x",), ("x", "y"), "first").bind(function)(5) == (UNBOUND, 5)


def test_globals_cells_and_super_reach_into_a_range() -> None:
    names = namespace_of(
        """
        count = 0
        class A:
            def hello(self, x):
                return "A", x
        class B(A):
            def hello(self, x):
                global count
                count += 1
                y = x + count
                return super().hello(y)
        def make():
            total = 10
            def add(x):
                nonlocal total
                total += x
                return total
            return add
        """
    )
    method = names["B"].hello
    parsed = parse.parse(method)
    assert "self" in liveness.live_in(parsed.body[-1:])
    rest = outline.outline(parsed, parsed.body, ("x", "self"), None, "rest").bind(method)
    assert rest(1, names["B"]()) == ("A", 2)
    assert names["count"] == 1
    add = names["make"]()
    parsed = parse.parse(add)
    rest = outline.outline(parsed, parsed.body, ("x",), None, "rest").bind(add)
    assert (rest(1), add(1)) == (11, 12)


def test_traceback_of_a_range() -> None:
    function = function_of("def f(x):\n    y = x\n    return y / 0\n")
    parsed = parse.parse(function)
    rest = outline.outline(parsed, parsed.body[1:], ("y",), None, "rest")
    assert rest.name == "rest"
    with pytest.raises(ZeroDivisionError) as caught:
        rest.bind(function)(1)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.name, last.lineno, last.line) == ("f", 3, "return y / 0")


def test_an_empty_range() -> None:
    function = function_of("def f(x):\n    return x\n")
    parsed = parse.parse(function)
    assert outline.outline(parsed, (), ("x",), ("x",), "none").bind(function)(4) == (4,)
