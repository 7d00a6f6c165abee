"""Functions from source text, as if they had been written in a file."""

from __future__ import annotations

import itertools
import linecache

_serial = itertools.count()


def define(source, name="f", **names):
    """A function from source text that ``inspect`` can read."""
    filename = f"<program {next(_serial)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    space = {"__name__": "program", **names}
    exec(compile(source, filename, "exec"), space)
    return space[name]
