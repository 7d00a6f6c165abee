"""What janusc tells the user: a stable code, the source, the effect and a hint.

Every code is declared once with ``define``, so that a test can ask whether each one has a pinned message.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from janusc.registry import Registry
from janusc.source import Span

RUNS_EAGERLY = "runs eagerly; results unaffected"
RUNS_ON_HOST = "this statement runs as ordinary Python between two graphs; results unaffected"

CODES: Registry[str, str] = Registry("diagnostic codes")


def define(code: str, summary: str) -> str:
    """Declare a diagnostic code and return it; a code declared twice raises KeyError."""
    CODES.register(code, summary)
    return code


@dataclass(frozen=True)
class Diagnostic:
    """One finding about the user's program.

    ``effect`` says what happens to the program because of it, ``hint`` what the user may do; either may be empty.
    """

    code: str
    message: str
    span: Span | None = None
    effect: str = RUNS_EAGERLY
    hint: str = ""

    def __str__(self) -> str:
        parts = [f"{self.code}: {self.message}"]
        if self.span is not None:
            parts.append(f"  at {self.span}")
            excerpt = self.span.excerpt()
            if excerpt:
                parts.append(excerpt)
        if self.effect:
            parts.append(f"  effect: {self.effect}")
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class JanusError(Exception):
    """The base of every exception that janusc itself raises."""


class Refusal(JanusError):
    """A function, or a part of it, is not converted; ``diagnostic`` says why.

    ``final``: other inputs would be refused too, so there is no use in trying them.
    """

    def __init__(self, diagnostic: Diagnostic, final: bool = False) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic
        self.final = final

    def __str__(self) -> str:
        return str(self.diagnostic)


class JanusWarning(UserWarning):
    """The category of every warning that janusc itself gives."""


class _OfThisThread(threading.local):
    """Stands where a filter of warnings has its pattern: matches any text, in a thread that is inside ``silenced``."""

    depth = 0

    def match(self, text: str) -> bool:
        return self.depth > 0


_SILENT = _OfThisThread()


@contextmanager
def silenced() -> Iterator[None]:
    """Nothing warns inside: what the compiler does for itself, such as compiling the user's source anew.

    Other threads warn as ever, and so does a child forked by one of them.
    ``warnings.catch_warnings`` would also make Python forget which warnings have been shown once already.
    """
    rule = ("ignore", _SILENT, Warning, None, 0)
    filters = cast(list[Any], warnings.filters)
    filters.insert(0, rule)
    _SILENT.depth += 1
    try:
        yield
    finally:
        _SILENT.depth -= 1
        place = next((index for index, item in enumerate(filters) if item is rule), None)
        if place is not None:
            del filters[place]
