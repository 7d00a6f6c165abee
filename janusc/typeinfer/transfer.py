"""The type of an op: run it on stand-ins for its arguments.

Only torch knows what its functions return. Small arguments are stood for by zeros on the CPU, large ones by meta
tensors: torch's meta kernels import its whole compiler (seconds) at their first use, which a small program should not
wait for. The result is a *sample*: right in kind, and in dtype and shape for this call's sizes. Nothing is folded from
it without an assert.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F

from janusc.interrupts import is_interrupt

_LARGE = 1 << 18  # elements; above it a stand-in has no data


class NoSample(Exception):
    """The op can't be run without data (its result depends on values), or refuses these arguments."""


def stand_in(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with the geometry, dtype and ``requires_grad`` of another; NoSample for layouts other than strided."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        raise NoSample(str(tensor.layout))
    device = "meta" if tensor.numel() > _LARGE else "cpu"
    with torch.inference_mode(False):
        result = torch.empty_strided(tuple(tensor.shape), tuple(tensor.stride()), dtype=tensor.dtype, device=device)
        if device == "cpu":
            result.zero_()
        return result.requires_grad_(True) if tensor.requires_grad else result


def stand_in_like(dtype: torch.dtype | None, shape: tuple[int | None, ...] | None) -> torch.Tensor:
    """A stand-in for a partly known type; an unknown dimension is 2."""
    dims = () if shape is None else tuple(2 if d is None else d for d in shape)
    large = torch.Size(dims).numel() > _LARGE
    return torch.zeros(dims, dtype=dtype or torch.float32, device="meta" if large else "cpu")


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    if type(value) in (tuple, list):
        return type(value)(_map(v, change) for v in value)
    return change(value)


def _tensors(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []

    def note(v: Any) -> None:
        if isinstance(v, torch.Tensor):
            found.append(v)

    _map(value, note)
    return found


def _mover(device: str) -> Callable[[Any], Any]:
    """Puts devices, names of devices and, for meta, tensors onto the device of the run."""

    def move(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device(device)
        if isinstance(value, str) and value.split(":")[0] in ("cpu", "cuda", "mps", "xpu"):
            return device
        if isinstance(value, torch.Tensor) and device == "meta" and value.device.type != "meta":
            moved = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
            return moved.requires_grad_(value.requires_grad)
        return value

    return move


_IGNORED_KEYWORDS = ("generator", "pin_memory", "non_blocking")


def _makes_on(device: torch.device) -> bool:
    """Whether torch makes tensors on this device, where none is named."""
    return torch.empty(0).device == device


def apply(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool) -> Any:
    """The result of ``function`` on samples. Raises NoSample where torch can't say without data."""
    tensors = _tensors([*args, *kwargs.values()])
    large = sum(t.numel() for t in tensors) > 2 * _LARGE or any(t.device.type == "meta" for t in tensors)
    move = _mover("meta" if large else "cpu")
    args = tuple(_map(a, move) for a in args)
    kwargs = {k: _map(v, move) for k, v in kwargs.items() if k not in _IGNORED_KEYWORDS}
    device = torch.device("meta" if large else "cpu")
    try:
        # under a device of its own torch asks Python about each of its functions: only where another one is set
        with torch.inference_mode(False), torch.set_grad_enabled(grad), nullcontext() if _makes_on(device) else device:
            if large and torch.is_autocast_enabled("cpu"):
                return _casting(function, args, kwargs)
            return function(*args, **kwargs)
    except Exception as error:  # whatever torch raises here, it only means that there is no sample
        if is_interrupt(error):
            raise
        raise NoSample(f"{type(error).__name__}: {error}") from None


def _casting(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result on meta tensors, for which there is no autocast: of one dtype, where they may not be of several."""
    try:
        return function(*args, **kwargs)
    except RuntimeError:

        def cast(value: Any) -> Any:
            return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        return function(*(_map(a, cast) for a in args), **{k: _map(v, cast) for k, v in kwargs.items()})


def _of_size(*size: Any, dtype: torch.dtype | None = None, requires_grad: bool = False, **_: Any) -> torch.Tensor:
    dims = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    return torch.empty(*dims, dtype=dtype, requires_grad=requires_grad)


def _like(tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return tensor * 1


def _of_moments(mean: Any, std: Any = 1.0, size: Any = None, **kwargs: Any) -> torch.Tensor:
    return mean + std if size is None else torch.zeros(size, **kwargs)


def _attended(*args: Any, **kwargs: Any) -> Any:
    given = _ATTENTION.bind(*args, **kwargs).arguments
    return F.multi_head_attention_forward(**{**given, "training": False})


_ATTENTION = inspect.signature(F.multi_head_attention_forward)

_DETERMINISTIC: dict[str, Callable[..., Any]] = {
    "rand": _of_size,
    "randn": _of_size,
    "normal": _of_moments,
    "randperm": lambda n, **_: torch.arange(n),
    "randint": lambda *a, **k: torch.zeros(
        next(x for x in reversed(a) if isinstance(x, (tuple, list))), dtype=torch.long
    ),
    "multi_head_attention_forward": _attended,
    "multinomial": lambda t, n, *_, **__: torch.zeros(*t.shape[:-1], n, dtype=torch.long),
}
for _name in (
    "rand_like randn_like bernoulli dropout alpha_dropout feature_dropout dropout1d dropout2d dropout3d rrelu "
    "gumbel_softmax feature_alpha_dropout poisson bernoulli_ normal_ uniform_ exponential_ random_ geometric_ "
    "log_normal_ cauchy_"
).split():
    _DETERMINISTIC[_name] = _like


def apply_random(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool) -> Any:
    """A sample of a random function's result; no generator is touched."""
    function = _DETERMINISTIC.get(name)
    if function is None:
        raise NoSample(f"{name} draws random numbers")
    return apply(function, args, kwargs, grad)


def shares_storage(result: torch.Tensor, others: list[torch.Tensor]) -> bool:
    """Whether a sample is a view of (or the same as) one of the samples it was computed from."""
    if result.device.type == "meta" and any(o.device.type != "meta" for o in others):
        return True  # the arguments were moved: unknown
    storage = result.untyped_storage()._cdata
    return any(o.untyped_storage()._cdata == storage for o in others)
