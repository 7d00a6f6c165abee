"""The probes of an instrumented call: they record into a profile and hand on the very value they were given.

A probe never runs user code: what is tested for truth is so before, where the test stands.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import torch

from janusc import marks, torch_private
from janusc.typeinfer import callees, torch_table
from janusc.typeinfer.extent import Place, is_sequential
from janusc.typeinfer.profile import Profile
from janusc.types import HostType, TupleType, Type, covers, type_name, type_of

_SIZED = (list, tuple, dict, set, range, str)
Twin = Callable[[types.FunctionType], Callable[..., Any]]


class _Loops(threading.local):
    """The loops this thread is in, innermost last: site, trips so far, and the exception being handled at entry."""

    def __init__(self) -> None:
        self.stack: list[tuple[str, list[int], BaseException | None]] = []


class Recorder:
    """The probes bound to one profile; ``twin`` gives the instrumented version of a user function that is called."""

    def __init__(self, profile: Profile, twin: Twin) -> None:
        self.profile = profile
        self._twin = twin
        self._loops = _Loops()

    def probes(self) -> dict[str, Callable[..., Any]]:
        """The probes by the names that instrumented code calls them."""
        return {
            "_jc_truth": self.truth,
            "_jc_enter": self.enter,
            "_jc_tick": self.tick,
            "_jc_leave": self.leave,
            "_jc_counted": self.counted,
            "_jc_seen": self.seen,
            "_jc_callee": self.callee,
        }

    def truth(self, site: str, outcome: bool) -> bool:
        """The outcome of a test; records it."""
        self.profile.branch(site, outcome)
        return outcome

    def place(self) -> Place:
        """The loops this thread is in, those of its callers too."""
        return tuple((site, trips[0]) for site, trips, _ in self._loops.stack)

    def enter(self, site: str) -> None:
        """A loop begins."""
        self._loops.stack.append((site, [0], sys.exc_info()[1]))

    def tick(self) -> None:
        """The innermost loop runs its body once more."""
        self._loops.stack[-1][1][0] += 1

    def leave(self) -> None:
        """The innermost loop ends; its trip count counts unless it ends by an exception."""
        site, trips, handled = self._loops.stack.pop()
        if sys.exc_info()[1] is handled:
            self.profile.trips(site, trips[0])

    def counted(self, site: str, iterable: Any) -> Any:
        """The iterable itself; where it has a length that nobody's code gives, that counts as trips."""
        if type(iterable) in _SIZED:
            self.profile.trips(site, len(iterable))
        return iterable

    def seen(self, site: str, value: Any) -> Any:
        """The value itself; records its type."""
        if torch_private.function_modes():  # they would see what is asked
            with torch_private.unseen():
                self._observe(site, value)
        else:
            self._observe(site, value)
        return value

    def _observe(self, site: str, value: Any) -> None:
        try:
            known = self.profile.type_at(site)
            if covers(known, value) or (
                type(known) is HostType and self.profile.class_named(known.name) is type(value)
            ):
                return
            seen = type_of(value)
        except (ValueError, RuntimeError):  # an int too long to print, a tensor without a readable shape
            seen = HostType(type_name(type(value)))
        if type(seen) is HostType or type(seen) is TupleType:
            self._meet(value, seen, site)
        self.profile.observe(site, seen)

    def _meet(self, value: Any, seen: Type, site: str) -> None:
        """Note the classes of objects, which their types know by name only."""
        if isinstance(seen, TupleType):
            for item, kind in zip(value, seen.items):
                self._meet(item, kind, site)
        elif isinstance(seen, HostType) and type(value).__module__ != "builtins":
            self.profile.meet(seen.name, type(value), site)

    def callee(self, target: Any) -> Any:
        """What to call in the place of ``target``: the instrumented twin of user code, else ``target`` itself."""
        kind = type(target)
        if kind is types.FunctionType:
            return self._function(target)
        if kind is types.MethodType:
            return self._method(target)
        if issubclass(kind, torch.nn.Module) and torch_private.calls_forward_only(target):
            return self._module(target)
        return target

    def _function(self, target: types.FunctionType) -> Any:
        original = marks.original_of(target)
        if type(original) is types.MethodType:
            return self._method(original)
        function = target if original is None else original
        if not is_user_function(function):
            return target
        return self._twin(function)

    def _method(self, target: types.MethodType) -> Any:
        function = target.__func__
        if type(function) is not types.FunctionType or marks.is_opaque(target):
            return target
        twin = self._function(function)
        return target if twin is function else types.MethodType(twin, target.__self__)

    def _module(self, target: torch.nn.Module) -> Any:
        if marks.is_opaque(target) or marks.is_opaque(type(target)):
            return target
        if type(target).__getattribute__ is not object.__getattribute__:  # to ask for its forward would be noticed
            return target
        forward = target.forward
        twin = self._method(forward) if type(forward) is types.MethodType else forward
        # a library's layer keeps its own call: only user code is worth a detour around Module.__call__
        return target if twin is forward else twin


def is_user_function(function: Any) -> bool:
    """Whether a callee is user code that may be looked into, or torch's ``Sequential``, which calls user code."""
    if type(function) is not types.FunctionType or marks.is_opaque(function):
        return False
    code = function.__code__
    if is_sequential(code):
        return True
    return callees.is_inlined(function) and (callees.is_under_manager(code) or not torch_table.is_torch_code(code))
