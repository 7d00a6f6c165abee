"""What torch's functions and methods do beside computing: the table of the outside world for tensors.

Names, never implementations: a function is called as the user called it. What is not listed here and is not one of
torch's overridable tensor functions is an opaque call.
"""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

_FACTORIES = (
    "zeros ones empty full arange linspace logspace eye range tensor as_tensor scalar_tensor from_numpy zeros_like "
    "ones_like empty_like full_like tril_indices triu_indices complex polar cartesian_prod block_diag "
    "broadcast_tensors broadcast_shapes meshgrid einsum atleast_1d atleast_2d atleast_3d is_tensor is_floating_point "
    "is_complex numel result_type can_cast promote_types empty_strided hann_window hamming_window bartlett_window "
    "blackman_window kaiser_window is_grad_enabled get_default_dtype finfo iinfo Size"
).split()

_RANDOM = frozenset(
    "rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal poisson dropout "
    "alpha_dropout feature_dropout feature_alpha_dropout dropout1d dropout2d dropout3d rrelu gumbel_softmax "
    "fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices "
    "scaled_dot_product_attention multi_head_attention_forward native_dropout svd_lowrank pca_lowrank".split()
)
_RANDOM_METHODS = frozenset(
    "bernoulli multinomial normal_ uniform_ exponential_ geometric_ log_normal_ cauchy_ random_ bernoulli_".split()
)

# write into an argument, or draw, in ways that no rule here describes: calls that are not looked into
_UNDESCRIBED = frozenset(
    "batch_norm native_batch_norm cudnn_batch_norm miopen_batch_norm instance_norm batch_norm_update_stats "
    "batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_elemt fused_moving_avg_obs_fake_quant "
    "binomial lobpcg gru lstm rnn_relu rnn_tanh miopen_rnn".split()
)

# flags that add to what is returned
_KIND_FLAGS = frozenset("return_indices return_inverse return_counts need_weights".split())

# statistics written by position: (index of the argument, keyword) where the function updates it in place
_STATISTICS = {
    F.batch_norm: ((1, "running_mean"), (2, "running_var")),
    F.instance_norm: ((1, "running_mean"), (2, "running_var")),
}

# tensor methods that change geometry, storage or history, or talk to the world: left to ordinary Python
HOST_METHODS = frozenset(
    "backward register_hook register_post_accumulate_grad_hook requires_grad_ retain_grad set_ resize_ resize_as_ "
    "share_memory_ apply_ map_ map2_ t_ transpose_ swapaxes_ swapdims_ squeeze_ unsqueeze_ as_strided_ detach_ "
    "rename_ names align_to pin_memory record_stream storage untyped_storage storage_type data_ptr numpy __array__ "
    "__dlpack__ module_load sparse_resize_ sparse_resize_and_clear_ copy_sparse_to_sparse_ is_shared refine_names "
    "set_data unsafe_set_data".split()
)
ATTRIBUTES = frozenset(
    "shape dtype ndim device layout T mT H mH real imag is_cuda itemsize requires_grad is_leaf is_sparse "
    "is_nested".split()
)

# may return (a view of) an argument, depending on sizes, strides or values
_MAY_ALIAS = frozenset(
    "contiguous reshape reshape_as flatten to type type_as float double half bfloat16 int long short char byte bool "
    "cpu cuda squeeze ravel clone_if as_tensor expand_as view_as conj resolve_conj resolve_neg broadcast_tensors "
    "atleast_1d atleast_2d atleast_3d positive dropout alpha_dropout dropout1d dropout2d dropout3d feature_dropout "
    "pad sum_to_size cfloat cdouble chalf to_dense einsum chain_matmul multi_dot cartesian_prod matrix_power real "
    "conj_physical".split()
)

# functions and methods that take containers of whole numbers only: sizes, strides, dimensions
_TAKES_SIZES = frozenset(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d max_pool1d max_pool2d max_pool3d "
    "avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fold unfold layer_norm rms_norm "
    "view reshape permute expand repeat tile flip roll broadcast_to sum mean amax amin var std squeeze".split()
)

# layers with a fast path for inference; what they call on the other one is converted, or is one op
ATTENTION: tuple[type, ...] = (
    torch.nn.MultiheadAttention,
    torch.nn.TransformerEncoderLayer,
    torch.nn.TransformerDecoderLayer,
    torch.nn.TransformerEncoder,
    torch.nn.TransformerDecoder,
    torch.nn.Transformer,
)

# parameters of library modules whose forward is one known op: no effects beside the generator
OPAQUE_MODULES: tuple[type, ...] = (
    torch.nn.RNNBase,
    *ATTENTION,
    torch.nn.CTCLoss,
    torch.nn.AdaptiveLogSoftmaxWithLoss,
)

# what torch's code asks about tracers; calls that are traced run eagerly
NEVER_TRACED: tuple[Any, ...] = (
    *(getattr(torch.jit, name) for name in ("is_scripting", "is_tracing")),
    torch.compiler.is_compiling,
    torch.compiler.is_dynamo_compiling,
    torch.compiler.is_exporting,
)

_NAMESPACES: tuple[tuple[str, Any], ...] = (
    ("torch", torch),
    ("torch.nn.functional", F),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.special", torch.special),
)


_TORCH_ROOT = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


def is_torch_code(code: types.CodeType) -> bool:
    """Whether a code object belongs to the torch package, whose own global names are taken as fixed."""
    return code.co_filename.startswith(_TORCH_ROOT)


def is_torchs_own(function: Any) -> bool:
    """Whether this is torch's, and not what a program has put in its place: that may do anything."""
    if isinstance(function, types.FunctionType):
        return is_torch_code(function.__code__)
    if isinstance(function, types.MethodDescriptorType):
        return True
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "torch"


@functools.lru_cache(maxsize=1)
def _tables() -> tuple[dict[int, str], dict[int, Any]]:
    """Dotted names of the convertible functions by identity, and the functions kept so that identities stay theirs."""
    overridable = torch.overrides.get_overridable_functions()
    allowed = {id(f) for functions in overridable.values() for f in functions if not isinstance(f, property)}
    allowed.update(id(getattr(torch, name)) for name in _FACTORIES if hasattr(torch, name))
    names: dict[int, str] = {}
    kept: dict[int, Any] = {}
    for prefix, namespace in _NAMESPACES:
        for name in sorted(vars(namespace)):
            f = getattr(namespace, name)
            random_factory = prefix == "torch" and name in _RANDOM
            if prefix == "torch" and name in _UNDESCRIBED:
                continue
            if name.startswith("_") or not callable(f) or not is_torchs_own(f):
                continue
            if (id(f) in allowed or random_factory) and id(f) not in names:
                names[id(f)], kept[id(f)] = f"{prefix}.{name}", f
    for loss in (
        "linear",
        "gelu",
        "log_sigmoid",
        "adaptive_avg_pool2d",
    ):  # builtins that F re-exports under its own name
        f = getattr(F, loss, None)
        if f is not None and id(f) not in names and is_torchs_own(f):
            names[id(f)], kept[id(f)] = f"torch.nn.functional.{loss}", f
    if is_torchs_own(torch.autograd.grad):
        names[id(torch.autograd.grad)], kept[id(torch.autograd.grad)] = "torch.autograd.grad", torch.autograd.grad
    return names, kept


def torch_name(f: Any) -> str | None:
    """The dotted public name of a convertible torch function, or None."""
    names, kept = _tables()
    return names.get(id(f)) if kept.get(id(f)) is f else None


@functools.lru_cache(maxsize=1)
def _by_name() -> dict[str, Any]:
    names, kept = _tables()
    return {name: kept[key] for key, name in names.items()}


def function_named(dotted: str) -> Any:
    """The function that `torch_name` gives this name, whatever stands under that name by now; or None."""
    return _by_name().get(dotted)


def last_name(dotted: str) -> str:
    return dotted.rsplit(".", 1)[-1]


def is_random(name: str, kwargs: dict[str, Any]) -> bool:
    """Whether the function of this last name may draw from a generator."""
    return name in _RANDOM or name in _RANDOM_METHODS


@functools.cache
def _flag_index(function: Any) -> int | None:
    """The position of the parameter ``inplace`` of a Python function."""
    if not isinstance(function, types.FunctionType):
        return None
    names = list(inspect.signature(function).parameters)
    return names.index("inplace") if "inplace" in names else None


@functools.cache
def decides_kind(function: Any, parameter: str | int) -> bool:
    """Whether a parameter, by its name or place, is a flag that says what kind of result a function has.

    By its place alone where a Python function hands on what it gets.
    """
    if isinstance(parameter, str):
        return parameter in _KIND_FLAGS
    if not isinstance(function, types.FunctionType):
        return False
    parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    if parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return True
    return parameter < len(parameters) and parameters[parameter].name in _KIND_FLAGS


def written_arguments(
    function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], truth: Callable[[Any], bool]
) -> list[Any]:
    """The arguments (as given) that a function changes in place; ``truth`` decides what may be a flag."""
    written: list[Any] = []
    flag = _flag_index(function)
    if flag is not None and flag < len(args) and truth(args[flag]):
        written.append(args[0])
    if name.endswith("_") and not name.endswith("__") and args:
        written.append(args[0])
    if "out" in kwargs:
        written.append(kwargs["out"])
    if "inplace" in kwargs and args and truth(kwargs["inplace"]):
        written.append(args[0])
    for index, keyword in _STATISTICS.get(function, ()):
        statistic = kwargs.get(keyword, args[index] if index < len(args) else None)
        if statistic is not None:
            written.append(statistic)
    return written


def may_alias(name: str) -> bool:
    """Whether the result may share memory with an argument for some sizes or values."""
    return name in _MAY_ALIAS


def takes_sizes(name: str) -> bool:
    """Whether the containers that the function of this last name is given hold whole numbers, and nothing else."""
    return name in _TAKES_SIZES


def is_tensor_method(name: str) -> bool:
    """Whether ``name`` is a method of torch.Tensor that may stand in a graph."""
    if name in HOST_METHODS or name.startswith("__") or not hasattr(torch.Tensor, name):
        return False
    attribute = getattr(torch.Tensor, name)
    return callable(attribute) and not isinstance(attribute, property) and is_torchs_own(attribute)
