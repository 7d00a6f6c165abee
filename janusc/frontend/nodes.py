"""Every node of a tree, several times faster than ``ast.walk``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import gast


def nodes_of(tree: Any) -> Iterator[Any]:
    """The nodes of a tree, or of a list of trees, level by level."""
    pending = deque(tree if isinstance(tree, (list, tuple)) else (tree,))
    while pending:
        node = pending.popleft()
        held = vars(node)
        for name in node._fields:
            value = held.get(name)
            if type(value) is list:
                pending.extend(item for item in value if isinstance(item, gast.AST))
            elif isinstance(value, gast.AST):
                pending.append(value)
        yield node


def weight(statements: Any) -> int:
    """The number of statements and calls in a block, nested ones included: what unrolling multiplies."""
    return sum(isinstance(n, (gast.stmt, gast.Call)) for n in nodes_of(statements))
