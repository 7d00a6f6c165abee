"""The one place that touches torch interfaces that are not public; by feature detection, for torch 2.11 to 2.14.

Where a feature is missing, the answer is the cautious one. Torch's kernel compiler, and what is called where gradients
of leaves add up, have files of their own.
"""

from __future__ import annotations

import contextlib
import logging
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn.modules import module as _module
from torch.optim import optimizer as _optimizer
from torch.utils import _device

from janusc.torch_private import accumulators as accumulators
from janusc.torch_private import compiling as compiling


def _never() -> Any:
    return 0


_C: Any = torch._C
is_tracing: Callable[[], bool] = getattr(_C, "_is_tracing", _never)
"""Whether ``torch.jit.trace`` records the calls of this thread."""

function_modes: Callable[[], int] = getattr(_C, "_len_torch_function_stack", _never)
"""How many torch function modes are active."""

dispatch_modes: Callable[[], int] = getattr(_C, "_len_torch_dispatch_stack", _never)
"""How many torch dispatch modes are active."""


def _no_hooks(_: bool) -> Any:
    return None


saved_hooks: Callable[[bool], Any] = getattr(
    getattr(_C, "_autograd", None), "_top_saved_tensors_default_hooks", _no_hooks
)
"""The hooks that see each tensor saved for backward, or None. The argument, to look also while tracing, is True."""

_set_versions: Any = getattr(getattr(_C, "_autograd", None), "_unsafe_set_version_counter", None)


def version_of(tensor: torch.Tensor) -> int | None:
    """How often a tensor was changed in place, as autograd counts; None for a tensor that does not count."""
    return None if tensor.is_inference() else tensor._version


def set_version(tensor: torch.Tensor, version: int | None) -> None:
    """Let the changes since be forgotten; to be called where they have been undone."""
    if version is not None and _set_versions is not None:
        _set_versions((tensor,), (version,))


_function_mode_at: Callable[[int], Any] | None = getattr(_C, "_get_function_stack_at", None)
_DEVICE_CONTEXT: Any = getattr(_device, "DeviceContext", ())


def watching_modes() -> bool:
    """Whether a mode is active that sees each torch call.

    The mode behind ``torch.set_default_device`` is not one: it only moves what factories make.
    """
    if dispatch_modes():
        return True
    count = function_modes()
    if count and _function_mode_at is None:
        return True
    return any(not isinstance(_function_mode_at(i), _DEVICE_CONTEXT) for i in range(count))  # type: ignore[misc]


def default_device() -> torch.device | None:
    """Where factories make tensors in this thread, if that was said."""
    count = function_modes()
    if not count or _function_mode_at is None:
        return None
    devices = [mode.device for mode in map(_function_mode_at, range(count)) if isinstance(mode, _DEVICE_CONTEXT)]
    return devices[-1] if devices else None


def is_symbolic_tracing() -> bool:
    """Whether ``torch.fx`` or an export traces the calls of this process."""
    if torch.compiler.is_compiling():
        return True
    return bool(getattr(torch.fx._symbolic_trace, "_is_fx_tracing_flag", False))


NATIVE: Any = getattr(torch, "_VF", None)
"""The module by which torch's own layers reach native functions that no other module has under their names."""


def is_native(name: str) -> bool:
    """Whether that module has a native function of this name, which torch has too."""
    function = getattr(NATIVE, name, None)
    return function is not None and getattr(torch, name, None) is function


MASKS: tuple[Any, ...] = tuple(
    getattr(torch.nn.functional, name)
    for name in ("_canonical_mask", "_none_or_dtype")
    if hasattr(torch.nn.functional, name)
)
"""What layers with attention do with their masks before all else: plain functions of Python."""


_transforms: Callable[[], Any] | None = getattr(getattr(_C, "_functorch", None), "peek_interpreter_stack", None)


def in_transform() -> bool:
    """Whether a ``torch.func`` transform (vmap, grad, jvp …) is active in this thread."""
    return _transforms is not None and _transforms() is not None


@contextlib.contextmanager
def without_overrides() -> Iterator[None]:
    """Inside, tensor subclasses count as plain tensors: none of their own Python code runs."""
    with contextlib.ExitStack() as stack:
        for name in ("DisableTorchFunctionSubclass", "_DisableTorchDispatch"):
            stack.enter_context(getattr(_C, name, contextlib.nullcontext)())
        yield


def in_layers() -> bool:
    """Whether a transform or a forward-mode level is open: tensors then carry more than rollback could restore."""
    return in_transform() or getattr(forward_ad, "_current_level", -1) >= 0


LAYERS_QUERY = f"{__name__}.{in_layers.__name__}"
"""The dotted name of ``in_layers``, for graphs that change tensors from outside."""


def is_watched() -> bool:
    """Whether each torch call, saved tensor or line is seen by somebody: a mode, hooks, a tracer."""
    if sys.gettrace() is not None or saved_hooks(True) is not None:
        return True
    return bool(dispatch_modes() or function_modes()) and watching_modes()


WATCHED_QUERY = f"{__name__}.{is_watched.__name__}"
"""The dotted name of ``is_watched``, for what follows ordinary Python, which may have let somebody watch."""

unseen: Any = getattr(_C, "DisableTorchFunction", contextlib.nullcontext)
"""A context in which no torch function mode or subclass sees what is asked of a tensor."""


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL_HOOKS = tuple(getattr(_module, f"_global{name}") for name in _HOOKS if hasattr(_module, f"_global{name}"))


CALL_METHODS = {n: vars(torch.nn.Module)[n] for n in ("__call__", "_call_impl") if n in vars(torch.nn.Module)}
"""The methods of nn.Module that a call passes on its way to ``forward``, as torch has them."""


def calls_forward_only(module: torch.nn.Module) -> bool:
    """Whether calling the module only calls its ``forward``: no hooks of its own, none global, not compiled."""
    cls, state = type(module), vars(module)
    if any(getattr(cls, name) is not plain or name in state for name, plain in CALL_METHODS.items()):
        return False
    if any(_GLOBAL_HOOKS) or any(state.get(name, True) for name in _HOOKS):
        return False
    return getattr(module, "_compiled_call_impl", None) is None


REPLICATE = "_replicate_for_data_parallel"
"""The method of a module that makes its replica for another device, by a copy of its ``__dict__``."""

HOOK_TABLES = _HOOKS
"""The attributes of a module that hold its hooks: each is falsy where there are none."""


def global_hook_tables() -> tuple[Any, ...]:
    """The tables of hooks on all modules: filled and emptied in place."""
    return _GLOBAL_HOOKS


BUFFER_HOOKS: Any = getattr(_module, "_global_buffer_registration_hooks", {})
"""The table of hooks that see, and may replace, each buffer that is assigned to a module."""


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether a module has hooks of its own, or a compiled call in place of its forward."""
    state = vars(module)
    return any(state.get(name, True) for name in _HOOKS) or getattr(module, "_compiled_call_impl", None) is not None


def has_global_hooks() -> bool:
    """Whether hooks are registered for all modules."""
    return any(_GLOBAL_HOOKS)


# ---- what torch.optim and the clipping of gradients do


def _named(names: dict[str, str]) -> dict[str, Any] | None:
    """Private functions of torch by the names they get here; None where one is missing."""
    found = {name: getattr(torch, private, None) for name, private in names.items()}
    return None if None in found.values() else found


FOREACH = _named(
    {
        name: f"_foreach_{name}"
        for name in (
            "add", "add_", "addcdiv_", "addcmul_", "addcmul", "clamp_max_", "clamp_min_", "div_", "lerp_", "mul_",
            "copy_", "neg", "norm", "sqrt", "sqrt_", "zero_",
        )
    }
)  # fmt: skip
"""Functions that do with each tensor of a list what the function of that name does with one; None without them all."""

storage_of: Callable[[torch.Tensor], int] | None = getattr(_C, "_storage_address", None)
"""A number that tensors share that have a storage in common, and no others."""

set_grad_enabled: Callable[[bool], Any] = getattr(_C, "_set_grad_enabled", None) or torch.set_grad_enabled
"""``torch.set_grad_enabled`` without an object to restore what was before."""

in_profiler: Callable[[], bool] | None = getattr(torch.autograd, "_profiler_enabled", None)
"""Whether torch's profiler records the operations of this process."""

STEP_HOOKS = tuple(
    getattr(_optimizer, name, True) for name in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
)
"""The tables of the hooks on the steps of all optimizers: each is falsy where there are none."""

OWN_STEP_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
"""The attributes of an optimizer that hold the hooks on its own steps."""

CHECK_CAPTURE = next(
    name
    for name in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check", "__repr__")
    if hasattr(torch.optim.Optimizer, name)
)
"""The method by which ``Adam.step`` and others begin: it complains of a device graph that can't hold them."""

STEP_PARTS = ("_init_group", "_optimizer_step_code", CHECK_CAPTURE)
"""The methods that a step of an optimizer calls on itself."""

NAMED_FOR_PROFILER = "_zero_grad_profile_name"
"""The attribute that ``zero_grad`` makes where there is none yet."""

SCHEDULED = "_opt_called"
"""The attribute that a scheduler's wrapper around ``step`` sets at each call."""


_TOLD = "_post_accumulate_grad_hooks"
hooks_on_gradient: Callable[[torch.Tensor], Any] = (
    operator.attrgetter(_TOLD) if hasattr(torch.Tensor, _TOLD) else lambda leaf: None
)
"""What of the user's is called when a gradient has been added to that of a leaf: falsy where nothing is."""

tensor_hooks: Callable[[torch.Tensor], Any] = operator.attrgetter("_backward_hooks", _TOLD, "is_leaf")
"""What is called with the gradient of a tensor, each falsy where nothing is, and whether it is a leaf."""
_engine: Any = getattr(getattr(torch.autograd, "Variable", None), "_execution_engine", None)
run_engine: Callable[..., Any] | None = getattr(_engine, "run_backward", None)
"""What ``torch.autograd.backward`` ends in: autograd's engine."""

keeps_history: Callable[[], bool] = getattr(_C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
"""Whether the backward pass that runs in this thread frees nothing; True where torch doesn't say."""


def will_be_reached(node: Any) -> bool:
    """Whether the backward pass that runs in this thread computes what belongs to a node of a history."""
    try:
        return node is not None and bool(getattr(_C, "_will_engine_execute_node", bool)(node))
    except RuntimeError:  # it is a leaf whose gradient is wanted, and not added to what it has
        return True


_graph_log: Any = getattr(torch.autograd.graph, "log", None)


def logs_backward() -> bool:
    """Whether autograd writes each node of a backward pass to its log."""
    return _graph_log is None or _graph_log.isEnabledFor(logging.DEBUG)


# ---- guards on tensors


_guards: Any = getattr(getattr(_C, "_dynamo", None), "guards", None)


def ambient_guard() -> Callable[[], bool]:
    """A check whether the state of torch in this thread that changes what the same operations do is what it is now."""
    device, is_inference = default_device(), torch.is_inference_mode_enabled()
    make = getattr(_guards, "GlobalStateGuard", None)
    if make is None:
        before = _ambient()
        return lambda: _ambient() == before and default_device() == device
    check = make().check
    return lambda: check() and default_device() == device and torch.is_inference_mode_enabled() is is_inference


def _ambient() -> tuple[Any, ...]:
    modes = torch.is_grad_enabled(), any_autocast(), torch.is_inference_mode_enabled()
    return *modes, torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()


def tensor_guards(tensors: Sequence[torch.Tensor]) -> Callable[..., bool] | None:
    """A check, called with as many tensors, whether each is like the one in its place; None where torch has no such.

    Compared are Python type, dtype, device, whether it requires a gradient, sizes and strides, and what is switched on
    in this thread that changes operations of tensors (autocast, inference mode, transforms). Storages and what is in
    them are not; nothing of the tensors is kept alive.
    """
    make = getattr(_guards, "TensorGuards", None)
    if make is None:
        return None
    try:
        sizes, strides = [list(tensor.shape) for tensor in tensors], [list(tensor.stride()) for tensor in tensors]
        check: Callable[..., bool] = make(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
        return check if check(*tensors) else None
    except (TypeError, ValueError, RuntimeError):  # other parameters, tensors without strides
        return None


any_autocast: Callable[[], bool] = getattr(_C, "_is_any_autocast_enabled", torch.is_autocast_enabled)
"""Whether autocast is on for any kind of device."""
AUTOCAST_FIELDS = {"dtype": "fast_dtype", "enabled": "_enabled", "cache_enabled": "_cache_enabled"}
AUTOCAST_BEFORE = "prev", "prev_fastdtype", "prev_cache_enabled"
"""Those by which a manager of autocast is made, and in which it keeps what was set before."""


def storage_key(tensor: torch.Tensor) -> int:
    """A number that tensors share that have a storage in common, also where that is of no real memory."""
    key: int = tensor.untyped_storage()._cdata
    return key
