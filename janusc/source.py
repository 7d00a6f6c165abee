"""Places in the user's source: spans, excerpts with a caret."""

from __future__ import annotations

import ast
import linecache
import os
import types
from dataclasses import dataclass
from typing import Any

from janusc.locks import make_lock

_parsing = make_lock()
_TRIES = 3


@dataclass(frozen=True)
class Span:
    """A range of source text; lines count from 1, columns from 0 (in UTF-8 bytes, as in ``ast``)."""

    filename: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def text(self) -> str:
        """The stripped first source line, or an empty string where the file can't be read."""
        return linecache.getline(self.filename, self.line).strip()

    def excerpt(self) -> str:
        """The first source line with a caret line under the span."""
        raw = linecache.getline(self.filename, self.line).rstrip("\n")
        if not raw:
            return ""
        stop = self.end_column if self.end_line == self.line else len(raw)
        marks = " " * self.column + "^" * max(1, stop - self.column)
        margin = len(raw) - len(raw.lstrip())
        return f"    {raw[margin:]}\n    {marks[margin:]}"

    def __str__(self) -> str:
        return f"{os.path.basename(self.filename)}:{self.line}"


def span_of(node: Any, filename: str) -> Span:
    """The span of an ``ast`` or ``gast`` node."""
    line = getattr(node, "lineno", 0) or 0
    return Span(
        filename,
        line,
        getattr(node, "col_offset", 0) or 0,
        getattr(node, "end_lineno", line) or line,
        getattr(node, "end_col_offset", 0) or 0,
    )


def count_lines(code: types.CodeType) -> int:
    """The lines of a function that have code on them, those of functions in it included."""
    inner = (count_lines(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return len(lines_of(code)) + sum(inner)


def lines_of(code: types.CodeType) -> frozenset[int | None]:
    """The numbers of the lines that have code on them, and None where some is on no line."""
    return frozenset(line for _, _, line in code.co_lines())


def parse_text(text: str, filename: str = "<unknown>", flags: int = 0) -> ast.Module:
    """The syntax tree of a module's text.

    Some Pythons, 3.11 among them, count the depth of all trees being made in one place, and raise a SystemError where
    another thread of the program made one meanwhile.
    """
    for _ in range(_TRIES - 1):
        try:
            return _parse(text, filename, flags)
        except SystemError:
            pass
    return _parse(text, filename, flags)


def _parse(text: str, filename: str, flags: int) -> ast.Module:
    with _parsing:
        tree: Any = compile(text, filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    return tree  # type: ignore[no-any-return]
