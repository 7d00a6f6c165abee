"""Make a failing program smaller: leave out statements and calls as long as it fails in the same way."""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

Test = Callable[[str], bool]


def reduce(source: str, fails: Test, seconds: float = 60.0) -> str:
    """The smallest source found that ``fails``, within the time given."""
    tree, stop = ast.parse(source), time.monotonic() + seconds
    best = ast.unparse(tree)
    if not fails(best):
        return source
    shrinking = True
    while shrinking:
        shrinking, rank = False, 0
        order = _largest_first(tree)
        while rank < len(order):
            if time.monotonic() > stop:
                return best
            for variant in range(3):
                smaller = _edited(tree, order[rank], variant)
                if smaller is not None and _try(smaller, best, fails):
                    tree, shrinking = smaller, True
                    best, order = ast.unparse(tree), _largest_first(tree)
                    break
            else:
                rank += 1
    return best


def _try(tree: ast.Module, best: str, fails: Test) -> bool:
    text = ast.unparse(tree)
    try:
        compile(text, "<smaller>", "exec")
        return len(text) < len(best) and fails(text)
    except Exception:  # a smaller program that can't even be set up
        return False


def _places(tree: ast.AST) -> Iterator[tuple[list[Any], int]]:
    """Every statement of a block, every element of a list display, every operand, as a list and an index."""
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], (ast.stmt, ast.expr, ast.ExceptHandler)):
                for index in range(len(value)):
                    yield value, index
            elif isinstance(value, (ast.BinOp, ast.IfExp, ast.Call, ast.BoolOp, ast.UnaryOp, ast.Compare)):
                yield [node, name], -1


def _largest_first(tree: ast.AST) -> list[int]:
    """The numbers of the places, those with much below them first: so most of a program goes in a few steps."""
    sizes = []
    for number, (holder, key) in enumerate(_places(tree)):
        node = getattr(*holder) if key < 0 else holder[key]
        sizes.append((-sum(1 for _ in ast.walk(node)), number))
    return [number for _, number in sorted(sizes)]


def _edited(tree: ast.Module, number: int, variant: int) -> ast.Module | None:
    tree = copy.deepcopy(tree)
    for position, (holder, index) in enumerate(_places(tree)):
        if position == number:
            done = _edit_expression(holder, variant) if index < 0 else _edit_list(holder, index, variant)
            return ast.fix_missing_locations(tree) if done else None
    return None


def _edit_list(items: list[Any], index: int, variant: int) -> bool:
    node = items[index]
    if variant == 0:
        if isinstance(node, ast.stmt) and len(items) == 1:
            if isinstance(node, ast.Pass):
                return False
            items[index] = ast.Pass()
        else:
            del items[index]
        return True
    body = getattr(node, "body", None)
    if isinstance(node, (ast.If, ast.For, ast.While, ast.Try, ast.With)):
        items[index : index + 1] = body if variant == 1 else (getattr(node, "orelse", None) or body)
        return True
    return isinstance(node, ast.expr) and _replace_by_part(items, index, node, variant)


def _replace_by_part(holder: Any, key: Any, node: ast.expr, variant: int) -> bool:
    parts = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
    if len(parts) < variant:
        return False
    holder[key] = parts[variant - 1]
    return True


def _edit_expression(place: list[Any], variant: int) -> bool:
    node, name = place
    parts = [c for c in ast.iter_child_nodes(getattr(node, name)) if isinstance(c, ast.expr)]
    if len(parts) <= variant:
        return False
    setattr(node, name, parts[variant])
    return True
