"""What a traced graph finds elements by, or divides by, made such that no contents of its inputs can fail in a kernel.

A check inside a kernel may fail in one of its threads, which ends the process, and so does a whole number divided by
zero. Each index that is not known to be in bounds is therefore moved into them, and it is a demand that it was there.

Before::

    %a = aten.gather(%table, 0, %index)

After, for a table of five::

    %b = aten.clamp_max(aten.clamp_min(%index, 0), 4)
    %a = aten.gather(%table, 0, %b)
    %met = aten.logical_not(aten.any(aten.ne(%b, %index)))

On a CUDA device the operations check their indices themselves, as in eager mode, where nobody waits for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch

from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.intervals import Interval, given, intervals_of, name_of, place_of

_aten = torch.ops.aten


class _Bounds:
    """A graph that is being changed, and the demands on it."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._graph, self._intervals = module.graph, intervals_of(module)
        self._moved: dict[tuple[torch.fx.Node, int, int], torch.fx.Node] = {}
        self._faults: dict[tuple[int, ...], torch.fx.Node] = {}

    def interval(self, value: Any) -> Interval | None:
        """Between which numbers a value or a number is known to be."""
        return (value, value) if type(value) is int else self._intervals.get(value)

    def moved(self, user: torch.fx.Node, index: torch.fx.Node, least: int, most: int) -> torch.fx.Node:
        """An index whose elements are between two numbers, for a node that uses it."""
        known, looks = self._intervals.get(index), index.meta["val"]
        if looks.numel() == 0 or known is not None and least <= known[0] and known[1] <= most:
            return index
        if least > most:
            raise Unfit("a dimension without elements is indexed")
        limits = torch.iinfo(looks.dtype)
        key = index, max(least, limits.min), min(most, limits.max)
        if key not in self._moved:
            lifted = self._call(user, _aten.clamp_min.default, index, key[1])
            self._moved[key] = moved = self._call(user, _aten.clamp_max.default, lifted, key[2])
            self.refuse(user, self._call(user, _aten.ne.Tensor, moved, index))
        return self._moved[key]

    def move_all(self, index: torch.fx.Node, least: int, most: int) -> None:
        """Have all that use an index use it with its elements between two numbers."""
        user = index.next
        lifted = self._call(user, _aten.clamp_min.default, index, least)
        moved = self._call(user, _aten.clamp_max.default, lifted, most)
        index.replace_all_uses_with(moved, lambda other: other is not lifted)

    def apart_from_zero(self, user: torch.fx.Node, divisor: torch.fx.Node) -> torch.fx.Node:
        """A divisor, with ones for zeros."""
        key = divisor, 0, 0
        if key not in self._moved:
            zeros = self._call(user, _aten.eq.Scalar, divisor, 0)
            self._moved[key] = self._call(user, _aten.add.Tensor, divisor, zeros)
            self.refuse(user, zeros)
        return self._moved[key]

    def demand_above(self, user: torch.fx.Node, value: torch.fx.Node, limit: float) -> None:
        """A value is to be above a limit; what is no number isn't."""
        self.refuse(user, self._call(user, _aten.logical_not.default, self._call(user, _aten.gt.Scalar, value, limit)))

    def refuse(self, user: torch.fx.Node, fault: torch.fx.Node) -> None:
        """What must be true nowhere."""
        shape = tuple(fault.meta["val"].shape)
        before = self._faults.get(shape)
        self._faults[shape] = fault if before is None else self._call(user, _aten.bitwise_or.Tensor, before, fault)

    def met(self) -> torch.fx.Node | None:
        """One truth over all that was demanded; None where nothing was."""
        end, found = self._graph.output_node(), None
        for fault in self._faults.values():
            anywhere = self._call(end, _aten.any.default, fault)
            found = anywhere if found is None else self._call(end, _aten.bitwise_or.Tensor, found, anywhere)
        return None if found is None else self._call(end, _aten.logical_not.default, found)

    def both(self, one: torch.fx.Node, other: torch.fx.Node) -> torch.fx.Node:
        """Whether two truths are."""
        return self._call(self._graph.output_node(), _aten.bitwise_and.Tensor, one, other)

    def _call(self, user: torch.fx.Node, target: Any, *arguments: Any) -> torch.fx.Node:
        with self._graph.inserting_before(user):
            node = self._graph.call_function(target, arguments)
        node.meta["val"] = target(*(x.meta["val"] if isinstance(x, torch.fx.Node) else x for x in arguments))
        return node


def keep_in_bounds(module: torch.fx.GraphModule, has_demands: bool) -> bool:
    """Change the graph so; whether its last result says that all demands are met, as before or now."""
    bounds = _Bounds(module)
    for node in list(module.graph.nodes):
        rule = _RULES.get(name_of(node))
        if rule is not None and not (_is_on_cuda(node) and name_of(node) not in _POOLS):
            rule(bounds, node)
    met = bounds.met()
    if met is None:
        return has_demands
    end = module.graph.output_node()
    results: Any = end.args[0]
    *others, last = results if has_demands else (*results, None)
    end.args = ([*others, met if last is None else bounds.both(last, met)],)
    module.recompile()
    return True


def _is_on_cuda(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_cuda


def is_kept_in_bounds(node: torch.fx.Node) -> bool:
    """Whether this is an operation that is looked at here."""
    return name_of(node) in _RULES


def _along_dimension(least_is_negative: bool, index: str = "index") -> Callable[[_Bounds, torch.fx.Node], None]:
    """The rule of operations with one index, along one dimension."""

    def bound(bounds: _Bounds, node: torch.fx.Node) -> None:
        shape = node.args[0].meta["val"].shape  # type: ignore[union-attr]
        size = int(shape[given(node, "dim") or 0]) if shape else 1
        least = -size if least_is_negative else 0
        _replace(node, index, bounds.moved(node, given(node, index), least, size - 1))

    return bound


def _everywhere(bounds: _Bounds, node: torch.fx.Node) -> None:
    """The rule of operations with indices for several dimensions, which may count from the end; masks are no such."""
    shape, dimension, indices = node.args[0].meta["val"].shape, 0, []  # type: ignore[union-attr]
    for index in given(node, "indices"):
        looks = None if index is None else index.meta["val"]
        if looks is not None and looks.dtype in (torch.bool, torch.uint8):
            dimension += looks.ndim
        elif looks is not None:
            size = int(shape[dimension])
            index = bounds.moved(node, index, -size, size - 1)
        dimension += looks is None or looks.dtype not in (torch.bool, torch.uint8)
        indices.append(index)
    _replace(node, "indices", indices)


def _of_offsets(bounds: _Bounds, node: torch.fx.Node) -> None:
    """The rule of what makes indices of where in its window the largest element was."""
    offsets: Any = node.args[0]
    _of_largest(bounds, offsets.args[0], node, prod(given(node, "input_size")))


def _of_windows(dimensions: int) -> Callable[[_Bounds, torch.fx.Node], None]:
    """The rule of operations that give the largest elements of windows in so many dimensions, and their indices."""

    def bound(bounds: _Bounds, node: torch.fx.Node) -> None:
        indices = _part(node, 1)
        if indices is not None and indices.users:
            _of_largest(bounds, node, indices, prod(node.args[0].meta["val"].shape[-dimensions:]))  # type: ignore[union-attr]

    return bound


def _of_largest(bounds: _Bounds, pool: torch.fx.Node, indices: torch.fx.Node, extent: int) -> None:
    """Keep the indices of largest elements in the image.

    A kernel names another element than torch does where that is no number, and one outside of the image where it is
    infinitely small, as what stands around the image.
    """
    pooled = _part(pool, 0)
    if pooled is None:
        raise Unfit("where a largest element was is asked for without it")
    dtype = pooled.meta["val"].dtype
    least = float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min
    bounds.demand_above(indices.next, pooled, least)
    bounds.move_all(indices, 0, extent - 1)


def _part(node: torch.fx.Node, place: int) -> torch.fx.Node | None:
    return next((user for user in node.users if user.args == (node, place)), None)


def _divide(bounds: _Bounds, node: torch.fx.Node) -> None:
    looks, divisor = node.meta["val"], node.args[1]
    if looks.dtype.is_floating_point or looks.dtype is torch.bool or divisor is None:
        return
    known = bounds.interval(divisor)
    if known is not None and not known[0] <= 0 <= known[1]:
        return
    if not isinstance(divisor, torch.fx.Node):
        raise Unfit("a whole number is divided by zero")
    node.update_arg(1, bounds.apart_from_zero(node, divisor))


def _replace(node: torch.fx.Node, name: str, value: Any) -> None:
    place = place_of(node, name)
    assert place is not None
    if place < len(node.args):
        node.update_arg(place, value)
    else:
        node.update_kwarg(name, value)


_RULES: Mapping[str, Callable[[_Bounds, torch.fx.Node], None]] = {
    **dict.fromkeys(("gather", "scatter", "scatter_add", "scatter_reduce", "index_reduce"), _along_dimension(False)),
    **dict.fromkeys(("index_select", "index_add", "index_copy"), _along_dimension(False)),
    "index_fill": _along_dimension(True),
    "embedding": _along_dimension(False, "indices"),
    **dict.fromkeys(("index", "index_put"), _everywhere),
    "_low_memory_max_pool_offsets_to_indices": _of_offsets,
    "max_pool2d_with_indices": _of_windows(2),
    "max_pool3d_with_indices": _of_windows(3),
    **dict.fromkeys(("div", "floor_divide", "remainder", "fmod"), _divide),
}

_POOLS = frozenset(("_low_memory_max_pool_offsets_to_indices", "max_pool2d_with_indices", "max_pool3d_with_indices"))
"""Operations that find elements by what their decompositions compute otherwise than torch."""
