"""SGD, with momentum or without."""

from __future__ import annotations

import torch

from janusc.runtime.optimizers.batches import Batch, dtype_of
from janusc.runtime.optimizers.equivalents import register
from janusc.runtime.optimizers.steps import FOREACH, Family, Update, beside, changes_of, equivalent, fit


def prepare(batch: Batch) -> Update | None:
    """The update of a batch; None where a buffer is not there yet, or something is not as torch makes it."""
    options, parameters, _, columns, _ = batch
    lr, momentum, dampening, decay = (options[k] for k in ("lr", "momentum", "dampening", "weight_decay"))
    nesterov = options["nesterov"]
    if not fit(lr, momentum, dampening, decay, 1 - dampening):
        return None
    buffers = columns.get("momentum_buffer") if momentum != 0 else ()
    dtype = dtype_of(batch) if not buffers else dtype_of(batch, buffers)
    if dtype is None or buffers is None:
        return None
    momenta = [beside(dtype, momentum)] * len(buffers)

    def make() -> None:
        changes = changes_of(batch, decay)
        if buffers:
            FOREACH["mul_"](buffers, momenta)
            FOREACH["add_"](buffers, changes, alpha=1 - dampening)
            changes = FOREACH["add"](changes, buffers, alpha=momentum) if nesterov else buffers
        FOREACH["add_"](parameters, changes, alpha=-lr)

    return Update(make, [*parameters, *buffers])


SGD = Family(
    classes=frozenset({torch.optim.SGD}),
    prepare=prepare,
    needs_state=lambda options: bool(options["momentum"] != 0),
    captures=False,
)
register(torch.optim.SGD.step, equivalent(SGD))
