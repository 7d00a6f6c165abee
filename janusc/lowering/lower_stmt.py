"""Simple statements, and ``with`` over torch's own context managers."""

from __future__ import annotations

import types as pytypes
from typing import Any

import gast
import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import Known, Live, Sym, Unbound
from janusc.lowering.branch import concretise
from janusc.lowering.ir import Arg, Value
from janusc.lowering.lower_state import read
from janusc.lowering.lowering import Lowering, statement
from janusc.lowering.operands import arg
from janusc.lowering.store import map_abstract, parts

_GRAD_MODES = {torch.no_grad: False, torch.enable_grad: True, torch.inference_mode: False}
_AUTOCAST = (torch.autocast, torch.amp.autocast, torch.cpu.amp.autocast_mode.autocast, torch.cuda.amp.autocast)


@statement(gast.Pass, gast.Nonlocal, gast.Global)
def lower_pass(lo: Lowering, node: Any) -> None:
    pass


@statement(gast.Expr)
def lower_expression_statement(lo: Lowering, node: Any) -> None:
    lo.expr(node.value)


@statement(gast.Return)
def lower_return(lo: Lowering, node: Any) -> None:
    raise lo.refuse(codes.SYNTAX, "a return inside a block")


@statement(gast.Try)
def lower_try(lo: Lowering, node: Any) -> None:
    """The way on which nothing is raised; an exception in the graph is met by the eager run, under the real ``try``."""
    lo.block(node.body)
    lo.block(node.orelse)
    lo.block(node.finalbody)


@statement(gast.With)
def lower_with(lo: Lowering, node: Any) -> None:
    enter(lo, node, list(node.items))


def enter(lo: Lowering, node: Any, items: list[Any]) -> None:
    """One context manager after the other, each a node with the rest of the statement as its region."""
    if not items:
        lo.block(node.body)
        return
    item, *rest = items
    if item.optional_vars is not None:
        raise lo.refuse(codes.CONTEXT, "with … as")
    manager, grad = make_manager(lo, item.context_expr)
    region = lo.builder.open_region()
    outer, lo.grad = lo.grad, lo.grad if grad is None else grad
    try:
        enter(lo, node, rest)
    finally:
        lo.grad = outer
        lo.builder.pop_region()
    inner, renamed = exported(lo, list(lo.store.values()), region)
    free = lo.builder.free_values(region, inner)
    graph = lo.builder.close(region, inner, free)
    outs = tuple(renamed[v] for v in inner if isinstance(v, Value))
    lo.builder.place(ops.CONTEXT, "with", (manager, *free), outs, (graph,), lo.span(node))

    def change(value: Sym) -> Sym:
        if value.value not in renamed:
            return value
        return Sym(**{**value.__dict__, "value": renamed[value.value]})

    for slot, held in list(lo.store.items()):
        if any(isinstance(part, Sym) and part.value in renamed for part in parts(held)):
            lo.store[slot] = map_abstract(held, change)


def exported(lo: Lowering, abstracts: list[Any], region: Any) -> tuple[tuple[Arg, ...], dict[Value, Value]]:
    """The values made in a region that are needed after it, and what they are called there."""
    defined = {v for node in region.nodes for v in node.outputs}
    renamed: dict[Value, Value] = {}
    for abstract in abstracts:
        if abstract is Unbound:
            continue
        for part in parts(abstract):
            if isinstance(part, Sym) and part.value in defined and part.value not in renamed:
                renamed[part.value] = lo.builder.value(part.value.type)
    return tuple(renamed), renamed


def cloned(lo: Lowering, function: Any) -> Any:
    """The class of a grad mode used as a decorator: torch makes a copy of the manager for each call."""
    method = function.sample if isinstance(function, Live) else None
    if not isinstance(method, pytypes.MethodType) or method.__func__.__name__ != "clone":
        return None
    manager = method.__self__
    if type(manager) not in _GRAD_MODES or not getattr(manager, "mode", True):
        return None
    read(lo, function.value, "attr", "__self__", manager, "the decorator")
    return type(manager)


def make_manager(lo: Lowering, node: Any) -> tuple[Arg, bool | None]:
    """The context manager as an argument, and the grad mode it sets, if it does."""
    if not isinstance(node, gast.Call):
        raise lo.refuse(codes.CONTEXT, "a context manager made elsewhere")
    function = lo.expr(node.func)
    target = function.value if isinstance(function, Known) else function.sample if isinstance(function, Live) else None
    target = cloned(lo, function) or target
    args = [lo.expr(a) for a in node.args]
    kwargs = {k.arg: lo.expr(k.value) for k in node.keywords}
    if target in _GRAD_MODES and not args and not kwargs:
        grad: bool | None = _GRAD_MODES[target]
    elif target is torch.set_grad_enabled and len(args) == 1:
        mode = concretise(lo, args[0]) if isinstance(args[0], Sym) else args[0]
        if not isinstance(mode, Known):
            raise lo.refuse(codes.CONTEXT, "a grad mode that varies")
        grad = bool(mode.value)
    elif target in _AUTOCAST:
        grad = None
    else:
        raise lo.refuse(codes.CONTEXT, "a context manager other than torch's grad modes and autocast")
    named = tuple((k, arg(lo, v)) for k, v in kwargs.items())
    name = f"torch.{target.__name__}"
    span = lo.span(node)
    (value,) = lo.builder.emit(ops.TORCH, name, tuple(arg(lo, a) for a in args), named, span=span)
    return value, grad
