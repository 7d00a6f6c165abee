"""The language table: what is done with each kind of syntax node of Python 3.10 to 3.13.

``symbolic``: the node is converted. ``host``: the statement that contains it runs as ordinary Python between two
graphs. ``eager``: the whole function runs eagerly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import gast

from janusc.diagnostics import RUNS_EAGERLY, RUNS_ON_HOST, Diagnostic, define
from janusc.registry import Registry
from janusc.source import span_of

Kind = Literal["symbolic", "host", "eager"]


@dataclass(frozen=True)
class Entry:
    """What is done with one kind of node; code, ``what`` and hint are for the diagnostic where it isn't converted."""

    kind: Kind
    code: str = ""
    what: str = ""
    hint: str = ""


LANGUAGE: Registry[str, Entry] = Registry("language")

_SYMBOLIC = {
    "function": "FunctionDef Lambda arguments arg Param Return Global Nonlocal",
    "statement": "Assign AugAssign AnnAssign Expr Pass Assert Delete",
    "control": "If For While Break Continue With withitem",
    "expression": "BoolOp NamedExpr BinOp UnaryOp IfExp Compare Call keyword Starred",
    "access": "Name Constant Attribute Subscript Slice",
    "container": "Dict Set List Tuple ListComp SetComp DictComp GeneratorExp comprehension",
    "text": "JoinedStr FormattedValue",
    "context": "Load Store Del",
    "boolean operator": "And Or",
    "binary operator": "Add Sub Mult MatMult Div Mod Pow LShift RShift BitOr BitXor BitAnd FloorDiv",
    "unary operator": "Invert Not UAdd USub",
    "comparison": "Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn",
}

for _nodes in _SYMBOLIC.values():
    for _node in _nodes.split():
        LANGUAGE.register(_node, Entry("symbolic"))


def _register(kind: Kind, code: str, nodes: str, what: str, hint: str = "") -> None:
    define(code, f"{what} ({kind})")
    for name in nodes.split():
        LANGUAGE.register(name, Entry(kind, code, what, hint))


_register("host", "JC201", "Try ExceptHandler", "a try statement", "move what it guards against out of the hot path")
_register("host", "JC202", "TryStar", "a try statement with except*", "move what it guards against out of the hot path")
_register("host", "JC203", "Raise", "a raise statement")
_register(
    "host",
    "JC204",
    "Match match_case MatchValue MatchSingleton MatchSequence MatchMapping MatchClass MatchStar MatchAs MatchOr",
    "a match statement",
    "if and elif are converted",
)
_register("host", "JC205", "ClassDef", "a class definition inside a function", "define the class at module level")
_register("host", "JC207", "Import ImportFrom alias", "an import inside a function", "import at module level")
_register("host", "JC208", "TypeAlias TypeVar ParamSpec TypeVarTuple", "a type alias inside a function")
_register("host", "JC209", "TemplateStr Interpolation", "a template string")
_register("host", "JC210", "AsyncFunctionDef", "an async function defined inside a function")
_register("eager", "JC211", "Await AsyncFor AsyncWith", "asynchronous code")
_register("eager", "JC212", "Yield YieldFrom", "a generator's yield")
_register("eager", "JC213", "Module Interactive Expression FunctionType TypeIgnore", "a whole module")

DELETE_PART = define("JC206", "a del statement of something else than names and items (host)")


def entry_of(node: Any) -> Entry:
    """The entry for a node, looking at its form where the kind alone doesn't decide."""
    if isinstance(node, gast.Delete) and not all(isinstance(t, (gast.Name, gast.Subscript)) for t in node.targets):
        return Entry("host", DELETE_PART, "a del statement of something else than names and items")
    if isinstance(node, gast.comprehension) and node.is_async:
        return LANGUAGE["AsyncFor"]
    return LANGUAGE[type(node).__name__]


def own_nodes(node: Any) -> Iterable[Any]:
    """A node and those below it that run with it; bodies of inner functions don't."""
    stack = [node]
    while stack:
        item = stack.pop()
        yield item
        if isinstance(item, gast.ClassDef):
            continue
        if isinstance(item, (gast.FunctionDef, gast.AsyncFunctionDef, gast.Lambda)):
            args = item.args
            stack.extend([*getattr(item, "decorator_list", []), *args.defaults, *filter(None, args.kw_defaults)])
        else:
            stack.extend(gast.iter_child_nodes(item))


def blocking(node: Any) -> Any | None:
    """The first node in a statement, in its own scope, that is not converted, or None.

    Only what runs with the statement itself is looked at, not the blocks of an ``if``, loop or ``with``: their
    statements are asked for one by one.
    """
    for item in _with_header_only(node):
        if entry_of(item).kind != "symbolic":
            return item
    return None


def _with_header_only(node: Any) -> Iterable[Any]:
    if isinstance(node, (gast.If, gast.For, gast.While, gast.With)):
        yield node
        for name, value in gast.iter_fields(node):
            if name not in ("body", "orelse"):
                for part in value if isinstance(value, list) else [value]:
                    if isinstance(part, gast.AST):
                        yield from own_nodes(part)
    else:
        yield from own_nodes(node)


def diagnose(node: Any, filename: str) -> Diagnostic:
    """The diagnostic for a node that is not converted."""
    entry = entry_of(node)
    effect = RUNS_EAGERLY if entry.kind == "eager" else RUNS_ON_HOST
    return Diagnostic(entry.code, f"{entry.what} is not converted", span_of(node, filename), effect, entry.hint)
