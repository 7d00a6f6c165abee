"""The torch calls of a call, and nothing else: the least that a program can take that makes the same calls from Python.

What a call of a program asks of torch is recorded once, and written out as straight-line code on the same tensors. No
loop, no decision, no module and no attribute is left in it, so that its time says how much of eager's time anything
could save that keeps every call, as what must equal eager bit for bit has to.
"""

from __future__ import annotations

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


def recorded(call: Callable[[], Any]) -> Callable[[], None]:
    """A function that makes the torch calls of this call again, and nothing else."""
    with _Recorder() as recorder:
        call()
    for name, line in recorder.last_use.items():  # let go of at once, as a program does: memory is used again
        recorder.lines[line] += f"; del {name}"
    names = ", ".join(f"{name}={name}" for name in recorder.objects)
    body = "".join(f"    {line}\n" for line in recorder.lines or ["pass"])
    space = dict(recorder.objects)
    exec(compile(f"def replay({names}):\n{body}", "<replay>", "exec"), space)
    replay: Callable[[], None] = space["replay"]
    return replay
