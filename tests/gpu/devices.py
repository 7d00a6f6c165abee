"""The CUDA device of these tests, and why there are none without it."""

import pytest
import torch

NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
CUDA = "cuda:0"
TOLERANCE = 1e-4
BACKENDS = ("aten", "inductor", "cudagraph")


def tolerance(backend):
    """How far results may be off: on ``aten`` they have eager's bits."""
    return 0.0 if backend == "aten" else TOLERANCE
