"""What the history of a block keeps in eager mode: which tensors, and what one backward pass leaves of it for another.

A history is followed from the outputs to the leaves, which are the inputs that get gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge

from janusc import torch_private

Pair = tuple[int, int]
"""An output and a leaf, each by its position."""


class Kept:
    """What is kept for a backward pass from some outputs, by index, to some inputs, by position."""

    def __init__(self, outputs: Mapping[int, torch.Tensor], leaves: Mapping[int, torch.Tensor]) -> None:
        self._nodes = {index: _behind(output.grad_fn) for index, output in outputs.items()}
        self._all = {node for nodes in self._nodes.values() for node in nodes}
        ends = {position: get_gradient_edge(leaf).node for position, leaf in leaves.items()}
        self._before = {position: self._leading_to(end) for position, end in ends.items() if end in self._all}

    def reaching(self) -> dict[int, tuple[int, ...]]:
        """Of each leaf that has a gradient, the outputs that it depends on."""
        found = {
            p: tuple(i for i, nodes in self._nodes.items() if nodes & before) for p, before in self._before.items()
        }
        return {position: indices for position, indices in found.items() if indices}

    def storages(self) -> set[int]:
        """The keys of the memory of all tensors that are kept."""
        return {torch_private.storage_key(tensor) for node in self._all for tensor in _tensors_of(node)}

    def is_any(self) -> bool:
        """Whether anything is kept, so that there may be no second pass."""
        return any(next(_tensors_of(node), None) is not None for node in self._all)

    def uses(self) -> dict[Pair, tuple[int, ...]]:
        """What is freed by a backward pass from an output to a leaf alone, as numbers; nothing where all have it all.

        A later pass is right where it needs nothing that was freed. Nodes that are always freed together are one.
        """
        pairs = [(i, p) for p, indices in self.reaching().items() for i in indices]
        signatures = {
            node: frozenset((i, p) for i, p in pairs if node in self._nodes[i] and node in self._before[p])
            for node in self._all
            if next(_tensors_of(node), None) is not None
        }
        kinds = list(dict.fromkeys(signatures.values()))
        if any(len(kind) == len(pairs) for kind in kinds) or not kinds:
            return {}
        return {pair: tuple(number for number, kind in enumerate(kinds) if pair in kind) for pair in pairs}

    def _leading_to(self, end: Any) -> set[Any]:
        users: dict[Any, list[Any]] = {}
        for node in self._all:
            for before, _ in node.next_functions:
                users.setdefault(before, []).append(node)
        return _closure([end], lambda node: users.get(node, ()))


def _behind(node: Any) -> set[Any]:
    return _closure([node], lambda node: (before for before, _ in node.next_functions if before is not None))


def _closure(first: Sequence[Any], following: Any) -> set[Any]:
    found, waiting = set(first), list(first)
    while waiting:
        for node in following(waiting.pop()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found


def _tensors_of(node: Any) -> Iterator[torch.Tensor]:
    """The tensors that a node of a history has saved."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            saved = getattr(node, name.replace("_raw", "", 1), None)
            items: Iterable[Any] = saved if isinstance(saved, (list, tuple)) else (saved,)
            yield from (item for item in items if isinstance(item, torch.Tensor))
