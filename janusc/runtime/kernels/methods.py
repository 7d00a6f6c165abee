"""The methods that a block calls by name: a program may put its own in the place of those that a kernel stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from janusc.lowering.ir import Graph, Node, Value
from janusc.lowering.rewrite import inlined

_BY_NAME = frozenset({"method", "method.write", "attribute"})
_OPERATORS = frozenset({"operator", "operator.write"})
_NOW = vars(torch.Tensor)
"""What the class of tensors has itself, at any time: what it inherits is of C, and can only be covered by this."""
_TORCHS = {name: value for cls in reversed(torch.Tensor.__mro__) for name, value in vars(cls).items()}


class Methods:
    """What is asked of the tensors of a block by name, in their class, and what of each input in the input itself."""

    __slots__ = ("_covered", "_inputs", "_names", "_size")

    def __init__(self, graph: Graph) -> None:
        graph = inlined(graph)
        self._names = sorted({name for node in graph.nodes for name in _names(node)})
        self._size = -1
        self._covered: list[tuple[str, Any]] = []
        places = {param: index for index, param in enumerate(graph.params)}
        asked: dict[int, set[str]] = {}
        for node in graph.nodes:
            owner = node.args[0] if node.args and node.op.name in _BY_NAME else None
            if isinstance(owner, Value) and owner in places:
                asked.setdefault(places[owner], set()).update(_names(node))
        self._inputs = [(index, frozenset(found)) for index, found in asked.items() if found]

    def are_torchs(self, inputs: Sequence[Any]) -> bool:
        """Whether all of them are torch's own just now."""
        size = len(_NOW)
        if size != self._size:
            self._covered = [(name, _TORCHS[name]) for name in self._names if name in _NOW]
            self._size = size
        for name, plain in self._covered:
            if _NOW.get(name) is not plain:
                return False
        for index, names in self._inputs:
            if not names.isdisjoint(getattr(inputs[index], "__dict__", ())):
                return False
        return True


def _names(node: Node) -> list[str]:
    """The names that tensors are asked for at a node, in their class or in themselves."""
    if node.op.name in _BY_NAME:
        names = [node.target]
    elif node.op.name in _OPERATORS:
        plain = node.target.strip("_")
        names = [f"__{plain}__", f"__r{plain}__"]
        if node.op.name == "operator.write" and plain.startswith("i"):  # without one in place, that of a new value
            names += [f"__{plain[1:]}__", f"__r{plain[1:]}__"]
    else:
        return []
    return [name for name in names if name in _TORCHS]
