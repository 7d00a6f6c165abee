"""Everything observable about some objects, as a flat table from path to fact.

A `Snapshot` walks from named roots through containers, instances, modules, closures and the data of user classes. It
never runs user code (no properties, no ``__eq__``, no ``__repr__``), keeps copies rather than the objects themselves,
and records sharing: an object met a second time, and tensors on one storage, name the path where it was met first.
"""

from __future__ import annotations

import collections
import enum
import functools
import sys
import types
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from janusc import marks
from janusc.fallback.binding import is_binding

Fact = Any
_ATOMS = (type(None), bool, int, float, complex, str, bytes)
_SINGLETONS = (type(Ellipsis), type(NotImplemented))
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format, slice, range, *_SINGLETONS)
_BUILTINS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_FRAMEWORK = frozenset(vars(torch.nn.Module()))
_LIBRARIES = frozenset(sys.stdlib_module_names) - {"__main__"} | {"torch", "numpy", "janusc"}


@dataclass(frozen=True, eq=False)
class TensorFact:
    """The values of a tensor; two match where every bit does, or within a tolerance."""

    values: torch.Tensor

    def matches(self, other: Fact, tolerance: float | None = None) -> bool:
        """Whether the other fact is a tensor of equal values."""
        if not isinstance(other, TensorFact):
            return False
        a, b = self.values, other.values
        if a.dtype != b.dtype or a.shape != b.shape or a.layout != b.layout or a.device != b.device:
            return False
        if tolerance is not None and (a.is_floating_point() or a.is_complex()):
            return torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        if a.layout != torch.strided:
            a, b = a.to_dense(), b.to_dense()
        return torch.equal(_bits(a), _bits(b))

    def __str__(self) -> str:
        return " ".join(str(self.values).split())


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.resolve_conj().resolve_neg().reshape(-1)
    # Tensors of one element or none count as contiguous whatever their stride, which a view as bytes minds.
    return flat.clone(memory_format=torch.contiguous_format).view(torch.uint8)


def is_leaf(tensor: torch.Tensor) -> bool | None:
    """Whether autograd knows the tensor as a leaf; None for a view that inference mode has made unusable."""
    try:
        return tensor.is_leaf
    except RuntimeError:
        return None


def _is_constant(value: Any) -> bool:
    """Whether a value has no identity of its own: Python itself makes some such tuples once, and some for each call."""
    return type(value) in _ATOMS or (type(value) is tuple and all(_is_constant(item) for item in value))


class Snapshot:
    """A walk over objects; ``facts`` is the table, ``tensors`` every tensor met with its path, in order."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.tensors: list[tuple[str, torch.Tensor]] = []
        self._paths: dict[int, str] = {}
        self._storages: dict[int, str] = {}
        self._alive: list[Any] = []  # an id must not be used again within one walk

    def visit(self, path: str, value: Any) -> None:
        """Record one value and all that can be reached from it."""
        value = marks.original_of(value) or value
        if _is_constant(value):
            self.facts[path] = f"{value!r} ({type(value).__name__})"
        elif isinstance(value, enum.Enum) or isinstance(value, _NAMED):
            self.facts[path] = str(value)
        elif isinstance(value, _BUILTINS):
            self.facts[path] = value.__qualname__
        elif isinstance(value, types.ModuleType):
            self.facts[path] = value.__name__
        elif id(value) in self._paths:
            self.facts[path] = f"same object as {self._paths[id(value)]}"
        else:
            self._paths[id(value)] = path
            self._alive.append(value)
            self._visit_object(path, value)

    def _visit_object(self, path: str, value: Any) -> None:
        self.facts[f"{path}: type" if path else "type"] = _class_name(type(value))
        for kinds, method in _VISITORS:
            if isinstance(value, kinds):
                method(self, path, value)
                return
        self._instance(path, value)

    def _tensor(self, path: str, value: torch.Tensor) -> None:
        self.tensors.append((path, value))
        self.facts[f"{path}.dtype"] = str(value.dtype)
        self.facts[f"{path}.shape"] = tuple(value.shape)
        self.facts[f"{path}.device"] = str(value.device)
        self.facts[f"{path}.requires_grad"] = value.requires_grad
        self.facts[f"{path}.is_leaf"] = leaf = is_leaf(value)
        if value.layout == torch.strided and value.device.type != "meta":
            self.facts[f"{path}.stride"] = value.stride()
            self.facts[f"{path}.storage_offset"] = value.storage_offset()
            storage = value.untyped_storage()
            if storage.nbytes():
                self.facts[f"{path}.storage"] = self._storages.setdefault(storage.data_ptr(), path)
        if value.device.type != "meta":
            copied = value.detach().clone()
            plain = type(copied) is torch.Tensor  # of a sparse one there is no plain view
            self.facts[path] = TensorFact(copied if plain else copied.as_subclass(torch.Tensor))
        if leaf and value.grad is not None:
            self.visit(f"{path}.grad", value.grad)
        for name, attribute in vars(value).items():
            self.visit(f"{path}.{name}", attribute)

    def _array(self, path: str, value: Any) -> None:
        self.facts[f"{path}.layout"] = (str(value.dtype), value.shape, value.strides)
        if value.dtype == object:
            self.visit(f"{path}.items", value.reshape(-1).tolist())
        else:
            self.facts[path] = (value.tobytes(), str(value))

    def _sequence(self, path: str, value: Any) -> None:
        self.facts[f"len({path})"] = len(value)
        names = getattr(type(value), "_fields", None) if isinstance(value, tuple) else None
        items = tuple.__iter__(value) if isinstance(value, tuple) else iter(value)
        for index, item in enumerate(items):
            self.visit(f"{path}.{names[index]}" if names else f"{path}[{index}]", item)
        self._attributes(path, value)

    def _set(self, path: str, value: Any) -> None:
        self.facts[f"len({path})"] = len(value)
        self.facts[path] = tuple(sorted(repr(v) if type(v) in _ATOMS else _class_name(type(v)) for v in value))

    def _mapping(self, path: str, value: Any) -> None:
        keys = list(dict.keys(value)) if isinstance(value, dict) else list(value)
        self.facts[f"list({path})"] = tuple(repr(k) if type(k) in _ATOMS else _class_name(type(k)) for k in keys)
        for index, key in enumerate(keys):
            item = dict.__getitem__(value, key) if isinstance(value, dict) else value[key]
            if type(key) in _ATOMS:
                self.visit(f"{path}[{key!r}]", item)
            else:
                self.visit(f"{path}: key {index}", key)
                self.visit(f"{path}[key {index}]", item)
        if isinstance(value, collections.defaultdict):
            self.visit(f"{path}.default_factory", value.default_factory)
        self._attributes(path, value)

    def _module(self, path: str, value: torch.nn.Module) -> None:
        state = vars(value)
        for kind in ("_parameters", "_buffers", "_modules"):
            self.facts[f"{path}: {kind[1:]}"] = tuple(state.get(kind, ()))
            for name, item in state.get(kind, {}).items():
                self.visit(f"{path}.{name}", item)
        self.facts[f"{path}.training"] = state.get("training")
        for name, item in state.items():
            if name not in _FRAMEWORK:
                if not (is_binding(item) or name == "forward" and _is_compiled(item)):
                    self.visit(f"{path}.{name}", item)
            elif name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")):
                self.facts[f"len({path}.{name})"] = len(item)  # keys are numbered per process
        self._class(path, type(value))

    def _function(self, path: str, function: Any) -> None:
        self.facts[path] = function.__qualname__
        if _is_library(function.__module__):
            return
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            try:
                self.visit(f"{path}:{name}", cell.cell_contents)
            except ValueError:
                self.facts[f"{path}:{name}"] = "unbound"
        self.visit(f"{path}.__defaults__", function.__defaults__)
        self.visit(f"{path}.__kwdefaults__", function.__kwdefaults__)
        self._attributes(path, function)
        for name in sorted(set(named_globals(function.__code__)) & set(function.__globals__)):
            value = function.__globals__[name]
            if not isinstance(value, types.ModuleType):
                self.visit(f"global {name}", value)

    def _method(self, path: str, value: types.MethodType) -> None:
        self.visit(f"{path}.__func__", value.__func__)
        self.visit(f"{path}.__self__", value.__self__)

    def _partial(self, path: str, value: Any) -> None:
        for name in ("func", "args", "keywords"):
            self.visit(f"{path}.{name}", getattr(value, name))

    def _generator(self, path: str, value: torch.Generator) -> None:
        self.facts[path] = TensorFact(value.get_state())

    def _class(self, path: str, cls: type) -> None:
        """Data kept on user classes; methods and descriptors belong to the program, not to its state."""
        for base in cls.__mro__:
            if _is_library(base.__module__) or id(base) in self._paths and self._paths[id(base)] != path:
                continue
            self._paths[id(base)] = path
            for name, item in vars(base).items():
                if not (name.startswith(("__", "_abc_")) or callable(item) or hasattr(type(item), "__get__")):
                    self.visit(f"{base.__qualname__}.{name}", item)

    def _instance(self, path: str, value: Any) -> None:
        if isinstance(value, (int, float, complex, str, bytes)):
            base: Any = next(c for c in _ATOMS if isinstance(value, c))
            self.facts[path] = base.__repr__(value)
        self._attributes(path, value)
        for cls in type(value).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in [slots] if isinstance(slots, str) else slots:
                descriptor = cls.__dict__.get(name)
                if isinstance(descriptor, types.MemberDescriptorType):
                    try:
                        self.visit(f"{path}.{name}", descriptor.__get__(value))
                    except AttributeError:
                        self.facts[f"{path}.{name}"] = "unset"
        self._class(path, type(value))

    def _attributes(self, path: str, value: Any) -> None:
        try:
            state = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        for name, item in list(state.items()):
            if name != "__wrapped__":
                self.visit(f"{path}.{name}", item)

    def _opaque(self, path: str, value: Any) -> None:
        """Only the type is compared: running on through an iterator, say, would change the program."""


_OPAQUE = (
    weakref.ReferenceType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.CodeType,
    types.FrameType, types.TracebackType, types.CellType, Iterator,
)  # fmt: skip
_VISITORS: tuple[tuple[Any, Any], ...] = (
    (torch.Tensor, Snapshot._tensor),
    (torch.Generator, Snapshot._generator),
    (torch.nn.Module, Snapshot._module),
    ((numpy.ndarray, numpy.generic), Snapshot._array),
    ((list, tuple, collections.deque), Snapshot._sequence),
    ((set, frozenset), Snapshot._set),
    ((dict, types.MappingProxyType), Snapshot._mapping),
    (types.FunctionType, Snapshot._function),
    (types.MethodType, Snapshot._method),
    (functools.partial, Snapshot._partial),
    (type, Snapshot._class),
    (_OPAQUE, Snapshot._opaque),
)


def named_globals(code: types.CodeType) -> Iterator[str]:
    """The names that a code object and the code inside it may look up as globals."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from named_globals(constant)


def _is_compiled(value: Any) -> bool:
    return marks.original_of(getattr(value, "__func__", value)) is not None


def _is_library(module: str | None) -> bool:
    return (module or "builtins").split(".")[0] in _LIBRARIES


def _class_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
