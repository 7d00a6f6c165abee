"""RMSprop, centred or not, with momentum or without."""

from __future__ import annotations

import torch

from janusc.runtime.optimizers.batches import Batch, counted, dtype_of
from janusc.runtime.optimizers.equivalents import register
from janusc.runtime.optimizers.steps import FOREACH, Family, Update, beside, changes_of, equivalent, fit


def prepare(batch: Batch) -> Update | None:
    """The update of a batch; None where the state is not there yet, or something is not as torch makes it."""
    options, parameters, _, columns, _ = batch
    lr, alpha, eps, momentum, decay = (options[k] for k in ("lr", "alpha", "eps", "momentum", "weight_decay"))
    centered = options["centered"]
    if not fit(lr, alpha, eps, momentum, decay, 1 - alpha):
        return None
    steps, squares = columns["step"], columns["square_avg"]
    buffers = columns["momentum_buffer"] if momentum > 0 else ()
    means = columns["grad_avg"] if centered else ()
    dtype = dtype_of(batch, squares, *filter(None, (buffers, means)))
    if counted(batch) is None or dtype is None:
        return None
    one, kept, small = beside(steps[0].dtype, 1), beside(dtype, alpha), beside(dtype, eps)
    momenta = beside(dtype, momentum) if buffers else None
    count = len(parameters)

    def make() -> None:
        changes = changes_of(batch, decay)
        FOREACH["add_"](steps, [one] * count)
        FOREACH["mul_"](squares, [kept] * count)
        FOREACH["addcmul_"](squares, changes, changes, 1 - alpha)
        if means:
            FOREACH["lerp_"](means, changes, 1 - alpha)
            divisors = FOREACH["addcmul"](squares, means, means, -1)
            FOREACH["sqrt_"](divisors)
        else:
            divisors = FOREACH["sqrt"](squares)
        FOREACH["add_"](divisors, [small] * count)
        if buffers:
            FOREACH["mul_"](buffers, [momenta] * count)
            FOREACH["addcdiv_"](buffers, changes, divisors)
            FOREACH["add_"](parameters, buffers, alpha=-lr)
        else:
            FOREACH["addcdiv_"](parameters, changes, divisors, -lr)

    return Update(make, [*parameters, *steps, *squares, *buffers, *means])


RMSPROP = Family(
    classes=frozenset({torch.optim.RMSprop}),
    prepare=prepare,
    needs_state=lambda options: True,
    captures=True,
)
register(torch.optim.RMSprop.step, equivalent(RMSPROP))
