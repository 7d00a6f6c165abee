"""The torch calls of a function, and nothing else: the least that it can take if it makes the same calls from Python.

What each call of it asks of torch is recorded once, and written out as straight-line code on the same tensors. No loop,
no decision, no module and no attribute is left in it, so that its time says how much of eager's time can be saved by
whatever keeps the calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _Recorder(TorchFunctionMode):
    """Writes down each call, with what came out of earlier ones by name."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.last_use: dict[str, int] = {}  # the line that is the last one to need what came out of another
        self.objects: dict[str, Any] = {}
        self.named: dict[int, str] = {}
        self.kept: list[Any] = []  # a name is known by an identity, so what has one must stay

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        given = [self.text(a) for a in args] + [f"{k}={self.text(v)}" for k, v in (kwargs or {}).items()]
        result = func(*args, **(kwargs or {}))
        name = f"v{len(self.lines)}"
        self.last_use[name] = len(self.lines)
        self.lines.append(f"{name} = {self.constant(func)}({', '.join(given)})")
        self.note(result, name)
        return result

    def note(self, value: Any, text: str) -> None:
        """What came out is called this from now on."""
        if isinstance(value, torch.Tensor):
            self.named.setdefault(id(value), text)
            self.kept.append(value)
        elif isinstance(value, (tuple, list)):
            for number, item in enumerate(value):
                self.note(item, f"{text}[{number}]")

    def text(self, value: Any) -> str:
        """An argument in the code."""
        if isinstance(value, torch.Tensor):
            text = self.named.get(id(value))
            if text is None:
                return self.constant(value)
            self.last_use[text.partition("[")[0]] = len(self.lines)
            return text
        if type(value) in (tuple, list):
            inner = "".join(f"{self.text(item)}, " for item in value)
            return f"({inner})" if type(value) is tuple else f"[{inner}]"
        return repr(value) if type(value) in (int, bool, str, type(None)) else self.constant(value)

    def constant(self, value: Any) -> str:
        """The name of an object that the code finds ready."""
        name = f"c{id(value)}"
        self.objects[name] = value
        return name


def recorded(call: Callable[[], Any]) -> tuple[Callable[[], Any], Any]:
    """A function that makes the torch calls of this call again, and nothing else; and the result, which it returns."""
    with _Recorder() as recorder:
        result = call()
    returned = recorder.text(result)
    for name, line in recorder.last_use.items():  # let go of at once, as a program does: memory is used again
        if line < len(recorder.lines):
            recorder.lines[line] += f"; del {name}"
    names = ", ".join(f"{name}={name}" for name in recorder.objects)
    body = "".join(f"    {line}\n" for line in [*recorder.lines, f"return {returned}"])
    space = dict(recorder.objects)
    exec(compile(f"def replay({names}):\n{body}", "<replay>", "exec"), space)
    return space["replay"], result


class Replayer:
    """Decorates what a program would compile: its calls are recorded the first time, and replayed from then on.

    A call is known by the ``number`` of the program's call, which whoever makes that sets, and its order within.
    """

    def __init__(self) -> None:
        self._number = self._order = 0
        self._inside = False
        self._known: dict[tuple[int, int], Callable[[], Any]] = {}

    def begin(self, number: int) -> None:
        """The program's call with this number comes next."""
        self._number, self._order = number, 0

    def decorate(self, target: Any) -> Any:
        """A function, or a module or class of modules whose forward is replaced in place."""
        if isinstance(target, (torch.nn.Module, type)):
            target.forward = self.decorate(target.forward)
            return target

        @functools.wraps(target)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return target(*args, **kwargs)
            self._order += 1
            key = self._number, self._order
            if key in self._known:
                return self._known[key]()
            self._inside = True
            try:
                self._known[key], result = recorded(lambda: target(*args, **kwargs))
            finally:
                self._inside = False
            return result

        return call
