"""From a chain to a Python function: readable source, compiled under the user's own file and lines.

Shape of a function of one transaction::

    def scale(__function__, /, x, factor=_jc_default):
        try:
            if factor is _jc_default: factor = __function__.__defaults__[-1]
            if type(factor) is not float: return _jc_MISS
        except Exception as _jc_caught:
            return _jc_missed(_jc_caught)
        try:
            v1 = x * factor
            return v1
        except BaseException as _jc_caught:
            _jc_error = _jc_caught
        try:
            return _jc_give_up(_jc_listener, _jc_error, [], __function__, (x, factor))
        except BaseException as _jc_caught:
            return _jc_give_up(_jc_listener, _jc_caught, [], __function__, (x, factor))

The guards come before anything is done. What fails in the body, whatever it is, is undone, and the rest of the call
runs eagerly, as soon as the emitted function has returned: for the first segment the user's function itself, for a
later one the statements from there on. The last two lines are for an interrupt that comes while the body is undone.

A chain with host ranges becomes a generator: it yields the outlined statements and their arguments, and is given their
result, so that none of its frames is between the user's statements and the user's caller.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from janusc.diagnostics import silenced
from janusc.frames import uncounted
from janusc.lowering.effects import COMMIT_WRITES, ENDINGS
from janusc.lowering.ir import FUNCTION, Chain, Graph, HostRange, Mark, Node, Segment, Value, end_of, walk
from janusc.runtime import recovery, regions, rng, transaction, whole_steps
from janusc.runtime.backends.base import BACKENDS, Backend, Place
from janusc.runtime.backends.compiled import AUTO
from janusc.runtime.kernels.bare import bare_values
from janusc.runtime.lines import relocated
from janusc.runtime.recovery import Listener
from janusc.runtime.writer import Writer, tuple_text
from janusc.sentinels import MISS, UNBOUND, Sentinel
from janusc.source import Span
from janusc.types import HostType

NOWHERE = Span("<janusc>", 1, end_line=1)
DEFAULT = Sentinel("DEFAULT")
"""Stands in the signature for a default, which is read from the function at each call."""

_EXECUTION = {
    "_jc_MISS": MISS,
    "_jc_default": DEFAULT,
    "_jc_give_up": recovery.give_up,
    "_jc_missed": recovery.missed,
    "__warningregistry__": recovery.NO_REGISTRY,
    "_jc_Deopt": transaction.Deopt,
    "_jc_begin_run": transaction.begin_run,
    "_jc_flush_prints": transaction.flush_prints,
    "_jc_save_rng": rng.save_rng,
    "_jc_save_python": rng.save_python,
    "_jc_save_modes": transaction.save_modes,
}


@dataclass(frozen=True, eq=False)
class Executable:
    """Emitted code: ``run(function, *args, **kwargs)`` is the result of the call, or MISS.

    ``places``: what may have kernels, by name.
    """

    source: str
    run: Callable[..., Any]
    places: tuple[tuple[str, Place], ...] = ()


def emit(
    chain: Chain,
    *,
    name: str,
    parameters: inspect.Signature,
    hosts: Mapping[str, Any],
    listener: Listener | None = None,
    abort_hooks: bool = False,
    backend: Backend | str = AUTO,
    module: str = "janusc.emitted",
    origin: Span = NOWHERE,
) -> Executable:
    """Write and compile the entry function of a chain.

    ``hosts`` has the outlined statements by key: functions, or templates whose ``bind(function)`` is one. ``listener``
    is told of transactions that failed. ``abort_hooks`` lets ``force_abort`` fail a check. ``backend`` is one, or its
    name. ``module`` is the name of the user's module, ``origin`` the place of the user's function, whose lines the
    emitted ones get.
    """
    chosen = BACKENDS[backend] if isinstance(backend, str) else backend
    short = re.sub(r"\W", "_", name.rpartition(".")[2]).strip("_") or "function"
    short = f"{short}_" if keyword.iskeyword(short) else short
    writer = Writer(chain.objects, [FUNCTION, short, *parameters.parameters], chosen, abort_hooks)
    writer.namespace.update(_EXECUTION, _jc_listener=listener)
    writer.bare = bare_values(chain)
    _Entry(writer, chain, parameters, hosts).write(short)
    source = "\n".join([*writer.lines, ""])
    legend = "".join(f"# {line}\n" for line in writer.legend)
    run = _build(source, lines_of(writer.spans, origin), origin, short, name, module, writer.namespace)
    hosted = any(isinstance(step, HostRange) for step in chain.steps)
    return Executable(legend + source, drive(run) if hosted else run, tuple(writer.places))


@uncounted
def drive(emitted: Callable[..., Any]) -> Callable[..., Any]:
    """The entry of a chain with host ranges: runs what the emitted generator yields, and gives it the result."""

    def run(function: FunctionType, /, *args: Any, **kwargs: Any) -> Any:
        try:
            steps = emitted(function, *args, **kwargs)
        except TypeError:
            return MISS  # the arguments do not fit: left to the user's function to say
        result = None
        while True:
            try:
                host, live = steps.send(result)
            except StopIteration as end:
                return end.value
            result = None  # the steps hold of it what they need
            try:
                result = host(*live)
            except BaseException:
                steps.close()  # they leave the blocks that they stand in
                raise
            live = ()  # nor is anything kept alive that they let go

    return run


def lines_of(spans: Sequence[Span | None], origin: Span) -> list[int]:
    """The user's line for each emitted line; what comes from another function counts as the line that called it."""
    line, lines = origin.line, []
    for span in spans:
        if span is not None and span.filename == origin.filename and origin.line <= span.line <= origin.end_line:
            line = span.line
        lines.append(line)
    return lines


def _build(
    source: str, lines: Sequence[int], origin: Span, short: str, name: str, module: str, namespace: dict[str, Any]
) -> FunctionType:
    """Compile emitted source so that warnings, tracebacks and profilers name the user's file, lines and function."""
    namespace.update(__name__=module, __builtins__=builtins)
    with silenced():
        code = compile(source, origin.filename, "exec", dont_inherit=True)
    exec(code, namespace)
    # Taken out, so that the function and its globals are no cycle.
    run: FunctionType = namespace.pop(short)
    named: dict[str, Any] = {"co_name": name.rpartition(".")[2] or short}
    if hasattr(run.__code__, "co_qualname"):
        named["co_qualname"] = name
    run.__code__ = relocated(run.__code__, lines).replace(**named)
    run.__qualname__ = name
    return run


@dataclass(frozen=True)
class _Loop:
    """A loop while it is written: the step it starts with, the locals there, and the places of those it may set."""

    first: int
    env: Mapping[str, str]
    places: Mapping[str, str]


class _Entry:
    """The entry function while it is written; ``env`` maps the user's locals to the variables that hold them."""

    def __init__(self, writer: Writer, chain: Chain, parameters: inspect.Signature, hosts: Mapping[str, Any]) -> None:
        self.writer = writer
        self.chain = chain
        self.parameters = list(parameters.parameters.values())
        self.hosts = hosts
        self.env = {FUNCTION: FUNCTION, **{p.name: p.name for p in self.parameters}}
        self.held: set[str] = set()  # the variables of ``env`` that hold what a step made
        self.found: dict[str, str] = {}  # outlined statements that are run in a loop, bound before it
        self.loops: list[_Loop] = []  # those that the step written now stands in

    def write(self, short: str) -> None:
        """All of it."""
        line = self.writer.line
        line(f"def {short}({self._signature()}):")
        self.writer.indent()
        if self.writer.abort_hooks:
            line("_jc_abort = _jc_begin_run()")
        steps = self.chain.steps
        if not (steps and isinstance(steps[0], Segment)):
            self._guards(None)
        for index, step in enumerate(steps):
            before = dict(self.env)
            again = self.loops[0].first if self.loops else index + 1
            if isinstance(step, HostRange):
                self._host_range(step)
            elif isinstance(step, Mark):
                self._mark(step, index)
            else:
                self._segment(step, first=index == 0)
            if not step.returns and not isinstance(step, Mark):
                self._let_go(before, self._needed(again))
        if not (steps and steps[-1].returns):
            line("return None")
        self.writer.dedent()

    # the call

    def _signature(self) -> str:
        parts = [FUNCTION]
        kinds = [p.kind for p in self.parameters]
        starred = False
        for index, p in enumerate(self.parameters):
            if p.kind is not p.POSITIONAL_ONLY and (index == 0 or kinds[index - 1] is p.POSITIONAL_ONLY):
                parts.append("/")
            if p.kind is p.KEYWORD_ONLY and not starred:
                parts.append("*")
                starred = True
            starred = starred or p.kind is p.VAR_POSITIONAL
            stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
            parts.append(f"{stars}{p.name}" + ("" if p.default is p.empty else "=_jc_default"))
        if not kinds or kinds[-1] is inspect.Parameter.POSITIONAL_ONLY:
            parts.append("/")
        return ", ".join(parts)

    def _defaults(self) -> list[str]:
        """The reading of defaults, counted from the end as Python does."""
        positional = [p for p in self.parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        sources = {p.name: f"__defaults__[{i - len(positional)}]" for i, p in enumerate(positional)}
        sources.update((p.name, f"__kwdefaults__[{p.name!r}]") for p in self.parameters if p.kind is p.KEYWORD_ONLY)
        having = [p.name for p in self.parameters if p.default is not p.empty]
        return [f"if {name} is _jc_default: {name} = {FUNCTION}.{sources[name]}" for name in having]

    def _arguments(self) -> str:
        """The arguments of this call, as ``give_up`` takes them."""
        items, pairs = [], []
        for p in self.parameters:
            if p.kind is p.KEYWORD_ONLY:
                pairs.append(f"{p.name!r}: {p.name}")
            elif p.kind is p.VAR_KEYWORD:
                pairs.append(f"**{p.name}")
            else:
                items.append(f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name)
        args = tuple_text(items)
        return f"{args}, {{{', '.join(pairs)}}}" if pairs else args

    # segments

    def _guards(self, graph: Graph | None) -> None:
        """Defaults and guards before the first step: nothing was done yet, so any failure is a miss."""
        defaults = self._defaults()
        if not defaults and (graph is None or not graph.nodes):
            return
        writer = self.writer
        writer.line("try:")
        writer.indent()
        for text in defaults:
            writer.line(text)
        if graph is not None:
            writer.fail = lambda site: "return _jc_MISS"
            regions.write_guards(writer, graph)
            writer.fail = writer.deopt
        writer.dedent()
        writer.line("except Exception as _jc_caught:")
        writer.line("    return _jc_missed(_jc_caught)")

    def _segment(self, segment: Segment, first: bool) -> None:
        if not first and not segment.resume:
            raise ValueError(f"{self.chain.name}: a segment after the first needs the key of its resume function")
        writer = self.writer
        for name, param in zip(segment.live_ins, segment.guards.params):
            writer.rename(param, self._variable(name))
        if first:
            self._guards(segment.guards)
        body, ending = apart(segment.body)
        if first and not (body.nodes or ending or segment.live_outs or segment.returns):
            return
        keeps_undo, prints = needs_undo(body), any(n.op.name == "print" for n in walk(body))
        direct = segment.returns and not prints
        starts = {"_jc_undo = []": keeps_undo, "_jc_prints = []": prints, "_jc_error = None": not direct}
        for text in (text for text, needed in starts.items() if needed):
            writer.line(text)
        twin = self._twin(segment, first)
        writer.line("try:")
        writer.indent()
        if not first:
            regions.write_nodes(writer, segment.guards, release=False)
        for param, arg in zip(body.params, segment.guards.outputs):
            writer.alias(param, arg)
        result, whole = self._body(replace(segment, body=body), ending, direct)
        if writer.lines[-1].endswith("try:"):
            writer.line("pass")
        writer.dedent()
        writer.line("except BaseException as _jc_caught:")
        writer.line("    _jc_error = _jc_caught")
        margin = "" if direct else "    "
        if not direct:
            writer.line("if _jc_error is not None:")
        undo = "_jc_undo" if keeps_undo else "[]"
        writer.line(f"{margin}try:")
        writer.line(f"{margin}    return _jc_give_up(_jc_listener, _jc_error, {undo}, {twin})")
        writer.line(f"{margin}except BaseException as _jc_caught:")
        writer.line(f"{margin}    return _jc_give_up(_jc_listener, _jc_caught, {undo}, {twin})")
        if prints:
            writer.line("_jc_flush_prints(_jc_prints)")
        if segment.returns and not direct:
            writer.line(f"return {result}")
        elif keeps_undo and not direct:
            writer.line("del _jc_undo")  # what was replaced or removed may go
        for node in ending:
            whole_steps.write_ending(writer, node, whole)
            self._forget(node, segment)

    def _forget(self, ending: Node, segment: Segment) -> None:
        """Let go of what only the last node needed."""
        made = {v for node in segment.body.nodes for v in node.outputs}
        for value in made & set(ending.inputs) - set(segment.body.outputs):
            self.writer.line(f"del {self.writer.expr(value)}")

    def _body(self, segment: Segment, ending: Sequence[Node], direct: bool) -> tuple[str, str | None]:
        """The nodes and what comes out of them; returns the names of the result, and of a whole step."""
        writer, body = self.writer, segment.body
        streams = rng.streams(body)
        if rng.PYTHON in streams:
            writer.line("_jc_save_python(_jc_undo)")
        if rng.TORCH in streams:
            tensors = [writer.expr(v) for v in body.params if not isinstance(v.type, HostType)]
            writer.line(f"_jc_save_rng(_jc_undo, {tuple_text(tensors)})")
        if any(node.op.name == "context" for node in walk(body)):
            autocast = any("autocast" in node.target for node in walk(body))
            writer.line(f"_jc_save_modes(_jc_undo, {autocast})")
        writer.last = body.nodes[-1] if body.nodes else None
        whole = whole_steps.write_body(writer, body, ending)
        outputs = list(body.outputs)
        result = ""
        if segment.returns:
            returned = outputs.pop(0)
            result = writer.expr(returned)
            if direct:
                writer.line(f"return {result}")
            elif not isinstance(returned, Value):
                writer.line(f"_jc_result = {result}")
                result = "_jc_result"
        made = {v for node in body.nodes for v in node.outputs}
        for name, output in zip(segment.live_outs, outputs):
            text = writer.expr(output)
            if isinstance(output, Value) and output in made:
                self.held.add(text)
            if not isinstance(output, Value) or not text.isidentifier():
                text = writer.fresh(f"v_{name}")
                writer.line(f"{text} = {writer.expr(output)}")
                self.held.add(text)
            self.env[name] = text
        return result, whole

    def _twin(self, segment: Segment, first: bool) -> str:
        """What runs eagerly instead, as ``give_up`` takes it."""
        if first and not segment.resume:
            return f"{FUNCTION}, {self._arguments()}"
        return f"{self._host(segment.resume)}, {tuple_text(self._live(segment.live_ins))}"

    # host ranges

    def _host_range(self, step: HostRange) -> None:
        call = f"yield {self._host(step.key)}, {tuple_text(self._live(step.live_ins))}"
        if step.returns:
            self.writer.line(f"return ({call})", step.span)
            return
        names = [self.writer.fresh(f"v_{name}") for name in step.live_outs]
        targets = f"{tuple_text(names)} = " if names else ""
        self.writer.line(f"{targets}{call}", step.span)
        self.env.update(zip(step.live_outs, names))
        self.held.update(names)

    # loops of steps

    def _mark(self, mark: Mark, index: int) -> None:
        """The start of a loop or block, or a place where it may be left."""
        line = self.writer.line
        if mark.kind == "start":
            self._start(mark, index)
        elif mark.kind == "enter":
            line(f"with {self._variable(mark.name)}:", mark.span)
            self.writer.indent()
        elif mark.kind == "leave":
            self.writer.dedent()
        elif mark.kind == "test":
            line(f"if not {self._variable(mark.name)}:", mark.span)
            self.writer.indent()
            self._settle(mark.locals, self.loops[-1])
            line("break")
            self.writer.dedent()
        else:
            loop = self.loops.pop()
            made = self._settle(mark.locals, loop)
            self.held = self.held - made | set(loop.places.values())
            self.env = dict(loop.env)
            if mark.name:
                line(f"if {self._variable(mark.name)}: break", mark.span)
            self.writer.dedent()
            self._let_go(dict(self.env), self._needed(index))

    def _start(self, mark: Mark, index: int) -> None:
        """Give what a pass may set a place that holds it between passes, and find the statements of the loop once."""
        writer, steps = self.writer, self.chain.steps
        for step in steps[index : end_of(steps, index)]:
            if isinstance(step, HostRange) and step.key not in self.found:
                self.found[step.key] = writer.fresh(f"v_{step.key}")
                writer.line(f"{self.found[step.key]} = {self._host(step.key, False)}")
        before = dict(self.env)
        places = {name: writer.fresh(f"v_{name}") for name in mark.locals}
        if places:
            writer.line(f"{tuple_text(list(places.values()))} = {tuple_text(list(map(self._variable, places)))}")
        self.env.update(places)
        self.held.update(places.values())
        self._let_go(before, self._needed(index))
        self.loops.append(_Loop(index, dict(self.env), places))
        writer.line("while True:", mark.span)
        writer.indent()

    def _settle(self, names: Sequence[str], loop: _Loop) -> set[str]:
        """Put what a pass has set where the next one and what follows look for it; the variables let go by that."""
        places = loop.places
        moved = {places[name]: self._variable(name) for name in names if self._variable(name) != places[name]}
        if moved:
            self.writer.line(f"{tuple_text(list(moved))} = {tuple_text(list(moved.values()))}")
        made = self.held & set(self.env.values()) - set(loop.env.values())
        if made:
            self.writer.line(f"del {', '.join(sorted(made))}")
        return made

    def _needed(self, first: int) -> set[str]:
        """The locals that the steps from this one on read."""
        return {name for step in self.chain.steps[first:] for name in step.live_ins}

    def _let_go(self, before: Mapping[str, str], needed: set[str]) -> None:
        """Delete what held a local that a step has bound anew, as binding does, and parts of statements once used.

        Other locals live until the end of the call, as in eager mode.
        """
        for name in [n for n in self.env if n.startswith("_jc_") and n not in needed]:
            del self.env[name]
        dead = self.held & set(before.values()) - set(self.env.values())
        for loop in self.loops:  # the next pass finds what was there before the loop
            dead -= set(loop.env.values()) - set(loop.places.values())
        if dead:
            self.writer.line(f"del {', '.join(sorted(dead))}")
            self.held -= dead

    def _host(self, key: str, look: bool = True) -> str:
        """The outlined statements, bound to the function of this call where they depend on it."""
        if look and key in self.found:
            return self.found[key]
        host = self.hosts[key]
        if hasattr(host, "bind"):
            return f"{self.writer.bind(host.bind, key)}({FUNCTION})"
        return self.writer.bind(host, key)

    def _live(self, names: tuple[str, ...]) -> list[str]:
        return [self._variable(name) for name in names if name != FUNCTION]

    def _variable(self, name: str) -> str:
        """The variable that holds a local of the user's; one that no step has set is unbound."""
        return self.env[name] if name in self.env else self.writer.runtime("_jc_UNBOUND", UNBOUND)


def apart(body: Graph) -> tuple[Graph, tuple[Node, ...]]:
    """A body without the node that comes after the transaction, and this, which finds what it needs."""
    ending = tuple(node for node in body.nodes if node.op.name in ENDINGS)
    needed = tuple(v for node in ending for v in node.inputs)
    return replace(body, nodes=body.nodes[: len(body.nodes) - len(ending)], outputs=(*body.outputs, *needed)), ending


def needs_undo(body: Graph) -> bool:
    """Whether a body changes something, if only a mode, before the last point where it may fail."""
    last = body.nodes[-1] if body.nodes else None
    return any(
        node.op.name in ("save", "context", "zero_grad", "backward", "clip")
        or rng.stream(node) is not None
        or node.op.name == "write.attr"
        or (node.op.name in COMMIT_WRITES and node is not last)
        for node in walk(body)
    )
