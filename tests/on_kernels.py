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

_SEEN_BY_TRACING = {"replacements.wrapped_functions_of_torch"}
"""Watches functions that torch itself calls while it traces, in this process for a compiler of the user's own."""

_OF_ROUNDING_ALONE = {"training.evaluation_in_between"}
"""Has a bias before a normalisation: its gradient is nothing but rounding, of which Adam makes whole steps."""

CHOSEN = sorted(set(PROGRAMS) - (_SEEN_BY_TRACING if BACKEND == NAME else _OF_ROUNDING_ALONE))
