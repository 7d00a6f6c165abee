"""Functions from text: the text is put where the interpreter, and so the frontend, looks for source lines."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from typing import Any

_numbers = itertools.count()


def namespace_of(text: str, **names: Any) -> dict[str, Any]:
    """The globals of a module with this text, whose lines can be found."""
    text = textwrap.dedent(text)
    filename = f"<source {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "written", **names}
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    return namespace


def function_of(text: str, **names: Any) -> Any:
    """The function ``f`` of a module with this text."""
    return namespace_of(text, **names)["f"]
