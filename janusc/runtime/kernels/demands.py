"""What operations of torch's demand of the contents of tensors, where their decompositions don't ask; and asserts.

A kernel says by one more result whether all was as demanded; where it was not, the operations are done, and complain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Union

import torch
from torch.overrides import TorchFunctionMode

from janusc.runtime.kernels.functional import Unfit

Arguments = Callable[[int, str], Any]
"""An argument by its place or its name; None where it is not given."""

Demand = Callable[[Arguments, Any], Union[torch.Tensor, None]]
"""Whether the contents are as they must be, by the arguments and the result; None where that is known."""


def _counts_from_zero(given: Arguments, result: Any) -> torch.Tensor:
    index: torch.Tensor = given(2, "index").detach()
    return (index >= 0).all()


def _is_share(given: Arguments, result: Any) -> torch.Tensor:
    share: torch.Tensor = given(0, "input").detach()
    return ((share >= 0) & (share <= 1)).all()


def _are_classes(given: Arguments, result: Any) -> torch.Tensor:
    classes: torch.Tensor = given(0, "input").detach()
    most: int = given(1, "num_classes")
    return ((classes >= 0) & (classes < most)).all()


def _are_counts(given: Arguments, result: Any) -> torch.Tensor | None:
    source, repeats, dimension, size = given(0, "input"), given(1, "repeats"), given(2, "dim"), given(3, "output_size")
    if size is None or isinstance(repeats, int):
        return None
    if repeats is None:
        repeats = source
    count = source.numel() if dimension is None else source.shape[dimension]
    fits: torch.Tensor = (repeats >= 0).all() & (repeats.expand(count).sum() == size)
    return fits


def _is_inside(dimensions: int) -> Demand:
    """Of where elements go in an image of so many dimensions: an index that is too large would be in the next one."""

    def demand(given: Arguments, result: Any) -> torch.Tensor:
        index: torch.Tensor = given(1, "indices").detach()
        size: int = prod(result.shape[-dimensions:])
        return ((index >= 0) & (index < size)).all()

    return demand


def _is_another(given: Arguments, result: Any) -> None:
    raise Unfit("torch's decomposition of multilabel_margin_loss is another function")


def _is_deviation(given: Arguments, result: Any) -> torch.Tensor | None:
    deviation: Any = given(1, "std")
    return (deviation.detach() >= 0).all() if isinstance(deviation, torch.Tensor) else None


_DEMANDS: Mapping[str, Demand] = {
    **dict.fromkeys(
        ("index_select", "index_add", "index_add_", "index_copy", "index_copy_"),
        _counts_from_zero,  # what the decomposition makes of an index may be negative
    ),
    "binary_cross_entropy": _is_share,
    "max_unpool1d": _is_inside(1),
    "max_unpool2d": _is_inside(2),
    "max_unpool3d": _is_inside(3),
    "multilabel_margin_loss": _is_another,
    "one_hot": _are_classes,
    "normal": _is_deviation,
    "repeat_interleave": _are_counts,
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
        result = func(*args, **named)
        if demand is not None:
            with torch.no_grad():
                found = demand(lambda place, name: args[place] if place < len(args) else named.get(name), result)
                self._found += [] if found is None else [found]
        return result

    def require(self, tensor: torch.Tensor, is_true: bool) -> None:
        """The program goes on where a tensor has this truth; one of several elements has none."""
        if tensor.numel() != 1:
            raise Unfit("it asks for the truth of several elements")
        with torch.no_grad():
            holds = tensor.detach().reshape(()) != 0
            self._found.append(holds if is_true else ~holds)

    def are_met(self) -> list[torch.Tensor]:
        """Whether all that was found is as demanded: one truth, or none where nothing was."""
        met = self._found[:1]
        for other in self._found[1:]:
            met = [met[0] & other]
        return met
