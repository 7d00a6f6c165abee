"""Calls: what is called decides.

User code and layers of torch are inlined, torch functions become nodes, the rest is opaque.
"""

from __future__ import annotations

import abc
import copy
import functools
import types as pytypes
from dataclasses import replace
from typing import Any

import gast
import torch

from janusc import torch_private
from janusc.diagnostics import Refusal
from janusc.frontend import jumps, names, parse
from janusc.frontend.nodes import nodes_of
from janusc.frontend.parse import ParsedFunction
from janusc.lowering import codes
from janusc.lowering.abstract import (
    BoundV,
    DictV,
    Frame,
    FunctionV,
    Known,
    Live,
    MethodV,
    PartsV,
    SpreadV,
    SuperV,
    Sym,
    TupleV,
)
from janusc.lowering.classes import class_function, class_lookup, special_method
from janusc.lowering.ir import Const
from janusc.lowering.iterate import static_items
from janusc.lowering.kinds import ChoiceV, PickV, choose
from janusc.lowering.lower_attr import get_attribute, not_overridden
from janusc.lowering.lower_expr import closure, display_items, static_dict
from janusc.lowering.lower_layer import call_layer
from janusc.lowering.lower_optimizer import call_optimizer
from janusc.lowering.lower_state import check_once, module_entry, raw_attr, read, refuse_iterator
from janusc.lowering.lowering import Lowering, Unconvertible, expression, statement
from janusc.lowering.operands import exact_type
from janusc.lowering.own_calls import is_seen_recursive
from janusc.lowering.parts import PARAMETER_VIEWS, parameter_view
from janusc.lowering.profiled import expect
from janusc.lowering.routine import Recursive, call_routine, function_key, is_same_function
from janusc.lowering.worth import made_tensors
from janusc.typeinfer import callees, torch_table

MAX_DEPTH = 40
MAX_RECURSION = 3


@expression(gast.Call)
def lower_call(lo: Lowering, node: Any) -> Any:
    """A call; what can't be converted in it makes it opaque, and the statement around it may be split there."""
    try:
        return expect(lo, evaluate_call(lo, node))
    except Unconvertible as error:
        in_root = lo.frame.caller is None and lo.frame.parent is None
        if in_root and (error.call is None or error.call is node):
            error.call = node
            node._jc_enter, node._jc_equivalent, node._jc_works = error.may_enter, error.has_equivalent, error.works
        raise


def evaluate_call(lo: Lowering, node: Any) -> Any:
    from janusc.lowering.lower_builtin import call_special

    function = lo.expr(node.func)
    special = call_special(lo, function, node)
    if special is not None:
        return special
    if lo.worlds.examples and is_users_own(function):
        lo.handed_on.update(id(a) for a in node.args if isinstance(a, (gast.Name, gast.Attribute)))
    args = arguments(lo, node.args)
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        value = lo.expr(keyword.value)
        given = static_dict(lo, value) if keyword.arg is None else {keyword.arg: value}
        if not kwargs.keys().isdisjoint(given):
            raise lo.refuse(codes.RAISES, "a keyword argument is given twice")
        kwargs.update(given)
    return call(lo, function, args, kwargs)


def is_users_own(function: Any) -> bool:
    """Whether what is called is the user's code, which may do no more with an argument than hand it on."""
    if isinstance(function, BoundV):
        return is_users_own(function.function)
    if isinstance(function, Live) and issubclass(type(function.sample), torch.nn.Module):
        return not torch_table.is_torch_code(type(function.sample).forward.__code__)
    is_function = isinstance(function, Live) and isinstance(function.sample, pytypes.FunctionType)
    return isinstance(function, FunctionV) or (is_function and not function.fixed)


def arguments(lo: Lowering, nodes: Any) -> list[Any]:
    """The positional arguments; a tuple of any length at their end is handed on as it is."""
    if nodes and isinstance(nodes[-1], gast.Starred):
        args = display_items(lo, nodes[:-1])
        last = lo.expr(nodes[-1].value)
        items = static_items(lo, last, nodes[-1])
        if items is None and exact_type(last) is tuple:
            return [*args, SpreadV(last)]
        if items is None:
            raise lo.refuse(codes.STAR, "*-argument of unknown length", node=nodes[-1])
        return [*args, *items]
    return display_items(lo, nodes)


def call(lo: Lowering, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call an abstract value with abstract arguments."""
    from janusc.lowering import lower_builtin, lower_method, lower_torch

    if isinstance(function, (ChoiceV, PickV)):
        return choose(lo, function, lambda one: call(lo, one, args, kwargs), [*args, *kwargs.values()])
    if isinstance(function, BoundV):
        return call(lo, function.function, [function.owner, *args], kwargs)
    if isinstance(function, FunctionV):
        return call_local(lo, function, args, kwargs)
    if isinstance(function, MethodV):
        return lower_method.call_method(lo, function.owner, function.name, args, kwargs)
    if isinstance(function, Known):
        if torch_table.torch_name(function.value) is not None:
            return lower_torch.call_torch(lo, function.value, args, kwargs)
        return lower_builtin.call_known(lo, function.value, args, kwargs)
    if isinstance(function, Live):
        return call_live(lo, function, args, kwargs)
    if isinstance(function, PartsV) and function.cls is torch.nn.Sequential and len(args) == 1 and not kwargs:
        from janusc.lowering.parts import call_parts

        return call_parts(lo, function, args[0])
    raise lo.refuse_call(codes.OPAQUE_CALL, f"a call of {_describe(function)}")


def _describe(function: Any) -> str:
    return "a value that is known at run time only" if isinstance(function, Sym) else type(function).__name__


def call_live(lo: Lowering, function: Live, args: list[Any], kwargs: dict[str, Any]) -> Any:
    sample = function.sample
    if lo.is_opaque(sample):
        raise lo.refuse_call(codes.OPAQUE_CALL, f"{callees.describe(sample)} is marked opaque")
    if issubclass(type(sample), torch.nn.Module):  # whatever it says its class is
        return call_module(lo, function, args, kwargs)
    if isinstance(sample, pytypes.FunctionType):
        return call_function(lo, function, args, kwargs)
    if isinstance(sample, pytypes.MethodType):
        owner = read(lo, function.value, "attr", "__self__", sample.__self__, "__self__")
        inner = read(lo, function.value, "attr", "__func__", sample.__func__, "__func__")
        return call(lo, inner, [owner, *args], kwargs)
    if type(sample) is functools.partial:
        return call_partial(lo, function, args, kwargs)
    method = special_method(lo, function, "__call__")
    if method is not None:
        return call(lo, method, args, kwargs)
    raise lo.refuse_call(codes.OPAQUE_CALL, f"a call of {callees.describe(sample)}")


def call_partial(lo: Lowering, function: Live, args: list[Any], kwargs: dict[str, Any]) -> Any:
    sample = function.sample
    inner = read(lo, function.value, "attr", "func", sample.func, "partial.func")
    held = Live(raw_attr(lo, function.value, "args"), sample.args)
    named = Live(raw_attr(lo, function.value, "keywords"), sample.keywords)
    from janusc.lowering.iterate import live_dict_items, live_sequence

    merged = {**live_dict_items(lo, named), **kwargs}
    return call(lo, inner, [*live_sequence(lo, held), *args], merged)


# ---- Python functions


def call_function(lo: Lowering, function: Live, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A Python function: inlined with its own source."""
    from janusc.lowering import lower_builtin

    sample = function.sample
    if sample in torch_table.NEVER_TRACED:
        return Known(False)
    original = lo.original(sample)
    if original is not sample:
        value = raw_attr(lo, function.value, "__wrapped__")
        return call_function(lo, Live(value, original), args, kwargs)
    if len(args) == 1 and isinstance(args[0], Live) and any(sample is f for f in PARAMETER_VIEWS):
        return parameter_view(lo, args[0], sample)
    name = torch_table.torch_name(sample)
    if name is not None:
        from janusc.lowering.lower_torch import call_torch

        return call_torch(lo, sample, args, kwargs)
    handler = lower_builtin.BUILTINS.get(sample)
    if handler is not None:  # of the standard library
        return handler(lo, args, kwargs)
    done = call_optimizer(lo, function, args, kwargs)
    if done is not None:
        return done
    if not callees.is_inlined(sample):
        raise _refuse_library_call(lo, sample)
    try:
        parsed = parse.parse(sample)
    except Refusal as refusal:
        if refusal.diagnostic.code in parse.SEES_CALLERS:
            raise
        raise lo.refuse_call(
            codes.OPAQUE_CALL, f"{sample.__qualname__} can't be read: {refusal.diagnostic.message}"
        ) from None
    library = torch_table.is_torch_code(sample.__code__) and not callees.is_under_manager(sample.__code__)
    frame = lo.new_frame(
        parsed=parsed,
        function=function,
        is_library=library,
        locals=parsed.local_names,
        global_names=parsed.global_names,
        nonlocal_names=parsed.nonlocal_names,
    )
    defaults = function_defaults(lo, function, library)
    if is_routine(lo, frame, args):
        bind = functools.partial(bind_arguments, lo, frame, parsed.tree.args, defaults, args, kwargs)
        return call_routine(lo, frame, bind)
    return activate(lo, frame, parsed.tree.args, parsed.body, defaults, args, kwargs)


def _refuse_library_call(lo: Lowering, function: pytypes.FunctionType) -> Unconvertible:
    name = callees.describe(function)
    if not callees.may_have_equivalent(function):
        return lo.refuse_call(codes.OPAQUE_CALL, f"a call of {name}, which is not looked into")
    why = "which is no part of a graph, but is made with less Python where nothing can tell"
    error = lo.refuse_call(codes.OPAQUE_CALL, f"a call of {name}, {why}")
    error.may_enter = error.has_equivalent = True
    return error


def is_routine(lo: Lowering, frame: Frame, args: list[Any]) -> bool:
    """Whether a function is lowered as a routine; Recursive where it is found to call itself.

    The forward of a module that holds another one of its class is no recursion: it ends where the modules do.
    """
    key = function_key(frame.function)
    if key in lo.recursive:
        return True
    if frame.is_library or key in lo.inlined:
        return False
    if is_seen_recursive(lo, frame.parsed, args[0] if args else None):
        raise Recursive(key)
    caller: Frame | None = lo.frame
    while caller is not None:
        if is_same_function(caller.function, frame.function):
            module = getattr(args[0], "sample", None) if args else None
            nested = issubclass(type(module), torch.nn.Module) and getattr(caller.first, "sample", None) is not module
            if not nested:
                lo.profile.recursive.add(frame.parsed.key)
                raise Recursive(key)
        caller = caller.caller
    return False


def function_defaults(lo: Lowering, function: Live, library: bool) -> Any:
    """Makers of the default values, read from the live function."""
    sample = function.sample

    def positional(i: int) -> Any:
        value = sample.__defaults__[i]
        if library:
            return Known(value)
        defaults = raw_attr(lo, function.value, "__defaults__")
        # which parameter a default is for depends on how many there are
        count = Const(len(sample.__defaults__))
        check_once(lo, "length", (defaults, count), f"the defaults of {sample.__name__}")
        return read(lo, defaults, "item", i, value, f"default {i} of {sample.__name__}")

    def keyword(name: str) -> Any:
        value = sample.__kwdefaults__[name]
        if library:
            return Known(value)
        defaults = raw_attr(lo, function.value, "__kwdefaults__")
        return read(lo, defaults, "item", name, value, f"default {name} of {sample.__name__}")

    return len(sample.__defaults__ or ()), positional, frozenset(sample.__kwdefaults__ or ()), keyword


def call_local(lo: Lowering, function: FunctionV, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A function defined inside the call: its free names are those of the frame it was made in."""
    node = function.node
    parsed = local_parsed(function)
    inner = names.names_of(node.body)
    parameters = frozenset(names.parameter_names(node.args))
    own = (inner.stores | inner.deletes | parameters) - inner.global_names - inner.nonlocal_names
    frame = lo.new_frame(
        parsed=parsed,
        function=function,
        is_library=function.frame.is_library,
        locals=own,
        global_names=inner.global_names,
        nonlocal_names=inner.nonlocal_names,
        parent=function.frame,
    )
    names_of_keywords = [a.id for a in node.args.kwonlyargs]
    keyword_defaults = dict(zip(names_of_keywords, function.kw_defaults))
    present = frozenset(k for k, v in keyword_defaults.items() if v is not None)
    defaults = len(function.defaults), function.defaults.__getitem__, present, keyword_defaults.__getitem__
    if is_routine(lo, frame, args):
        bind = functools.partial(bind_arguments, lo, frame, node.args, defaults, args, kwargs)
        return call_routine(lo, frame, bind)
    return activate(lo, frame, node.args, parsed.body, defaults, args, kwargs)


def local_parsed(function: FunctionV) -> ParsedFunction:
    """A function made inside the call as a parsed function of its own, whose sites are those of its profiled calls.

    Made once; the node itself may yet be run as ordinary Python.
    """
    node, outer = function.node, function.frame.parsed
    known: ParsedFunction | None = getattr(node, "_jc_parsed", None)
    if known is None:
        if isinstance(node, gast.Lambda):
            body: Any = [gast.copy_location(gast.Return(value=node.body), node.body)]
        else:
            body = jumps.structure(copy.deepcopy(node.body))
        qualname = f"{outer.qualname}.<locals>.{function.name}"
        module = outer.key.rpartition("@")[0].removesuffix(outer.qualname)
        key = f"{module}{qualname}@{node.lineno}:{node.col_offset}"
        known = replace(outer, name=function.name, qualname=qualname, key=key, tree=node, body=tuple(body))
        node._jc_parsed = known
    return known


def activate(
    lo: Lowering, frame: Frame, parameters: Any, body: Any, defaults: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """Run a body in a new frame and return its result."""
    check_depth(lo, frame)
    bound = bind_arguments(lo, frame, parameters, defaults, args, kwargs)
    frame.caller, frame.depth = lo.frame, lo.frame.depth + 1
    frame.called_at = f"{lo.frame.called_at}<{parse.place(lo.node)}" if frame.is_library and lo.node is not None else ""
    frame.first = bound[0][1] if bound else None
    outer, lo.frame = lo.frame, frame
    try:
        for name, value in bound:
            refuse_iterator(lo, value)
            lo.bind(name, value)
        result: Any = Known(None)
        for stmt in body:
            if isinstance(stmt, gast.Return):
                result = Known(None) if stmt.value is None else lo.expr(stmt.value)
                break
            lo.stmt(stmt)
        return result
    except Unconvertible as error:
        error.may_enter, error.works = not frame.is_library, error.works or made_tensors(lo.profile, frame.parsed)
        raise
    finally:
        lo.frame = outer


def check_depth(lo: Lowering, frame: Frame) -> None:
    depth, same = 0, 0
    caller: Frame | None = lo.frame
    while caller is not None:
        depth, same = depth + 1, same + (caller.parsed is frame.parsed)
        caller = caller.caller
    if same >= MAX_RECURSION or depth >= MAX_DEPTH:
        raise lo.refuse(codes.RECURSION, f"recursion in {frame.parsed.name}")


def bind_arguments(
    lo: Lowering, frame: Frame, parameters: Any, defaults: Any, args: list[Any], kwargs: dict[str, Any]
) -> list[tuple[str, Any]]:
    """Python's binding rules; a call that doesn't fit is left to the eager run to raise."""
    count, positional_default, keyword_defaults, keyword_default = defaults
    positional = [*parameters.posonlyargs, *parameters.args]
    positional_only = {p.id for p in parameters.posonlyargs}
    rest = dict(kwargs)
    bound: list[tuple[str, Any]] = []
    if any(isinstance(a, SpreadV) for a in args[: len(positional)]):
        raise lo.refuse(codes.STAR, "*-argument of unknown length")
    if len(args) > len(positional) and parameters.vararg is None:
        raise lo.refuse(codes.RAISES, f"{frame.parsed.name} gets too many arguments")
    for i, parameter in enumerate(positional):
        name = parameter.id
        if i < len(args):
            if name in rest and name not in positional_only:
                raise lo.refuse(codes.RAISES, f"{frame.parsed.name} gets {name} twice")
            bound.append((name, args[i]))
        elif name in rest and name not in positional_only:
            bound.append((name, rest.pop(name)))
        elif i >= len(positional) - count:
            bound.append((name, positional_default(i - len(positional) + count)))
        else:
            raise lo.refuse(codes.RAISES, f"{frame.parsed.name} lacks {name}")
    if parameters.vararg is not None:
        bound.append((parameters.vararg.id, rest_of(lo, args[len(positional) :])))
    for parameter in parameters.kwonlyargs:
        name = parameter.id
        if name in rest:
            bound.append((name, rest.pop(name)))
        elif name in keyword_defaults:
            bound.append((name, keyword_default(name)))
        else:
            raise lo.refuse(codes.RAISES, f"{frame.parsed.name} lacks {name}")
    if parameters.kwarg is not None:
        bound.append((parameters.kwarg.id, DictV(rest)))
    elif rest:
        raise lo.refuse(codes.RAISES, f"{frame.parsed.name} gets an unexpected {next(iter(rest))}")
    return bound


def rest_of(lo: Lowering, args: list[Any]) -> Any:
    """What ``*args`` of a function is bound to."""
    if not any(isinstance(a, SpreadV) for a in args):
        return TupleV(tuple(args))
    if len(args) > 1:
        raise lo.refuse(codes.STAR, "*-argument of unknown length after others")
    return args[0].items


@statement(gast.FunctionDef)
def lower_function_def(lo: Lowering, node: Any) -> None:
    if node.decorator_list:
        raise lo.refuse(codes.INNER_FUNCTION, "a decorated function inside the call")
    if any(isinstance(n, (gast.Yield, gast.YieldFrom, gast.Await)) for n in nodes_of(node)):
        raise lo.refuse(codes.INNER_FUNCTION, "a generator inside the call")
    lo.bind(node.name, closure(lo, node, node.name))


# ---- modules


def call_module(lo: Lowering, module: Live, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``module(x)``: nn.Module's call without hooks is the forward; with hooks it is left to Python."""
    sample, cls = module.sample, type(module.sample)
    if class_lookup(cls, "__call__") is not torch_private.CALL_METHODS["__call__"]:
        return call(lo, special_method(lo, module, "__call__") or Sym(module.value), args, kwargs)
    for name, plain in torch_private.CALL_METHODS.items():
        if class_lookup(cls, name) is not plain or name in sample.__dict__:
            raise lo.refuse_call(codes.OPAQUE_CALL, f"{cls.__qualname__} is called in a way of its own")
        class_function(lo, cls, name, plain)
    if torch_private.has_hooks(sample) or torch_private.has_global_hooks():
        raise lo.refuse_call(
            codes.HOOKS, f"{cls.__qualname__} has hooks", "hooks run eagerly, with the module they belong to"
        )
    guard_hooks(lo, module)
    if callees.is_opaque_module(cls):
        return call_layer(lo, module, args, kwargs, lambda: call_forward(lo, module, args, kwargs))
    return call_forward(lo, module, args, kwargs)


def call_forward(lo: Lowering, module: Live, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The forward of a module, on its class or in its place."""
    cls, is_own = type(module.sample), "forward" in module.sample.__dict__  # as ``janus.compile(instance)`` sets it
    if not is_own and not isinstance(class_lookup(cls, "forward"), pytypes.FunctionType):
        raise lo.refuse_call(codes.OPAQUE_CALL, f"{cls.__qualname__}.forward is no plain method")
    return call(lo, get_attribute(lo, module, "forward"), args, kwargs)


def guard_hooks(lo: Lowering, module: Live) -> None:
    """No hooks on the module and none for all modules; nothing compiled in place of its call."""
    memo = (module.value, "hooks", "")
    if memo in lo.memo:
        return
    lo.memo[memo] = True
    tables = tuple(module_entry(lo, module.value, name) for name in torch_private.HOOK_TABLES)
    lo.check("empty", tables, f"hooks of {type(module.sample).__qualname__}", lo.span())
    guard_global_hooks(lo)
    not_overridden(lo, module, "_compiled_call_impl")


def guard_global_hooks(lo: Lowering) -> None:
    key = ("global", "hooks", "")
    if key not in lo.memo:
        lo.memo[key] = True
        tables = enumerate(torch_private.global_hook_tables())
        refs = tuple(lo.builder.ref(table, f"global_hooks_{i}") for i, table in tables)
        lo.check("empty", refs, "hooks of all modules", lo.span())


# ---- super


def call_super(lo: Lowering, node: Any) -> Any:
    """``super(__class__, self)``, as ``super()`` was written out."""
    cls, owner = lo.expr(node.args[0]), lo.expr(node.args[1])
    if all(isinstance(v, Known) and isinstance(v.value, type) for v in (cls, owner)):
        if type(owner.value) in (type, abc.ABCMeta) and issubclass(owner.value, cls.value):
            return SuperV(cls.value, owner)
    held = exact_type(owner)
    if not (isinstance(cls, Known) and isinstance(cls.value, type) and isinstance(owner, (Live, Sym)) and held):
        raise lo.refuse(codes.SUPER, "super() on something that varies")
    if not issubclass(held, cls.value):
        raise lo.refuse(codes.SUPER, "super() of another class")
    return SuperV(cls.value, owner)
