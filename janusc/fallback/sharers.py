"""Whom one state serves: the functions of one ``def``, and the modules whose method it is.

They share what was learned and converted. Where they are not built alike each needs specialisations of its own, so how
many are kept goes by their number, and which is tried first by whom a call is for. Nobody is kept alive here.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Sequence
from typing import Any

import torch

from janusc.fallback import policy
from janusc.fallback.variant import Variant

_WRAPPERS = 10  # around one function


def codes_of(function: Any) -> tuple[types.CodeType, ...]:
    """The code of a function and of those that it wraps: one decorator around two functions makes unlike ones."""
    codes: list[types.CodeType] = []
    while isinstance(function, types.FunctionType) and len(codes) < _WRAPPERS:
        codes.append(function.__code__)
        function = vars(function).get("__wrapped__")
    return tuple(codes)


class Sharers:
    """The functions and modules that are served, by identity."""

    def __init__(self, function: Any) -> None:
        self.codes = codes_of(function)
        self._functions: weakref.WeakSet[types.FunctionType] = weakref.WeakSet([function] if self.codes else [])
        self._modules: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._preferred: dict[int, tuple[Variant, ...]] = {}

    def adopt(self, function: types.FunctionType) -> bool:
        """Serve another function of the same code too; False for one that is served already, or where none is left."""
        if codes_of(function) != self.codes or function in self._functions or not len(self._functions):
            return False
        self._functions.add(function)
        return True

    def meet(self, args: Sequence[Any]) -> None:
        """A call was not taken: count its module, if it is one's method that was called."""
        if args and _is_module(args[0]):
            key, known = id(args[0]), self._modules
            known[key] = weakref.ref(args[0], lambda _: known.pop(key, None))

    def room(self, each: int) -> int:
        """How many specialisations are kept, with so many for each."""
        return each * min(max(1, len(self._functions), len(self._modules)), policy.MOST_SHARERS)

    def are_several(self) -> bool:
        """Whether there is anybody to tell apart."""
        return len(self._functions) > 1 or len(self._modules) > 1

    def prefer(self, variants: tuple[Variant, ...], function: types.FunctionType, args: Sequence[Any]) -> None:
        """A call was taken by the first of these specialisations, after others had been asked."""
        if len(self._preferred) >= policy.MOST_SHARERS:
            self._preferred.clear()
        self._preferred[_whose(function, args)] = variants

    def in_order(
        self, variants: tuple[Variant, ...], function: types.FunctionType, args: Sequence[Any]
    ) -> tuple[Variant, ...]:
        """The specialisations, that first which took the last call of the same function or module."""
        return self._preferred.get(_whose(function, args), variants)

    def forget(self) -> None:
        """Nothing is known of who needs what."""
        self._preferred.clear()


def _whose(function: types.FunctionType, args: Sequence[Any]) -> int:
    """A hint only, since an object may be gone and another one have its place: the guards decide."""
    return id(args[0]) if args and _is_module(args[0]) else id(function)


def _is_module(value: Any) -> bool:
    return issubclass(type(value), torch.nn.Module)  # what a value says of its class is not asked
