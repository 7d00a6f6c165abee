"""What the history of a block keeps in eager mode: which tensors, and what one backward pass leaves of it for another.

A history is followed from the outputs to the leaves, which are the inputs that get gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge

from janusc import torch_private
from janusc.derived import derived

Pair = tuple[int, int]
"""An output and a leaf, each by its position."""


class Kept:
    """What is kept for a backward pass from some outputs, by index, to some inputs, by position."""

    def __init__(self, outputs: Mapping[int, torch.Tensor], leaves: Mapping[int, torch.Tensor]) -> None:
        self._last = {index: output.grad_fn for index, output in outputs.items()}
        self._nodes = {index: _behind(node) for index, node in self._last.items()}
        self._all = {node for nodes in self._nodes.values() for node in nodes}
        ends = {position: get_gradient_edge(leaf).node for position, leaf in leaves.items()}
        self._before = {position: self._leading_to(end) for position, end in ends.items() if end in self._all}

    def reaching(self) -> dict[int, tuple[int, ...]]:
        """Of each leaf that has a gradient, the outputs that it depends on."""
        found = {
            p: tuple(i for i, nodes in self._nodes.items() if nodes & before) for p, before in self._before.items()
        }
        return {position: indices for position, indices in found.items() if indices}

    def is_chained(self) -> bool:
        """Whether an output is part of the history of another: hooks on it have more than what comes from outside."""
        last, nodes = self._last, self._nodes
        return any(last[i] is not last[j] and last[i] in nodes[j] for i, j in itertools.permutations(last, 2))

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor itself is kept, so that a pass finds what its ``data`` was set to meanwhile."""
        return any(kept is tensor for node in self._all for kept in _tensors_of(node))

    def is_any(self) -> bool:
        """Whether anything is kept, so that there may be no second pass."""
        return any(next(_tensors_of(node), None) is not None for node in self._all)

    def uses(self) -> dict[Pair, tuple[int, ...]]:
        """What a backward pass from an output to a leaf alone needs, and frees, as numbers.

        Another pass is right where it needs nothing that was freed, or changed. Nodes that are always met together are
        one. Nothing where there is one output, and each pass from it has something that all others need.
        """
        pairs, kinds = self._pairs, self._kinds
        if not kinds or len(self._nodes) == 1 and any(len(kind) == len(pairs) for kind in kinds):
            return {}
        return {pair: tuple(number for number, kind in enumerate(kinds) if pair in kind) for pair in pairs}

    def needing(self) -> dict[int, tuple[int, ...]]:
        """What of that needs the memory with a key."""
        numbers, found = {kind: number for number, kind in enumerate(self._kinds)}, dict[int, set[int]]()
        for node, kind in self._keeping.items():
            for tensor in _tensors_of(node):
                found.setdefault(torch_private.storage_key(tensor), set()).add(numbers[kind])
        return {key: tuple(sorted(kept)) for key, kept in found.items()}

    @derived
    def _pairs(self) -> list[Pair]:
        return [(i, p) for p, indices in self.reaching().items() for i in indices]

    @derived
    def _kinds(self) -> list[frozenset[Pair]]:
        return list(dict.fromkeys(self._keeping.values()))

    @derived
    def _keeping(self) -> dict[Any, frozenset[Pair]]:
        """The nodes that keep something, and the passes that meet each."""
        return {
            node: frozenset((i, p) for i, p in self._pairs if node in self._nodes[i] and node in self._before[p])
            for node in self._all
            if next(_tensors_of(node), None) is not None
        }

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
