"""Private names of a class, ``__x`` to ``_Class__x``, as the compiler would write them.

The tree then means the same wherever it is compiled, and an attribute node carries the name that ``getattr`` needs.
"""

from __future__ import annotations

from typing import Any

import gast


def mangle(tree: Any, class_name: str | None) -> None:
    """Rewrite, in place, the private names that a function sees inside the class of this name."""
    owner = (class_name or "").lstrip("_")
    if owner:
        _visit(tree, owner)


def mangled(name: str, owner: str) -> str:
    """The name itself, or its private form in the class ``owner``."""
    if not name.startswith("__") or name.endswith("__") or "." in name:
        return name
    return f"_{owner}{name}"


_TEXT_FIELDS = {
    "Name": "id",
    "Attribute": "attr",
    "FunctionDef": "name",
    "AsyncFunctionDef": "name",
    "ClassDef": "name",
    "MatchAs": "name",
    "MatchStar": "name",
    "MatchMapping": "rest",
    "TypeVar": "name",
    "TypeVarTuple": "name",
    "ParamSpec": "name",
}


def _visit(node: Any, owner: str) -> None:
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(item)
            continue
        if not isinstance(item, gast.AST):
            continue
        _rename(item, owner)
        if isinstance(item, gast.ClassDef):
            # the body of an inner class has private names of its own
            stack.extend([item.decorator_list, item.bases, item.keywords])
        else:
            stack.extend(value for _, value in gast.iter_fields(item))


def _rename(item: Any, owner: str) -> None:
    name_field = _TEXT_FIELDS.get(type(item).__name__)
    if name_field is not None:
        text = getattr(item, name_field)
        if text is not None:
            setattr(item, name_field, mangled(text, owner))
    elif isinstance(item, (gast.Global, gast.Nonlocal)):
        item.names = [mangled(name, owner) for name in item.names]
    elif isinstance(item, (gast.Import, gast.ImportFrom)):
        for alias in item.names:
            stored = mangled(alias.asname or alias.name, owner)
            if stored != (alias.asname or alias.name):
                alias.asname = stored
