"""On whose kernels the corpus is run: on those that no compiler makes, or by the backend that JANUSC_KERNELS names."""

from __future__ import annotations

import os

from corpus import PROGRAMS
from traced import NAME

BACKEND = os.environ.get("JANUSC_KERNELS", NAME)
EVERY = "JANUSC_KERNELS" in os.environ
"""Whether all programs are run where a sample is enough otherwise (``make kernels``)."""

TOLERANCE = 1e-4
"""Relative and absolute, of numbers that kernels compute."""

_OF_SHORT_NUMBERS = {"training.autocast_around_everything": 2e-2}
"""Of programs in which derivatives are computed in bfloat16 by other formulas than torch's own: a few steps of it."""

_SEEN_BY_TRACING = {"replacements.wrapped_functions_of_torch"}
"""Watches functions that torch itself calls while it traces, in this process for a compiler of the user's own."""

_ROUNDING_ALONE = {"training.evaluation_in_between"}
"""The gradient of a bias in front of a batch norm is zero but for rounding, of which AdamW makes whole steps: 1e-7
beside 0.3 of the weights, eagerly and in kernels, whose gradients all differ from eager's by 2e-7 at most."""

_STRIDES_OF_ONE_ROW = {"training.gradient_penalty"}
"""Eager mode adds up a gradient of one row transposed: how far apart its rows would be differs."""

CHOSEN = sorted(
    set(PROGRAMS) - _ROUNDING_ALONE - _STRIDES_OF_ONE_ROW - (_SEEN_BY_TRACING if BACKEND == NAME else set())
)


def tolerance_of(name: str) -> float:
    """How far numbers of a program may be off."""
    return _OF_SHORT_NUMBERS.get(name, TOLERANCE)
