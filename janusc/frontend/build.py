"""From a tree back to a function that lives where the user's does.

The tree is compiled inside a factory whose parameters are the function's free variables and the extra names; only the
inner code object is kept, and its free variables are then tied to the cells of the user's function. So closures,
globals, defaults, file name and lines are the user's own, and nothing is put into anybody's namespace.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from janusc.diagnostics import silenced
from janusc.frontend import names
from janusc.frontend.capture import FUTURE_FLAGS
from janusc.frontend.parse import ParsedFunction
from janusc.frontend.translate import locate, translate

_FACTORY = "_jc_factory"
_INNER = "_jc_inner"  # not the user's name, which the body may use for a global


@dataclass(frozen=True, eq=False)
class Template:
    """Code that waits for a function to take its closure, globals and defaults from."""

    name: str
    code: types.CodeType
    extra: Mapping[str, object] = field(default_factory=dict)
    signature: bool = True

    def bind(self, function: types.FunctionType) -> types.FunctionType:
        """A new function of this code, otherwise like ``function``; without a signature of its own, no defaults."""
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        closure = tuple(
            types.CellType(self.extra[name]) if name in self.extra else cells[name] for name in self.code.co_freevars
        )
        defaults = function.__defaults__ if self.signature else None
        bound = types.FunctionType(self.code, function.__globals__, function.__name__, defaults, closure)
        bound.__qualname__ = function.__qualname__
        bound.__module__ = function.__module__
        if self.signature:
            bound.__kwdefaults__ = dict(function.__kwdefaults__) if function.__kwdefaults__ else None
            bound.__doc__ = function.__doc__
            bound.__annotations__ = function.__annotations__
            if hasattr(function, "__type_params__"):
                setattr(bound, "__type_params__", function.__type_params__)  # noqa: B010 (unknown before Python 3.12)
        return bound


class DeferredTemplate:
    """A template that is compiled when it is first needed: the way on after a failure, which most calls never take."""

    def __init__(self, make: Callable[[], Template]) -> None:
        self._make = make
        self._template: Template | None = None

    def bind(self, function: types.FunctionType) -> types.FunctionType:
        """A new function of the template's code."""
        template = self._template
        if template is None:
            template = self._template = self._make()
        return template.bind(function)


def compile_function(
    parsed: ParsedFunction,
    tree: Any,
    extra: Mapping[str, object] | None = None,
    *,
    signature: bool = True,
    name: str | None = None,
    translate: Callable[[Any], list[ast.stmt]] = translate,
) -> Template:
    """Compile a FunctionDef that stands for ``parsed`` or a part of it.

    ``extra`` names are free variables of the result, each bound to the object given. ``signature`` says that the
    parameters are the user's, so that defaults and annotations apply. ``translate`` makes the statements to compile of
    those of the tree.
    """
    extra = dict(extra or {})
    outside = [*parsed.free_names, *(key for key in extra if key not in parsed.free_names)]
    factory = _function(_FACTORY, [_parameter(name, tree) for name in outside], [_bare(parsed, tree, translate)], tree)
    module = ast.Module(body=[factory], type_ignores=[])
    flags = parsed.code.co_flags & FUTURE_FLAGS
    with silenced():
        compiled = compile(module, parsed.filename, "exec", flags, dont_inherit=True)
    code = _inner_code(_inner_code(compiled, _FACTORY), _INNER)
    code = _requalify(code, f"{_FACTORY}.<locals>.{_INNER}", parsed.qualname)
    code = _with_own_functions(code, parsed.code)
    nested = parsed.code.co_flags & inspect.CO_NESTED
    code = code.replace(co_name=parsed.name, co_flags=(code.co_flags & ~inspect.CO_NESTED) | nested)
    return Template(name or parsed.name, code, extra, signature)


def _with_own_functions(code: types.CodeType, original: types.CodeType) -> types.CodeType:
    """The code with the user's own code objects for the functions inside that stand as they were written.

    A function is compiled a little differently when the imports of its module are not in sight; the user's own code
    object is what its source is found by, and what conversions are shared by.
    """
    own: dict[tuple[Any, ...], list[types.CodeType]] = {}
    for inner in _functions_in(original):
        own.setdefault(_place_of_code(inner), []).append(inner)
    constants = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            same = own.get(_place_of_code(constant), ())
            constant = same[0] if len(same) == 1 else _with_own_functions(constant, original)
        constants.append(constant)
    return code.replace(co_consts=tuple(constants))


def _functions_in(code: types.CodeType) -> Iterator[types.CodeType]:
    stack = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(c for c in item.co_consts if isinstance(c, types.CodeType))


def _place_of_code(code: types.CodeType) -> tuple[Any, ...]:
    """Where code stands and what it takes: equal for two ways to compile the same function."""
    ends: tuple[Any, ...] = ()
    if hasattr(code, "co_positions"):
        known: list[Any] = [p for p in code.co_positions() if None not in p]
        ends = (min((p[0], p[2]) for p in known), max((p[1], p[3]) for p in known)) if known else ()
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return code.co_name, code.co_firstlineno, ends, code.co_varnames, code.co_freevars, code.co_cellvars, counts


def _bare(parsed: ParsedFunction, tree: Any, translate: Callable[[Any], list[ast.stmt]]) -> Any:
    """The function without what is evaluated outside it, its scope declarations first, its locals kept local."""
    args = tree.args
    found = names.names_of(tree.body)
    first = tree.body[0] if tree.body else tree
    declared = [
        locate(kind(names=sorted(wanted)), first)
        for kind, wanted in (
            (ast.Global, parsed.global_names - found.global_names),
            (ast.Nonlocal, parsed.nonlocal_names - found.nonlocal_names),
        )
        if wanted
    ]
    known = found.assigned | found.deletes | set(names.parameter_names(args))
    forgotten = sorted(((found.loads | found.rebound) & parsed.local_names) - known)
    body = translate(tree.body)
    start = 1 if body and _is_docstring(body[0]) else 0
    body[start:start] = declared
    if forgotten:
        body.append(_keep_local(forgotten, body[-1] if body else tree))
    given = {kind: [_parameter(node.id, node) for node in getattr(args, kind)] for kind in _SEVERAL}
    rest = {kind: node and _parameter(node.id, node) for kind, node in (("vararg", args.vararg), ("kwarg", args.kwarg))}
    return _function(_INNER, given.pop("args"), body or [locate(ast.Pass(), tree)], tree, **given, **rest)


_SEVERAL = ("posonlyargs", "args", "kwonlyargs")


def _function(name: str, args: list[ast.arg], body: list[Any], where: Any, **others: Any) -> Any:
    """A function of these parameters and statements, without defaults."""
    missing = [None] * len(others.get("kwonlyargs", ()))
    held = {"posonlyargs": [], "vararg": None, "kwonlyargs": [], "kwarg": None, "kw_defaults": missing, "defaults": []}
    arguments = ast.arguments(**{**held, "args": args, **others})
    empty: dict[str, Any] = {"decorator_list": [], "returns": None, "type_comment": None}
    if sys.version_info >= (3, 12):
        empty["type_params"] = []
    return locate(ast.FunctionDef(name=name, args=arguments, body=body, **empty), where)


def _keep_local(forgotten: list[str], where: Any) -> Any:
    """``if 0: x = None``: never run, yet the compiler counts ``x`` among the locals."""
    targets = [locate(ast.Name(id=name, ctx=ast.Store()), where) for name in forgotten]
    none, zero = (locate(ast.Constant(value=value), where) for value in (None, 0))
    assign = locate(ast.Assign(targets=targets, value=none), where)
    return locate(ast.If(test=zero, body=[assign], orelse=[]), where)


def _is_docstring(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _parameter(name: str, where: Any) -> ast.arg:
    bare: ast.arg = locate(ast.arg(arg=name, annotation=None, type_comment=None), where)
    return bare


def _inner_code(code: types.CodeType, name: str) -> types.CodeType:
    return next(const for const in code.co_consts if isinstance(const, types.CodeType) and const.co_name == name)


def _requalify(code: types.CodeType, old: str, new: str) -> types.CodeType:
    """The code with the qualified names of everything defined inside as in the user's function."""

    def renamed(text: str) -> str:
        return new + text[len(old) :] if text == old or text.startswith(old + ".") else text

    consts = tuple(
        _requalify(const, old, new)
        if isinstance(const, types.CodeType)
        else (renamed(const) if isinstance(const, str) else const)
        for const in code.co_consts
    )
    changes: dict[str, Any] = {"co_consts": consts}
    if hasattr(code, "co_qualname"):
        changes["co_qualname"] = renamed(code.co_qualname)
    return code.replace(**changes)
