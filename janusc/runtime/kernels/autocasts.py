"""What ``torch.autocast`` has set where a block begins, and what it keeps of tensors beyond the block.

In a region autocast keeps what it has cast of a leaf, until the outermost region ends. A block that has all of a region
finds nothing kept, and leaves nothing. What an outer region keeps nobody can ask for: it may be what a weight was
before a step, and eager mode would go on with that.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from janusc.lowering.ir import Const, Graph, Value
from janusc.lowering.rewrite import inlined
from janusc.runtime.compiler.program import Input
from janusc.runtime.kernels.functional import Unfit
from janusc.runtime.kernels.history import AUTOCAST, is_autocast

DEVICES = ("cpu", "cuda")
_DTYPES = (None, torch.bfloat16, torch.float16)
_SIGNATURE = inspect.signature(torch.autocast)


class Autocast(NamedTuple):
    """What is set: for each kind of device whether operations cast, and to what; and whether casts are kept."""

    enabled: tuple[bool, ...]
    dtypes: tuple[torch.dtype, ...]
    keeps: bool

    @staticmethod
    def now() -> Autocast:
        """What is set in this thread."""
        enabled, dtypes = map(torch.is_autocast_enabled, DEVICES), map(torch.get_autocast_dtype, DEVICES)
        return Autocast(tuple(enabled), tuple(dtypes), torch.is_autocast_cache_enabled())

    def apply(self) -> None:
        """Set it in this thread."""
        for device, enabled, dtype in zip(DEVICES, self.enabled, self.dtypes):
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.keeps)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, it is set."""
        before = self.now()
        self.apply()
        try:
            yield
        finally:
            before.apply()


OFF = Autocast((False,) * len(DEVICES), (torch.bfloat16, torch.float16), True)


class Surroundings(NamedTuple):
    """What a block needs of autocast: that this is set around it, and that nothing is kept where it ``begins_anew``."""

    autocast: Autocast
    begins_anew: bool

    def are_there(self) -> bool:
        """Whether it is so just now."""
        return Autocast.now() == self.autocast and not (self.begins_anew and _depth())


def surroundings(graph: Graph, inputs: Sequence[Any], tensors: Sequence[Input]) -> Surroundings | None:
    """What a closed block needs of autocast, as it is now; None where it has nothing to do with it. Raises Unfit."""
    makers = [node for node in inlined(graph, is_autocast).nodes if node.target == AUTOCAST]
    autocast, is_in_region = Autocast.now(), any(map(torch.is_autocast_enabled, DEVICES))
    if not makers and not is_in_region:
        return None
    given = dict(zip(graph.params, inputs))
    for node in makers:
        arguments = [_resolved(argument, given) for argument in node.args]
        _check(*arguments, **{name: _resolved(argument, given) for name, argument in node.kwargs})
    is_kept = any(item.requires_grad and item.dtype == "float32" for item in tensors)
    if is_kept and (_depth() if makers else autocast.keeps):
        raise Unfit("an autocast region around it keeps what is cast of its weights")
    return Surroundings(autocast, is_kept and bool(makers))


def without_autocast(compiled: Callable[..., Any], around: Surroundings | None) -> Callable[..., Any]:
    """Compiled code, which has all casts in it, as it is called under autocast."""
    if around is None or not any(around.autocast.enabled):
        return compiled

    def run(inputs: Any) -> Any:
        with OFF.applied():
            return compiled(inputs)

    return run


def _depth() -> int:
    """How many regions this thread is in."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _resolved(argument: Any, given: dict[Value, Any]) -> Any:
    if isinstance(argument, Const):
        return argument.value
    if isinstance(argument, Value) and argument in given:
        return given[argument]
    raise Unfit("what its autocast region is for is computed in it")


def _check(*args: Any, **kwargs: Any) -> None:
    """Raise Unfit where a region would warn, or raise."""
    asked = _SIGNATURE.bind(*args, **kwargs).arguments
    device, dtype = asked["device_type"], asked.get("dtype")
    is_there = device == "cpu" or device == "cuda" and torch.cuda.is_available()
    if not is_there or not any(dtype is known for known in _DTYPES):
        raise Unfit("there is no such autocast")
    if device == "cuda" and dtype is torch.bfloat16 and not torch.cuda.is_bf16_supported():
        raise Unfit("the device has no bfloat16")
