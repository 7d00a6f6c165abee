"""Copies of trees, several times faster than ``copy.deepcopy``: what no stage ever changes is shared."""

from __future__ import annotations

from typing import Any

import gast

_SHARED = (gast.expr_context, gast.operator, gast.unaryop, gast.cmpop, gast.boolop)


def duplicate(tree: Any) -> Any:
    """A copy of a node, or of a list of nodes, with everything below it but contexts and operators."""
    if isinstance(tree, list):
        return [duplicate(item) if isinstance(item, (gast.AST, list)) else item for item in tree]
    if isinstance(tree, _SHARED):
        return tree
    kind: Any = type(tree)
    made = kind.__new__(kind)
    vars(made).update(
        {name: duplicate(value) if isinstance(value, (gast.AST, list)) else value for name, value in vars(tree).items()}
    )
    return made
