"""The text form of diagnostics, and the exceptions that carry them."""

from __future__ import annotations

import linecache
import threading
import warnings

import pytest

from janusc.diagnostics import CODES, Diagnostic, JanusError, JanusWarning, Refusal, define, silenced
from janusc.source import Span

linecache.cache["<four parts>"] = (1, None, ["def f(x):\n", "    return x\n"], "<four parts>")


def test_four_parts() -> None:
    diagnostic = Diagnostic("JC000", "what", Span("<four parts>", 2, 11, 2, 12), "effect", "hint")
    assert str(diagnostic) == (
        "JC000: what\n  at <four parts>:2\n    return x\n           ^\n  effect: effect\n  hint: hint"
    )


def test_parts_may_be_missing() -> None:
    assert str(Diagnostic("JC000", "what", effect="")) == "JC000: what"
    assert str(Diagnostic("JC000", "what", Span("<nowhere>", 3), "e")) == "JC000: what\n  at <nowhere>:3\n  effect: e"


def test_a_refusal_carries_its_diagnostic() -> None:
    diagnostic = Diagnostic("JC000", "what")
    refusal = Refusal(diagnostic)
    assert isinstance(refusal, JanusError)
    assert refusal.diagnostic is diagnostic
    assert str(refusal) == str(diagnostic)


def test_a_warning_can_be_filtered_as_a_user_warning() -> None:
    assert issubclass(JanusWarning, UserWarning)


def test_a_code_is_declared_once() -> None:
    with pytest.raises(KeyError):
        define(next(iter(CODES)), "again")


def test_silence_keeps_what_python_knows_of_warnings_shown_once() -> None:
    space: dict[str, object] = {"warnings": warnings}
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(2):
            exec("warnings.warn('once')", space)
            with silenced():
                warnings.warn("never", stacklevel=1)
    assert [str(w.message) for w in shown] == ["once"]
    assert not any(rule[:3] == ("ignore", None, Warning) for rule in warnings.filters[:1])


def test_other_threads_warn_meanwhile() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with silenced():
            warnings.warn("never", stacklevel=1)
            thread = threading.Thread(target=warnings.warn, args=("as ever",))
            thread.start()
            thread.join()
    assert [str(w.message) for w in shown] == ["as ever"]
