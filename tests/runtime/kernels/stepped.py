"""A backend on whose kernels whole steps are made without a compiler; a program on it beside its eager twin."""

import gc

import torch
import traced

import janusc as janus
from janusc.options import BACKENDS
from janusc.runtime.backends.compiled import Kernels
from janusc.runtime.kernels.makers import made_here
from janusc.runtime.kernels.site import EarlySite
from janusc.runtime.kernels.updates import places

STEPPED = "traced, and steps"
if STEPPED not in BACKENDS:
    BACKENDS.register(
        STEPPED,
        Kernels(
            STEPPED,
            made_here(lambda module: lambda inputs: traced.compiler(module, ())(*inputs)),
            EarlySite,
            places.EarlyStep,
        ),
    )


def run_beside_eager(make, calls, backend=STEPPED):
    """What ``make`` returns has a ``step`` and its ``parts``, modules and optimizers; it is made twice, alike.

    One is called as it is with each of ``calls``, and the other compiled, which leaves the same results, parts,
    gradients and random numbers to come.
    """
    gc.collect()  # functions of one code share their graphs while one lives
    twins = []
    for _ in range(2):
        torch.manual_seed(1)
        twins.append(make())
    plain, ours = twins
    compiled = janus.compile(ours.step, backend=backend, warmup=2)
    for number, arguments in enumerate(calls):
        left = []
        for twin, step in ((plain, plain.step), (ours, compiled)):
            torch.manual_seed(number)
            result = step(*arguments)
            states = [part.state_dict() for part in twin.parts]
            left.append((result, states, list(map(_gradients, twin.parts)), torch.get_rng_state()))
        exact = {"rtol": 0, "atol": 0} if backend == "aten" else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(left[1], left[0], equal_nan=True, **exact)
    return compiled


def _gradients(part):
    found = [p.grad for p in part.parameters()] if isinstance(part, torch.nn.Module) else []
    return [torch.zeros(0) if grad is None else grad for grad in found]
