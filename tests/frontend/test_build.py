"""A tree compiled again is the user's function, to the byte."""

from __future__ import annotations

import ast
import dis
import inspect
import json
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from typing import Any

import gast
import pytest
from sources import function_of, namespace_of

from janusc.diagnostics import Refusal
from janusc.frontend import build, parse
from janusc.frontend.capture import same_code


def rebuilt(function: Any) -> Any:
    parsed = parse.parse(function)
    return build.compile_function(parsed, parsed.tree).bind(function)


def dis_difference(a: Any, b: Any) -> str:
    lines = [[f"{i.opname} {i.argrepr}" for i in dis.get_instructions(function)] for function in (a, b)]
    first = next((pair for pair in zip(*lines) if pair[0] != pair[1]), "in the constants")
    return f"{b.__qualname__}: {first}"


def functions_of_module(module: Any) -> Iterator[Any]:
    for value in vars(module).values():
        members = vars(value).values() if isinstance(value, type) and value.__module__ == module.__name__ else [value]
        for member in members:
            member = getattr(member, "__func__", member)
            if isinstance(member, types.FunctionType) and member.__module__ == module.__name__:
                yield member


def imported_names(module: Any) -> set[str]:
    """Names bound by a module's own imports: on these the compiler calls methods in a form of its own."""
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names}


def names_in(code: types.CodeType) -> set[str]:
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*map(names_in, inner))


@pytest.mark.parametrize("module", [json.decoder, json.encoder, ast, traceback, types, sys.modules["collections"]])
def test_library_functions_compile_to_the_code_they_have(module: Any) -> None:
    tried, imported = 0, imported_names(module)
    for function in functions_of_module(module):
        if names_in(function.__code__) & imported:
            continue
        try:
            parsed = parse.parse(function)
        except Refusal:
            continue
        new = rebuilt(function)
        tried += 1
        assert new.__code__.co_filename == function.__code__.co_filename
        assert same_code(new.__code__, function.__code__), dis_difference(new, function)
        assert list(new.__code__.co_lines())[-1] == list(function.__code__.co_lines())[-1]
        assert new.__code__.co_firstlineno == parsed.tree.lineno
    assert tried >= 2


TEXT = """
class __Base:
    def hello(self, x):
        return ("base", x)

class Some(__Base):
    __secret = 3

    def hello(self, x, *, k=lambda: 5):
        "Doc."
        def inner(y):
            return super(Some, self).hello(y), __class__
        class Local:
            pass
        return super().hello(x), self.__secret, inner(x)[0], k(), inner, Local

def outer():
    count = 0
    def f(step: int = 2) -> int:
        nonlocal count
        count += step
        return count
    def peek():
        return count
    return f, peek
"""


def test_private_names_super_defaults_and_names_of_inner_things() -> None:
    names = namespace_of(TEXT)
    cls = names["Some"]
    new = rebuilt(cls.hello)
    result = new(cls(), 7)
    assert result[:4] == (("base", 7), 3, ("base", 7), 5)
    assert result[4].__qualname__ == "Some.hello.<locals>.inner"
    assert result[5].__qualname__ == "Some.hello.<locals>.Local"
    assert (new.__name__, new.__qualname__, new.__doc__) == ("hello", "Some.hello", "Doc.")
    assert new.__kwdefaults__ == cls.hello.__kwdefaults__


def test_cells_are_shared_with_the_function() -> None:
    f, peek = namespace_of(TEXT)["outer"]()
    new = rebuilt(f)
    assert (new(), f(10), new(), peek()) == (2, 12, 14, 14)
    assert new.__annotations__ == f.__annotations__
    assert new.__globals__ is f.__globals__


def test_cells_that_are_empty_when_bound() -> None:
    names = namespace_of(
        """
        class A:
            @change
            def f(self):
                return __class__, super().__repr__()
        """,
        change=rebuilt,
    )
    made = names["A"]()
    assert made.f()[0] is names["A"]


def test_extra_names_are_free_variables_and_touch_no_namespace() -> None:
    function = function_of("def f(x):\n    return x\n")
    parsed = parse.parse(function)
    tree = gast.parse("def f(x):\n    return _jc_add(x)\n").body[0]
    template = build.compile_function(parsed, tree, {"_jc_add": lambda x: x + 1})
    before = set(function.__globals__)
    assert template.bind(function)(1) == 2
    assert set(function.__globals__) == before


def test_a_local_that_is_only_read_in_the_new_tree_stays_local() -> None:
    function = function_of("y = 1\ndef f(x):\n    if x:\n        y = 2\n    return y\n")
    parsed = parse.parse(function)
    tree = gast.parse("def f(x):\n    return y\n").body[0]
    with pytest.raises(UnboundLocalError):
        build.compile_function(parsed, tree).bind(function)(0)


def test_globals_declared_in_the_function_stay_declared_in_its_body() -> None:
    names = namespace_of("n = 0\ndef f():\n    global n\n    n += 1\n    return n\n")
    parsed = parse.parse(names["f"])
    tree = gast.FunctionDef(**{**vars(parsed.tree), "body": list(parsed.body)})
    assert build.compile_function(parsed, tree).bind(names["f"])() == 1
    assert names["n"] == 1


def test_traceback_shows_the_users_line_and_name() -> None:
    function = function_of("def f(x):\n    y = x\n    return y / 0\n")
    with pytest.raises(ZeroDivisionError) as caught:
        rebuilt(function)(1)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.name, last.lineno, last.line) == ("f", 3, "return y / 0")


def test_lambda() -> None:
    function = function_of("f = lambda x, *a, k=2, **m: (x, a, k, m)\n")
    new = rebuilt(function)
    assert new(1, 2, z=3) == (1, (2,), 2, {"z": 3})
    assert new.__name__ == "<lambda>"
    assert same_code(new.__code__, function.__code__)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters need Python 3.12")
def test_type_parameters() -> None:
    function = function_of("def f[T](x: T) -> T:\n    y: T = x\n    return y, T\n")
    new = rebuilt(function)
    assert new(1) == (1, function.__type_params__[0])
    assert new.__type_params__ == function.__type_params__


def test_a_function_that_names_itself() -> None:
    function = function_of("def f(x):\n    return f(x - 1) + 1 if x else 0\n")
    new = rebuilt(function)
    assert new(3) == 3
    assert same_code(new.__code__, function.__code__)
    assert parse.parse(function).free_names == new.__code__.co_freevars == ()


def test_compiling_anew_does_not_warn_anew() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = function_of("def f(k):\n    return k is 3\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parsed = parse.parse(f)
        twin = build.compile_function(parsed, parsed.tree, {}).bind(f)
    assert twin(3) is f(3)
