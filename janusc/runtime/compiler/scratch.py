"""Buffers that never leave a kernel, made once: of a small kernel, a tenth of its time goes into making them.

Before::

    def call(self, args):
        buf0 = empty_strided_cpu((20, 64), (64, 1), torch.float32)
        external_mm(arg0, arg1, out=buf0)

After::

    with torch.inference_mode(False):
        scratch_0 = empty_strided_cpu((20, 64), (64, 1), torch.float32)

    def call(self, args):
        mine = scratch_lock.acquire(False)
        try:
            buf0 = scratch_0 if mine else empty_strided_cpu((20, 64), (64, 1), torch.float32)
            external_mm(arg0, arg1, out=buf0)
        finally:
            if mine:
                scratch_lock.release()

A call in the middle of another, in another thread or in a signal handler, makes its own.
"""

from __future__ import annotations

import ast
from math import prod

from janusc.runtime.compiler.loading import CALL
from janusc.runtime.compiler.settings import dtype_of

LARGEST, MOST = 1 << 15, 1 << 17  # bytes, of one buffer and of all of a kernel: they are held as long as it is
_MAKER, _VIEW = "empty_strided_cpu", "reinterpret_tensor"
_PRODUCTS = frozenset({"external_mm", "external_addmm", "external_bmm", "external_baddbmm"})


def keep_scratch(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a kernel's module with buffers that its function keeps from call to call."""
    function = _function_of(body)
    if function is None:
        return body
    kept = _kept(function, {name for statement in body for name in _loaded(statement)} | _PRODUCTS)
    if not kept:
        return body
    change = _Change(kept)
    function.body = [change.visit(statement) for statement in function.body]
    guarded = ast.parse(
        "mine = scratch_lock.acquire(False)\ntry:\n    pass\nfinally:\n    if mine: scratch_lock.release()"
    )
    attempt = guarded.body[1]
    assert isinstance(attempt, ast.Try)
    attempt.body, function.body = function.body, guarded.body
    lines = ["from threading import Lock", "scratch_lock = Lock()", "with torch.inference_mode(False):"]
    made = ast.parse("\n".join([*lines, *(f"    {name} = {text}" for name, text in change.made.items())])).body
    place = next(i for i, statement in enumerate(body) if function in ast.walk(statement))
    return [*body[:place], *made, *body[place:]]


def _function_of(body: list[ast.stmt]) -> ast.FunctionDef | None:
    """The function that does the work."""
    found = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.FunctionDef)]
    return next((node for node in found if node.name == CALL), None)


def _loaded(statement: ast.stmt) -> set[str]:
    """The names of compiled C++ that a statement loads."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or value.func.id != "load":
        return set()
    return {target.id for target in ast.walk(statement) if isinstance(target, ast.Name) and target.id != "load"}


def _kept(function: ast.FunctionDef, callees: set[str]) -> dict[str, str]:
    """The buffers that never leave, by each name that they have; the name under which they are made."""
    roots: dict[str, str] = {}
    sizes: dict[str, int] = {}
    leaving: set[str] = set()
    for statement in function.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name, value = statement.targets[0].id, statement.value
            if _is_call(value, _MAKER):
                roots[name], sizes[name] = name, _bytes(value)
                continue
            if isinstance(value, ast.Name) and value.id in roots:
                roots[name] = roots[value.id]
                continue
        inner = _inner_names(statement, callees)
        leaving.update(node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and node not in inner)
    gone = {roots[name] for name in leaving if name in roots}
    fitting, total = set(), 0
    for root, size in sorted(sizes.items(), key=lambda item: item[1]):
        total += size
        if root not in gone and size <= LARGEST and total <= MOST:
            fitting.add(root)
        elif root in gone:
            total -= size
    return {name: root for name, root in roots.items() if root in fitting}


def _inner_names(statement: ast.stmt, callees: set[str]) -> set[ast.Name]:
    """The names in a statement that it keeps to itself: what is deleted, and what is given to what returns nothing."""
    if isinstance(statement, ast.Delete):
        return {node for node in ast.walk(statement) if isinstance(node, ast.Name)}
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in callees:
        return set()
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    views = [item.args[0] for item in given if isinstance(item, ast.Call) and _is_call(item, _VIEW)]
    return {item for item in (*given, *views) if isinstance(item, ast.Name)}


def _is_call(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _bytes(call: ast.expr) -> int:
    """The memory of a buffer; without bound where that is not told."""
    try:
        assert isinstance(call, ast.Call)
        size, stride = (ast.literal_eval(argument) for argument in call.args[:2])
        dtype = dtype_of(ast.unparse(call.args[2]).rpartition(".")[2])
    except (AssertionError, ValueError, KeyError, IndexError, AttributeError):
        return LARGEST + 1
    last = sum((count - 1) * step for count, step in zip(size, stride))
    return (last + 1) * dtype.itemsize if prod(size) else 0


class _Change(ast.NodeTransformer):
    """Puts what is made once in the place of what is made in each call; ``made`` has the expressions that make it."""

    def __init__(self, kept: dict[str, str]) -> None:
        self.kept = kept
        self.made: dict[str, str] = {}
        self._names: dict[str, str] = {}  # of a buffer made once, by the name it has in calls

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        target = node.targets[0]
        if isinstance(target, ast.Name) and self.kept.get(target.id) == target.id:
            self._names[target.id] = name = f"scratch_{len(self.made)}"
            self.made[name] = ast.unparse(node.value)
            node.value = _either(name, node.value)
            return node
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        first = node.args[0] if node.args else None
        if not _is_call(node, _VIEW) or not isinstance(first, ast.Name) or first.id not in self.kept:
            self.generic_visit(node)
            return node
        name = f"scratch_{len(self.made)}"
        rest = ", ".join(map(ast.unparse, node.args[1:]))
        self.made[name] = f"{_VIEW}({self._names[self.kept[first.id]]}, {rest})"
        return _either(name, node)


def _either(name: str, other: ast.expr) -> ast.expr:
    return ast.IfExp(ast.Name("mine", ast.Load()), ast.Name(name, ast.Load()), other)
