"""Between which numbers the elements of whole-number values of a traced graph lie, whatever the inputs are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Union

import torch

Interval = tuple[int, int]
"""The least and the largest number, both included."""

Known = Union[Interval, None]
Rule = Callable[["Call"], Known]

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def name_of(node: torch.fx.Node) -> str:
    """The name of the operation that a node calls, without its overload; empty where it calls none of torch's."""
    return getattr(getattr(node.target, "overloadpacket", None), "__name__", "")


def place_of(node: torch.fx.Node, name: str) -> int | None:
    """At which place an operation takes the argument of a name; None where it takes none."""
    schema: Any = getattr(node.target, "_schema", None)
    return next((i for i, argument in enumerate(schema.arguments) if argument.name == name), None)


def given(node: torch.fx.Node, name: str) -> Any:
    """The argument of a name, or what stands for it where it is not given; None where there is none."""
    place = place_of(node, name)
    if place is None:
        return None
    if place < len(node.args):
        return node.args[place]
    schema: Any = getattr(node.target, "_schema", None)
    return node.kwargs.get(name, schema.arguments[place].default_value)


def intervals_of(module: torch.fx.GraphModule) -> Mapping[torch.fx.Node, Interval]:
    """The intervals of the values of whole numbers in a graph; of what is not known, that of the dtype."""
    found: dict[torch.fx.Node, Interval] = {}
    for node in module.graph.nodes:
        interval = _interval(module, node, found)
        if interval is not None:
            found[node] = interval
    return found


class Call:
    """A node as its rule sees it: its arguments, as intervals or as they are."""

    def __init__(self, node: torch.fx.Node, found: Mapping[torch.fx.Node, Interval]) -> None:
        self.node, self._found = node, found

    def interval(self, place: int) -> Known:
        """Of an argument that is a value or a number."""
        args = self.node.args
        return self.interval_of(args[place]) if place < len(args) else None

    def interval_of(self, value: Any) -> Known:
        """Of a value or a number; a truth is 0 or 1."""
        if type(value) is int:
            return value, value
        if not isinstance(value, torch.fx.Node):
            return None
        known = self._found.get(value)
        return (0, 1) if known is None and _dtype(value) is torch.bool else known

    def number(self, name: str) -> int | None:
        """An argument that is given as a number."""
        value = given(self.node, name)
        return value if type(value) is int else None

    def extent(self, dimension: int | None) -> int:
        """How many elements the first argument has in a dimension; in all where there is none."""
        shape = _shape(self.node.args[0])
        return prod(shape) if dimension is None else (shape[dimension] if shape else 1)


def _interval(module: torch.fx.GraphModule, node: torch.fx.Node, found: Mapping[torch.fx.Node, Interval]) -> Known:
    if _dtype(node) not in _INTEGERS:
        return None
    limits = torch.iinfo(_dtype(node))
    interval = _by_rule(module, node, found)
    if interval is None or interval[0] < limits.min or limits.max < interval[1]:  # beyond, it wraps around
        return limits.min, limits.max
    return interval


def _by_rule(module: torch.fx.GraphModule, node: torch.fx.Node, found: Mapping[torch.fx.Node, Interval]) -> Known:
    if node.op == "get_attr":
        return _of_constant(getattr(module, str(node.target), None))
    if getattr(node.target, "__name__", "") == "getitem":
        return _of_part(node, found)
    rule = _RULES.get(name_of(node))
    return rule(Call(node, found)) if rule is not None else None


def _of_constant(constant: Any) -> Known:
    if type(constant) is not torch.Tensor or not constant.numel():
        return None
    return int(constant.min()), int(constant.max())


def _of_part(node: torch.fx.Node, found: Mapping[torch.fx.Node, Interval]) -> Known:
    """The indices beside the values that were picked or sorted."""
    made, part = node.args
    if part != 1 or not isinstance(made, torch.fx.Node) or name_of(made) not in _PICKS:
        return None
    dimension = given(made, "dim")
    return _indices(Call(made, found).extent(dimension)) if type(dimension) is int else None


def _indices(extent: int) -> Known:
    return (0, extent - 1) if extent else None


def _same(call: Call) -> Known:
    return call.interval(0)


def _as_seen(call: Call) -> Known:
    """The same elements in another shape; those of another dtype are other numbers."""
    return call.interval(0) if getattr(call.node.target, "_overloadname", "") != "dtype" else None


def _iota(call: Call) -> Known:
    length, start, step = (call.number(name) for name in ("length", "start", "step"))
    if not length or start is None or step is None:
        return None
    last = start + (length - 1) * step
    return min(start, last), max(start, last)


def _sum(call: Call) -> Known:
    a, b = call.interval(0), call.interval(1)
    if a is None or b is None or given(call.node, "alpha") not in (None, 1):
        return None
    return a[0] + b[0], a[1] + b[1]


def _difference(call: Call) -> Known:
    a, b = call.interval(0), call.interval(1)
    if a is None or b is None or given(call.node, "alpha") not in (None, 1):
        return None
    return a[0] - b[1], a[1] - b[0]


def _product(call: Call) -> Known:
    a, b = call.interval(0), call.interval(1)
    if a is None or b is None:
        return None
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _negative(call: Call) -> Known:
    a = call.interval(0)
    return None if a is None else (-a[1], -a[0])


def _absolute(call: Call) -> Known:
    a = call.interval(0)
    if a is None:
        return None
    least = 0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))
    return least, max(abs(a[0]), abs(a[1]))


def _at_least(call: Call) -> Known:
    a, b = call.interval(0), call.interval(1)
    return None if a is None or b is None else (max(a[0], b[0]), max(a[1], b[1]))


def _at_most(call: Call) -> Known:
    a, b = call.interval(0), call.interval(1)
    return None if a is None or b is None else (min(a[0], b[0]), min(a[1], b[1]))


def _remainder(call: Call) -> Known:
    b = call.interval(1)
    return (0, b[1] - 1) if b is not None and b[0] > 0 else None


def _truncated_remainder(call: Call) -> Known:
    a, b = call.interval(0), call.interval(1)
    if b is None or b[0] <= 0:
        return None
    if a is not None and a[0] >= 0:
        return 0, min(a[1], b[1] - 1)
    return 1 - b[1], b[1] - 1


def _either(call: Call) -> Known:
    a, b = call.interval(1), call.interval(2)
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _position(call: Call) -> Known:
    return _indices(call.extent(call.number("dim")))


def _in_image(call: Call) -> Known:
    """Where in an image the largest element of a window is, once that has been kept in it."""
    return _indices(prod(given(call.node, "input_size")))


def _dtype(node: torch.fx.Node) -> Any:
    return getattr(node.meta.get("val"), "dtype", None)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.meta["val"].shape)


_PICKS = frozenset({"max", "min", "topk", "sort", "cummax", "cummin", "kthvalue", "median", "mode"})
"""Operations that give values, and beside them where in a dimension these were."""

_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(
        ("reshape", "_unsafe_view", "unsqueeze", "squeeze", "expand", "permute", "transpose", "t", "slice"), _same
    ),
    **dict.fromkeys(("select", "diagonal", "repeat", "rev", "flip", "clone", "alias", "detach"), _same),
    "view": _as_seen,
    **dict.fromkeys(("convert_element_type", "_to_copy", "lift_fresh_copy", "scalar_tensor"), _same),
    **dict.fromkeys(("index", "gather", "index_select", "embedding"), _same),
    "iota": _iota,
    "full": lambda call: call.interval(1),
    "add": _sum,
    "sub": _difference,
    "mul": _product,
    "neg": _negative,
    "abs": _absolute,
    **dict.fromkeys(("clamp_min", "maximum"), _at_least),
    **dict.fromkeys(("clamp_max", "minimum"), _at_most),
    "remainder": _remainder,
    "fmod": _truncated_remainder,
    "where": _either,
    **dict.fromkeys(("argmax", "argmin"), _position),
    "_low_memory_max_pool_offsets_to_indices": _in_image,
}
