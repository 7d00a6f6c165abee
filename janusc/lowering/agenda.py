"""What the walk over a function's statements goes by: where segments start, and what has to be outlined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gast

from janusc.diagnostics import Diagnostic
from janusc.lowering.ir import Chain


@dataclass(frozen=True)
class HostStatements:
    """A host range before it is outlined."""

    key: str
    statements: tuple[Any, ...]
    live_ins: tuple[str, ...]
    live_outs: tuple[str, ...] | None


@dataclass(frozen=True)
class Lowered:
    """The chain, what has to be outlined for it, and why statements run on the host.

    ``idle`` says why there is no tensor work in it, but only ordinary Python with calls that have equivalents.
    """

    chain: Chain
    hosts: tuple[HostStatements, ...]
    notes: tuple[Diagnostic, ...]
    idle: Diagnostic | None = None


@dataclass(frozen=True)
class Start:
    """The start of a segment: the rest of the function, how much stands before it, and the host range it follows."""

    agenda: tuple[Any, ...]
    steps: int
    outlined: int
    notes: int
    after: After | None = None


@dataclass(frozen=True)
class After:
    """What a host range left: the locals as they were before it, which of them are read later or were set in it.

    ``statements`` are those that may have set them; ``kind`` tells segments apart that follow the same statement.
    ``before`` is where the host range begins, if more statements may be added to it.
    """

    held: Mapping[str, Any]
    later: frozenset[str]
    changed: frozenset[str]
    statements: tuple[Any, ...]
    kind: str = "after"
    before: Start | None = None


def in_blocks(blocks: Mapping[int, Any], statements: tuple[Any, ...]) -> tuple[Any, ...]:
    """The rest of a function, with what is left of the blocks around under their ``with``."""
    found: list[Any] = []
    for statement in statements:
        found.append(statement)
        if id(statement) in blocks:
            found = blocks[id(statement)].around(found[:-1])
    return tuple(found)


def is_bare_return(statement: Any) -> bool:
    """Whether a statement returns what needs no computation."""
    return isinstance(statement, gast.Return) and (
        statement.value is None or isinstance(statement.value, (gast.Constant, gast.Name))
    )
