"""Objects that must not have become one: many pairs, said in few guards.

Each object that is written must be another one than each of the others met by the same name. Pair by pair that grows
with the square of their number; where there are many, they are compared as sets of identities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from janusc.lowering.ir import Tup, Value
from janusc.lowering.lowering import Lowering

_FEW = 4  # pairs that are as cheap one by one


class Apart:
    """The pairs of values that must be two objects, as a graph of neighbours."""

    def __init__(self) -> None:
        self._others: dict[Value, dict[Value, None]] = {}

    def add(self, a: Value, b: Value) -> None:
        if a is not b:
            self._others.setdefault(a, {})[b] = None
            self._others.setdefault(b, {})[a] = None

    def emit(self, lo: Lowering) -> None:
        """The guards for all pairs."""
        for closed in (True, False):  # first those that are all apart from one another, then those with one opposite
            for group in self._alike(closed):
                others = [v for v in self._others[group[0]] if v not in group]
                if len(group) > 1 and len(group) * (len(others) + closed * (len(group) - 1) / 2) > _FEW:
                    self._check(lo, group, others, closed)
        for a in list(self._others):
            for b in list(self._others[a]):
                lo.check("is_not", (a, b), "aliasing", lo.span())
                self._drop((a,), (b,))

    def _alike(self, closed: bool) -> list[list[Value]]:
        """The values with the same neighbours, themselves included or not."""
        groups: dict[frozenset[Value], list[Value]] = {}
        for value, others in self._others.items():
            if others:
                groups.setdefault(frozenset(others) | ({value} if closed else set()), []).append(value)
        return sorted(groups.values(), key=len, reverse=True)

    def _check(self, lo: Lowering, group: Sequence[Value], others: Sequence[Value], closed: bool) -> None:
        left = [v for v in others if v in self._others[group[0]]]
        if closed:
            lo.check("distinct", tuple(group), "aliasing", lo.span())
            self._drop(group, group)
        if left:
            lo.check("apart", (Tup(tuple(group)), Tup(tuple(left))), "aliasing", lo.span())
            self._drop(group, left)

    def _drop(self, group: Iterable[Value], others: Iterable[Value]) -> None:
        for a in group:
            for b in others:
                self._others[a].pop(b, None)
                self._others[b].pop(a, None)
