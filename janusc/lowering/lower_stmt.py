"""Simple statements, and ``with`` over torch's own context managers and over objects of the user's."""

from __future__ import annotations

import contextlib
import types as pytypes
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import gast
import torch

from janusc import torch_private
from janusc.lowering import codes, ops
from janusc.lowering.abstract import BoundV, Known, Live, Sym, Unbound
from janusc.lowering.assign import assign
from janusc.lowering.classes import class_function, class_lookup
from janusc.lowering.ir import Arg, Value
from janusc.lowering.lower_attr import get_attribute
from janusc.lowering.lower_state import check_once, raw_attr, read
from janusc.lowering.lowering import Lowering, statement
from janusc.lowering.operands import arg, sample_of
from janusc.lowering.store import map_abstract, parts
from janusc.lowering.truth import concretise
from janusc.typeinfer import torch_table
from janusc.types import HostType

GRAD_MODES = {torch.no_grad: False, torch.enable_grad: True, torch.inference_mode: False}
_AUTOCAST = "torch.autocast"


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
    if not isinstance(item.context_expr, gast.Call):
        enter_object(lo, node, item, rest)
        return
    function = lo.expr(item.context_expr.func)
    if called(function) is contextlib.nullcontext:
        enter_nothing(lo, node, item, rest)
        return
    if item.optional_vars is not None:
        raise lo.refuse(codes.CONTEXT, "with … as")
    enter_made(lo, node, rest, *make_manager(lo, item.context_expr, function))


def enter_made(
    lo: Lowering, node: Any, rest: list[Any], manager: Arg, grad: bool | None, casting: AbstractContextManager[Any]
) -> None:
    """A manager of torch's, with the rest of the statement as the region of its node."""
    region = lo.builder.open_region()
    outer, lo.grad = lo.grad, lo.grad if grad is None else grad
    try:
        with casting:
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
        return replace(value, value=renamed[value.value])

    for slot, held in list(lo.store.items()):
        if any(isinstance(part, Sym) and part.value in renamed for part in parts(held)):
            lo.store[slot] = map_abstract(held, change)


def enter_nothing(lo: Lowering, node: Any, item: Any, rest: list[Any]) -> None:
    """``nullcontext(value)``."""
    call = item.context_expr
    if call.keywords or len(call.args) > 1 or any(isinstance(a, gast.Starred) for a in call.args):
        raise lo.refuse(codes.CONTEXT, "nullcontext with keywords")
    value = lo.expr(call.args[0]) if call.args else Known(None)
    if item.optional_vars is not None:
        assign(lo, item.optional_vars, value)
    enter(lo, node, rest)


def enter_object(lo: Lowering, node: Any, item: Any, rest: list[Any]) -> None:
    """The way on which nothing is raised: what the manager's own methods do, before and after the block."""
    from janusc.lowering.lower_call import call

    held = lo.expr(item.context_expr)
    if isinstance(held, Live) and type(held.sample) is torch.autocast and item.optional_vars is None:
        enter_autocast(lo, node, held, rest)
        return
    begin, end = (manager_method(lo, held, name) for name in ("__enter__", "__exit__"))
    value = call(lo, begin, [], {})
    if item.optional_vars is not None:
        assign(lo, item.optional_vars, value)
    enter(lo, node, rest)
    call(lo, end, [Known(None)] * 3, {})


def enter_autocast(lo: Lowering, node: Any, held: Live, rest: list[Any]) -> None:
    """A manager that was there before: another one like it.

    It keeps what was set before it, which must be what it has from last time: so nothing of it changes. One that is
    entered while it is on would forget what was set before it.
    """
    fields, before = torch_private.AUTOCAST_FIELDS, torch_private.AUTOCAST_BEFORE
    if not vars(held.sample).keys() >= {"device", *fields.values(), *before}:
        raise lo.refuse(codes.CONTEXT, "a context manager made elsewhere")
    device, *given = [get_attribute(lo, held, name) for name in ("device", *fields.values())]
    asked = (arg(lo, device),)
    if torch.is_autocast_enabled(sample_of(device)):
        raise lo.refuse(codes.CONTEXT, "autocast in autocast, by a manager made elsewhere")
    for name, query in zip(before, ("is_autocast_enabled", "get_autocast_dtype", "is_autocast_cache_enabled")):
        given_to = () if "cache" in query else asked
        now = lo.builder.guard(ops.BUILTIN_READ, f"torch.{query}", given_to, span=lo.span())
        check_once(lo, "is", (raw_attr(lo, held.value, name), now), "what was set before autocast")
    is_on = lo.builder.guard(ops.BUILTIN_READ, "torch.is_autocast_enabled", asked, HostType("bool"), lo.span())
    check_once(lo, "false", (is_on,), "autocast is off")
    named = tuple((k, arg(lo, v)) for k, v in zip(fields, given))
    (value,) = lo.builder.emit(ops.TORCH, _AUTOCAST, asked, named, span=lo.span(node))
    enter_made(lo, node, rest, value, None, autocast_of_samples([device], dict(zip(fields, given))))


def manager_method(lo: Lowering, held: Any, name: str) -> BoundV:
    """A method of a context manager, found on its class as ``with`` does."""
    method = class_lookup(type(held.sample), name) if isinstance(held, Live) else None
    if not isinstance(method, pytypes.FunctionType) or torch_table.is_torch_code(method.__code__):
        raise lo.refuse(codes.CONTEXT, "a context manager made elsewhere")
    return BoundV(class_function(lo, type(held.sample), name, method), held)


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
    method = called(function)
    if not isinstance(method, pytypes.MethodType) or method.__func__.__name__ != "clone":
        return None
    manager = method.__self__
    if type(manager) not in GRAD_MODES or not getattr(manager, "mode", True):
        return None
    if isinstance(function, Live):
        read(lo, function.value, "attr", "__self__", manager, "the decorator")
    return type(manager)


def called(function: Any) -> Any:
    """The object that a known or live callable is."""
    return function.value if isinstance(function, Known) else function.sample if isinstance(function, Live) else None


def make_manager(lo: Lowering, node: Any, function: Any) -> tuple[Arg, bool | None, AbstractContextManager[Any]]:
    """The context manager that a call makes, as an argument, the grad mode it sets, if it does, and one for samples."""
    target = cloned(lo, function) or called(function)
    args = [lo.expr(a) for a in node.args]
    kwargs = {k.arg: lo.expr(k.value) for k in node.keywords}
    casting: AbstractContextManager[Any] = contextlib.nullcontext()
    if target in GRAD_MODES and not args and not kwargs:
        grad: bool | None = GRAD_MODES[target]
    elif target is torch.set_grad_enabled and len(args) == 1:
        mode = concretise(lo, args[0]) if isinstance(args[0], Sym) else args[0]
        if not isinstance(mode, Known):
            raise lo.refuse(codes.CONTEXT, "a grad mode that varies")
        grad = bool(mode.value)
    elif target is torch.autocast and None not in kwargs:
        grad, casting = None, autocast_of_samples(args, kwargs)
    else:
        raise lo.refuse(codes.CONTEXT, "a context manager other than torch's grad modes and autocast")
    named = tuple((k, arg(lo, v)) for k, v in kwargs.items())
    name = f"torch.{target.__name__}"
    span = lo.span(node)
    (value,) = lo.builder.emit(ops.TORCH, name, tuple(arg(lo, a) for a in args), named, span=span)
    return value, grad, casting


def autocast_of_samples(args: list[Any], kwargs: dict[str, Any]) -> AbstractContextManager[Any]:
    """What the samples in a region of autocast are made under, so that their dtypes are those of the region."""
    given = {name: sample_of(value) for name, value in kwargs.items()}
    try:
        return torch.autocast(*map(sample_of, args), **{**given, "cache_enabled": False})
    except Exception:  # it is for the program to meet that
        return contextlib.nullcontext()
