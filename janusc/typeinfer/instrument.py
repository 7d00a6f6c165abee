"""Weave recording into the user's function: the result is the ordinary eager call, which also fills a profile.

Before::

    for x in xs:
        if x > 0:
            y = f(x)

After::

    _jc_enter("…:1:0-3:20:For")
    try:
        for x in xs:
            _jc_tick()
            if _jc_truth("…:3:11-16:CompareTest", not not x > 0):
                y = _jc_seen("…:4:12-20:Assign", _jc_seen("…:4:16-20:Call", _jc_callee(f)(x)))
    finally:
        _jc_leave()

Positions are the user's, so tracebacks, warnings and line events name the user's lines. Functions defined inside are
left as they are: they are instrumented when they are called.
"""

from __future__ import annotations

import ast
import time
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import gast

from janusc.diagnostics import Refusal
from janusc.frontend import build, parse
from janusc.frontend.build import Template
from janusc.frontend.nodes import nodes_of
from janusc.frontend.parse import ParsedFunction
from janusc.frontend.translate import Translator, locate
from janusc.interrupts import is_interrupt
from janusc.locks import make_lock
from janusc.typeinfer.extent import Extent, Extents, measure
from janusc.typeinfer.observe import Recorder
from janusc.typeinfer.profile import Profile

# these names see the frame they are in, where probes would show
_FRAME_READERS = frozenset({"locals", "vars", "dir", "eval", "exec", "breakpoint"})
_KEPT_CALLEES = frozenset({"super", "globals"})
# these use up a generator before they return
_USE_UP = frozenset({"sum", "tuple", "list", "min", "max", "any", "all", "sorted", "set"})
_CACHED_TWINS = 512


def names_in(parsed: ParsedFunction) -> list[Any]:
    """The names that stand in a function, those of inner functions and comprehensions too."""
    return [n for n in nodes_of(parsed.tree) if type(n) is gast.Name]


def sees_own_frame(names: Iterable[Any]) -> bool:
    """Whether a function of these names may look at its own local names, so that it must run as it was written."""
    return any(n.id in _FRAME_READERS for n in names)


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


class _Woven(NamedTuple):
    template: Template
    extent: Extent


class Instrumenter:
    """Instrumented twins of a function and of the user code it calls, all recording into one profile."""

    def __init__(self, profile: Profile) -> None:
        self.recorder = Recorder(profile, self.twin)
        self.faults: dict[str, str] = {}
        self.extents = Extents()  # of all functions that were instrumented
        self.seconds = 0.0  # for instrumenting them
        self._lock = make_lock()
        # by identity: code objects compare by content, and equal code of two files has different sites
        self._templates: OrderedDict[int, tuple[types.CodeType, _Woven | None]] = OrderedDict()

    def twin(self, function: types.FunctionType) -> Callable[..., Any]:
        """The instrumented function, or the function itself where it can't be instrumented."""
        try:
            woven = self._woven(function)
            if woven is None:
                return function
            self.extents.note(woven.extent, self.recorder.place())
            return woven.template.bind(function)
        except Exception as error:  # a fault of ours must not reach the user; their call runs as it is
            if is_interrupt(error):
                raise
            self.faults.setdefault(function.__qualname__, f"{type(error).__name__}: {error}")
            return function

    def _woven(self, function: types.FunctionType) -> _Woven | None:
        code = function.__code__
        found = self._templates.get(id(code))
        if found is not None and found[0] is code:
            return found[1]
        start = time.perf_counter()
        woven = _try_instrument(function, self.recorder)
        with self._lock:
            self.seconds += time.perf_counter() - start
            self._templates[id(code)] = (code, woven)
            while len(self._templates) > _CACHED_TWINS:
                self._templates.popitem(last=False)
        return woven


def instrument(parsed: ParsedFunction, profile: Profile) -> Template:
    """The instrumented form of one function; calls of other user code record into the same profile."""
    return _instrument(parsed, names_in(parsed), Instrumenter(profile).recorder)


def _try_instrument(function: types.FunctionType, recorder: Recorder) -> _Woven | None:
    try:
        parsed = parse.parse(function)
        names = names_in(parsed)
        return None if sees_own_frame(names) else _Woven(_instrument(parsed, names, recorder), measure(parsed))
    except (Refusal, SyntaxError, RecursionError):  # code that the frontend or the compiler won't take runs as it is
        return None


def _instrument(parsed: ParsedFunction, names: Iterable[Any], recorder: Recorder) -> Template:
    return build.compile_function(parsed, parsed.tree, recorder.probes(), translate=_Weaver(parsed, names).body)


class _Weaver(Translator):
    """Puts the probes into a function's tree while it is translated."""

    def __init__(self, parsed: ParsedFunction, names: Iterable[Any]) -> None:
        super().__init__()
        self.parsed = parsed
        self._plain = Translator()  # for what stays as it is
        self._rebound = frozenset(n.id for n in names if isinstance(n.ctx, gast.Store))
        keep = self._plain.visit
        self.ways.update(
            {
                **dict.fromkeys((gast.FunctionDef, gast.AsyncFunctionDef, gast.ClassDef, gast.Lambda), keep),
                **dict.fromkeys((gast.ListComp, gast.SetComp, gast.DictComp), self._comprehension),
                **dict.fromkeys((gast.Assign, gast.AnnAssign, gast.AugAssign, gast.NamedExpr), self._assigned),
                **dict.fromkeys((gast.If, gast.IfExp, gast.Assert), self._tested),
                gast.UnaryOp: self._unary,
                gast.GeneratorExp: self._generator,
                gast.comprehension: self._source,
                gast.match_case: self._case,
                gast.For: self._for,
                gast.While: self._while,
                gast.Call: self._call,
                gast.Attribute: self._attribute,
                gast.Subscript: self._subscript,
            }
        )

    def body(self, statements: list[Any]) -> list[Any]:
        """The statements of the function, with the probes."""
        woven: list[Any] = self.visit(statements, self.parsed.tree)
        start = int(_is_text(statements[0])) if statements else 0
        woven[start:start] = self._parameters()
        return woven

    def _parameters(self) -> list[Any]:
        arguments = self.parsed.tree.args
        names = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
        return [
            _statement(_probe("_jc_seen", name, _text(parameter_site(self.parsed, name), name), _load(name)))
            for name in names
            if name is not None
        ]

    def _expr(self, node: Any) -> Any:
        return self.visit(node, None)

    def _seen(self, node: Any, value: Any) -> Any:
        """The value of a node, whose type is recorded."""
        return _probe("_jc_seen", node, _text(parse.site(self.parsed, node), node), value)

    # ---- tests

    def _test(self, node: Any) -> Any:
        """An expression in a boolean context; each operand is tested where Python tests it."""
        site = _text(truth_site(self.parsed, node), node)
        if isinstance(node, gast.BoolOp):
            operands = [self._test(operand) for operand in node.values]
            return _probe("_jc_truth", node, site, self.copy(node, None, values=operands))
        tested = self._expr(node)
        for _ in range(2):  # a test in the user's frame, where a ``__bool__`` may look and warn
            tested = locate(ast.UnaryOp(ast.Not(), tested), node)
        return _probe("_jc_truth", node, site, tested)

    def _tested(self, node: Any, place: Any) -> Any:
        return self.copy(node, place, test=self._test(node.test))

    def _unary(self, node: Any, place: Any) -> Any:
        if not isinstance(node.op, gast.Not):
            return self.copy(node, place)
        return self.copy(node, place, operand=self._test(node.operand))

    def _generator(self, node: Any, place: Any) -> Any:
        """Only what is evaluated at once: the generator may outlive the call, and must not hold a probe then."""
        made = self._plain.visit(node, place)
        iterable = node.generators[0].iter
        if isinstance(iterable, (gast.List, gast.Set)):  # Python makes a tuple of a display that is only run over
            made.generators[0].iter = self.copy(iterable, None)
        else:
            made.generators[0].iter = self._counted(node, iterable, self._expr(iterable))
        return made

    def _comprehension(self, node: Any, place: Any) -> Any:
        made = self.copy(node, place)
        for generator, new in zip(node.generators, made.generators):
            new.iter = self._counted(node, generator.iter, new.iter)
        return made

    def _counted(self, node: Any, iterable: Any, made: Any) -> Any:
        """What a comprehension runs over, whose length is the trip count of the loop that it stands for."""
        return _probe("_jc_counted", iterable, _text(parse.site(self.parsed, node, "For"), iterable), made)

    def _source(self, node: Any, place: Any) -> Any:
        ifs = [self._test(condition) for condition in node.ifs]
        return self.copy(node, place, target=self._plain.visit(node.target, place), ifs=ifs)

    def _case(self, node: Any, place: Any) -> Any:
        guard = node.guard and self._test(node.guard)
        return self.copy(node, place, pattern=self._plain.visit(node.pattern, place), guard=guard)

    # ---- loops

    def _for(self, node: Any, place: Any) -> Any:
        site, item = parse.site(self.parsed, node), parse.site(self.parsed, node, "Item")
        first = []
        if _is_loadable(node.target):
            first = [_statement(_probe("_jc_seen", node.target, _text(item, node), _load(node.target)))]
        target = self._plain.visit(node.target, place)
        return self._loop(node, site, target=target, first=first)

    def _while(self, node: Any, place: Any) -> Any:
        return self._loop(node, parse.site(self.parsed, node), test=self._test(node.test))

    def _loop(self, node: Any, site: str, first: Sequence[Any] = (), **parts: Any) -> list[Any]:
        tick = _statement(_probe("_jc_tick", node))
        body = [tick, *first, *self._items(node), *self.visit(node.body, node)]
        loop = self.copy(node, node, body=body, **parts)
        leave = _statement(_probe("_jc_leave", node))
        guarded = locate(ast.Try(body=[loop], handlers=[], orelse=[], finalbody=[leave]), node)
        return [_statement(_probe("_jc_enter", node, _text(site, node))), guarded]

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

    def _call(self, node: Any, place: Any) -> Any:
        name = node.func.id if isinstance(node.func, gast.Name) else ""
        function = self._called(node.func)
        if name not in _KEPT_CALLEES:
            function = _probe("_jc_callee", node.func, function)
        args = [self._argument(argument, name in _USE_UP) for argument in node.args]
        if name == "isinstance" and node.args and isinstance(node.args[0], gast.Name):
            args[0] = self._seen(node.args[0], args[0])
        keywords = [self.copy(keyword, node) for keyword in node.keywords]
        return self._seen(node, self.copy(node, place, func=function, args=args, keywords=keywords))

    def _called(self, node: Any) -> Any:
        if not isinstance(node, gast.Attribute):
            return self._expr(node)
        return self.copy(node, None, value=self._owner(node.value))

    def _owner(self, node: Any) -> Any:
        """What an attribute is read of."""
        value = self._expr(node)
        return self._seen(node, value) if isinstance(node, gast.Name) and node.id in self._rebound else value

    def _attribute(self, node: Any, place: Any) -> Any:
        """What is read, but not what is called."""
        made = self.copy(node, place, value=self._owner(node.value))
        return self._seen(node, made) if isinstance(node.ctx, gast.Load) else made

    def _argument(self, node: Any, used_up: bool) -> Any:
        if used_up and isinstance(node, gast.GeneratorExp):
            return self.copy(node, None)
        return self._expr(node)

    def _subscript(self, node: Any, place: Any) -> Any:
        """What is read; what is written or deleted has a value of its own."""
        made = self.copy(node, place)
        return self._seen(node, made) if isinstance(node.ctx, gast.Load) else made

    def _assigned(self, node: Any, place: Any) -> Any:
        parts = {}
        if isinstance(node, gast.AnnAssign):
            parts["annotation"] = self._plain.visit(node.annotation, node)  # which is never evaluated
        if node.value is not None:
            site = _text(parse.site(self.parsed, node), node)
            parts["value"] = _probe("_jc_seen", node.value, site, self._expr(node.value))
        return self.copy(node, place, **parts)


def _is_text(statement: Any) -> bool:
    value = statement.value if isinstance(statement, gast.Expr) else None
    return isinstance(value, gast.Constant) and isinstance(value.value, str)


_LOAD = ast.Load()


def _probe(name: str, place: Any, *arguments: Any) -> Any:
    """A call of a probe at the place of a node."""
    function = locate(ast.Name(id=name, ctx=_LOAD), place)
    return locate(ast.Call(func=function, args=list(arguments), keywords=[]), place)


def _text(text: str, place: Any) -> Any:
    return locate(ast.Constant(value=text, kind=None), place)


def _load(target: Any) -> Any:
    """The value of a name, or of names that were set together."""
    if isinstance(target, gast.Name):
        return locate(ast.Name(id=target.id, ctx=_LOAD), target)
    return locate(ast.Tuple(elts=[_load(part) for part in target.elts], ctx=_LOAD), target)


def _is_loadable(target: Any) -> bool:
    if isinstance(target, (gast.Tuple, gast.List)):
        return all(map(_is_loadable, target.elts))
    return isinstance(target, gast.Name)


def _statement(expression: Any) -> Any:
    return locate(ast.Expr(value=expression), expression)
