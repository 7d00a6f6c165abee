"""Everything observable about some objects, as a flat table from path to fact.

A `Snapshot` walks from named roots through containers, instances, modules, closures and the data of user classes. It
never runs user code (no properties, no ``__eq__``, no ``__repr__``), keeps copies rather than the objects themselves,
and records sharing: an object met a second time, and tensors on one storage, name the path where it was met first.
"""

from __future__ import annotations

import array
import collections
import contextvars
import datetime
import decimal
import enum
import functools
import io
import random
import re
import sys
import sysconfig
import types
import uuid
import weakref
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy
import torch

from janusc import marks, torch_private
from janusc.fallback.binding import is_binding
from janusc.tensor_fact import tensor_fact

Fact = Any
_ATOMS = (type(None), bool, int, float, complex, str, bytes)
_SINGLETONS = (type(Ellipsis), type(NotImplemented))
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format, range, *_SINGLETONS)
_BUILTINS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_SHAPELESS = (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer)
_FRAMEWORK = frozenset(vars(torch.nn.Module()))
_LIBRARIES = frozenset(sys.stdlib_module_names) - {"__main__"} | {"torch", "numpy", "janusc"}
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})
_UNSET = object()
_LONG_INT = 4096  # bits


def is_leaf(tensor: torch.Tensor) -> bool | None:
    """Whether autograd knows the tensor as a leaf; None for a view that inference mode has made unusable."""
    try:
        return tensor.is_leaf
    except RuntimeError:
        return None


def _is_constant(value: Any) -> bool:
    """Whether a value has no identity of its own: Python itself makes some such tuples once, and some for each call."""
    kinds = (tuple, torch.Size)
    return type(value) in _ATOMS or (type(value) in kinds and all(_is_constant(item) for item in value))


class Snapshot:
    """A walk over objects; ``facts`` is the table, ``tensors`` every tensor met with its path, in order."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.tensors: list[tuple[str, torch.Tensor]] = []
        self.functions: list[types.FunctionType] = []  # of the user's
        self.namespaces: dict[int, tuple[Any, set[str]]] = {}  # modules and classes, and what was read of each
        self._paths: dict[int, str] = {}
        self._storages: dict[int, str] = {}
        self._alive: list[Any] = []  # an id must not be used again within one walk
        self._home: str | None = None  # the package of the first function or class
        self._globals: Any = None  # those of the first function, whose names need no module before them
        self._found: list[tuple[str, Any]] | None = None  # by the visitor at work, to be visited after it

    def visit(self, path: str, value: Any) -> None:
        """Record one value and all that can be reached from it, depth first and without recursion."""
        if self._found is not None:
            self._found.append((path, value))
            return
        pending = [(path, value)]
        try:
            while pending:
                self._found = []
                self._visit_one(*pending.pop())
                pending.extend(reversed(self._found))
        finally:
            self._found = None

    def _visit_one(self, path: str, value: Any) -> None:
        value = marks.original_of(value) or value
        cls = type(value)
        if _is_constant(value):
            # Python refuses the decimal form of very long integers
            text = f"{value:x}" if cls is int and value.bit_length() > _LONG_INT else repr(value)
            self.facts[path] = scrub(f"{text} ({cls.__name__})")
        elif issubclass(cls, enum.Enum):
            self.facts[path] = f"{cls.__qualname__}.{value._name_ or value._value_}"
        elif cls in _NAMED:
            self.facts[path] = str(value)
        elif cls in _BUILTINS:
            self.facts[path] = value.__qualname__
        elif issubclass(cls, types.ModuleType):
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
            if issubclass(type(value), kinds):
                method(self, path, value)
                return
        self._instance(path, value)

    # ---- tensors and arrays

    def _tensor(self, path: str, value: torch.Tensor) -> None:
        if isinstance(value, _SHAPELESS):
            return
        self.tensors.append((path, value))
        with torch_private.without_overrides():
            self._geometry(path, value)
            grad = value.grad if is_leaf(value) else None
        fact = tensor_fact(value)
        if fact is not None:
            self.facts[path] = fact
        if grad is not None:
            self.visit(f"{path}.grad", grad)
        self._attributes(path, value)

    def _geometry(self, path: str, value: torch.Tensor) -> None:
        self.facts[f"{path}.dtype"] = str(value.dtype)
        self.facts[f"{path}.shape"] = value.dim() if value.is_nested else tuple(value.shape)
        self.facts[f"{path}.device"] = str(value.device)
        self.facts[f"{path}.layout"] = str(value.layout)
        self.facts[f"{path}.requires_grad"] = value.requires_grad
        self.facts[f"{path}.is_leaf"] = is_leaf(value)
        self.facts[f"{path}: kind"] = tuple(name for name in _KINDS if getattr(value, name)())
        if value.layout is torch.strided and not value.is_nested:
            self.facts[f"{path}.stride"] = value.stride()
            self.facts[f"{path}.storage_offset"] = value.storage_offset()
            if value.device.type != "meta":
                self._storage(path, value.untyped_storage())

    def _storage(self, path: str, storage: torch.UntypedStorage) -> None:
        try:
            place = storage.data_ptr()
        except RuntimeError:  # a tensor made of others has none
            return
        if storage.nbytes():
            self.facts[f"{path}.storage"] = self._storages.setdefault(place, path)
        self.facts[f"{path}: storage size"] = storage.nbytes()

    def _array(self, path: str, value: Any) -> None:
        self.facts[f"{path}.layout"] = (str(value.dtype), value.shape, value.strides)
        if value.dtype == object:
            self.visit(f"{path}.items", value.reshape(-1).tolist())
        else:
            self.facts[path] = (value.tobytes(), str(value))
        if isinstance(value, numpy.ndarray):
            base: Any = value
            while isinstance(base.base, numpy.ndarray):
                base = base.base
            self.facts[f"{path}: writeable"] = value.flags.writeable
            if base.nbytes:
                self.facts[f"{path}.storage"] = self._storages.setdefault(base.ctypes.data, path)
            self._attributes(path, value)

    # ---- containers

    def _sequence(self, path: str, value: Any) -> None:
        base = next(c for c in (list, tuple, collections.deque) if isinstance(value, c))
        self.facts[f"len({path})"] = base.__len__(value)
        names = getattr(type(value), "_fields", None) if base is tuple else None
        for index, item in enumerate(base.__iter__(value)):
            self.visit(f"{path}.{names[index]}" if names else f"{path}[{index}]", item)
        if base is collections.deque:
            self.facts[f"{path}.maxlen"] = value.maxlen
        self._attributes(path, value)

    def _set(self, path: str, value: Any) -> None:
        """Members have no order; those that are known from elsewhere are told apart, and a lone one is looked into."""
        base = frozenset if isinstance(value, frozenset) else set
        members = list(base.__iter__(value))
        self.facts[f"len({path})"] = len(members)
        named = [(_key_text(m) or self._paths.get(id(m)) or _class_name(type(m)), m) for m in members]
        self.facts[path] = tuple(sorted(name for name, _ in named))
        for name, member in named:
            if not _key_text(member) and sum(name == other for other, _ in named) == 1:
                self.visit(f"{path}: {name}", member)
        self._attributes(path, value)

    def _mapping(self, path: str, value: Any) -> None:
        base: Any = next(c for c in (collections.OrderedDict, dict, types.MappingProxyType) if isinstance(value, c))
        keys = list(base.__iter__(value))
        self.facts[f"list({path})"] = tuple(_key_text(k) or _class_name(type(k)) for k in keys)
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

    def _view(self, path: str, value: Any) -> None:
        self.visit(f"{path}.mapping", value.mapping)

    def _slice(self, path: str, value: slice) -> None:
        for name in ("start", "stop", "step"):
            self.visit(f"{path}.{name}", getattr(value, name))

    # ---- modules and functions

    def _script(self, path: str, value: torch.jit.ScriptModule) -> None:
        """What a scripted module holds is not in its ``__dict__``."""
        for name, item in [*value.named_parameters(), *value.named_buffers()]:
            self.visit(f"{path}.{name}", item)
        self.facts[f"{path}.training"] = value.training

    def _module(self, path: str, value: torch.nn.Module) -> None:
        state = vars(value)
        for kind in ("_parameters", "_buffers", "_modules"):
            self.facts[f"{path}: {kind[1:]}"] = tuple(state.get(kind, ()))
            for name, item in state.get(kind, {}).items():
                self.visit(f"{path}.{name}", item)
        self.facts[f"{path}.training"] = state.get("training")
        self.facts[f"{path}: not in state_dict"] = tuple(sorted(state.get("_non_persistent_buffers_set", ())))
        for name, item in state.items():
            if name not in _FRAMEWORK:
                if not (is_binding(item) or name == "forward" and _is_compiled(item)):
                    self.visit(f"{path}.{name}", item)
            elif name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")):
                self.facts[f"len({path}.{name})"] = len(item)  # keys are numbered per process
                for index, hook in enumerate(item.values()):
                    self.visit(f"{path}.{name}: {index}", hook)
        self._class(path, type(value))

    def _function(self, path: str, function: Any) -> None:
        self.facts[path] = function.__qualname__
        if self._is_foreign(function.__module__):
            return
        self.functions.append(function)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            self._cell(f"{path}:{name}", cell)
        for name in ("__defaults__", "__kwdefaults__"):
            if getattr(function, name) is not None:
                self.visit(f"{path}.{name}", getattr(function, name))
        self._attributes(path, function)
        names, known = set(named_globals(function.__code__)), function.__globals__
        if self._globals is None:
            self._globals = known
        prefix = "global " if known is self._globals else f"global {function.__module__}."
        self._read(known, names)
        for name in sorted(names & known.keys()):
            value = known[name]
            if not isinstance(value, types.ModuleType):
                self.visit(f"{prefix}{name}", value)
            elif not self._is_foreign(value.__name__):
                self._read(vars(value), names)
                for inner in sorted(names & vars(value).keys()):
                    self.visit(f"{value.__name__}.{inner}", vars(value)[inner])

    def _read(self, namespace: Any, names: set[str]) -> None:
        self.namespaces.setdefault(id(namespace), (namespace, set()))[1].update(names)

    def _cell(self, path: str, cell: types.CellType) -> None:
        try:
            self.visit(path, cell.cell_contents)
        except ValueError:
            self.facts[path] = "unbound"

    def _method(self, path: str, value: types.MethodType) -> None:
        self.visit(f"{path}.__func__", value.__func__)
        self.visit(f"{path}.__self__", value.__self__)

    def _partial(self, path: str, value: Any) -> None:
        for name in ("func", "args", "keywords"):
            self.visit(f"{path}.{name}", getattr(value, name))

    def _class(self, path: str, cls: type) -> None:
        """Data kept on user classes, and what their methods reach; other descriptors belong to the program."""
        for base in cls.__mro__:
            if self._is_foreign(base.__module__) or id(base) in self._paths and self._paths[id(base)] != path:
                continue
            self._paths[id(base)] = path
            for name, item in list(vars(base).items()):
                functions = [f for f in _functions_in(item) if type(f) is types.FunctionType]
                if functions:
                    for function in functions:
                        self.visit(f"{base.__qualname__}.{name}", function)
                elif not (name.startswith(("__", "_abc_")) or callable(item) or hasattr(type(item), "__get__")):
                    self._read(base, {name})
                    self.visit(f"{base.__qualname__}.{name}", item)

    def _is_foreign(self, module: str | None) -> bool:
        """Whether a module is a library's or an installed package other than the one that the walk began in."""
        package = (module or "builtins").split(".")[0]
        if package in _LIBRARIES:
            return True
        if self._home is None:
            self._home = package
        return package != self._home and _is_installed(package)

    # ---- other objects

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

    def _exception(self, path: str, value: BaseException) -> None:
        for name in ("args", "__cause__", "__context__", "__suppress_context__"):
            self.visit(f"{path}.{name}", getattr(BaseException, name).__get__(value))
        self._attributes(path, value)

    def _value(self, path: str, value: Any) -> None:
        """What the standard library says about an object of its own that has no attributes."""
        base: Any = next(cls for cls in type(value).__mro__ if cls.__module__.split(".")[0] in _LIBRARIES)
        self.facts[path] = scrub(base.__repr__(value))
        self._attributes(path, value)

    def _torch_generator(self, path: str, value: torch.Generator) -> None:
        self.facts[path] = tensor_fact(value.get_state())

    def _python_generator(self, path: str, value: random.Random) -> None:
        self.facts[path] = hash(random.Random.getstate(value))
        self._attributes(path, value)

    def _numpy_generator(self, path: str, value: Any) -> None:
        state = value.get_state(legacy=False) if isinstance(value, numpy.random.RandomState) else value
        bits = getattr(state, "bit_generator", state)
        self.visit(f"{path}.state", getattr(bits, "state", bits))

    def _buffer(self, path: str, value: Any) -> None:
        base = io.StringIO if isinstance(value, io.StringIO) else io.BytesIO
        self.facts[path] = "closed" if value.closed else (base.getvalue(value), base.tell(value))
        self._attributes(path, value)

    def _variable(self, path: str, value: contextvars.ContextVar[Any]) -> None:
        held = value.get(_UNSET)
        if held is not _UNSET:
            self.visit(f"{path}.get()", held)

    def _reference(self, path: str, value: weakref.ReferenceType[Any]) -> None:
        self.facts[path] = "dead" if value() is None else "alive"

    def _running(self, path: str, value: Any) -> None:
        """A generator or coroutine: where it stands, and its variables."""
        frame = next(getattr(value, name) for name in ("gi_frame", "cr_frame", "ag_frame") if hasattr(value, name))
        self.facts[path] = "finished" if frame is None else (value.__qualname__, frame.f_lineno)
        for name, item in () if frame is None else list(frame.f_locals.items()):
            self.visit(f"{path}:{name}", item)

    def _iterator(self, path: str, value: Any) -> None:
        """What an iterator of Python's own has left; others are not looked into, since running on would change them."""
        made = value.__reduce__() if type(value).__module__ == "builtins" else None
        if isinstance(made, tuple):
            self.visit(f"{path}: left", made[1:])
        else:
            self._instance(path, value)


def _functions_in(item: Any) -> tuple[Any, ...]:
    """The functions that stand behind an entry of a class."""
    if isinstance(item, (staticmethod, classmethod)):
        return (item.__func__,)
    if isinstance(item, property):
        return (item.fget, item.fset, item.fdel)
    if isinstance(item, functools.cached_property):
        return (item.func,)
    return (item,)


def _key_text(key: Any) -> str:
    """How a key or member is shown where it has a value of its own; an empty text where only its identity counts."""
    if _is_constant(key):
        return repr(key)
    if issubclass(type(key), enum.Enum):
        return f"{type(key).__qualname__}.{key._name_}"
    return str(key) if type(key) in _NAMED else ""


_KINDS = ("is_conj", "is_neg", "is_inference")
_RUNNING = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_VALUES = (
    bytearray, array.array, decimal.Decimal, datetime.date, datetime.time, datetime.timedelta, datetime.timezone,
    PurePath, re.Pattern, uuid.UUID, numpy.dtype,
)  # fmt: skip
_COUNTED = (torch.SymInt, torch.SymFloat, torch.SymBool, torch.utils.hooks.RemovableHandle)  # numbered per process
_OPAQUE = (types.CodeType, types.FrameType, types.TracebackType, *_COUNTED)
_VISITORS: tuple[tuple[Any, Any], ...] = (
    (torch.Tensor, Snapshot._tensor),
    (torch.Generator, Snapshot._torch_generator),
    (torch.jit.ScriptModule, Snapshot._script),
    (torch.nn.Module, Snapshot._module),
    ((numpy.ndarray, numpy.generic), Snapshot._array),
    ((list, tuple, collections.deque), Snapshot._sequence),
    ((set, frozenset), Snapshot._set),
    ((dict, types.MappingProxyType), Snapshot._mapping),
    ((type({}.keys()), type({}.values()), type({}.items())), Snapshot._view),
    (slice, Snapshot._slice),
    (types.FunctionType, Snapshot._function),
    (types.MethodType, Snapshot._method),
    (functools.partial, Snapshot._partial),
    (type, Snapshot._class),
    (types.CellType, Snapshot._cell),
    (BaseException, Snapshot._exception),
    (random.Random, Snapshot._python_generator),
    ((numpy.random.Generator, numpy.random.RandomState), Snapshot._numpy_generator),
    ((io.StringIO, io.BytesIO), Snapshot._buffer),
    (contextvars.ContextVar, Snapshot._variable),
    (weakref.ReferenceType, Snapshot._reference),
    (_RUNNING, Snapshot._running),
    (_VALUES, Snapshot._value),
    (_OPAQUE, lambda snapshot, path, value: None),
    (Iterator, Snapshot._iterator),
)


def scrub(text: str) -> str:
    """Text without memory addresses."""
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0x...", text) if "0x" in text else text


def named_globals(code: types.CodeType) -> Iterator[str]:
    """The names that a code object and the code inside it may look up as globals."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from named_globals(constant)


def _is_compiled(value: Any) -> bool:
    return marks.original_of(getattr(value, "__func__", value)) is not None


def _is_installed(module: str) -> bool:
    return str(getattr(sys.modules.get(module), "__file__", None) or "").startswith(_INSTALLED)


def _class_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
