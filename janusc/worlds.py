"""Fresh copies of everything that a callable under test can reach, one for each run.

Arguments are copied. What functions hold (closure cells, defaults, attributes) and what they find by name (data in
user modules and on user classes) stays where it is found: copies are put there while a run lasts, and the originals
are put back after it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from janusc import marks
from janusc.snapshot import Snapshot


class Call:
    """The arguments of one call, keyword arguments included."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs


Step = Union[tuple[Any, ...], Call, Callable[..., Any]]
Decorator = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class World:
    """One run's objects: the callable under test, its calls, and what else to look at afterwards.

    A step is a tuple of arguments, a `Call`, or a callable that is given the function under test. ``observed`` maps
    names to objects whose state is compared; the original function belongs in it, since its closure, its defaults and
    the globals that it names are state too.
    """

    function: Any
    steps: Sequence[Step]
    observed: Mapping[str, Any]


def made_world(factory: Callable[[], Any], steps: Sequence[Step], decorate: Decorator) -> World:
    """The world of a function that a factory makes, alone or in a tuple with state to look at."""
    made = factory()
    function, *state = made if isinstance(made, tuple) else (made,)
    observed = {"function": function, **{f"state {i}": s for i, s in enumerate(state)}}
    copier = _Copier()
    calls = [
        copier.step(step) if isinstance(step, (tuple, Call)) else functools.partial(_with_state, step, state)
        for step in steps
    ]
    return World(decorate(function), calls, observed)


def _with_state(step: Callable[..., Any], state: Sequence[Any], function: Any) -> Any:
    return step(function, *state)


@contextlib.contextmanager
def copied_world(f: Any, steps: Sequence[Step]) -> Iterator[Callable[[Decorator], World]]:
    """A maker of the world of a callable and its calls; what is put in place for it is there until the end."""
    if not all(isinstance(step, (tuple, Call)) for step in steps):
        raise TypeError("assert_equivalent: a call given as a callable needs factory=True")
    f = marks.original_of(f) or f
    reached = Snapshot()
    reached.visit("function", f)
    for step in steps:
        reached.visit("arguments", vars(step) if isinstance(step, Call) else step)
    copier = _Copier()
    with contextlib.ExitStack() as stack:
        for function in reached.functions:
            stack.enter_context(_own_state(function, copier))
        for namespace, names in reached.namespaces.values():
            stack.enter_context(_own_entries(namespace, names, copier))
        function = copier.copy(f)
        calls = [copier.step(step) for step in steps]
        yield lambda decorate: World(decorate(function), calls, {"function": function})


@contextlib.contextmanager
def _own_state(function: types.FunctionType, copier: _Copier) -> Iterator[None]:
    """Copies in the cells, defaults and attributes of a function, for a while."""
    cells = [(cell, _content(cell)) for cell in function.__closure__ or ()]
    held = function.__defaults__, function.__kwdefaults__, dict(vars(function))
    try:
        for cell, content in cells:
            if content is not _EMPTY and _content(cell) is content:  # else another function's turn has come first
                cell.cell_contents = copier.copy_or_share(content)
        function.__defaults__ = copier.copy_or_share(held[0])
        function.__kwdefaults__ = copier.copy_or_share(held[1])
        vars(function).update({k: copier.copy_or_share(v) for k, v in held[2].items() if k != "__wrapped__"})
        yield
    finally:
        for cell, content in cells:
            if content is not _EMPTY:
                cell.cell_contents = content
            elif _content(cell) is not _EMPTY:
                del cell.cell_contents
        function.__defaults__, function.__kwdefaults__ = held[0], held[1]
        vars(function).clear()
        vars(function).update(held[2])


@contextlib.contextmanager
def _own_entries(namespace: Any, names: set[str], copier: _Copier) -> Iterator[None]:
    """Copies of the data under some names of a module or class, for a while."""
    is_class = isinstance(namespace, type)
    entries = vars(namespace) if is_class else namespace
    before = {name: entries[name] for name in names & entries.keys()}

    def assign(name: str, value: Any) -> None:
        if value is not entries.get(name, _EMPTY):
            type.__setattr__(namespace, name, value) if is_class else entries.__setitem__(name, value)

    try:
        for name, value in before.items():
            assign(name, copier.copy_or_share(value))
        yield
    finally:
        for name, value in before.items():
            assign(name, value)
        for name in (names & entries.keys()) - before.keys():
            type.__delattr__(namespace, name) if is_class else entries.__delitem__(name)


_EMPTY = object()


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


class Uncopyable(TypeError):
    """An object that the runs would have to share, where each needs its own."""


class _Copier:
    """Deep copies that keep what is shared within a world shared; code (functions, classes, modules) is one for all."""

    def __init__(self) -> None:
        self.memo: dict[int, Any] = {id(module): module for module in list(sys.modules.values())}

    def step(self, step: Any) -> Any:
        """The arguments of a call."""
        if isinstance(step, Call):
            return Call(*self.copy(step.args), **self.copy(step.kwargs))
        return self.copy(step)

    def copy(self, value: Any) -> Any:
        """A copy, the same one for the same object each time."""
        try:
            return copy.deepcopy(value, self.memo)
        except Exception as error:
            raise Uncopyable(
                f"assert_equivalent: each run needs a copy of its own of {_described(value)}, which can't be made "
                f"({type(error).__name__}: {error}); make it in a factory, with factory=True"
            ) from error

    def copy_or_share(self, value: Any) -> Any:
        """A copy, or the very object where there can't be one."""
        try:
            return self.copy(value)
        except Uncopyable:
            return value


def _described(value: Any) -> str:
    return f"a {type(value).__name__}" if not isinstance(value, tuple) else "the arguments"
