"""What went wrong is told in a line."""

import errno
import subprocess

import pytest

from janusc.runtime.compiler import complaints


def caused_by(cause):
    try:
        try:
            raise cause
        except type(cause) as error:
            raise RuntimeError("backend failed\nwith many lines") from error
    except RuntimeError as error:
        return error


def of_compiler(status, output=b""):
    return caused_by(subprocess.CalledProcessError(status, ["g++"], output))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (of_compiler(1, b"x.h: In f:\nx.h:1:2: error: no  such\tthing\nx.h:9: error: more"), "status 1: no such thing"),
        (of_compiler(1, b"g++: fatal error: Killed signal terminated program cc1plus"), "status 1: Killed signal"),
        (of_compiler(4, b"\n  what is this?\n"), "the C++ compiler failed with status 4: what is this?"),
        (of_compiler(4), "the C++ compiler failed with status 4"),
        (of_compiler(-11), "the C++ compiler was ended by signal 11 (SIGSEGV)"),
        (of_compiler(-99), "the C++ compiler was ended by signal 99"),
        (of_compiler(1, b"x.s: No space left on device"), "the disk is full"),
        (caused_by(OSError(errno.ENOSPC, "No space left on device")), "the disk is full"),
        (caused_by(RuntimeError("No working C++ compiler found in config.cpp.cxx: (None, 'g++')")), "install g++"),
        (MemoryError(), "out of memory"),
        (KeyError("a"), "KeyError: 'a'"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ValueError("x" * 1000), "x…"),
    ],
)
def test_it_names_the_cause(error, text):
    found = complaints.describe(error)
    assert text in found and "\n" not in found and len(found) <= 300


def test_a_compiler_that_refused_may_be_tried_again():
    assert complaints.is_of_compiler(of_compiler(1, b"error: what?"))
    for error in (of_compiler(-9), of_compiler(1, b"No space left on device"), ValueError("no compiler")):
        assert not complaints.is_of_compiler(error)


def test_a_circle_of_causes_ends():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert complaints.describe(first) == "ValueError: first"
