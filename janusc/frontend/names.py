"""Which names statements load, store and delete, in the scope they stand in.

Comprehensions and lambdas are scopes of their own: their targets and parameters don't show, what they take from outside
does. A name that an inner function takes from outside counts as loaded where the function is made, and is also listed
as captured; so does a name that it assigns by ``nonlocal``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import gast

from janusc.frontend.nodes import nodes_of

_HOLDERS = (gast.AST, list, tuple)
FUNCTIONS = (gast.FunctionDef, gast.AsyncFunctionDef, gast.Lambda)
COMPREHENSIONS = (gast.ListComp, gast.SetComp, gast.DictComp, gast.GeneratorExp)

# callables that use up a generator before they return: what it takes from outside isn't seen later
_CONSUMERS = frozenset("sum any all min max tuple list set frozenset dict sorted join extend update".split())


@dataclass(frozen=True)
class Names:
    """The names of some statements.

    ``assigned`` are those they assign themselves, ``rebound`` those that an inner function assigns by ``nonlocal``;
    ``captured`` are those that an inner function keeps.
    """

    loads: frozenset[str]
    assigned: frozenset[str]
    deletes: frozenset[str]
    captured: frozenset[str]
    rebound: frozenset[str]
    global_names: frozenset[str]
    nonlocal_names: frozenset[str]

    @property
    def stores(self) -> frozenset[str]:
        """The names assigned, here or by an inner function."""
        return self.assigned | self.rebound


@dataclass
class _Scope:
    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    captured: set[str] = field(default_factory=set)
    rebound: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)


def names_of(nodes: Any | Iterable[Any]) -> Names:
    """The names of a node or of several, in their own scope."""
    scope = _Scope()
    _visit(nodes, scope)
    return Names(
        frozenset(scope.loads),
        frozenset(scope.stores),
        frozenset(scope.deletes),
        frozenset(scope.captured),
        frozenset(scope.rebound),
        frozenset(scope.global_names),
        frozenset(scope.nonlocal_names),
    )


def loads(nodes: Any | Iterable[Any]) -> frozenset[str]:
    """The names read, in the scope of the nodes and by the inner functions made there."""
    return names_of(nodes).loads


def stores(nodes: Any | Iterable[Any]) -> frozenset[str]:
    """The names assigned, by any statement, walrus, import or definition, or by ``nonlocal`` in an inner function."""
    return names_of(nodes).stores


def deletes(nodes: Any | Iterable[Any]) -> frozenset[str]:
    """The names deleted."""
    return names_of(nodes).deletes


def parameter_nodes(arguments: Any) -> list[Any]:
    """The parameters of a function as ``gast.Name`` nodes, in the order of ``co_varnames``."""
    nodes = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return nodes + [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]


def parameter_names(arguments: Any) -> tuple[str, ...]:
    """The names of the parameters of a function, in the order of ``co_varnames``."""
    return tuple(node.id for node in parameter_nodes(arguments))


def free_in_function(node: Any) -> tuple[Names, frozenset[str]]:
    """The names of a function's body, and those it takes from outside."""
    inner = names_of(node.body)
    own = (inner.assigned | inner.deletes | set(parameter_names(node.args))) - inner.global_names - inner.nonlocal_names
    rebound = inner.rebound - own
    return inner, (inner.loads | inner.nonlocal_names | rebound) - own - inner.global_names


def captures(node: Any) -> frozenset[str]:
    """What a function, lambda, generator expression or class takes from the scope around it."""
    scope = _Scope()
    _visit(node, scope)
    return frozenset(scope.captured)


def _visit(node: Any, scope: _Scope) -> None:
    kind = type(node)
    if kind is list or kind is tuple:
        for item in node:
            _visit(item, scope)
    elif issubclass(kind, gast.AST):
        handler = _HANDLERS.get(kind.__name__)
        if handler is not None:
            handler(node, scope)
        else:
            _visit_fields(node, scope)


def _visit_fields(node: Any, scope: _Scope) -> None:
    for field_name in node._fields:
        value = getattr(node, field_name, None)
        if isinstance(value, _HOLDERS):
            _visit(value, scope)


def _name(node: Any, scope: _Scope) -> None:
    if isinstance(node.ctx, gast.Load):
        scope.loads.add(node.id)
    elif isinstance(node.ctx, gast.Del):
        scope.deletes.add(node.id)
    else:
        scope.stores.add(node.id)


def _augmented(node: Any, scope: _Scope) -> None:
    _visit(node.value, scope)
    _visit(node.target, scope)
    if isinstance(node.target, gast.Name):
        scope.loads.add(node.target.id)


def _annotated(node: Any, scope: _Scope) -> None:
    # annotations of locals are never evaluated; without a value nothing is assigned, yet the name is local
    _visit(node.target, scope)
    _visit(node.value, scope)


def _function(node: Any, scope: _Scope) -> None:
    inner, free = free_in_function(node)
    _visit(getattr(node, "decorator_list", []), scope)
    _visit(node.args.defaults, scope)
    _visit([item for item in node.args.kw_defaults if item is not None], scope)
    _visit([item.annotation for item in parameter_nodes(node.args)], scope)
    _visit(getattr(node, "returns", None), scope)
    parameters = {item.name for item in getattr(node, "type_params", None) or []}
    _visit(getattr(node, "type_params", None), scope)
    free -= parameters
    scope.loads |= free
    scope.captured |= free
    changed = ((inner.nonlocal_names & (inner.assigned | inner.deletes)) | inner.rebound) & free
    scope.rebound |= changed
    if not isinstance(node, gast.Lambda):
        scope.stores.add(node.name)


def _class(node: Any, scope: _Scope) -> None:
    _visit([node.decorator_list, node.bases, node.keywords, node.type_params], scope)
    inner = names_of(node.body)
    # a class body runs at once but may read a name that it assigns later, from outside
    taken = inner.loads - inner.global_names - {"__class__"}
    scope.loads |= taken
    scope.captured |= inner.captured - {"__class__"}
    changed = (inner.nonlocal_names & inner.assigned) | (inner.rebound - {"__class__"})
    scope.rebound |= changed
    scope.stores.add(node.name)


def _comprehension(node: Any, scope: _Scope) -> None:
    inner = _Scope()
    for index, generator in enumerate(node.generators):
        _visit(generator.iter, scope if index == 0 else inner)
        _visit(generator.target, inner)
        _visit(generator.ifs, inner)
    walrus = _Scope()
    results = [node.key, node.value] if isinstance(node, gast.DictComp) else [node.elt]
    _visit(results, inner)
    for item in [*results, *(test for generator in node.generators for test in generator.ifs)]:
        _walrus_targets(item, walrus)
    own = inner.stores - walrus.stores
    scope.loads |= inner.loads - own
    scope.stores |= walrus.stores
    scope.captured |= inner.captured - own
    scope.rebound |= inner.rebound - own
    if isinstance(node, gast.GeneratorExp) and not getattr(node, "_jc_consumed", False):
        scope.captured |= inner.loads - own
        scope.rebound |= walrus.stores


def _walrus_targets(node: Any, scope: _Scope) -> None:
    for item in nodes_of(node):
        if isinstance(item, gast.NamedExpr):
            scope.stores.add(item.target.id)


def _call(node: Any, scope: _Scope) -> None:
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    if name in _CONSUMERS:
        for arg in node.args:
            if isinstance(arg, gast.GeneratorExp):
                arg._jc_consumed = True
    _visit_fields(node, scope)


def _loop(node: Any, scope: _Scope) -> None:
    stop = getattr(node, "_jc_stop", None)
    if stop is not None:  # the flag is read before every next item
        scope.loads.add(stop)
    _visit_fields(node, scope)


def _import(node: Any, scope: _Scope) -> None:
    scope.stores |= {alias.asname or alias.name.split(".")[0] for alias in node.names if alias.name != "*"}


def _global(node: Any, scope: _Scope) -> None:
    scope.global_names.update(node.names)


def _nonlocal(node: Any, scope: _Scope) -> None:
    scope.nonlocal_names.update(node.names)


def _match_name(node: Any, scope: _Scope) -> None:
    name = node.rest if isinstance(node, gast.MatchMapping) else node.name
    if name is not None:
        scope.stores.add(name)
    _visit_fields(node, scope)


_HANDLERS: dict[str, Any] = {
    "Name": _name,
    "AugAssign": _augmented,
    "AnnAssign": _annotated,
    "FunctionDef": _function,
    "AsyncFunctionDef": _function,
    "Lambda": _function,
    "ClassDef": _class,
    "ListComp": _comprehension,
    "SetComp": _comprehension,
    "DictComp": _comprehension,
    "GeneratorExp": _comprehension,
    "Call": _call,
    "For": _loop,
    "While": _loop,
    "Import": _import,
    "ImportFrom": _import,
    "Global": _global,
    "Nonlocal": _nonlocal,
    "MatchAs": _match_name,
    "MatchStar": _match_name,
    "MatchMapping": _match_name,
}
