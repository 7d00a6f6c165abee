"""Errors of a conversion: what is said of them, and how they are kept from holding on to the user's objects."""

from __future__ import annotations

import traceback

from janusc.diagnostics import Diagnostic, Refusal, define
from janusc.lowering import codes

OWN_FAULT = define("JC901", "a fault of janusc's own while converting")


def has_no_work(error: Exception) -> bool:
    """Whether a conversion found nothing that a graph would be good for: no failure, not even under ``strict``."""
    return isinstance(error, Refusal) and error.diagnostic.code == codes.NO_WORK


def reason(error: Exception) -> str:
    """An error in one line."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def printed(error: Exception) -> str:
    """An error with the frames and causes that led to it."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def cut_loose(error: BaseException) -> None:
    """Let go of the frames that an error and what it came from hold, and by them the arguments of the call."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__, link.__cause__ = None, None
        link.__context__, link = None, link.__context__


def fault_of(error: Exception) -> Diagnostic:
    """What is said of an error that is no refusal."""
    hint = "please report this, with what janus.explain() prints for it"
    return Diagnostic(OWN_FAULT, f"a fault of janusc's own ({reason(error)})", hint=hint)


def announced(name: str, verdict: Diagnostic) -> str:
    """The text of the warning that a function runs eagerly."""
    if verdict.code == OWN_FAULT:
        return f"janusc: {name} {verdict.effect}. {verdict.message}: {verdict.hint}"
    return f"janusc: {name} runs without graphs.\n{verdict}"
