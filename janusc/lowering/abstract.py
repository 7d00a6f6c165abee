"""Abstract values: what the lowering knows of a value of the program while it walks the source.

Only tensors and varying host values are symbolic. Containers made inside the call are followed item by item until they
must become real objects (they reach a region, a host range or the outside); objects that existed before stay what they
are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

from janusc.lowering.ir import Value


class _Unknown:
    """There is no sample for a value."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()


@dataclass(frozen=True, eq=False)
class Known:
    """A literal, or a code-like object (library function, class, module, dtype): fixed, or guarded where read."""

    value: Any


@dataclass(frozen=True, eq=False)
class Sym:
    """A run-time value. ``sample`` is a stand-in tensor or a host value seen: for kinds, never for folding."""

    value: Value
    sample: Any = UNKNOWN
    stable: bool = False  # the sample is this call's very value: worth assuming under an assert
    fresh: bool = False  # a tensor or container made in this transaction that aliases nothing from outside
    pytype: type | None = None  # the exact type, where it is certain
    element: Any = None  # for containers: an abstract value like those inside
    maybe_unbound: bool = False
    plain: bool = False  # a tensor or immutable host value, of whatever type: its operators run no user code
    number: bool = False  # and an int or a float

    @property
    def is_tensor(self) -> bool:
        return self.pytype is not None and self.pytype.__name__ in ("Tensor", "Parameter")


@dataclass(frozen=True, eq=False)
class Live:
    """An object that existed before the transaction, of a guarded exact type; ``sample`` is the one of this call."""

    value: Value
    sample: Any
    fixed: bool = False  # reached inside a library whose own names are taken as fixed


@dataclass(frozen=True, eq=False)
class TupleV:
    items: tuple[Any, ...]


@dataclass(eq=False)
class ListV:
    """A list made inside the call; once ``real`` is set, the list is the run-time object and ``items`` is stale."""

    items: list[Any]
    real: Sym | None = None


@dataclass(eq=False)
class DictV:
    """A dict with literal keys made inside the call."""

    items: dict[Any, Any]
    real: Sym | None = None


@dataclass(frozen=True, eq=False)
class PartsV:
    """A slice of a module container: a new container, followed while it is only looped over, indexed or called."""

    cls: type
    items: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class SpreadV:
    """``*xs`` among the arguments of a call, of a tuple whose length is known at run time only."""

    items: Any


@dataclass(frozen=True, eq=False)
class SliceV:
    lower: Any
    upper: Any
    step: Any


@dataclass(frozen=True, eq=False)
class IterableV:
    """range, enumerate, zip, reversed or map-like over abstract operands, not yet iterated."""

    kind: str
    operands: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class FunctionV:
    """A function or lambda defined inside the call; it shares its defining frame, as closures do."""

    node: Any
    frame: Any
    defaults: tuple[Any, ...]
    kw_defaults: tuple[Any, ...]
    name: str


@dataclass(frozen=True, eq=False)
class BoundV:
    """A function with its first argument: a method of an object."""

    function: Any
    owner: Any


@dataclass(frozen=True, eq=False)
class MethodV:
    """A method of a tensor or host value, found by name at run time."""

    owner: Any
    name: str


@dataclass(frozen=True, eq=False)
class SuperV:
    cls: type
    owner: Any


Abstract = Union[Known, Sym, Live, TupleV, ListV, DictV, PartsV, SliceV, IterableV, FunctionV, BoundV, MethodV, SuperV]


class Unbound:
    """The abstract value of a variable that has none."""


@dataclass
class Frame:
    """One activation while lowering: the root function, an inlined callee or a nested function."""

    id: int
    parsed: Any  # ParsedFunction of the code whose sites are used
    function: Any  # Live for a real function; FunctionV for a local one
    is_library: bool  # names read here are taken as fixed
    called_at: str = ""  # of library code: by which calls it was reached, which it may do different things for
    locals: frozenset[str] = frozenset()
    global_names: frozenset[str] = frozenset()
    nonlocal_names: frozenset[str] = frozenset()
    parent: Frame | None = None  # the defining frame of a local function
    caller: Frame | None = None
    owner_class: type | None = None
    first: Any = None  # the first argument, for super()
    depth: int = 0
    cells: dict[str, Any] = field(default_factory=dict)
