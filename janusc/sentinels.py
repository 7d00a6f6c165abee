"""Marks that stand for the absence of a value, compared by identity."""

from __future__ import annotations


class Sentinel:
    """A unique mark with a readable name; copies and pickles are the mark itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name


UNBOUND = Sentinel("UNBOUND")
"""A local variable, cell or dictionary entry that holds nothing."""

MISS = Sentinel("MISS")
"""The answer of an executable whose guards failed: nothing was done."""
