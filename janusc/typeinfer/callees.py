"""What kind of thing is called: user code to inline, library code to inline, one known op, or something opaque."""

from __future__ import annotations

import functools
import inspect
import os
import random
import sys
import sysconfig
import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim import lr_scheduler

from janusc import torch_private
from janusc.typeinfer import torch_table
from janusc.typeinfer.torch_table import is_torch_code


@functools.lru_cache(maxsize=1)
def _library_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(
        os.path.realpath(paths[k]) + os.sep for k in ("stdlib", "platstdlib", "purelib", "platlib") if k in paths
    )


_OWN_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def is_library_code(code: types.CodeType) -> bool:
    """Whether a code object belongs to the standard library or an installed package."""
    return os.path.realpath(code.co_filename).startswith(_library_roots()) or is_torch_code(code)


def is_own_code(code: types.CodeType) -> bool:
    return code.co_filename.startswith(_OWN_ROOT)


# modules of torch whose functions are inlined from source: the forwards of nn layers; and a scaled loss is
_INLINED = ("torch.nn.modules.", "torch.nn.utils.parametrize")


_UNDER_MANAGERS = torch.no_grad()(lambda: None).__code__, torch.autocast("cpu")(lambda: None).__code__


def is_under_manager(code: types.CodeType) -> bool:
    """Whether a function is one of the user's under a context manager of torch's that decorates it."""
    return any(code is known for known in _UNDER_MANAGERS)


_SCALE = torch.amp.GradScaler.scale


def is_inlined(function: types.FunctionType) -> bool:
    """Whether a Python function is converted with its own source at the call."""
    code = function.__code__
    if is_own_code(code):
        return os.sep + "demo" + os.sep in code.co_filename
    if is_torch_code(code):
        known = function in (_SCALE, *torch_private.MASKS)
        return known or is_under_manager(code) or (function.__module__ or "").startswith(_INLINED)
    return not is_library_code(code)


_EQUIVALENT_IN = ("torch.optim.", "torch.nn.utils.clip_grad")
_BACKWARD = torch.Tensor.backward
_WITH_EQUIVALENT = frozenset({"step", "zero_grad", "clip_grad_norm_", "clip_grad_value_"})


def may_have_equivalent(function: types.FunctionType) -> bool:
    """Whether a function is one of those around a backward pass that ordinary Python may call in another form."""
    if function is _BACKWARD:
        return is_torch_code(function.__code__)
    module = function.__module__ or ""
    if not module.startswith(_EQUIVALENT_IN) or module.endswith(".lr_scheduler"):
        return False
    return function.__name__ in _WITH_EQUIVALENT and is_torch_code(function.__code__)


_ZERO_GRAD = inspect.unwrap(torch.optim.Optimizer.zero_grad)


def is_zero_grad(function: types.FunctionType) -> bool:
    """Whether a function is the ``zero_grad`` of torch's optimizers, in what torch has wrapped around it."""
    return function.__name__ == "zero_grad" and inspect.unwrap(function) is _ZERO_GRAD and may_have_equivalent(function)


CLIPPING = {name: getattr(torch.nn.utils, name) for name in ("clip_grad_norm_", "clip_grad_value_")}
"""The functions that clip gradients, by name."""


def is_clipping(function: types.FunctionType) -> bool:
    """Whether a function is one of those of ``torch.nn.utils`` that clip gradients."""
    return any(function is clipping for clipping in CLIPPING.values()) and may_have_equivalent(function)


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object, and those of the functions made in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def scheduled_codes() -> Iterator[types.CodeType]:
    """The code of what a scheduler puts in the place of the ``step`` of its optimizer."""
    for code in codes_in(lr_scheduler.LRScheduler.__init__.__code__):
        if {"opt_ref", "func"} == set(code.co_freevars):
            yield code


_SCHEDULED = tuple(scheduled_codes())


def is_scheduled_step(function: types.FunctionType) -> bool:
    """Whether a function is what a scheduler has put in the place of a ``step``."""
    return any(function.__code__ is code for code in _SCHEDULED)


def is_step(function: types.FunctionType) -> bool:
    """Whether a function is the ``step`` of one of torch's optimizers."""
    return function.__name__ == "step" and may_have_equivalent(function)


PYTHON_RANDOM: tuple[Any, ...] = (
    random.random, random.uniform, random.triangular, random.gauss, random.normalvariate, random.expovariate,
    random.betavariate, random.randint, random.randrange, random.getrandbits, random.choice, random.sample,
)  # fmt: skip
"""What draws from Python's own generator, and does nothing else."""


def is_fixed_class(cls: type) -> bool:
    """Whether a class is Python's or torch's own: taken as it is, but for methods that are called."""
    return cls.__module__ == "builtins" or cls.__module__.partition(".")[0] == "torch"


def is_fixed_module(module: types.ModuleType) -> bool:
    """Whether a module is torch's or comes with Python in C: no object of another class in its place."""
    return module.__name__.partition(".")[0] in ("torch", "math", "builtins")


def is_opaque_module(cls: type) -> bool:
    """Library modules whose call is one known op without effects of its own."""
    return issubclass(cls, torch_table.OPAQUE_MODULES) and cls.__module__.startswith("torch.nn.")


def describe(obj: Any) -> str:
    """A short name of a callee for a diagnostic."""
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None)
    module = getattr(obj, "__module__", None)
    if name is None:
        return type(obj).__qualname__
    return f"{module}.{name}" if module and module != "builtins" else str(name)


_plain_streams: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def prints_plainly() -> bool:
    """Whether standard output is no stream of the user's own making, whose ``write`` the program may see at once."""
    stream: Any = sys.stdout
    cls = type(stream)
    plain = _plain_streams.get(cls)
    if plain is None:
        methods = [getattr(cls, name, None) for name in ("write", "flush", "__getattr__", "__getattribute__")]
        plain = _plain_streams[cls] = not any(
            isinstance(m, types.FunctionType) and not is_library_code(m.__code__) for m in methods
        )
    return plain and "write" not in getattr(stream, "__dict__", ())
