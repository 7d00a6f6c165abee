"""Find the source of a function, and be sure that it is the source.

The top-level statement that the function stands in is parsed and compiled: as it can be told from the margin at first,
since library files are long, and from the parsed file where that doesn't give the function. A function is accepted only
where some code object compiled from its line is the code the function has; where several functions begin on one line,
each is compiled once more under a line number of its own, to see which code is whose.
"""

from __future__ import annotations
import __future__

import ast
import copy
import inspect
import linecache
import types
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Union

from janusc.derived import derived
from janusc.diagnostics import Diagnostic, Refusal, define, silenced
from janusc.frontend import margins
from janusc.locks import make_lock
from janusc.source import Span, parse_text

NO_SOURCE = define("JC101", "the source of the function can't be read")
CHANGED_SOURCE = define("JC102", "the source found is not what the function was compiled from")
C_FUNCTION = define("JC103", "a function implemented in C")
GENERATOR = define("JC104", "a generator function")
COROUTINE = define("JC105", "an async function")
ASYNC_GENERATOR = define("JC106", "an async generator function")
PLAIN_CLASS = define("JC107", "a class that is no torch.nn.Module")
NO_FUNCTION = define("JC108", "a callable that is no Python function")

FunctionNode = Union[ast.FunctionDef, ast.Lambda]

FUTURE_FLAGS = 0
for _name in __future__.all_feature_names:
    FUTURE_FLAGS |= getattr(__future__, _name).compiler_flag

_C_TYPES = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)
_MARK = 1 << 20
_CACHED_FILES = 64


@dataclass(frozen=True, eq=False)
class Capture:
    """The place of a function in its source: the node, the class whose private names it sees, the text."""

    code: types.CodeType
    filename: str
    node: FunctionNode
    class_name: str | None
    source: str
    module: str


@dataclass(frozen=True, eq=False)
class _Candidate:
    node: FunctionNode
    first_line: int
    name: str
    class_name: str | None


@dataclass(frozen=True, eq=False)
class _Block:
    """The top-level statements on a line: their functions, and the code compiled from them by first line and name."""

    statements: list[ast.stmt]
    imports: tuple[ast.stmt, ...]
    candidates: tuple[_Candidate, ...]
    codes: dict[tuple[int, str], list[types.CodeType]]


@dataclass(frozen=True, eq=False)
class _File:
    """A source file; blocks are kept as they are asked for, by the lines of their statements, cuts by theirs."""

    name: str
    flags: int
    lines: list[str]
    blocks: dict[tuple[int, ...], _Block] = field(default_factory=dict)
    cuts: dict[tuple[int, int], _Block | None] = field(default_factory=dict)

    @derived
    def tree(self) -> ast.Module:
        """The whole file parsed; SyntaxError, ValueError or RecursionError where it is no Python module."""
        return self.parse("".join(self.lines))

    @derived
    def imports(self) -> tuple[ast.stmt, ...]:
        """The imports in module scope: the compiler calls methods on the names they bind in a form of its own."""
        return tuple(_imports(self.tree.body))

    @derived
    def marginal_imports(self) -> tuple[ast.stmt, ...]:
        """Those of the imports that begin at the margin, without parsing the rest; none where that is no Python."""
        try:
            return tuple(_imports(self.parse("".join(margins.import_lines(self.lines))).body))
        except (SyntaxError, ValueError):
            return ()

    def parse(self, text: str) -> ast.Module:
        """Some text of the file as a tree."""
        # the future flags are given to the parser as well: they may come from outside the text, as in a doctest
        with silenced():
            return parse_text(text, self.name, self.flags)


_files: OrderedDict[tuple[str, int], _File] = OrderedDict()
_lock = make_lock()


def capture(function: types.FunctionType) -> Capture:
    """The source of a function; raises Refusal where there is none to trust."""
    refuse_kind(function)
    code = function.__code__
    file = _read_file(code, function.__globals__)
    block = _find_block(file, code)
    place = (code.co_firstlineno, code.co_name)
    same_line = [index for index, item in enumerate(block.candidates) if (item.first_line, item.name) == place]
    chosen = block.candidates[same_line[0] if len(same_line) == 1 else _narrow(file, block, same_line, code)]
    stop = chosen.node.end_lineno or chosen.first_line
    return Capture(
        code=code,
        filename=code.co_filename,
        node=chosen.node,
        class_name=chosen.class_name,
        source="".join(file.lines[chosen.first_line - 1 : stop]),
        module=function.__module__ or "",
    )


def same_code(a: types.CodeType, b: types.CodeType) -> bool:
    """Whether two code objects do the same, wherever they were compiled."""
    fields = (
        "co_code",
        "co_names",
        "co_varnames",
        "co_freevars",
        "co_cellvars",
        "co_argcount",
        "co_posonlyargcount",
        "co_kwonlyargcount",
        "co_flags",
        "co_name",
        "co_exceptiontable",
    )
    if any(getattr(a, name, None) != getattr(b, name, None) for name in fields):
        return False
    if len(a.co_consts) != len(b.co_consts):
        return False
    return all(_same_constant(x, y) for x, y in zip(a.co_consts, b.co_consts))


def _same_constant(x: Any, y: Any) -> bool:
    if type(x) is not type(y):
        return False
    if isinstance(x, types.CodeType):
        return same_code(x, y)
    if isinstance(x, tuple):
        return len(x) == len(y) and all(map(_same_constant, x, y))
    if isinstance(x, frozenset):
        return sorted(map(repr, x)) == sorted(map(repr, y))
    # repr tells 0.0 from -0.0 and finds nan equal to itself
    return repr(x) == repr(y)


def _refusal(code: str, where: types.CodeType | None, message: str, hint: str = "") -> Refusal:
    span = None if where is None else Span(where.co_filename, where.co_firstlineno)
    return Refusal(Diagnostic(code, message, span, hint=hint))


def refuse_kind(function: Any) -> None:
    """Refuse whatever is no plain Python function."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if isinstance(function, type):
        raise _refusal(PLAIN_CLASS, None, f"class {name!r} is no torch.nn.Module", "compile its methods one by one")
    if isinstance(function, _C_TYPES):
        raise _refusal(C_FUNCTION, None, f"{name!r} is implemented in C")
    if not isinstance(function, types.FunctionType):
        raise _refusal(NO_FUNCTION, None, f"an object of type {type(function).__qualname__!r} is no Python function")
    code = function.__code__
    if code.co_flags & inspect.CO_ASYNC_GENERATOR:
        raise _refusal(ASYNC_GENERATOR, code, f"{name!r} is an async generator function")
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE):
        raise _refusal(COROUTINE, code, f"{name!r} is an async function")
    if code.co_flags & inspect.CO_GENERATOR:
        raise _refusal(
            GENERATOR, code, f"{name!r} is a generator function", "compile the function that does the work for one item"
        )


def _read_file(code: types.CodeType, module_globals: dict[str, Any]) -> _File:
    """The parsed file of a code object, from the cache where its text is still the same."""
    filename = code.co_filename
    flags = code.co_flags & FUTURE_FLAGS
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, module_globals)
    if not lines:
        hint = "define the function in a file; functions made by exec have no source"
        raise Refusal(Diagnostic(NO_SOURCE, f"no source for {code.co_name!r} in {filename!r}", hint=hint))
    with _lock:
        known = _files.get((filename, flags))
        if known is not None and (known.lines is lines or known.lines == lines):
            _files.move_to_end((filename, flags))
            return known
        file = _files[(filename, flags)] = _File(filename, flags, lines)
        while len(_files) > _CACHED_FILES:
            _files.popitem(last=False)
    return file


def _imports(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in statements:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            for name in ("body", "orelse", "finalbody"):
                yield from _imports(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                yield from _imports(handler.body)


def _find_block(file: _File, code: types.CodeType) -> _Block:
    """The statements with a function in them; raises Refusal where the file does not have it."""
    cut = _cut_block(file, code.co_firstlineno)
    if cut is not None and _has(cut, code):
        return cut
    try:
        block = _block_at(file, code.co_firstlineno)
        # elsewhere in the module there may be what shapes code too
        found = _has(block, code) or _has(replace(block, codes=_codes(_compile(file, file.tree.body))), code)
    except (SyntaxError, ValueError, RecursionError) as error:
        message = f"the source of {code.co_name!r} in {code.co_filename!r} is no Python module"
        raise Refusal(Diagnostic(NO_SOURCE, message)) from error
    if not found:
        hint = "reload the module after editing it; code rewritten on import (such as a test's asserts) stays eager"
        raise _refusal(CHANGED_SOURCE, code, f"the source of {code.co_name!r} is not what it was compiled from", hint)
    return block


def _has(block: _Block, code: types.CodeType) -> bool:
    """Whether a function of the block was compiled to this code."""
    place = (code.co_firstlineno, code.co_name)
    return any((item.first_line, item.name) == place for item in block.candidates) and any(
        same_code(known, code) for known in block.codes.get(place, ())
    )


def _cut_block(file: _File, line: int) -> _Block | None:
    """The block at a line as the margin tells it, which may be wrong: the code made from it shows."""
    start, stop, text = margins.cut_out(file.lines, line)
    place = start, stop
    if place not in file.cuts:
        try:
            file.cuts[place] = _make_block(file, file.parse(text).body, file.marginal_imports)
        except (SyntaxError, ValueError, RecursionError):
            file.cuts[place] = None
    return file.cuts[place]


def _block_at(file: _File, line: int) -> _Block:
    """The top-level statements that cover a line: one, or those that share it."""
    statements = [node for node in file.tree.body if _first_line(node) <= line <= (node.end_lineno or 0)]
    key = tuple(_first_line(node) for node in statements)
    if key not in file.blocks:
        file.blocks[key] = _make_block(file, statements, file.imports)
    return file.blocks[key]


def _make_block(file: _File, statements: list[ast.stmt], imports: tuple[ast.stmt, ...]) -> _Block:
    candidates = tuple(item for node in statements for item in _candidates(node))
    return _Block(statements, imports, candidates, _codes(_compile(file, [*imports, *statements])))


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(item.lineno for item in decorators)])


def _codes(module: types.CodeType) -> dict[tuple[int, str], list[types.CodeType]]:
    codes: dict[tuple[int, str], list[types.CodeType]] = {}
    for code in _walk_code(module):
        codes.setdefault((code.co_firstlineno, code.co_name), []).append(code)
    return codes


def _compile(file: _File, statements: list[ast.stmt]) -> types.CodeType:
    """Some top-level statements of a file compiled."""
    module = ast.Module(body=statements, type_ignores=[])
    with silenced():
        code: types.CodeType = compile(module, file.name, "exec", file.flags, dont_inherit=True)
    return code


def _marked(node: FunctionNode) -> Any:
    """The node whose line becomes ``co_firstlineno``."""
    return node.decorator_list[0] if isinstance(node, ast.FunctionDef) and node.decorator_list else node


def _candidates(tree: ast.AST) -> Iterator[_Candidate]:
    """Every function and lambda of a module, with the class whose private names it sees."""
    stack: list[tuple[ast.AST, str | None]] = [(tree, None)]
    while stack:
        node, class_name = stack.pop()
        if isinstance(node, ast.FunctionDef):
            yield _Candidate(node, _marked(node).lineno, node.name, class_name)
        elif isinstance(node, ast.Lambda):
            yield _Candidate(node, node.lineno, "<lambda>", class_name)
        if isinstance(node, ast.ClassDef):
            outside: list[ast.AST] = [*node.decorator_list, *node.bases, *node.keywords]
            stack.extend((child, class_name) for child in outside)
            stack.extend((child, node.name) for child in [*node.body, *getattr(node, "type_params", [])])
        else:
            stack.extend((child, class_name) for child in ast.iter_child_nodes(node))


def _walk_code(code: types.CodeType) -> Iterator[types.CodeType]:
    stack = [code]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(const for const in item.co_consts if isinstance(const, types.CodeType))


def _narrow(file: _File, block: _Block, indices: list[int], code: types.CodeType) -> int:
    """Which of several functions that begin on one line has this code; of equal ones, the one at its columns."""
    equal = [index for index in indices if same_code(_code_of(file, block, index), code)] or indices
    positions = getattr(code, "co_positions", None)
    if len(equal) == 1 or positions is None:
        # before Python 3.11 code has no columns; equal functions do the same, whichever is taken
        return equal[0]
    places = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in positions()
        if None not in (line, end_line, column, end_column) and (end_line, end_column) > (line, column)
    ]
    covering = []
    for index in equal:
        body = block.candidates[index].node.body
        first, last = (body[0], body[-1]) if isinstance(body, list) else (body, body)
        start, stop = (first.lineno, first.col_offset), (last.end_lineno or 0, last.end_col_offset or 0)
        if all(start <= a and b <= stop for a, b in places):
            covering.append((start, index))
    # of nested candidates the innermost starts last
    return max(covering)[1] if covering else equal[0]


def _code_of(file: _File, block: _Block, index: int) -> types.CodeType:
    """The code of one function, known by a line number that no source file reaches.

    Only one function is marked at a time: the mark of an inner function changes the code of the one around it.
    """
    statements = copy.deepcopy(block.statements)
    node = _marked([item for statement in statements for item in _candidates(statement)][index].node)
    node.lineno = node.end_lineno = _MARK
    marked = _compile(file, [*block.imports, *statements])
    return next(code for code in _walk_code(marked) if code.co_firstlineno == _MARK)
