"""Frames of janusc's own between the user's function and its caller, and how others count them.

``warnings.warn(..., stacklevel=2)`` means the caller of the user's function. ``warnings`` and ``logging`` count no
frame of the import system, which they know by the name of its file; nor do they count those of functions marked here.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_UNCOUNTED = "importlib_bootstrap"


def uncounted(function: F) -> F:
    """The same function, and those made inside it, with frames that no ``stacklevel`` counts."""
    function.__code__ = _renamed(function.__code__)
    return function


def _renamed(code: types.CodeType) -> types.CodeType:
    consts = tuple(_renamed(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=f"{code.co_filename} ({_UNCOUNTED})", co_consts=consts)
