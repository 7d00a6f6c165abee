"""The language table is complete and consistent."""

from __future__ import annotations

import ast
from typing import Any

import gast
import pytest

from janusc.diagnostics import CODES
from janusc.frontend.language import LANGUAGE, blocking, diagnose, entry_of

# what Python keeps for old programs only; the parser makes none of them
_OLD = {"Num", "Str", "Bytes", "NameConstant", "Ellipsis", "_ast_Ellipsis", "slice", "Index", "ExtSlice", "Suite"}
_OLD |= {"AugLoad", "AugStore"}


def concrete_kinds(module: Any) -> list[str]:
    kinds = {name: kind for name, kind in vars(module).items() if isinstance(kind, type) and issubclass(kind, ast.AST)}
    bases = {base for kind in ast.AST.__subclasses__() for base in [kind] if kind.__subclasses__()}
    return [name for name, kind in kinds.items() if kind is not ast.AST and kind not in bases and name not in _OLD]


def test_every_kind_of_node_has_an_entry() -> None:
    assert LANGUAGE.missing(concrete_kinds(ast)) == []


def test_every_kind_that_is_not_converted_has_a_code() -> None:
    for name, entry in LANGUAGE.items():
        assert (entry.kind == "symbolic") == (entry.code == ""), name
        assert entry.kind == "symbolic" or entry.code in CODES
        assert entry.kind == "symbolic" or entry.what


def statement(text: str) -> Any:
    return gast.parse(text).body[0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x = [f(i) for i in y if i]", None),
        ("if x:\n    raise E", None),
        ("with a: import b", None),
        ("raise E", "Raise"),
        ("try: pass\nfinally: pass", "Try"),
        ("def g(): yield", None),
        ("def g(a=(yield)): pass", "Yield"),
        ("while (yield): pass", "Yield"),
        ("del a", None),
        ("del a, b.c", "Delete"),
        ("class C: pass", "ClassDef"),
        ("x = [i async for i in y]", "comprehension"),
    ],
)
def test_blocking(text: str, kind: str | None) -> None:
    found = blocking(statement(text))
    assert (None if found is None else type(found).__name__) == kind


def test_entry_of_a_deletion_looks_at_its_target() -> None:
    assert entry_of(statement("del a")).kind == "symbolic"
    assert entry_of(statement("del a[0]")).kind == "symbolic"
    assert entry_of(statement("del a.b")).kind == "host"


def test_a_diagnostic_names_the_statement() -> None:
    found = diagnose(statement("import a"), "file.py")
    assert (found.code, found.message) == ("JC207", "an import inside a function is not converted")
