"""Adam and AdamW."""

from __future__ import annotations

import torch

from janusc.runtime.optimizers.batches import Batch, counted, dtype_of
from janusc.runtime.optimizers.equivalents import register
from janusc.runtime.optimizers.steps import (
    FOREACH,
    Family,
    Update,
    beside,
    changes_of,
    equivalent,
    fit,
    fits_now,
    of_this_step,
)


def prepare(batch: Batch) -> Update | None:
    """The update of a batch; None where the state is not there yet, or something is not as torch makes it."""
    options, parameters, _, columns, _ = batch
    lr, eps, decay, (beta1, beta2) = options["lr"], options["eps"], options["weight_decay"], options["betas"]
    amsgrad, decoupled = options["amsgrad"], options["decoupled_weight_decay"]
    kept = 1 - lr * decay
    if not fit(lr, eps, decay, beta1, beta2, 1 - beta1, 1 - beta2, kept):
        return None
    steps, means, squares = columns["step"], columns["exp_avg"], columns["exp_avg_sq"]
    largest = columns["max_exp_avg_sq"] if amsgrad else ()
    counts = counted(batch)
    dtype = dtype_of(batch, means, squares, largest) if amsgrad else dtype_of(batch, means, squares)
    if counts is None or dtype is None:
        return None
    scales = {n: (-(lr / (1 - beta1**n)), (1 - beta2**n) ** 0.5) for n in set(counts)}
    if not all(fits_now(*pair) for pair in scales.values()):
        return None
    sizes = [scales[n][0] for n in counts]
    roots = of_this_step(dtype, [scales[n][1] for n in counts])
    one, decays, small = beside(steps[0].dtype, 1), beside(dtype, beta2), beside(dtype, eps)
    count = len(parameters)

    def make() -> None:
        changes = changes_of(batch, 0 if decoupled else decay)
        FOREACH["add_"](steps, [one] * count)
        if decay != 0 and decoupled:
            FOREACH["mul_"](parameters, [beside(dtype, kept)] * count)
        FOREACH["lerp_"](means, changes, 1 - beta1)
        FOREACH["mul_"](squares, [decays] * count)
        FOREACH["addcmul_"](squares, changes, changes, 1 - beta2)
        for most, square in zip(largest, squares):
            torch.maximum(most, square, out=most)
        divisors = FOREACH["sqrt"](largest or squares)
        FOREACH["div_"](divisors, roots)
        FOREACH["add_"](divisors, [small] * count)
        FOREACH["addcdiv_"](parameters, means, divisors, sizes)

    return Update(make, [*parameters, *steps, *means, *squares, *largest])


ADAM = Family(
    classes=frozenset({torch.optim.Adam, torch.optim.AdamW}),
    prepare=prepare,
    needs_state=lambda options: True,
    captures=True,
)
register(torch.optim.Adam.step, equivalent(ADAM))
