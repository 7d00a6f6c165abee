"""What went wrong while a kernel was made, in a line for the user."""

from __future__ import annotations

import errno
import re
import signal
import subprocess
from collections.abc import Iterator

_LONGEST = 300
_MISSING = re.compile(r"no working c\+\+ compiler|compiler: .* is not found", re.IGNORECASE)
_TOLD = re.compile(r"^.*?\b(?:fatal error|error)\b[: ]*(.*)$", re.IGNORECASE | re.MULTILINE)
_FULL = "No space left on device"


def describe(error: BaseException) -> str:
    """The cause of a failed compilation, as a short text without a full stop."""
    for cause in _causes(error):
        if isinstance(cause, subprocess.CalledProcessError):
            return _shorten(_of_compiler(cause))
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            return "the disk is full"
        if _MISSING.search(str(cause)):
            return "no C++ compiler was found: install g++, or name one in CXX"
    if isinstance(error, MemoryError):
        return "out of memory"
    first = str(error).strip().partition("\n")[0]
    return _shorten(f"{type(error).__name__}: {first}" if first else type(error).__name__)


def is_of_compiler(error: BaseException) -> bool:
    """Whether the C++ compiler has refused something: it was not ended by somebody, and had room."""
    found = [cause for cause in _causes(error) if isinstance(cause, subprocess.CalledProcessError)]
    return bool(found) and found[0].returncode > 0 and _FULL not in _output(found[0])


def of_signal(number: int) -> str:
    """``signal 9 (SIGKILL)``."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _of_compiler(error: subprocess.CalledProcessError) -> str:
    text = _output(error)
    if _FULL in text:
        return "the disk is full"
    if error.returncode < 0:
        return f"the C++ compiler was ended by {of_signal(-error.returncode)}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = _TOLD.search(text)
    said = told.group(1) if told and told.group(1) else (lines[0] if lines else "")
    return f"the C++ compiler failed with status {error.returncode}" + (f": {said}" if said else "")


def _output(error: subprocess.CalledProcessError) -> str:
    output = error.stdout or error.stderr or b""
    return output.decode(errors="replace") if isinstance(output, bytes) else str(output)


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
