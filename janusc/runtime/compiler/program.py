"""What is to be compiled: the source of a function of tensors, what its inputs look like, and a key of both."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from janusc import torch_private
from janusc.runtime.compiler.settings import Settings, dtype_name, dtype_of, machine

ENTRY, COMPLETE = "program", "complete"
LARGEST_CONSTANT = 4096  # elements
FORMAT = 13  # of entries: raised when what lies in a cache can't be used any more


Completion = Callable[[torch.fx.GraphModule], tuple[Any, list[torch.fx.GraphModule]]]
"""Makes facts of a traced graph, and the graphs that are compiled."""


class NotCarried(ValueError):
    """A program that another process could not rebuild."""


@dataclass(frozen=True)
class Input:
    """How an input looks: sizes and strides in elements, the dtype's name, and the device."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    device: str
    requires_grad: bool = False

    @staticmethod
    def of(tensor: torch.Tensor) -> Input:
        """That of a tensor; NotCarried where it has no plain layout, or sizes that aren't numbers."""
        size, stride = tuple(tensor.shape), tuple(tensor.stride() if tensor.layout is torch.strided else ())
        if tensor.layout is not torch.strided or any(type(number) is not int for number in (*size, *stride)):
            raise NotCarried(f"an input is {tensor.layout} with sizes {size}")
        return Input(size, stride, dtype_name(tensor.dtype), str(tensor.device), tensor.requires_grad)

    def make(self) -> torch.Tensor:
        """A tensor that looks so, with whatever is in its memory."""
        made = torch.empty_strided(self.size, self.stride, dtype=dtype_of(self.dtype), device=self.device)
        return made.requires_grad_(self.requires_grad)


@dataclass(frozen=True)
class Program:
    """Source that defines ``program``, a function of tensors that returns a tuple, with what its inputs look like.

    The source is of a module; it finds ``torch``, ``device``, ``inf`` and ``nan``, and may compute gradients by
    ``torch.autograd.grad``. Changing an input in place is allowed. It may define ``complete``, too: a function of the
    traced graph that gives facts to be kept beside the kernel, and the graphs to be compiled in its place, each to a
    kernel of the same entry; or raises why there can be none.
    """

    source: str
    inputs: tuple[Input, ...]

    @staticmethod
    def of(graph: torch.fx.GraphModule) -> Program:
        """That of a graph from ``torch_private.compiling.trace``; NotCarried where it holds what has no text."""
        inputs = [Input.of(node.meta["val"]) for node in graph.graph.nodes if node.op == "placeholder"]
        inputs = [dataclasses.replace(item, requires_grad=False) for item in inputs]
        return Program(_text(graph), tuple(inputs))

    def check(self) -> None:
        """NotCarried where there can be no kernel of it."""
        if other := {item.device for item in self.inputs} - {"cpu"}:
            raise NotCarried(f"an input is on {min(other)}: kernels are made for the CPU")

    def functions(self) -> tuple[Callable[..., Any], Completion]:
        """The function, made anew, and what completes the graph that it was traced to."""
        names: dict[str, Any] = {"torch": torch, "device": torch.device, "inf": float("inf"), "nan": float("nan")}
        exec(compile(self.source, f"<{ENTRY}>", "exec"), names)
        return names[ENTRY], names.get(COMPLETE, lambda graph: (None, [graph]))

    def dumps(self) -> str:
        """As text, by which ``loads`` makes an equal one."""
        return json.dumps({"source": self.source, "inputs": [dataclasses.astuple(item) for item in self.inputs]})

    @staticmethod
    def loads(text: str) -> Program:
        """The program of a text that ``dumps`` made."""
        read = json.loads(text)
        inputs = (Input(tuple(size), tuple(stride), *rest) for size, stride, *rest in read["inputs"])
        return Program(read["source"], tuple(inputs))

    def key(self, settings: Settings) -> str:
        """A digest of all that its kernel depends on, but for the C++ compiler."""
        version = sys.modules[__name__.partition(".")[0]].__version__
        parts = [FORMAT, version, machine(), torch_private.compiling.KERNEL_OPTIONS, dataclasses.astuple(settings)]
        return hashlib.sha256("\n".join([*map(repr, parts), self.dumps()]).encode()).hexdigest()[:40]


def literal(constant: Any) -> str:
    """The text that makes an equal tensor; NotCarried where it is no plain one, or a large one."""
    plain = type(constant) is torch.Tensor and constant.layout is torch.strided and constant.is_contiguous()
    if not plain or constant.device.type != "cpu" or constant.numel() > LARGEST_CONSTANT:
        raise NotCarried("it has a constant that is not small")
    return f"torch.tensor({constant.tolist()!r}, dtype={constant.dtype}).reshape({tuple(constant.shape)!r})"


def _text(graph: torch.fx.GraphModule) -> str:
    """The source of a graph, its values numbered, so that equal graphs have equal sources."""
    names: dict[torch.fx.Node, str] = {}
    parameters, lines = [], []
    for node in graph.graph.nodes:
        names[node] = name = f"v{len(names)}"
        if node.op == "placeholder":
            parameters.append(name)
        elif node.op == "call_function":
            lines.append(f"    {name} = {_call(node, names)}")
        elif node.op == "get_attr":
            lines.append(f"    {name} = {literal(getattr(graph, node.target, None))}")
        elif node.op == "output":
            lines.append(f"    return {value_text(tuple(node.args[0]), names)}")
        else:
            raise NotCarried(f"{node.op} {node.target} has no text")
    return "\n".join([f"def {ENTRY}({', '.join(parameters)}):", *lines, ""])


def _call(node: torch.fx.Node, names: dict[torch.fx.Node, str]) -> str:
    arguments = [value_text(argument, names) for argument in node.args]
    arguments += [f"{name}={value_text(argument, names)}" for name, argument in node.kwargs.items()]
    target = node.target
    if getattr(target, "__name__", "") == "getitem" and getattr(target, "__module__", "") == "_operator":
        return f"{arguments[0]}[{arguments[1]}]"
    path = torch_private.compiling.op_path(target)
    if path is None:
        raise NotCarried(f"{target} is no operation of torch's")
    return f"{path}({', '.join(arguments)})"


def value_text(value: Any, names: dict[torch.fx.Node, str]) -> str:
    """The text of an argument, of which nodes have these names; NotCarried, or KeyError, where it has none."""
    if isinstance(value, torch.fx.Node):
        return names[value]
    if isinstance(value, (list, tuple)):
        items = [value_text(item, names) for item in value]
        return _sequence_text(items, isinstance(value, tuple))
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format, torch.device)):
        return repr(value)
    if value is None or type(value) in (int, float, bool, complex, str):
        return repr(value)
    raise NotCarried(f"{value!r} has no text")


def _sequence_text(items: Sequence[str], is_tuple: bool) -> str:
    if not is_tuple:
        return f"[{', '.join(items)}]"
    return f"({', '.join(items)}{',' * (len(items) == 1)})"
