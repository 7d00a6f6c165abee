"""Pairs of objects that must not become one, said in few guards: all pairs, whatever way they are said."""

import itertools

import pytest

from janusc.lowering.apart import Apart
from janusc.lowering.ir import Value
from janusc.types import ANY


class Checks:
    """Stands for a lowering: notes the pairs that its checks tell apart."""

    def __init__(self):
        self.pairs, self.count = set(), 0

    def span(self):
        return None

    def check(self, kind, args, site, span):
        self.count += 1
        if kind == "apart":
            self.pairs.update(frozenset(p) for p in itertools.product(args[0].items, args[1].items))
        else:
            self.pairs.update(frozenset(p) for p in itertools.combinations(args, 2))


def said(pairs):
    values = {n: Value(n, ANY) for pair in pairs for n in pair}
    apart, checks = Apart(), Checks()
    for a, b in pairs:
        apart.add(values[a], values[b])
    apart.emit(checks)
    return {tuple(sorted(v.id for v in pair)) for pair in checks.pairs}, checks.count


CLIQUE = list(itertools.combinations(range(10), 2))
READERS = [(w, r) for w in range(10) for r in range(20, 25)]
SIDES = [(w, r) for w in range(30, 36) for r in range(40, 45)]


@pytest.mark.parametrize(
    ("pairs", "most"),
    [
        ([], 0),
        ([(1, 2)], 1),
        ([(1, 2), (2, 1), (1, 1)], 1),
        (CLIQUE, 1),
        ([*CLIQUE, *READERS], 2),
        (SIDES, 1),
        ([*CLIQUE, *READERS, *SIDES, (50, 51), (0, 60)], 6),
        ([(0, n) for n in range(1, 9)], 8),
    ],
)
def test_exactly_the_pairs_in_few_checks(pairs, most):
    found, count = said(pairs)
    assert found == {tuple(sorted(p)) for p in pairs if p[0] != p[1]}
    assert count <= most
