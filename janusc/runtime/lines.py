"""Emitted code under the user's own lines.

The text is compiled as it stands, and the table of lines in the code is written anew: several times faster than to
parse the text, to change the places in its tree, and to compile that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import CodeType

_Ranges = Iterator[tuple[int, int, "int | None"]]


def relocated(code: CodeType, lines: Sequence[int]) -> CodeType:
    """The code, that of functions inside too, with ``lines[n]`` in place of line ``n + 1``; columns are forgotten."""
    first = lines[code.co_firstlineno - 1]
    return code.replace(
        co_consts=tuple(relocated(c, lines) if isinstance(c, CodeType) else c for c in code.co_consts),
        co_firstlineno=first,
        co_linetable=_table(first, _ranges(code, lines)),
    )


def _ranges(code: CodeType, lines: Sequence[int]) -> _Ranges:
    """The bytes of the code by their new line; a line has many pieces where it tells of columns."""
    begin, stop, known = 0, 0, None
    for start, end, line in code.co_lines():
        moved = lines[line - 1] if line else None
        if moved != known:
            if start > begin:
                yield begin, start, known
            begin, known = start, moved
        stop = end
    yield begin, stop, known


if sys.version_info >= (3, 11):
    _NO_COLUMNS, _NOWHERE, _MOST_UNITS = 0x80 | 13 << 3, 0x80 | 15 << 3, 8

    def _table(first: int, ranges: _Ranges) -> bytes:
        """Entries of at most eight code units, each with the difference to the line before."""
        table = bytearray()
        before = first
        for start, end, line in ranges:
            kind = _NOWHERE if line is None else _NO_COLUMNS
            change = b"" if line is None else _signed(line - before)
            same = b"" if line is None else b"\0"
            before = before if line is None else line
            units = (end - start) // 2
            while units > 0:
                length = min(units, _MOST_UNITS)
                units -= length
                table.append(kind | length - 1)
                table += change
                change = same
        return bytes(table)

    def _signed(number: int) -> bytes:
        """Six bits to a byte, the lowest first, of which the very lowest is the sign."""
        rest = -number << 1 | 1 if number < 0 else number << 1
        found = bytearray()
        while rest >= 64:
            found.append(64 | rest & 63)
            rest >>= 6
        found.append(rest)
        return bytes(found)

else:
    _MOST_BYTES, _MOST_LINES, _NOWHERE = 254, 127, 128

    def _table(first: int, ranges: _Ranges) -> bytes:
        """Pairs of a number of bytes and the difference to the line before, both as far as they fit into a byte."""
        table = bytearray()
        before = first
        for start, end, line in ranges:
            size = end - start
            if line is not None:
                while abs(line - before) > _MOST_LINES:
                    part = _MOST_LINES if line > before else -_MOST_LINES
                    table += bytes((0, part & 255))
                    before += part
            difference = _NOWHERE if line is None else (line - before) & 255
            before = before if line is None else line
            while size > _MOST_BYTES:
                table += bytes((_MOST_BYTES, difference))
                size -= _MOST_BYTES
                difference = _NOWHERE if line is None else 0
            table += bytes((size, difference))
        return bytes(table)
