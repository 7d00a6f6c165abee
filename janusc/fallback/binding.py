"""The compiled forward of one module instance: a method in its ``__dict__``, and what copies of the module get of it.

A method is bound to one object, so a copy of the ``__dict__`` must not take it along. Every way of copying asks the
instance for its state first: a deep copy and a replica for data parallelism are bound anew, a shallow copy and a pickle
are the module as it was before it was compiled.
"""

from __future__ import annotations

import copy
import types
from typing import Any

import torch

from janusc import marks
from janusc.torch_private import REPLICATE


def bind_forward(module: torch.nn.Module, wrapper: types.FunctionType) -> None:
    """Make a wrapper the forward of this module alone, not through a ``__setattr__`` of the user's."""
    state = vars(module)
    before = state.get("forward")
    if before is not None and not is_binding(before):  # the user's own method, which copies take along in eager too
        state["forward"] = types.MethodType(wrapper, module)
    else:
        state.update(_bindings(module, wrapper))


def is_binding(value: Any) -> bool:
    """Whether an entry of an instance's ``__dict__`` was made by ``bind_forward``."""
    if type(value) is not types.MethodType:
        return False
    return value.__func__ in (_getstate, _replicate) or marks.state_of(value.__func__) is not None


def _bindings(module: torch.nn.Module, wrapper: types.FunctionType) -> dict[str, types.MethodType]:
    bound = {"forward": types.MethodType(wrapper, module), "__getstate__": types.MethodType(_getstate, module)}
    if hasattr(type(module), REPLICATE):
        bound[REPLICATE] = types.MethodType(_replicate, module)
    return bound


def _without(state: dict[str, Any], module: torch.nn.Module) -> dict[str, Any]:
    return {k: v for k, v in state.items() if not (is_binding(v) and v.__self__ is module)}


class _State(dict[str, Any]):
    """The state of a module without its bindings, which only a deep copy makes anew."""

    def __init__(self, state: dict[str, Any], module: torch.nn.Module, wrapper: types.FunctionType) -> None:
        super().__init__(state)
        self.module, self.wrapper = module, wrapper

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        state = copy.deepcopy(dict(self), memo)
        twin = memo.get(id(self.module))
        return state if twin is None else {**state, **_bindings(twin, self.wrapper)}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def _getstate(module: torch.nn.Module) -> Any:
    cls: Any = type(module)
    state = cls.__getstate__(module)
    if type(state) is not dict:
        return state
    forward = vars(module).get("forward")
    state = _without(state, module)
    return state if forward is None or not is_binding(forward) else _State(state, module, forward.__func__)


def _replicate(module: torch.nn.Module) -> torch.nn.Module:
    replica: torch.nn.Module = getattr(type(module), REPLICATE)(module)
    state = vars(replica)
    for name, value in state.items():
        if is_binding(value) and value.__self__ is module:
            state[name] = types.MethodType(value.__func__, replica)
    return replica


# a method pickles by its name, where a class has a way of its own
_getstate.__name__, _replicate.__name__ = "__getstate__", REPLICATE
