"""Places in the user's source: spans, excerpts with a caret."""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass
from typing import Any


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
