"""The type lattice: what is known of a value, from one constant down to nothing.

Order (lower is more precise)::

    constant ≤ host type ≤ any              for host values
    dtype, full shape ≤ partial shape ≤ unknown shape ≤ any tensor ≤ any    for tensors
    tuple of types, pointwise ≤ host type tuple ≤ any

``join`` is the least upper bound. Every chain upwards is finite (a shape has finitely many dimensions and each is
forgotten once), so a profile that only joins can change its mind only so often.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Union

import torch


@dataclass(frozen=True)
class Anything:
    """Top: nothing is known."""

    def __str__(self) -> str:
        return "any"


@dataclass(frozen=True)
class HostType:
    """An instance of exactly this Python type, named by module and qualified name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Constant:
    """One immutable host value (None, bool, int, float, str, bytes); equal only with the same type and ``repr``."""

    text: str
    host: str

    def __str__(self) -> str:
        return f"={self.text}"


@dataclass(frozen=True)
class TensorType:
    """A plain ``torch.Tensor``; None stands for what is not known, inside ``shape`` for an unknown dimension.

    As text: ``float32[2,?]``, ``bool[...]`` of unknown shape (``bool`` alone is the host type), ``tensor`` of unknown
    dtype.
    """

    dtype: torch.dtype | None = None
    shape: tuple[int | None, ...] | None = None

    def __str__(self) -> str:
        if self.dtype is None and self.shape is None:
            return "tensor"
        dtype = "tensor" if self.dtype is None else str(self.dtype).removeprefix("torch.")
        if self.shape is None:
            return f"{dtype}[...]"
        return f"{dtype}[{','.join('?' if d is None else str(d) for d in self.shape)}]"


@dataclass(frozen=True)
class TupleType:
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


Type = Union[Anything, HostType, Constant, TensorType, TupleType]
ANY = Anything()
LITERALS = (type(None), bool, int, float, complex, str, bytes)


def type_name(cls: type) -> str:
    """The name a HostType carries for a class."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def type_of(value: Any, depth: int = 3) -> Type:
    """The most precise type of a value; keeps no reference to it."""
    cls = type(value)
    if cls is torch.Tensor or cls is torch.nn.Parameter:
        return TensorType(value.dtype, None if value.is_nested else tuple(value.shape))
    if cls in LITERALS:
        text = repr(value)
        return Constant(text, type_name(cls)) if len(text) <= 80 else HostType(type_name(cls))
    if cls is tuple and depth and len(value) <= 16:
        return TupleType(tuple(type_of(v, depth - 1) for v in value))
    return HostType(type_name(cls))


def covers(known: Type | None, value: Any) -> bool:
    """Whether a value is plainly of a type that was seen before: the quick answer, which may be no where it is yes."""
    cls = type(value)
    if cls is torch.Tensor or cls is torch.nn.Parameter:
        if type(known) is not TensorType or (known.dtype is not None and known.dtype is not value.dtype):
            return False
        shape = known.shape
        return shape is None or (len(shape) == value.dim() and all(a in (None, b) for a, b in zip(shape, value.shape)))
    return type(known) is HostType and known.name == cls.__name__ and cls in LITERALS


def _join_tensors(a: TensorType, b: TensorType) -> TensorType:
    dtype = a.dtype if a.dtype == b.dtype else None
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return TensorType(dtype, None)
    return TensorType(dtype, tuple(x if x == y else None for x, y in zip(a.shape, b.shape)))


def _host(t: Type) -> Type:
    if isinstance(t, Constant):
        return HostType(t.host)
    return HostType("tuple") if isinstance(t, TupleType) else t


def join(a: Type, b: Type) -> Type:
    """The least type that covers both."""
    if a == b:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return _join_tensors(a, b)
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.items) == len(b.items):
        return TupleType(tuple(join(x, y) for x, y in zip(a.items, b.items)))
    left, right = _host(a), _host(b)
    return left if left == right else ANY


def join_all(types: Iterable[Type]) -> Type:
    """The join of one or more types; of none, any."""
    items = list(types)
    return reduce(join, items) if items else ANY


def is_below(a: Type, b: Type) -> bool:
    """Whether everything of type ``a`` is of type ``b``."""
    return join(a, b) == b
