"""What went wrong with one function's graphs, for its user to read: bounded, and holding on to no object of theirs."""

from __future__ import annotations

from dataclasses import dataclass

from janusc.diagnostics import Diagnostic
from janusc.fallback import faults

_MOST = 50


@dataclass(frozen=True)
class Failure:
    """A transaction that was rolled back: the assumption, or the error that eager may not have had, and how often."""

    site: str | None
    error: str
    twin_succeeded: bool
    count: int = 1


class Notes:
    """The transactions that failed and the conversions that were refused, each kind once with a count."""

    def __init__(self) -> None:
        self.failures: dict[tuple[str | None, str, bool], Failure] = {}
        self.refusals: dict[Diagnostic, int] = {}

    def add_failure(self, place: str | None, error: Exception, twin_succeeded: bool) -> int:
        """Write a failure down; how often there was one of its kind at the place."""
        text = faults.reason(error)
        key = place, text, twin_succeeded
        known = self.failures.get(key)
        if known is not None or len(self.failures) < _MOST:
            count = 1 if known is None else known.count + 1
            self.failures[key] = Failure(place, text, twin_succeeded, count)
        return sum(f.count for f in self.failures.values() if f.site == place and f.twin_succeeded is twin_succeeded)

    def add_refusal(self, diagnostic: Diagnostic) -> None:
        """Write down why a conversion was refused."""
        if diagnostic in self.refusals or len(self.refusals) < _MOST:
            self.refusals[diagnostic] = self.refusals.get(diagnostic, 0) + 1
