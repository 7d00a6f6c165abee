"""Structured jumps do exactly what the jumps did."""

from __future__ import annotations

from typing import Any

import gast
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import World, programs
from sources import function_of

from janusc.diagnostics import Refusal
from janusc.frontend import jumps, outline, parse


def written(text: str) -> str:
    """The structured body of ``f`` as text."""
    body = parse.parse(function_of(text)).body
    return gast.unparse(gast.Module(body=list(body), type_ignores=[])).strip()


def restructured(function: Any) -> Any:
    """A function that runs the structured body."""
    parsed = parse.parse(function)
    return outline.outline(parsed, parsed.body, parsed.parameters, None, "whole").bind(function)


def result_of(text: str, seed: int, change: Any = lambda function: function) -> Any:
    world = World(seed)
    function = change(function_of(text, **world.names()))
    try:
        result: Any = function("start")
    except Exception as error:
        lines = []
        trace = error.__traceback__
        while trace is not None:
            lines.append((trace.tb_frame.f_code.co_name, trace.tb_lineno))
            trace = trace.tb_next
        result = (type(error), error.args, [line for line in lines if line[0] == "f"])
    return result, world.trace


@settings(deadline=None, max_examples=max(100, settings().max_examples))
@given(programs(), st.integers(0, 10**6))
def test_generated_programs(text: str, seed: int) -> None:
    for offset in range(4):
        assert result_of(text, seed + offset, restructured) == result_of(text, seed + offset)


def test_generated_programs_keep_no_jump() -> None:
    @settings(deadline=None, max_examples=40)
    @given(programs())
    def check(text: str) -> None:
        body = parse.parse(function_of(text)).body
        nodes = [node for statement in body for node in gast.walk(statement)]
        returns = [node for node in nodes if isinstance(node, gast.Return)]
        assert not [node for node in nodes if isinstance(node, (gast.Break, gast.Continue))]
        assert not returns or (len(returns) == 1 and body[-1] is returns[0])

    check()


ONE_RETURN = """
def f(x):
    x = x + 1
    return x
"""

TAIL_RETURNS = """
def f(x):
    if x > 0:
        return 1
    elif x < 0:
        return 2
    x = x + 1
    return x
"""

BREAK = """
def f(xs):
    for x in xs:
        if x:
            break
        print(x)
    else:
        print("none")
    return x
"""

CONTINUE = """
def f(xs):
    for x in xs:
        if x:
            if x > 3:
                continue
            print(x)
        print("end")
"""

RETURN_IN_LOOP = """
def f(xs):
    for x in xs:
        if x < 0:
            return x
        print(x)
    return 0
"""

RETURN_IN_WITH = """
def f(x):
    with x:
        return x.a
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ONE_RETURN, "x = x + 1\nreturn x"),
        (
            TAIL_RETURNS,
            "if x > 0:\n    _jc_value = 1\nelif x < 0:\n    _jc_value = 2\nelse:\n    x = x + 1\n    _jc_value = x\n"
            "return _jc_value",
        ),
        (
            BREAK,
            "_jc_break_1 = False\nfor x in xs:\n    if x:\n        _jc_break_1 = True\n    else:\n        print(x)\n"
            "if not _jc_break_1:\n    print('none')\nreturn x",
        ),
        (
            CONTINUE,
            "for x in xs:\n    _jc_continue_1 = False\n    if x:\n        if x > 3:\n"
            "            _jc_continue_1 = True\n        else:\n            print(x)\n"
            "    if not _jc_continue_1:\n        print('end')",
        ),
        (
            RETURN_IN_LOOP,
            "_jc_value = None\n_jc_returned = False\nfor x in xs:\n    if x < 0:\n        _jc_value = x\n"
            "        _jc_returned = True\n    else:\n        print(x)\nif not _jc_returned:\n    _jc_value = 0\n"
            "    _jc_returned = True\nreturn _jc_value",
        ),
        (RETURN_IN_WITH, "_jc_value = None\nwith x:\n    _jc_value = x.a\nreturn _jc_value"),
    ],
    ids=["one return", "tail returns", "break", "continue", "return in loop", "return in with"],
)
def test_written_form(before: str, after: str) -> None:
    assert written(before) == after


def test_the_flag_that_stops_a_loop_is_on_the_loop() -> None:
    loops = [node for node in parse.parse(function_of(RETURN_IN_LOOP)).body if isinstance(node, gast.For)]
    assert [loop._jc_stop for loop in loops] == ["_jc_returned"]
    (loop,) = [node for node in parse.parse(function_of(CONTINUE)).body if isinstance(node, gast.For)]
    assert loop._jc_stop is None


class Exit:
    def __init__(self, raises: bool = False, swallows: bool = False) -> None:
        self.raises, self.swallows = raises, swallows

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> bool:
        if self.raises:
            raise ValueError
        return self.swallows


def test_a_return_abandoned_on_its_way_out_has_not_taken_place() -> None:
    text = """
    def f(x):
        with Exit(swallows=True):
            with Exit(raises=True):
                return 1
        return 2
    """
    function = function_of(text, Exit=Exit)
    assert function(0) == 2
    assert restructured(function)(0) == 2


def test_a_break_abandoned_by_a_handler_goes_on() -> None:
    text = """
    def f(x):
        seen = []
        for i in range(3):
            try:
                with Exit(raises=True):
                    break
            except ValueError:
                seen.append(i)
        return seen
    """
    function = function_of(text, Exit=Exit)
    assert function(0) == [0, 1, 2]
    assert restructured(function)(0) == [0, 1, 2]


def test_a_jump_in_finally_is_refused() -> None:
    text = """
    def f(x):
        for i in x:
            try:
                pass
            finally:
                break
    """
    with pytest.raises(Refusal) as refused:
        parse.parse(function_of(text))
    assert refused.value.diagnostic.code == parse.FINALLY_JUMP


def test_a_break_inside_a_loop_inside_finally_is_fine() -> None:
    text = """
    def f(x):
        try:
            return 1
        finally:
            for i in x:
                break
    """
    assert restructured(function_of(text))([1]) == 1


def test_outcomes() -> None:
    body = gast.parse("while True:\n    if x: raise E\n    elif y: return\n").body
    assert jumps.outcomes(body) == {"return"}
