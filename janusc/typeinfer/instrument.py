"""Weave recording into the user's function: the result is the ordinary eager call, which also fills a profile.

Before::

    for x in xs:
        if x > 0:
            y = f(x)

After::

    _jc_enter()
    try:
        for x in xs:
            _jc_tick()
            if _jc_truth("…:3:11-16:CompareTest", not not x > 0):
                y = _jc_seen("…:4:12-20:Assign", _jc_seen("…:4:16-20:Call", _jc_callee(f)(x)))
    finally:
        _jc_leave("…:1:0-3:20:For")

Positions are the user's, so tracebacks, warnings and line events name the user's lines. Functions defined inside are
left as they are: they are instrumented when they are called.
"""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import gast

from janusc.diagnostics import Refusal
from janusc.frontend import build, parse
from janusc.frontend.build import Template
from janusc.frontend.duplicate import duplicate
from janusc.frontend.parse import ParsedFunction
from janusc.interrupts import is_interrupt
from janusc.locks import make_lock
from janusc.source import count_lines
from janusc.typeinfer.observe import Recorder
from janusc.typeinfer.profile import Profile

# these names see the frame they are in, where probes would show
_FRAME_READERS = frozenset({"locals", "vars", "dir", "eval", "exec", "breakpoint"})
_KEPT_CALLEES = frozenset({"super", "globals"})
# these use up a generator before they return
_USE_UP = frozenset({"sum", "tuple", "list", "min", "max", "any", "all", "sorted", "set"})
_CACHED_TWINS = 512


def sees_own_frame(parsed: ParsedFunction) -> bool:
    """Whether the function may look at its own local names, so that it must run as it was written."""
    return any(isinstance(n, gast.Name) and n.id in _FRAME_READERS for n in gast.walk(parsed.tree))


def truth_site(parsed: ParsedFunction, tested: Any) -> str:
    """The site of an expression tested for truth.

    That is the test of an ``if``, ``while``, ``assert``, conditional expression or comprehension, the guard of a
    ``case``, the operand of ``not``, and each operand of an ``and`` or ``or`` that stands in such a place.
    """
    return parse.site(parsed, tested, f"{type(tested).__name__}Test")


def parameter_site(parsed: ParsedFunction, parameter: Any) -> str:
    """The site of a parameter, given its name node in the signature."""
    return parse.site(parsed, parameter, "Parameter")


def item_site(parsed: ParsedFunction, target: Any) -> str:
    """The site of the items of a loop, given the name they get."""
    return parse.site(parsed, target, "Item")


class Instrumenter:
    """Instrumented twins of a function and of the user code it calls, all recording into one profile."""

    def __init__(self, profile: Profile) -> None:
        self.recorder = Recorder(profile, self.twin)
        self.faults: dict[str, str] = {}
        self.lines = 0  # of all functions that were instrumented
        self._lock = make_lock()
        # by identity: code objects compare by content, and equal code of two files has different sites
        self._templates: OrderedDict[int, tuple[types.CodeType, Template | None]] = OrderedDict()

    def twin(self, function: types.FunctionType) -> Callable[..., Any]:
        """The instrumented function, or the function itself where it can't be instrumented."""
        try:
            template = self._template(function)
            return function if template is None else template.bind(function)
        except Exception as error:  # a fault of ours must not reach the user; their call runs as it is
            if is_interrupt(error):
                raise
            self.faults.setdefault(function.__qualname__, f"{type(error).__name__}: {error}")
            return function

    def _template(self, function: types.FunctionType) -> Template | None:
        code = function.__code__
        found = self._templates.get(id(code))
        if found is not None and found[0] is code:
            return found[1]
        template = _try_instrument(function, self.recorder)
        with self._lock:
            self.lines += 0 if template is None else count_lines(code)
            self._templates[id(code)] = (code, template)
            while len(self._templates) > _CACHED_TWINS:
                self._templates.popitem(last=False)
        return template


def instrument(parsed: ParsedFunction, profile: Profile) -> Template:
    """The instrumented form of one function; calls of other user code record into the same profile."""
    return _instrument(parsed, Instrumenter(profile).recorder)


def _try_instrument(function: types.FunctionType, recorder: Recorder) -> Template | None:
    try:
        parsed = parse.parse(function)
        return None if sees_own_frame(parsed) else _instrument(parsed, recorder)
    except (Refusal, SyntaxError, RecursionError):  # code that the frontend or the compiler won't take runs as it is
        return None


def _instrument(parsed: ParsedFunction, recorder: Recorder) -> Template:
    tree = _Weaver(parsed).weave()
    return build.compile_function(parsed, tree, recorder.probes())


def _skip_docstring(body: list[Any]) -> int:
    first = body[0] if body else None
    value = first.value if isinstance(first, gast.Expr) else None
    return int(isinstance(value, gast.Constant) and isinstance(value.value, str))


class _Weaver(gast.NodeTransformer):  # type: ignore[misc]
    """Puts the probes into a copy of a function's tree."""

    def __init__(self, parsed: ParsedFunction) -> None:
        self.parsed = parsed
        self._rebound: frozenset[str] = frozenset()  # names that the function sets itself

    def weave(self) -> Any:
        """The tree with the probes."""
        tree = duplicate(self.parsed.tree)
        start = _skip_docstring(tree.body)
        stored = (n for n in gast.walk(tree) if isinstance(n, gast.Name) and isinstance(n.ctx, gast.Store))
        self._rebound = frozenset(n.id for n in stored)
        body = [self.visit(statement) for statement in tree.body]
        tree.body = body[:start] + self._parameters(tree) + _flat(body[start:])
        return tree

    def _parameters(self, tree: Any) -> list[Any]:
        arguments = tree.args
        names = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
        return [
            _statement(_probe("_jc_seen", name, _text(parameter_site(self.parsed, name), name), _load(name)))
            for name in names
            if name is not None
        ]

    # ---- what stays as it is

    def _keep(self, node: Any) -> Any:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _keep

    # ---- tests

    def _test(self, node: Any) -> Any:
        """An expression in a boolean context; each operand is tested where Python tests it."""
        site = _text(truth_site(self.parsed, node), node)
        if isinstance(node, gast.BoolOp):
            inner = gast.BoolOp(node.op, [self._test(operand) for operand in node.values])
            return _probe("_jc_truth", node, site, gast.copy_location(inner, node))
        tested = self.visit(node)
        for _ in range(2):  # a test in the user's frame, where a ``__bool__`` may look and warn
            tested = gast.copy_location(gast.UnaryOp(gast.Not(), tested), node)
        return _probe("_jc_truth", node, site, tested)

    def visit_If(self, node: Any) -> Any:
        node.test = self._test(node.test)
        node.body = self._block(node.body)
        node.orelse = self._block(node.orelse)
        return node

    def visit_IfExp(self, node: Any) -> Any:
        node.test = self._test(node.test)
        node.body = self.visit(node.body)
        node.orelse = self.visit(node.orelse)
        return node

    def visit_Assert(self, node: Any) -> Any:
        node.test = self._test(node.test)
        node.msg = node.msg and self.visit(node.msg)
        return node

    def visit_UnaryOp(self, node: Any) -> Any:
        node.operand = self._test(node.operand) if isinstance(node.op, gast.Not) else self.visit(node.operand)
        return node

    def visit_GeneratorExp(self, node: Any) -> Any:
        """Only what is evaluated at once: the generator may outlive the call, and must not hold a probe then."""
        first = node.generators[0]
        if isinstance(first.iter, (gast.List, gast.Set)):  # Python makes a tuple of a display that is only run over
            first.iter.elts = [self.visit(element) for element in first.iter.elts]
        else:
            first.iter = self._counted(node, self.visit(first.iter))
        return node

    def _comprehension(self, node: Any) -> Any:
        node = self.generic_visit(node)
        for generator in node.generators:
            generator.iter = self._counted(node, generator.iter)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = _comprehension

    def _counted(self, node: Any, iterable: Any) -> Any:
        """What a comprehension runs over, whose length is the trip count of the loop that it stands for."""
        return _probe("_jc_counted", iterable, _text(parse.site(self.parsed, node, "For"), iterable), iterable)

    def visit_comprehension(self, node: Any) -> Any:
        node.iter = self.visit(node.iter)
        node.ifs = [self._test(condition) for condition in node.ifs]
        return node

    def visit_match_case(self, node: Any) -> Any:
        node.guard = node.guard and self._test(node.guard)
        node.body = self._block(node.body)
        return node

    # ---- loops

    def visit_For(self, node: Any) -> Any:
        site = parse.site(self.parsed, node)
        item = parse.site(self.parsed, node, "Item")
        node.iter = self.visit(node.iter)
        loop = self._loop(node, site)
        if _is_loadable(node.target):
            node.body.insert(1, _statement(_probe("_jc_seen", node.target, _text(item, node), _load(node.target))))
        return loop

    def visit_While(self, node: Any) -> Any:
        site = parse.site(self.parsed, node)
        node.test = self._test(node.test)
        return self._loop(node, site)

    def _loop(self, node: Any, site: str) -> list[Any]:
        node.body = [_statement(_probe("_jc_tick", node)), *self._items(node), *self._block(node.body)]
        node.orelse = self._block(node.orelse)
        leave = _statement(_probe("_jc_leave", node, _text(site, node)))
        guarded = gast.copy_location(gast.Try([node], [], [], [leave]), node)
        return [_statement(_probe("_jc_enter", node)), guarded]

    def _items(self, node: Any) -> list[Any]:
        """What a loop runs over, item by item, where it has a name."""
        target = getattr(node, "target", None)
        names = target.elts if isinstance(target, gast.Tuple) else [target]
        return [
            _statement(_probe("_jc_seen", name, _text(item_site(self.parsed, name), name), _load(name)))
            for name in names
            if isinstance(name, gast.Name)
        ]

    # ---- values

    def visit_Call(self, node: Any) -> Any:
        site = _text(parse.site(self.parsed, node), node)
        name = node.func.id if isinstance(node.func, gast.Name) else ""
        if name not in _KEPT_CALLEES:
            node.func = _probe("_jc_callee", node.func, self._called(node.func))
        node.args = [self._argument(argument, name in _USE_UP) for argument in node.args]
        if name == "isinstance" and node.args and isinstance(node.args[0], gast.Name):
            (asked, *rest) = node.args
            node.args = [_probe("_jc_seen", asked, _text(parse.site(self.parsed, asked), asked), asked), *rest]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return _probe("_jc_seen", node, site, node)

    def _called(self, node: Any) -> Any:
        if not isinstance(node, gast.Attribute):
            return self.visit(node)
        node.value = self._owner(node.value)
        return node

    def _owner(self, node: Any) -> Any:
        """What an attribute is read of."""
        if isinstance(node, gast.Name) and node.id in self._rebound:
            return _probe("_jc_seen", node, _text(parse.site(self.parsed, node), node), node)
        return self.visit(node)

    def visit_Attribute(self, node: Any) -> Any:
        """What is read, but not what is called."""
        node.value = self._owner(node.value)
        if not isinstance(node.ctx, gast.Load):
            return node
        return _probe("_jc_seen", node, _text(parse.site(self.parsed, node), node), node)

    def _argument(self, node: Any, used_up: bool) -> Any:
        return self.generic_visit(node) if used_up and isinstance(node, gast.GeneratorExp) else self.visit(node)

    def visit_Subscript(self, node: Any) -> Any:
        """What is read; what is written or deleted has a value of its own."""
        node = self.generic_visit(node)
        if not isinstance(node.ctx, gast.Load):
            return node
        return _probe("_jc_seen", node, _text(parse.site(self.parsed, node), node), node)

    def _assigned(self, node: Any) -> Any:
        site = _text(parse.site(self.parsed, node), node)
        if node.value is not None:
            node.value = _probe("_jc_seen", node.value, site, self.visit(node.value))
        return node

    def visit_Assign(self, node: Any) -> Any:
        node.targets = [self.visit(target) for target in node.targets]
        return self._assigned(node)

    def visit_AnnAssign(self, node: Any) -> Any:
        node.target = self.visit(node.target)
        return self._assigned(node)

    def visit_AugAssign(self, node: Any) -> Any:
        node.target = self.visit(node.target)
        return self._assigned(node)

    visit_NamedExpr = _assigned

    def _block(self, statements: list[Any]) -> list[Any]:
        return _flat([self.visit(statement) for statement in statements])


def _flat(statements: list[Any]) -> list[Any]:
    """A loop becomes two statements."""
    return [s for item in statements for s in (item if isinstance(item, list) else [item])]


def _probe(name: str, place: Any, *arguments: Any) -> Any:
    """A call of a probe at the place of a node."""
    function = gast.copy_location(gast.Name(name, gast.Load(), None, None), place)
    return gast.copy_location(gast.Call(function, list(arguments), []), place)


def _text(text: str, place: Any) -> Any:
    return gast.copy_location(gast.Constant(text, None), place)


def _load(target: Any) -> Any:
    """The value of a name, or of names that were set together."""
    if isinstance(target, gast.Name):
        return gast.copy_location(gast.Name(target.id, gast.Load(), None, None), target)
    return gast.copy_location(gast.Tuple([_load(part) for part in target.elts], gast.Load()), target)


def _is_loadable(target: Any) -> bool:
    if isinstance(target, (gast.Tuple, gast.List)):
        return all(map(_is_loadable, target.elts))
    return isinstance(target, gast.Name)


def _statement(expression: Any) -> Any:
    return gast.copy_location(gast.Expr(expression), expression)
