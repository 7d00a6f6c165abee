"""Code whose lines are moved is as if its tree had been compiled with other lines."""

import ast
import random
import traceback
from types import CodeType

import pytest

from janusc.runtime.lines import relocated

TEXT = """\
def outer(xs, y=1):
    try:
        total = y
        for x in xs:
            if x > 3: raise ValueError(x)
            while total < x:
                total += inner_of(lambda v: v + x)(total)
        def inner(a):
            with lock:
                b = [a * k for k in range(3)]
                return sum(b) if a else None
        return inner(total)
    except BaseException as caught:
        error = caught
    try:
        return give_up(error, (xs, y))
    finally:
        del error
"""


def codes_of(module):
    found = [c for c in module.co_consts if isinstance(c, CodeType)]
    for code in found:
        found += [c for c in code.co_consts if isinstance(c, CodeType)]
    return found


def line_of_each_instruction(code):
    return {at: line for start, end, line in code.co_lines() for at in range(start, end, 2)}


def from_tree(text, lines):
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            node.lineno = node.end_lineno = lines[node.lineno - 1]
            node.col_offset = node.end_col_offset = 0
    return compile(tree, "user.py", "exec")


def orders():
    count = len(TEXT.splitlines())
    anywhere = random.Random(0)
    yield "the same", list(range(1, count + 1))
    yield "backwards", list(range(count, 0, -1))
    yield "far apart", [anywhere.randrange(1, 100_000) for _ in range(count)]


@pytest.mark.parametrize("lines", [pytest.param(lines, id=name) for name, lines in orders()])
def test_the_lines_are_those_of_a_tree_with_other_lines(lines):
    expected, given = codes_of(from_tree(TEXT, lines)), codes_of(compile(TEXT, "user.py", "exec"))
    assert [c.co_name for c in given] == [c.co_name for c in expected]
    (outer,) = (relocated(c, lines) for c in given if c.co_name == "outer")
    (plain,) = (c for c in expected if c.co_name == "outer")
    found, wanted = [outer, *codes_of(outer)], [plain, *codes_of(plain)]
    assert len(found) > 2
    for a, b in zip(found, wanted, strict=True):
        assert (a.co_name, a.co_firstlineno) == (b.co_name, b.co_firstlineno)
        assert a.co_code == b.co_code
        assert line_of_each_instruction(a) == line_of_each_instruction(b)


@pytest.mark.parametrize("count", [1, 40, 300])
def test_a_long_line_is_one_line(count):
    text = f"def f(x):\n    return {'x + ' * count}x\n"
    namespace = {}
    exec(compile(text, "user.py", "exec"), namespace)
    run = namespace["f"]
    run.__code__ = relocated(run.__code__, [900, 300])
    assert set(line_of_each_instruction(run.__code__).values()) <= {900, 300}
    with pytest.raises(TypeError) as caught:
        run(object())
    assert [f.lineno for f in traceback.extract_tb(caught.value.__traceback__)][-1] == 300
