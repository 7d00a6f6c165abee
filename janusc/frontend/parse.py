"""From a function to the one tree that every later stage works on.

Comes in: a Python function. Goes out: a ParsedFunction, with the function as written (``tree``) and with its jumps made
structured (``body``). Every node of the user's carries the site it is known by; rewritten copies keep it.
"""

from __future__ import annotations

import types
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Union
from weakref import WeakValueDictionary

import gast

from janusc.diagnostics import Diagnostic, Refusal, define
from janusc.frontend import capture as capturing
from janusc.frontend import desugar, jumps, mangle, names
from janusc.frontend.duplicate import duplicate
from janusc.frontend.nodes import nodes_of
from janusc.locks import make_lock
from janusc.source import Span, span_of

FRAME_READER = define("JC109", "a function that reads its own frame")
FINALLY_JUMP = define("JC110", "a jump out of a finally block")
DEBUGGER = define("JC111", "a function that calls a debugger")
FRAME_FINDER = define("JC112", "a function that looks at the frames that run")

SEES_CALLERS = frozenset((DEBUGGER, FRAME_FINDER))
"""What a function is refused for that sees the frames of its callers, too."""

_CACHED_FUNCTIONS = 256


@dataclass(frozen=True, eq=False)
class ParsedFunction:
    """A function taken apart; what it is called with plays no part in it.

    ``tree`` is the function as written, a lambda as a function with one return, without decorators. ``body`` are its
    statements after desugaring and with structured jumps. ``local_names`` are the names assigned anywhere in it,
    parameters included. ``captured_writes`` are locals that an inner function captures and that may change after that:
    where there are any, the body can't be cut into ranges.
    """

    code: types.CodeType
    name: str
    qualname: str
    filename: str
    key: str
    tree: Any
    body: tuple[Any, ...]
    parameters: tuple[str, ...]
    local_names: frozenset[str]
    global_names: frozenset[str]
    nonlocal_names: frozenset[str]
    free_names: tuple[str, ...]
    cell_names: frozenset[str]
    captured_writes: frozenset[str]
    class_name: str | None
    source: str

    @property
    def span(self) -> Span:
        """The span of the whole function."""
        return span_of(self.tree, self.filename)


_Entry = Union[ParsedFunction, Diagnostic]

# by identity: code objects compare equal across files
_recent: OrderedDict[int, tuple[types.CodeType, _Entry]] = OrderedDict()
_alive: WeakValueDictionary[int, ParsedFunction] = WeakValueDictionary()
_lock = make_lock()


def parse(function: types.FunctionType) -> ParsedFunction:
    """The parsed form of a function, the same one for the same code; raises Refusal where it can't be converted."""
    capturing.refuse_kind(function)
    code = function.__code__
    entry = _lookup(code)
    if entry is None:
        try:
            entry = _parse(function)
        except Refusal as refusal:
            entry = refusal.diagnostic
        _remember(code, entry)
    if isinstance(entry, Diagnostic):
        raise Refusal(entry)
    return entry


def site(parsed: ParsedFunction, node: Any, kind: str | None = None) -> str:
    """The stable id of a node of the function, or of the fact of this ``kind`` about it."""
    return f"{parsed.key}:{place(node)}:{kind or type(node).__name__}"


def place(node: Any) -> str:
    """Where a node stands in its file; another node's place, with something after it, for one that was made for it."""
    return str(getattr(node, "_jc_site", None) or _place(node))


def _place(node: Any) -> str:
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    end_line, end_column = getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or column
    # a.b and a.b.c start at the same column, so the end is needed too
    return f"{line}:{column}-{end_column}" if line == end_line else f"{line}:{column}-{end_line}:{end_column}"


def _lookup(code: types.CodeType) -> _Entry | None:
    with _lock:
        known = _recent.get(id(code))
        if known is not None and known[0] is code:
            _recent.move_to_end(id(code))
            return known[1]
        alive = _alive.get(id(code))
        return alive if alive is not None and alive.code is code else None


def _remember(code: types.CodeType, entry: _Entry) -> None:
    with _lock:
        _recent[id(code)] = (code, entry)
        if isinstance(entry, ParsedFunction):
            _alive[id(code)] = entry
        while len(_recent) > _CACHED_FUNCTIONS:
            _recent.popitem(last=False)


def _parse(function: types.FunctionType) -> ParsedFunction:
    found = capturing.capture(function)
    tree = _as_function(found)
    mangle.mangle(tree, found.class_name)
    _set_sites(tree)
    code = found.code
    inner = names.names_of(tree.body)
    parameters = names.parameter_names(tree.args)
    outer = inner.global_names | inner.nonlocal_names
    local_names = (inner.assigned | inner.deletes | frozenset(parameters)) - outer
    _refuse_debuggers(tree, local_names, found)
    _refuse_frame_readers(tree, local_names, found, function)
    _refuse_finally_jumps(tree, found)
    super_names = ("super" in local_names or "super" in function.__globals__, "__class__" in code.co_freevars)
    plain = desugar.desugar(duplicate(tree), rewrite_super=super_names == (False, True))
    return ParsedFunction(
        code=code,
        name=code.co_name,
        qualname=function.__qualname__,
        filename=found.filename,
        key=f"{found.module}.{function.__qualname__}@{tree.lineno}:{tree.col_offset}",
        tree=tree,
        body=tuple(jumps.structure(plain.body)),
        parameters=parameters,
        local_names=local_names,
        global_names=inner.global_names,
        nonlocal_names=inner.nonlocal_names,
        free_names=code.co_freevars,
        cell_names=frozenset(code.co_cellvars) & local_names,
        captured_writes=desugar.captured_writes(tree, local_names),
        class_name=found.class_name,
        source=found.source,
    )


def _as_function(found: capturing.Capture) -> Any:
    """The gast FunctionDef of a captured function or lambda, without decorators."""
    tree = gast.ast_to_gast(found.node)
    if isinstance(tree, gast.FunctionDef):
        tree.decorator_list = []
        return tree
    body = gast.copy_location(gast.Return(value=tree.body), tree.body)
    function = gast.FunctionDef(
        name="<lambda>",
        args=tree.args,
        body=[body],
        decorator_list=[],
        returns=None,
        type_comment=None,
        type_params=[],
    )
    return gast.copy_location(function, tree)


def _set_sites(tree: Any) -> None:
    """Give every node its place; equal places (f-strings before Python 3.12) are numbered."""
    seen: dict[tuple[str, str], int] = {}
    for node in nodes_of(tree):
        if not hasattr(node, "lineno"):
            continue
        place = _place(node)
        known = (place, type(node).__name__)
        count = seen[known] = seen.get(known, 0) + 1
        node._jc_site = place if count == 1 else f"{place}#{count}"


def _refuse_frame_readers(
    tree: Any, local_names: frozenset[str], found: capturing.Capture, function: types.FunctionType
) -> None:
    """Refuse a function that looks at its own frame, which has other names once it is converted."""
    for node in nodes_of(tree):
        if _finds_frame(node, local_names, function):
            message = f"{found.code.co_name!r} looks at its own frame"
            raise Refusal(Diagnostic(FRAME_FINDER, message, span_of(node, found.filename)))
        called = node.func if isinstance(node, gast.Call) else None
        if not isinstance(called, gast.Name) or called.id in local_names:
            continue
        limit = {"locals": 1, "vars": 1, "dir": 1, "eval": 3, "exec": 3}.get(called.id, 0)
        if len(node.args) + len(node.keywords) < limit:
            hint = f"give {called.id}() its namespaces" if limit == 3 else ""
            message = f"{found.code.co_name!r} reads its own local names through {called.id}()"
            raise Refusal(Diagnostic(FRAME_READER, message, span_of(node, found.filename), hint=hint))


def _finds_frame(node: Any, local_names: frozenset[str], function: types.FunctionType) -> bool:
    """Whether a node of a function gets hold of the frames that run: its own, and those of its callers."""
    if isinstance(node, gast.ImportFrom):
        return any((node.module, name.name) in _FRAME_FINDERS for name in node.names)
    if isinstance(node, gast.Attribute) and (node.attr in _FRAME_ATTRIBUTES or _is_of_inspect(node)):
        return True
    if isinstance(node, (gast.Name, gast.Attribute)) and isinstance(node.ctx, gast.Load):
        value = _known_value(node, local_names, function)
        return type(value) in _FUNCTIONS and (value.__module__, value.__name__) in _FRAME_FINDERS
    return False


def _is_of_inspect(node: Any) -> bool:
    return isinstance(node.value, gast.Name) and (node.value.id, node.attr) in _FRAME_FINDERS


def _known_value(node: Any, local_names: frozenset[str], function: types.FunctionType) -> Any:
    """What a name from outside of the function stands for now, or an attribute of a module that it names; or None."""
    if isinstance(node, gast.Attribute):
        owner = _known_value(node.value, local_names, function)
        return vars(owner).get(node.attr) if type(owner) is types.ModuleType else None
    if not isinstance(node, gast.Name) or node.id in local_names:
        return None
    free = function.__code__.co_freevars
    if node.id not in free:
        return function.__globals__.get(node.id)
    try:
        return (function.__closure__ or ())[free.index(node.id)].cell_contents
    except ValueError:  # not set yet
        return None


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_FRAME_FINDERS = frozenset(
    [("sys", "_getframe"), ("sys", "_current_frames")]
    + [("inspect", name) for name in ("currentframe", "stack", "trace")]
)
_FRAME_ATTRIBUTES = frozenset(("_getframe", "_current_frames", "currentframe", "tb_frame"))
_DEBUGGER_NAMES = frozenset(("breakpoint", "set_trace"))
_DEBUGGER_METHODS = frozenset(("breakpoint", "set_trace", "settrace"))


def _refuse_debuggers(tree: Any, local_names: frozenset[str], found: capturing.Capture) -> None:
    """Refuse a function that stops in a debugger or starts a tracer: whoever looks must see the frame as written."""
    for node in nodes_of(tree):
        called = node.func if isinstance(node, gast.Call) else None
        by_name = isinstance(called, gast.Name) and called.id in _DEBUGGER_NAMES - local_names
        if by_name or isinstance(called, gast.Attribute) and called.attr in _DEBUGGER_METHODS:
            message = f"{found.code.co_name!r} calls a debugger"
            hint = "take the call out to have graphs again"
            raise Refusal(Diagnostic(DEBUGGER, message, span_of(node, found.filename), hint=hint))


def _refuse_finally_jumps(tree: Any, found: capturing.Capture) -> None:
    node = jumps.finally_jump(tree.body)
    if node is not None:
        message = f"{type(node).__name__.lower()} inside a finally block"
        hint = "it drops an exception on its way; move it after the try statement"
        raise Refusal(Diagnostic(FINALLY_JUMP, message, span_of(node, found.filename), hint=hint))
