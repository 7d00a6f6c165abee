"""Templates: a line is ``topic weight| text``, where ``$V`` stands for an expression and ``$v`` for a bound variable.

``$@V`` is a variable to be bound. A statement of several lines has ``\\n`` in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Template:
    """One way to write an expression or a statement."""

    topic: str
    weight: float
    text: str


def table(text: str) -> tuple[Template, ...]:
    """The templates of a table, one per line."""
    found = []
    for line in text.strip().splitlines():
        head, _, body = line.partition("| ")
        topic, _, weight = head.strip().partition(" ")
        found.append(Template(topic, float(weight or 1), body.strip()))
    return tuple(found)


def joined(*tables: Mapping[str, Sequence[T]]) -> dict[str, list[T]]:
    """Several tables as one, kind by kind."""
    found: dict[str, list[T]] = {}
    for part in tables:
        for kind, entries in part.items():
            found.setdefault(kind, []).extend(entries)
    return found
