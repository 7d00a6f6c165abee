"""What operations of torch's demand of the contents of tensors, where their decompositions don't ask.

A kernel says by one more result whether all was as demanded; where it was not, the operations are done, and complain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

Arguments = Callable[[int, str], Any]
"""An argument by its place or its name; None where it is not given."""


def _counts_from_zero(given: Arguments) -> torch.Tensor:
    index: torch.Tensor = given(2, "index").detach()
    return (index >= 0).all()


def _is_share(given: Arguments) -> torch.Tensor:
    share: torch.Tensor = given(0, "input").detach()
    return ((share >= 0) & (share <= 1)).all()


def _are_classes(given: Arguments) -> torch.Tensor:
    classes: torch.Tensor = given(0, "input").detach()
    most: int = given(1, "num_classes")
    return ((classes >= 0) & (classes < most)).all()


def _is_deviation(given: Arguments) -> torch.Tensor:
    deviation: Any = given(1, "std")
    return (deviation.detach() >= 0).all() if isinstance(deviation, torch.Tensor) else torch.ones((), dtype=torch.bool)


_DEMANDS: Mapping[str, Callable[[Arguments], torch.Tensor]] = {
    **dict.fromkeys(
        ("index_select", "index_add", "index_add_", "index_copy", "index_copy_"),
        _counts_from_zero,  # what the decomposition makes of an index may be negative
    ),
    "binary_cross_entropy": _is_share,
    "one_hot": _are_classes,
    "normal": _is_deviation,
}


class Demands(TorchFunctionMode):
    """Inside, what is demanded by the operations that are called is found out."""

    def __init__(self) -> None:
        super().__init__()
        self._found: list[torch.Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        demand = _DEMANDS.get(getattr(func, "__name__", ""))
        if demand is not None:
            with torch.no_grad():
                self._found.append(demand(lambda place, name: args[place] if place < len(args) else named.get(name)))
        return func(*args, **named)

    def are_met(self) -> list[torch.Tensor]:
        """Whether all that was found is as demanded: one truth, or none where nothing was."""
        met = self._found[:1]
        for other in self._found[1:]:
            met = [met[0] & other]
        return met
