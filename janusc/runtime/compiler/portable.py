"""From what torch's kernel compiler wrote to an entry: the same calls, without the compiler they were made by.

The source that it writes imports the compiler, to find functions that torch has under other names and to compile C++
that has been compiled by now. Here the former are named where they are, and the latter are shared objects.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from janusc import torch_private
from janusc.runtime.compiler.entries import SOURCE
from janusc.runtime.compiler.loading import CALL, LOAD, MORE
from janusc.runtime.compiler.program import literal
from janusc.runtime.compiler.scratch import keep_scratch

_COMPILING = "async_compile"
_EXTERNAL = "extern_kernels"


class NotPortable(ValueError):
    """A kernel that can't be used without the compiler that made it."""


def make_portable(kernels: Sequence[Any]) -> dict[str, bytes]:
    """The files of the entry of kernels from ``torch_private.compiling.compile_kernels``, at least one; NotPortable
    where there can't be one.

    Raises OSError where a file of one is gone.
    """
    files: dict[str, bytes] = {}
    body = _portable(kernels[0], files)
    for number, kernel in enumerate(kernels[1:], 1):
        body += _apart(f"_further_{number}", _portable(kernel, files))
    files[SOURCE] = ast.unparse(ast.fix_missing_locations(ast.Module(body, []))).encode()
    return files


def _apart(name: str, body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a further kernel, whose names are like those of the first, in a function of their own."""
    made = ast.parse(f"def {name}():\n    return {CALL}\n{MORE} = (*globals().get({MORE!r}, ()), {name}())").body
    assert isinstance(made[0], ast.FunctionDef)
    made[0].body[:0] = body
    return made


def _portable(kernel: Any, files: dict[str, bytes]) -> list[ast.stmt]:
    """The statements of a kernel; its shared objects are added to the files."""
    names = torch_private.compiling.kernel_globals(kernel)
    if names is None or CALL not in names:
        raise NotPortable("this version of torch makes kernels of another form")
    with open(names["__file__"], encoding="utf-8") as file:
        tree = ast.parse(file.read())
    body: list[ast.stmt] = []
    foreign: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)) and _imports_private(statement):
            foreign.update(alias.asname or alias.name for alias in statement.names)
        elif name := _compiled(statement):
            body.append(_loading(name, names[name], files))
        elif not _left_out(statement):
            body.append(statement)
    body = _needed(body)
    externals = _Externals(names.get(_EXTERNAL))
    body = [externals.visit(statement) for statement in body]
    body = [*_assignments(externals.found), *_with_constants(body, names)]
    if missing := sorted(foreign & set(_loaded_names(body))):
        raise NotPortable(f"it calls its compiler ({', '.join(missing)})")
    return keep_scratch(body)


def _imports_private(statement: ast.Import | ast.ImportFrom) -> bool:
    modules = [statement.module or ""] if isinstance(statement, ast.ImportFrom) else [a.name for a in statement.names]
    return any(module.startswith("torch._") for module in modules)


def _compiled(statement: ast.stmt) -> str | None:
    """The name to which a statement binds compiled C++."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    function, target = statement.value.func, statement.targets[0]
    if not isinstance(function, ast.Attribute) or not isinstance(target, ast.Name):
        return None
    return target.id if isinstance(function.value, ast.Name) and function.value.id == _COMPILING else None


def _loading(name: str, function: Any, files: dict[str, bytes]) -> ast.stmt:
    """``name = load(file, entry)``, with the shared object among the files."""
    path = getattr(getattr(function, "__self__", None), "__file__", None)
    if path is None:
        raise NotPortable(f"{name} is no compiled function")
    with open(path, "rb") as content:
        code = content.read()
    file = next((known for known, other in files.items() if other == code), f"{len(files)}.so")
    files[file] = code
    return ast.parse(f"{name} = {LOAD}({file!r}, {function.__name__!r})").body[0]


def _left_out(statement: ast.stmt) -> bool:
    """Whether a statement is of the compiler's own work: the objects it compiles with, trials of the kernel."""
    if isinstance(statement, ast.If) or any(name == _COMPILING for name in _loaded_names([statement])):
        return True
    targets = statement.targets if isinstance(statement, (ast.Assign, ast.Delete)) else []
    return any(isinstance(target, ast.Name) and target.id == _COMPILING for target in targets)


def _needed(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without the assignments and imports of what no later one uses."""
    kept: list[ast.stmt] = []
    used = {CALL}
    for statement in reversed(body):
        bound = _bound(statement)
        if bound is None or used & bound:
            kept.insert(0, statement)
            used.update(_loaded_names([statement]))
    return kept


def _bound(statement: ast.stmt) -> set[str] | None:
    """What a statement binds and does nothing else than that; None of another one."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name for alias in statement.names}
    if isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
        return {target.id for target in statement.targets if isinstance(target, ast.Name)}
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
        return {statement.name}
    return None


def _loaded_names(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield node.id


class _Externals(ast.NodeTransformer):
    """Names the library functions that are called through a table of the compiler's."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.found: dict[str, str] = {}

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if not (isinstance(node.value, ast.Name) and node.value.id == _EXTERNAL):
            self.generic_visit(node)
            return node
        path = torch_private.compiling.function_path(getattr(self.table, node.attr, None), node.attr)
        if path is None:
            raise NotPortable(f"it calls {node.attr} of its compiler")
        name = f"external_{node.attr}"
        self.found[name] = path
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _assignments(found: dict[str, str]) -> list[ast.stmt]:
    lines = ["import torch", "from math import inf, nan", *(f"{name} = {path}" for name, path in found.items())]
    return ast.parse("\n".join(lines)).body


def _with_constants(body: list[ast.stmt], names: dict[str, Any]) -> list[ast.stmt]:
    """The statements with the constants that the compiler sets from outside, where its source has None."""
    found = []
    for statement in body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            for name in _bound(statement) or ():
                if isinstance(names.get(name), torch.Tensor):
                    statement = ast.parse(f"{name} = {literal(names[name])}").body[0]
        found.append(statement)
    return found
