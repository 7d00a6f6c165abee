"""What the package knows of single functions: those declared opaque, and the wrappers that ``compile`` returned.

Nothing is stored on the objects themselves, so they pickle, copy and print as before; nothing is kept alive; and no
``__eq__`` or ``__hash__`` of the user's is called.
"""

from __future__ import annotations

import types
import weakref
from typing import Any

_opaque: dict[int, Any] = {}
_wrapper_codes: dict[int, types.CodeType] = {}


def mark_opaque(target: Any) -> None:
    """Declare that a function, class or instance is called as it is and never looked into."""
    key = id(target)
    try:
        _opaque[key] = weakref.ref(target, lambda _: _opaque.pop(key, None))
    except TypeError:  # can't be weakly referenced
        _opaque[key] = lambda: target


def is_opaque(target: Any) -> bool:
    """Whether the target was declared opaque; for a bound method, whether its function or its object was."""
    if type(target) is types.MethodType:
        return is_opaque(target.__func__) or is_opaque(target.__self__)
    reference = _opaque.get(id(target))
    return reference is not None and reference() is target


def register_wrapper(code: types.CodeType) -> None:
    """Functions with this code are wrappers: closures over the user's ``function`` and the ``state`` of its calls.

    A wrapper around a bound method reaches its state through the wrapper ``call`` of the underlying function.
    """
    _wrapper_codes[id(code)] = code


def _closure(target: Any, name: str) -> Any:
    if type(target) is not types.FunctionType or id(target.__code__) not in _wrapper_codes:
        return None
    names = target.__code__.co_freevars
    if name not in names:
        return _closure(_closure(target, "call"), name)
    return target.__closure__[names.index(name)].cell_contents  # type: ignore[index]


def original_of(target: Any) -> types.FunctionType | types.MethodType | None:
    """The user's function behind a wrapper that ``compile`` returned, or None for anything else."""
    original: types.FunctionType | types.MethodType | None = _closure(target, "function")
    return original


def state_of(target: Any) -> Any:
    """The state of the calls of a wrapper, or None for anything else."""
    return _closure(target, "state")
