"""Where the gradients of leaves add up: a node of autograd's for each, which users can put hooks on."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge

_count_uses: Callable[[torch.Tensor], int] = getattr(torch.Tensor, "_use_count", lambda leaf: 2)
_call: Callable[[Any], Any] = operator.methodcaller("__call__")


class AccumulatorHooks:
    """Tells whether hooks are on the nodes of some leaves, mostly the same at each call; none of them is kept alive.

    Such a node lives as long as something leads to it, as does a loss that is still there from the call before. While
    there is none, nobody but Python holds a leaf. Torch doesn't say what hooks a node has, but the table of those of
    Python can be had by adding one, and it lives as long as its node.
    """

    __slots__ = ("_leaves", "_tables")

    def __init__(self) -> None:
        self._leaves: list[Callable[[], Any]] = []
        self._tables: list[Callable[[], Any]] = []

    def any(self, leaves: Sequence[torch.Tensor]) -> bool:
        """Whether something of Python's is called when a gradient arrives at the node of one of these leaves."""
        if max(map(_count_uses, leaves), default=1) <= 1:
            return False
        held = [leaf for leaf in leaves if _count_uses(leaf) > 1]
        if len(held) != len(self._leaves) or not all(map(operator.is_, held, map(_call, self._leaves))):
            self._leaves, self._tables = [weakref.ref(leaf) for leaf in held], []
        tables = list(map(_call, self._tables))
        if not tables or None in tables:  # of nodes that are no more
            self._tables = [table for leaf in held for table in _tables(leaf)]
            tables = list(map(_call, self._tables))
        return any(tables)


def _tables(leaf: torch.Tensor) -> list[Callable[[], Any]]:
    """References to the tables of hooks before and behind the node of a leaf."""
    node: Any = get_gradient_edge(leaf).node
    found = []
    for register in (node.register_prehook, node.register_hook):
        handle = register(_ignore)
        found.append(handle.hooks_dict_ref)
        handle.remove()
    return found


def _ignore(*_: Any) -> None:
    pass
