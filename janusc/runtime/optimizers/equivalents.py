"""The table of equivalents, by the function of torch's own that each stands for.

An equivalent is called with the original, the object that this is a method of (or None), and the arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from janusc.registry import Registry
from janusc.typeinfer.torch_table import is_torch_code

Equivalent = Callable[..., Any]

EQUIVALENTS: Registry[FunctionType, Equivalent] = Registry("equivalents of torch's functions")


def register(function: Any, equivalent: Equivalent) -> None:
    """Add the equivalent of a function of torch's, whatever torch has wrapped around it; not where it is another's."""
    inner = inspect.unwrap(function)
    if isinstance(inner, FunctionType) and is_torch_code(inner.__code__):
        EQUIVALENTS.register(inner, equivalent)
