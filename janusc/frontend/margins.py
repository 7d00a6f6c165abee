"""Where a statement of a file or of a class begins and ends, as its lines tell that begin at the margin.

A guess, for whoever can check it: text in a string may stand at the margin, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_CONTINUING = re.compile(r"(else|elif|except|finally)\b")
_IMPORTS = re.compile(r"(from|import)\b")
_CLASS = re.compile(r"\s*class\b[^#]*:\s*(#.*)?$")


def cut_out(lines: Sequence[str], line: int) -> tuple[int, int, str]:
    """The first and last line, counted from 1, of the statement at a line, and a module with no other statement.

    Of a class it is a statement in it, under the first line of the class. Every line is where it is in the file.
    """
    first, depth, headers = 1, 0, []
    start = _first_line(lines, line, first, depth)
    while start < line and _CLASS.match(lines[start - 1]):
        headers.append(start)
        first, depth = start + 1, _depth(next(text for text in lines[start:] if text.strip()))
        start = _first_line(lines, line, first, depth)
    stop = _last_line(lines, start, depth)
    kept = [lines[n - 1] if n in headers else "\n" for n in range(1, start)]
    return start, stop, "".join([*kept, *lines[start - 1 : stop]])


def _first_line(lines: Sequence[str], line: int, first: int, depth: int) -> int:
    start = min(line, len(lines))
    while start > first and not _begins(lines[start - 1], depth):
        start -= 1
    return start


def _last_line(lines: Sequence[str], start: int, depth: int) -> int:
    decorated = lines[start - 1].startswith("@", depth)
    stop = start
    while stop < len(lines) and (decorated or not _begins(lines[stop], depth)):
        following = lines[stop]
        decorated = following.startswith("@", depth) or decorated and not _begins(following, depth)
        stop += 1
    return stop


def _begins(line: str, depth: int) -> bool:
    """Whether a line is the first one of a statement that is indented no deeper than that."""
    if line[: depth + 1].isspace():  # most lines
        return False
    text = line.lstrip()
    return text[:1] not in ("", "#", ")", "]", "}") and not _CONTINUING.match(text)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def import_lines(lines: Sequence[str]) -> Iterator[str]:
    """The lines of the imports that begin at the margin."""
    inside = False
    for line in lines:
        if inside or _IMPORTS.match(line):
            yield line
            code = line.split("#")[0].rstrip()
            inside = ")" not in code and (inside or "(" in code) or code.endswith("\\")
