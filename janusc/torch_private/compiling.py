"""Torch's kernel compiler: graphs traced for it, kernels made by it, and what it must be told where it works."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

_C: Any = torch._C


def trace(
    function: Callable[..., Any], examples: Sequence[torch.Tensor | Callable[[], torch.Tensor]]
) -> torch.fx.GraphModule:
    """The ATen operations that ``function(*examples)`` does, also those of autograd, as a graph of its own.

    Nothing is computed: the examples give shapes, strides, dtypes, devices and what requires gradients. One may be a
    function that makes such a tensor, by which no memory is used. Operations are decomposed into those that the kernel
    compiler fuses, but those that draw random numbers: decomposed they would draw others. Whatever the function raises
    is raised.
    """
    import torch._inductor.lowering  # decompositions look into it
    from torch._inductor import config
    from torch._inductor.decomposition import select_decomp_table
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with FakeTensorMode() as mode, _unlogged("torch._subclasses.fake_tensor"), config.patch(rounding_options()):
        fakes = [mode.from_tensor(item) if isinstance(item, torch.Tensor) else item() for item in examples]
        table = {op: rule for op, rule in select_decomp_table().items() if not _always_draws(op)}
        made: torch.fx.GraphModule = make_fx(function, decomposition_table=table)(*fakes)
    return made


def _always_draws(op: Any) -> bool:
    """Whether an operation draws random numbers, whatever its arguments are."""
    if torch.Tag.nondeterministic_seeded not in getattr(op, "tags", ()):
        return False
    return all(argument.name != "dropout_p" for argument in op._schema.arguments)


@contextlib.contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Errors that are caught are not the user's to read."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def compile_kernels(
    graph: torch.fx.GraphModule, last: Callable[[torch.fx.Graph], None]
) -> Callable[[list[torch.Tensor]], Sequence[Any]]:
    """Kernels for a graph from ``trace``; what comes out takes the list of its inputs, and empties it.

    ``last`` may change the graph when the kernel compiler has changed it as it likes, before it makes kernels of it.
    Takes seconds, and raises what the compiler raises, as where there is no C++ compiler.
    """
    from torch._guards import TracingContext, tracing
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner

    fakes = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    dtypes = {getattr(node.meta.get("val"), "dtype", None) for node in graph.graph.nodes}
    rounding = {} if dtypes.isdisjoint((torch.bfloat16, torch.float16)) else rounding_options()
    options = {**KERNEL_OPTIONS, **rounding, "post_grad_custom_post_pass": last}
    with torch.no_grad(), tracing(TracingContext(fakes[0].fake_mode)), config.patch(options):
        made: Any = compile_fx_inner(graph, fakes)
    kernels: Callable[[list[torch.Tensor]], Sequence[Any]] = getattr(made, "current_callable", None) or made
    return kernels


KERNEL_OPTIONS = {
    "compile_threads": 1,
    "size_asserts": False,
    "fallback_random": True,
    "cpp.min_chunk_size": 2**14,
    "layout_optimization": False,
}
"""Of the kernel compiler: no processes of its own, no checks that the guards have made, torch's own random numbers, and
threads where there is work for them: on a busy machine some thousand elements wait milliseconds for the last of them.
Images keep their layout: with another, gradients of the last layers of a residual network came out wrong by a tenth.
"""


@functools.cache
def rounding_options() -> dict[str, bool]:
    """Of the kernel compiler: to round to short dtypes wherever operations do; empty where it doesn't know how to."""
    from torch._inductor import config
    from torch._inductor.codegen import cpp

    name = "emulate_precision_casts"
    return {name: True} if hasattr(config, name) and name in inspect.getsource(cpp) else {}


def laying_out() -> Any:
    """The operation by which the kernel compiler computes a tensor once, in a layout, for all that reads it; or None.

    Takes the tensor and strides. What is cheap would else be computed again by each reader.
    """
    from torch._inductor import inductor_prims

    operation = getattr(inductor_prims, "force_stride_order", None)
    return getattr(operation, "default", operation)


def compiler_of_functions() -> tuple[Any, Any]:
    """The kernel compiler's class that has functions in C++ made, and the one that makes one; None without them."""
    from torch._inductor import async_compile, codecache

    return getattr(async_compile, "AsyncCompile", None), getattr(codecache, "CppPythonBindingsCodeCache", None)


def prepare_compiler(folder: str, headers: str) -> bool:
    """Import the kernel compiler and let it work in a folder: for a process that does nothing else.

    Its precompiled headers lie in another; whether it can have some.
    """
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    from torch._inductor import codecache, compile_fx, config

    assert compile_fx
    _configure(config, fx_graph_cache=False)
    # The trial of the vector instructions costs as much as a kernel; a compiler without them fails, and is tried again.
    _configure(config.cpp, vec_isa_ok=True)
    has_headers = hasattr(codecache, "_HEADER_DIR") and hasattr(codecache, "_HEADER_LOCK_DIR")
    _configure(config, cpp_cache_precompile_headers=False)
    if not has_headers or not shutil.which("openssl"):  # by which it tells whether they are still the same
        return False
    codecache._HEADER_DIR = headers
    codecache._HEADER_LOCK_DIR = os.path.join(headers, "locks")
    return True


def use_headers() -> None:
    """Make precompiled headers where there are none yet, and use them, unless nothing is trusted any more."""
    from torch._inductor import config

    _configure(config, cpp_cache_precompile_headers=getattr(config.cpp, "vec_isa_ok", True) is True)


def trust_nothing() -> bool:
    """Let the kernel compiler try what the C++ compiler can do, and use no headers of old; False if it does already."""
    from torch._inductor import config

    was_trusting = getattr(config.cpp, "vec_isa_ok", None) is True
    _configure(config.cpp, vec_isa_ok=None)
    _configure(config, cpp_cache_precompile_headers=False)
    return was_trusting


def _configure(config: Any, **values: Any) -> None:
    for name, value in values.items():
        if hasattr(config, name):
            setattr(config, name, value)


def op_path(function: Any) -> str | None:
    """The dotted name of an operation of torch's own, as graphs from ``trace`` call it; None of anything else."""
    from torch._ops import OpOverload

    if not isinstance(function, OpOverload) or function.namespace not in ("aten", "prims", "inductor"):
        return None
    return f"torch.ops.{function}"


def function_path(function: Any, name: str) -> str | None:
    """The dotted name by which torch has a function that kernels call under ``name``; None where it has none."""
    if function is not None and getattr(torch, name, None) is function:
        return f"torch.{name}"
    return op_path(function)


def kernel_globals(kernel: Any) -> dict[str, Any] | None:
    """The names of the module that a kernel from ``compile_kernels`` is written in, its file among them, or None."""
    names = getattr(getattr(kernel, "__func__", kernel), "__globals__", None)
    return names if isinstance(names, dict) and "__file__" in names else None


_ADDRESS = "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"


@contextlib.contextmanager
def loading_kernels() -> Iterator[None]:
    """Inside, shared objects of the kernel compiler find what they ask the environment for when they are loaded.

    ``os.environ`` doesn't show it, and processes that are started later don't inherit it.
    """
    if _ADDRESS in os.environ:
        yield
        return
    os.putenv(_ADDRESS, str(_C._dynamo.guards._torchinductor_pyobject_tensor_data_ptr))
    try:
        yield
    finally:
        if _ADDRESS not in os.environ:
            os.unsetenv(_ADDRESS)
