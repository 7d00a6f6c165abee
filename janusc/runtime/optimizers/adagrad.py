"""Adagrad."""

from __future__ import annotations

import torch

from janusc.runtime.optimizers.batches import Batch, counted, dtype_of
from janusc.runtime.optimizers.equivalents import register
from janusc.runtime.optimizers.steps import FOREACH, Family, Update, beside, changes_of, equivalent, fit, fits_now


def prepare(batch: Batch) -> Update | None:
    """The update of a batch; None where something is not as torch makes it."""
    options, parameters, _, columns, _ = batch
    lr, slowing, decay, eps = (options[k] for k in ("lr", "lr_decay", "weight_decay", "eps"))
    if not fit(lr, slowing, decay, eps):
        return None
    steps, sums = columns["step"], columns["sum"]
    counts, dtype = counted(batch), dtype_of(batch, sums)
    if counts is None or dtype is None:
        return None
    rates = {n: -(lr / (1 + (n - 1) * slowing)) for n in set(counts)}
    if not fits_now(*rates.values()):
        return None
    sizes = [rates[n] for n in counts]
    one, small = beside(steps[0].dtype, 1), beside(dtype, eps)
    count = len(parameters)

    def make() -> None:
        changes = changes_of(batch, decay)
        FOREACH["add_"](steps, [one] * count)
        FOREACH["addcmul_"](sums, changes, changes, 1)
        divisors = FOREACH["sqrt"](sums)
        FOREACH["add_"](divisors, [small] * count)
        FOREACH["addcdiv_"](parameters, changes, divisors, sizes)

    return Update(make, [*parameters, *steps, *sums])


ADAGRAD = Family(
    classes=frozenset({torch.optim.Adagrad}),
    prepare=prepare,
    needs_state=lambda options: True,
    captures=False,
)
register(torch.optim.Adagrad.step, equivalent(ADAGRAD))
