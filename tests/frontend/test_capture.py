"""A function is taken only where its source is certain."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import linecache
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from sources import function_of, namespace_of

from janusc.diagnostics import Refusal
from janusc.frontend import capture


def refused(function: Any) -> str:
    with pytest.raises(Refusal) as caught:
        capture.capture(function)
    return caught.value.diagnostic.code


def module_level(x):
    return x + 1


@functools.lru_cache
def decorated(x):
    return x + 2


def test_source_of_a_function() -> None:
    found = capture.capture(module_level)
    assert found.source == "def module_level(x):\n    return x + 1\n"
    assert found.class_name is None


def test_source_of_a_decorated_function_begins_with_the_decorator() -> None:
    found = capture.capture(decorated.__wrapped__)
    assert found.source.startswith("@functools.lru_cache\ndef decorated")


def test_method_and_closure() -> None:
    class Outer:
        def method(self, x):
            def inner(y):
                return x + y

            return inner

    assert capture.capture(Outer.method).class_name == "Outer"
    assert capture.capture(Outer().method(1)).class_name == "Outer"


def test_lambdas_on_one_line() -> None:
    text = "f, g, h = lambda x: x + 1, lambda x: lambda y: x + y, lambda x: x * 2\n"
    names = namespace_of(text)
    assert capture.capture(names["h"]).node.body.op.__class__.__name__ == "Mult"
    assert type(capture.capture(names["g"]).node.body).__name__ == "Lambda"
    assert type(capture.capture(names["g"](1)).node.body).__name__ == "BinOp"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns before Python 3.11")
def test_equal_lambdas_on_one_line_are_told_apart_by_column() -> None:
    names = namespace_of("f, g = lambda x: x + 1, lambda x: x + 1\nh = lambda: (lambda: h(1), lambda: h(1))\n")
    assert capture.capture(names["f"]).node.col_offset == 7
    assert capture.capture(names["g"]).node.col_offset == 24
    first, second = names["h"]()
    assert capture.capture(first).node.col_offset < capture.capture(second).node.col_offset


def test_edited_source_is_refused() -> None:
    function = function_of("def f(x):\n    return x + 1\n")
    filename = function.__code__.co_filename
    text = "def f(x):\n    return x + 2\n"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    assert refused(function) == capture.CHANGED_SOURCE


def test_an_edit_elsewhere_in_the_file_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "edited.py"
    path.write_text("def f(x):\n    return x + 1\n\ndef g():\n    return 1\n")
    names: dict[str, Any] = {"__name__": "edited"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert capture.capture(names["f"]).source == "def f(x):\n    return x + 1\n"
    path.write_text("def f(x):\n    return x + 1\n\ndef g():\n    return 2 + 2 * 2\n")
    assert capture.capture(names["f"]).source == "def f(x):\n    return x + 1\n"
    assert refused(names["g"]) == capture.CHANGED_SOURCE


def test_swapped_functions_are_not_mistaken() -> None:
    names = namespace_of("def f(x):\n    return x - 1\n")
    other = function_of("def f(x):\n    return 1 - x\n")
    names["f"].__code__ = names["f"].__code__.replace(co_code=other.__code__.co_code)
    assert refused(names["f"]) == capture.CHANGED_SOURCE


def test_a_changed_constant_is_noticed() -> None:
    function = function_of("def f(x):\n    return x + 0.0\n")
    consts = tuple(-0.0 if const == 0.0 and const is not None else const for const in function.__code__.co_consts)
    function.__code__ = function.__code__.replace(co_consts=consts)
    assert refused(function) == capture.CHANGED_SOURCE


def test_future_flags_from_outside_the_text() -> None:
    import __future__

    text = "def f(x):\n    def g(y: x): return y\n    return g\n"
    filename = "<future>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names: dict[str, Any] = {"__name__": "future"}
    exec(compile(text, filename, "exec", __future__.annotations.compiler_flag, dont_inherit=True), names)
    assert capture.capture(names["f"]).source == text


def test_kinds_that_are_refused() -> None:
    names = namespace_of(
        """
        def generator(): yield
        async def coroutine(): pass
        async def both(): yield
        class Plain: pass
        """
    )
    assert refused(names["generator"]) == capture.GENERATOR
    assert refused(names["coroutine"]) == capture.COROUTINE
    assert refused(names["both"]) == capture.ASYNC_GENERATOR
    assert refused(names["Plain"]) == capture.PLAIN_CLASS
    assert refused(len) == capture.C_FUNCTION
    assert refused(str.join) == capture.C_FUNCTION
    assert refused(functools.partial(len)) == capture.NO_FUNCTION
    made: dict[str, Any] = {}
    exec("def f(): return 1", made)
    assert refused(made["f"]) == capture.NO_SOURCE


def test_a_function_is_cut_out_of_its_file_or_found_in_it_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = namespace_of(
        "def f(x):\n    return x\n\ndef g(x):\n    return '''\nx'''\n\ndef h(x):\n    return '''\nx'''\n"
    )
    asked: list[int] = []
    parse_text = capture.parse_text

    def counted(text: str, *where: Any) -> Any:
        asked.append(text.count("def "))
        return parse_text(text, *where)

    monkeypatch.setattr(capture, "parse_text", counted)
    capture.capture(names["f"])
    assert asked == [1, 0]  # the function itself, and the imports of its file
    capture.capture(names["g"])
    assert asked[2:] == [1, 3]  # text at the margin looks like the next statement
    capture.capture(names["h"])
    assert asked[4:] == [1]


def functions_of(module: Any) -> list[types.FunctionType]:
    """All functions of a module and of its classes."""
    found = []
    for owner in [
        module,
        *(c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__),
    ]:
        found += [f for f in vars(owner).values() if type(f) is types.FunctionType and f.__module__ == module.__name__]
    return found


@pytest.mark.parametrize(
    "module", [torch.nn.modules.module, torch.nn.modules.rnn, torch.nn.functional, argparse, dataclasses, textwrap]
)
def test_what_is_cut_out_is_what_the_parsed_file_has(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(function: types.FunctionType) -> tuple[Any, ...] | str:
        capture._files.clear()
        try:
            made = capture.capture(function)
        except Refusal as refusal:
            return refusal.diagnostic.code
        return ast.dump(made.node, include_attributes=True), made.class_name, made.source

    functions = functions_of(module)
    cut = [found(function) for function in functions[:60]]
    monkeypatch.setattr(capture.margins, "cut_out", lambda lines, line: (1, 1, ""))
    assert cut == [found(function) for function in functions[:60]]
    assert sum(not isinstance(item, str) for item in cut) > 5
