"""Changes in place: of tensors, and of lists and dicts that outlive the call; each behind what rollback needs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch

from janusc import torch_private
from janusc.lowering import codes, ops
from janusc.lowering.abstract import DictV, ListV, Sym
from janusc.lowering.containers import save_target
from janusc.lowering.ir import Arg, Op, Value
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import is_plain
from janusc.lowering.store import parts
from janusc.types import HostType, TensorType


def write_tensor(
    lo: Lowering,
    op: Op,
    target: str,
    owner: Sym,
    rest: tuple[Arg, ...],
    others: list[Any],
    outputs: int,
    kwargs: tuple[tuple[str, Arg], ...] = (),
) -> tuple[Value, ...]:
    """A node that changes ``owner`` in place; a tensor from outside is saved first and must not get a history."""
    protect(lo, owner, others)
    types = (TensorType(),) * outputs
    return lo.builder.emit(op, target, (owner.value, *rest), kwargs, types, lo.span())


def protect(lo: Lowering, owner: Sym, others: list[Any]) -> None:
    """What must be there before a tensor is changed: for one made in this transaction, nothing."""
    if owner.fresh:
        return
    check_layers(lo)
    involved = [owner, *(p for o in others for p in tensors_in(o))]
    if lo.grad and any(isinstance(t.sample, torch.Tensor) and t.sample.requires_grad for t in involved):
        raise lo.refuse(
            codes.HISTORY, "a tensor from outside is changed in place with its history", "use an out-of-place op"
        )
    if not lo.grad:  # inside the graph's own no_grad
        lo.builder.emit(ops.SAVE, "tensor", (owner.value,), (), (), lo.span())
        return
    site = lo.site(lo.node, "history")
    if lo.profile.is_refuted(site):
        raise lo.refuse(codes.HISTORY, "a tensor from outside was changed in place with its history")
    lo.check("plain_write", tuple(t.value for t in involved), site, lo.span())
    lo.builder.emit(ops.SAVE, "tensor", (owner.value,), (), (), lo.span())


def check_layers(lo: Lowering) -> None:
    """No transform or forward-mode level is open: what a tensor carries for them can't be put back."""
    memo = ("torch", "layers", "")
    if memo not in lo.memo:
        lo.memo[memo] = True
        found = lo.builder.guard(ops.BUILTIN_READ, torch_private.LAYERS_QUERY, (), HostType("bool"), lo.span())
        lo.check("false", (found,), "no transform of torch.func, no forward-mode level", lo.span())


def tensors_in(abstract: Any) -> list[Sym]:
    """The tensors an operand consists of."""
    return [p for p in parts(abstract) if isinstance(p, Sym) and p.is_tensor]


def save_container(lo: Lowering, value: Value, kind: type, method: str = "") -> None:
    """Keep what a container holds; ``method`` is what is about to change it, where that is known."""
    if kind is set and method == "pop":  # it goes on from where it was, which no copy tells
        raise lo.refuse_call(codes.METHOD, "which member a set from outside gives next can't be put back")
    lo.builder.emit(ops.SAVE, save_target(kind, method), (value,), (), (), lo.span())


def change(lo: Lowering, owner: Sym, method: str = "") -> None:
    """What must be kept before a container is changed: of one made in this transaction, nothing."""
    if not owner.fresh:
        lo.written_lists.append(owner)
        save_container(lo, owner.value, owner.pytype or list, method)


def refuse_foreign(lo: Lowering, owner: Sym, value: Any) -> None:
    """The values of a ``defaultdict`` are taken to be made in the call, as its missing ones are."""
    own = isinstance(value, (ListV, DictV)) or is_plain(value) or (isinstance(value, Sym) and value.fresh)
    if owner.pytype is defaultdict and not own:
        raise lo.refuse(codes.ASSIGNMENT, "an object is put into a defaultdict")
