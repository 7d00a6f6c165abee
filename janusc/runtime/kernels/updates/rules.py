"""What each optimizer does with a parameter, as documented with torch's class of its name.

The numbers are computed from the options as torch does, in Python, and reach the kernel as tensors of no dimensions:
a new rate is no new kernel. Whether there is a momentum or a decay at all is the *form* of a rule, and is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from janusc.registry import Registry
from janusc.runtime.optimizers import conditions

Options = Mapping[str, Any]
Form = frozenset[str]
Lines = list[str]


@dataclass(frozen=True)
class Rule:
    """How the optimizers of some classes change one parameter.

    ``options`` are read from each group, and ``form`` says which parts of the rule they switch on. ``state`` names the
    tensors that are changed beside the parameter, in torch's order, and ``constants`` the numbers, which ``numbers``
    computes for the step of that number. ``lines`` are statements between all these, ``parameter`` and ``gradient``.
    ``is_counted`` says whether numbers depend on which step it is, ``captures`` whether torch looks for a graph being
    recorded on a device.
    """

    classes: frozenset[type]
    options: tuple[str, ...]
    form: Callable[[Options], Form]
    state: Callable[[Form], tuple[str, ...]]
    constants: tuple[str, ...]
    numbers: Callable[[Options, float], tuple[float, ...]]
    lines: Callable[[Form], Lines]
    is_counted: bool
    captures: bool


RULES: Registry[str, Rule] = Registry("rules of optimizers")
STEP = "step"
"""The state that counts the steps: a tensor of no dimensions, of a dtype of its own."""


def rule_of(optimizer: Any) -> str | None:
    """The name of the rule of an optimizer; None where there is none."""
    return next((name for name, rule in RULES.items() if type(optimizer) in rule.classes), None)


_FLAGS = ("foreach", "fused", "capturable", "differentiable")
_NUMBERS = frozenset({int, float})
_PLAIN = frozenset({int, float, bool, type(None)})


def reader(rule: Rule, options: Options) -> Callable[[Options], tuple[Any, ...]]:
    """What reads the options of a group that a step depends on, also those that would lead it elsewhere."""
    return operator.itemgetter(*rule.options, *(flag for flag in _FLAGS if flag in options))


def are_numbers(rule: Rule, options: Options) -> bool:
    """Whether the options of a group are plain numbers, and none of them leads the step elsewhere."""
    if not conditions.is_looped(options):
        return False
    return all(
        type(value) in _PLAIN or (type(value) is tuple and _NUMBERS.issuperset(map(type, value)))
        for value in map(options.__getitem__, rule.options)
    )


def _switched_on(**parts: Any) -> Form:
    return frozenset(name for name, is_on in parts.items() if is_on)


def _change(form: Form) -> Lines:
    """The gradient as it is applied."""
    lines = ["change = -gradient" if "maximize" in form else "change = gradient"]
    return [*lines, "change = change + parameter * decay"] if "decay" in form else lines


def _lerp(form: Form, start: str, weight: str) -> str:
    """``start.lerp(change, weight)``, which torch computes from the nearer end."""
    if "near" in form:
        return f"{start} + {weight} * (change - {start})"
    return f"change - (change - {start}) * (1 - {weight})"


# ---- SGD


def _sgd_form(o: Options) -> Form:
    return _switched_on(
        momentum=o["momentum"] != 0, nesterov=o["nesterov"], decay=o["weight_decay"] != 0, maximize=o["maximize"]
    )


def _sgd_state(form: Form) -> tuple[str, ...]:
    return ("momentum_buffer",) if "momentum" in form else ()


def _sgd_numbers(o: Options, count: float) -> tuple[float, ...]:
    return -o["lr"], o["momentum"], 1 - o["dampening"], o["weight_decay"]


def _sgd_lines(form: Form) -> Lines:
    lines = _change(form)
    if "momentum" in form:
        lines += ["buffer = momentum_buffer * momentum + change * share", "momentum_buffer.copy_(buffer)"]
        lines += ["change = change + buffer * momentum" if "nesterov" in form else "change = buffer"]
    return [*lines, "parameter.copy_(parameter + change * size)"]


RULES.register(
    "SGD",
    Rule(
        frozenset({torch.optim.SGD}),
        ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"),
        _sgd_form,
        _sgd_state,
        ("size", "momentum", "share", "decay"),
        _sgd_numbers,
        _sgd_lines,
        is_counted=False,
        captures=False,
    ),
)


# ---- Adam and AdamW


def _adam_form(o: Options) -> Form:
    has_decay, decoupled = o["weight_decay"] != 0, o["decoupled_weight_decay"]
    return _switched_on(
        decay=has_decay and not decoupled,
        decoupled=has_decay and decoupled,
        largest=o["amsgrad"],
        maximize=o["maximize"],
        near=1 - o["betas"][0] < 0.5,
    )


def _adam_state(form: Form) -> tuple[str, ...]:
    names = STEP, "exp_avg", "exp_avg_sq"
    return (*names, "max_exp_avg_sq") if "largest" in form else names


def _adam_numbers(o: Options, count: float) -> tuple[float, ...]:
    lr, decay, (beta1, beta2) = o["lr"], o["weight_decay"], o["betas"]
    size, root = lr / (1 - beta1**count), (1 - beta2**count) ** 0.5
    return -size, root, 1 - beta1, beta2, 1 - beta2, o["eps"], decay, 1 - lr * decay


def _adam_lines(form: Form) -> Lines:
    lines = _change(form)
    if "decoupled" in form:
        lines += ["kept = parameter * kept"]
    lines += [
        f"mean = {_lerp(form, 'exp_avg', 'weight')}",
        "square = exp_avg_sq * beta2 + change * change * share",
        "step.copy_(step + 1)",
        "exp_avg.copy_(mean)",
        "exp_avg_sq.copy_(square)",
    ]
    if "largest" in form:
        lines += ["square = torch.maximum(max_exp_avg_sq, square)", "max_exp_avg_sq.copy_(square)"]
    kept = "kept" if "decoupled" in form else "parameter"
    return [*lines, f"parameter.copy_({kept} + mean / (square.sqrt() / root + eps) * size)"]


RULES.register(
    "Adam",
    Rule(
        frozenset({torch.optim.Adam, torch.optim.AdamW}),
        ("lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay"),
        _adam_form,
        _adam_state,
        ("size", "root", "weight", "beta2", "share", "eps", "decay", "kept"),
        _adam_numbers,
        _adam_lines,
        is_counted=True,
        captures=True,
    ),
)


# ---- RMSprop


def _rmsprop_form(o: Options) -> Form:
    return _switched_on(
        momentum=o["momentum"] > 0,
        centered=o["centered"],
        decay=o["weight_decay"] != 0,
        maximize=o["maximize"],
        near=1 - o["alpha"] < 0.5,
    )


def _rmsprop_state(form: Form) -> tuple[str, ...]:
    more = {"momentum": "momentum_buffer", "centered": "grad_avg"}
    return STEP, "square_avg", *(name for part, name in more.items() if part in form)


def _rmsprop_numbers(o: Options, count: float) -> tuple[float, ...]:
    return -o["lr"], o["alpha"], 1 - o["alpha"], o["eps"], o["momentum"], o["weight_decay"]


def _rmsprop_lines(form: Form) -> Lines:
    lines = _change(form)
    lines += ["square = square_avg * alpha + change * change * share"]
    lines += ["step.copy_(step + 1)", "square_avg.copy_(square)"]
    if "centered" in form:
        lines += [f"mean = {_lerp(form, 'grad_avg', 'share')}", "grad_avg.copy_(mean)", "square = square - mean * mean"]
    lines += ["change = change / (square.sqrt() + eps)"]
    if "momentum" in form:
        lines += ["change = momentum_buffer * momentum + change", "momentum_buffer.copy_(change)"]
    return [*lines, "parameter.copy_(parameter + change * size)"]


RULES.register(
    "RMSprop",
    Rule(
        frozenset({torch.optim.RMSprop}),
        ("lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize"),
        _rmsprop_form,
        _rmsprop_state,
        ("size", "alpha", "share", "eps", "momentum", "decay"),
        _rmsprop_numbers,
        _rmsprop_lines,
        is_counted=False,
        captures=True,
    ),
)


# ---- Adagrad


def _adagrad_form(o: Options) -> Form:
    return _switched_on(decay=o["weight_decay"] != 0, maximize=o["maximize"])


def _adagrad_state(form: Form) -> tuple[str, ...]:
    return STEP, "sum"


def _adagrad_numbers(o: Options, count: float) -> tuple[float, ...]:
    return -(o["lr"] / (1 + (count - 1) * o["lr_decay"])), o["eps"], o["weight_decay"]


def _adagrad_lines(form: Form) -> Lines:
    lines = _change(form)
    lines += ["total = sum + change * change", "step.copy_(step + 1)", "sum.copy_(total)"]
    return [*lines, "parameter.copy_(parameter + change / (total.sqrt() + eps) * size)"]


RULES.register(
    "Adagrad",
    Rule(
        frozenset({torch.optim.Adagrad}),
        ("lr", "lr_decay", "weight_decay", "eps", "maximize"),
        _adagrad_form,
        _adagrad_state,
        ("size", "eps", "decay"),
        _adagrad_numbers,
        _adagrad_lines,
        is_counted=True,
        captures=False,
    ),
)
