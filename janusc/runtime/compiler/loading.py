"""From an entry to a kernel, without torch's kernel compiler: its shared objects are loaded, its source is run."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from janusc import torch_private
from janusc.runtime.compiler.entries import Entry

Kernel = Callable[[list[torch.Tensor]], Sequence[Any]]
LOAD, CALL, MORE, FACTS = "load", "call", "more", "facts"  # what the source of an entry finds, and what it defines


def load_function(path: str, name: str) -> Any:
    """The function of a module of the same name in a shared object."""
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return getattr(module, name)


def load(entry: Entry) -> tuple[list[Kernel], Any]:
    """The kernels of a checked entry, and the facts beside them; an error: it is of another machine after all."""

    def load_extension(file: str, name: str) -> Any:
        return load_function(os.path.join(entry.path, file), name)

    names: dict[str, Any] = {"__name__": __name__, LOAD: load_extension}
    with torch_private.compiling.loading_kernels():
        exec(compile(entry.source, os.path.join(entry.path, "kernel.py"), "exec"), names)
    return [names[CALL], *names.get(MORE, ())], names.get(FACTS)
