"""What a user may ask about a compiled function: counters, an explanation at their own lines, the graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from janusc.diagnostics import Diagnostic
from janusc.fallback.call import CompiledFunction
from janusc.fallback.notes import Failure
from janusc.fallback.policy import LOOK
from janusc.fallback.variant import Specialisation, Variant
from janusc.lowering.ir import Chain, Const, HostRange, Mark, Node, Segment, walk
from janusc.lowering.printer import print_chain
from janusc.source import Span


@dataclass(frozen=True)
class Stats:
    """Counters of one compiled function since it was made or reset.

    ``calls``               all calls: ``eager_calls + graph_calls + fallbacks``
    ``eager_calls``         calls that ran as plain Python from the start: profiled, under ``eager()``, refused, waiting
    ``graph_calls``         calls that ran in a graph to their end
    ``graphs``              specialisations in use
    ``resting``             specialisations that took too few calls, asked for one call in 61 until they take more
    ``fallbacks``           calls that began in a graph, were rolled back and finished eagerly
    ``guard_misses``        calls for which there were graphs, of which none fitted
    ``conversions``         specialisations ever made
    ``evictions``           specialisations dropped because there were too many
    ``conversion_seconds``  time spent converting
    ``variants``            calls taken by each specialisation in use, in the order they are tried
    ``refused``             why the function runs eagerly, or None
    """

    calls: int
    eager_calls: int
    graph_calls: int
    graphs: int
    resting: int
    fallbacks: int
    guard_misses: int
    conversions: int
    evictions: int
    conversion_seconds: float
    variants: tuple[int, ...]
    refused: str | None


@dataclass(frozen=True, eq=False)
class GraphView:
    """One specialisation to look at: ``str`` is the text of its graphs, ``source`` the Python emitted for it."""

    number: int
    calls: int
    chain: Chain
    source: str

    def __str__(self) -> str:
        return print_chain(self.chain)


def make_stats(state: CompiledFunction) -> Stats:
    """The counters as they are now."""
    variants = state.roster.variants
    hits = state.roster.hits()
    return Stats(
        calls=state.eager_calls + hits,
        eager_calls=state.eager_calls,
        graph_calls=hits - state.fallbacks,
        graphs=len(variants),
        resting=len(state.roster.resting),
        fallbacks=state.fallbacks,
        guard_misses=state.roster.misses,
        conversions=state.conversions,
        evictions=state.evictions,
        conversion_seconds=state.conversion_seconds,
        variants=tuple(v.hits for v in variants),
        refused=None if state.verdict is None else str(state.verdict),
    )


class GraphViews(tuple[GraphView, ...]):
    """Several specialisations; ``str`` is the text of all."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(f"# graph {view.number}: {_count(view.calls, 'call')}\n{view}" for view in self)


def list_graphs(state: CompiledFunction) -> GraphViews:
    """The specialisations in use and those that rest, oldest first."""
    made = [(v, v.made) for v in state.roster.everyone() if v.made is not None]
    views = [GraphView(v.number, v.hits, m.chain, m.source) for v, m in made]
    return GraphViews(sorted(views, key=lambda view: view.number))


def wait_for_kernels(state: CompiledFunction) -> None:
    """Have the kernels made that may be of use to the specialisations there are, and wait for them."""
    for variant in state.roster.everyone():
        for _, place in variant.made.places if variant.made is not None else ():
            place.wait()
    for callee in state.callees.states():
        wait_for_kernels(callee)


def explain_state(state: CompiledFunction) -> str:
    """The explanation of a function as text."""
    blocks = [list(_summary(state))]
    for variant in sorted(state.roster.everyone(), key=lambda v: v.number):
        if variant.made is not None:
            rests = variant in state.roster.resting
            blocks.append(list(_variant(variant, variant.made, state.span, rests)))
    blocks.append(list(_failures(state)))
    blocks.append(list(_refusals(state)))
    for callee in state.callees.states() if not state.silent else ():
        blocks.append(
            [
                f"called by ordinary Python: {line}" if i == 0 else line
                for i, line in enumerate(explain_state(callee).rstrip().split("\n"))
            ]
        )
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _summary(state: CompiledFunction) -> Iterator[str]:
    stats = make_stats(state)
    yield f"{state.name}" + (f" ({state.span})" if state.span is not None else "")
    yield f"  {_condition(state)}"
    yield (
        f"  {_count(stats.calls, 'call')}: {stats.graph_calls} in graphs, {stats.eager_calls} eager, "
        f"{stats.fallbacks} begun in a graph and finished eagerly"
    )
    yield (
        f"  {_count(stats.graphs, 'graph')} in use, {_count(stats.conversions, 'conversion')} "
        f"in {stats.conversion_seconds:.3f} s, {_count(stats.guard_misses, 'guard miss', 'guard misses')}"
    )
    if stats.evictions:
        yield (
            f"  {_count(stats.evictions, 'graph')} dropped to keep at most {state.room}: "
            "the inputs have more kinds than that; raise max_variants, or let fewer things vary"
        )
    if stats.resting:
        yield (
            f"  {_count(stats.resting, 'graph')} at rest, since asking took longer than was saved by the calls taken: "
            f"one call in {LOOK} that no graph takes asks again, and what takes such calls is back in use"
        )
    if state.losses:
        yield (
            f"  {_count(len(state.losses), 'graph')} dropped after a trial, since calls took {max(state.losses):.2f} "
            "times as long in it as without it"
        )
    if state.setbacks:
        yield f"  {_count(state.setbacks, 'conversion')} came to nothing or had to be repeated"
    if state.waiting and not state.is_refused:
        waiting = _count(state.waiting + state.skip, "more call")
        yield f"  the next conversion is tried after {waiting} that no graph takes"


def _condition(state: CompiledFunction) -> str:
    if state.verdict is not None and len(state.roster):
        return "runs in graphs where one fits; no more are made, for the reason below"
    if state.verdict is not None:
        return "runs eagerly, for the reason below"
    pending = state.budget.pending(state.roster.hits())
    waits = (
        ""
        if pending is None
        else (
            f"calls have taken {pending[0]:.2f} s, and {pending[1]:.2f} s make a conversion worth its price "
            "(warmup=3 does not wait for that)"
        )
    )
    if len(state.roster):
        return "runs in graphs" + (waits and f"; for more of them it waits: {waits}")
    if waits:
        return f"waits: {waits}"
    if state.profile.calls < state.warmup:
        return f"is being profiled: {state.profile.calls} of {state.warmup} calls"
    return "will be converted at the next call that may be"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


_MARKS = {
    "start": "again and again, by",
    "end": "and so on, by",
    "enter": "in the block of",
    "leave": "that was the block of",
}


def _variant(variant: Variant, made: Specialisation, home: Span | None, rests: bool) -> Iterator[str]:
    yield (
        f"graph {variant.number}{' (at rest)' if rests else ''}: {_count(variant.hits, 'call')}, "
        f"{variant.fallbacks} of them finished eagerly"
        + ("" if variant.ratio is None else f"; tried against ordinary calls: {variant.ratio:.2f} x their time")
    )
    index = 0
    for step in made.chain.steps:
        if isinstance(step, Mark):
            if step.kind != "test":
                yield f"  {_MARKS[step.kind]} {step.span}"
            continue
        if isinstance(step, Segment) and not step.returns and not step.body.nodes:
            continue
        index += 1
        if isinstance(step, HostRange):
            place = f"{step.span}: {step.span.text()}" if step.span is not None else step.key
            yield f"  {index}. ordinary Python  {place}"
            yield f"     because {step.reason or 'it can not be in a graph'}"
        else:
            yield f"  {index}. transaction      {_extent(step, home)}"
            for line in _assumptions(step):
                yield f"     assumes  {line}"
            for line in _called_as_they_are(step) if made.places else ():
                yield f"     outside  {line}"
    for name, kernels in made.places:
        for line in kernels.report():
            yield f"  {name}: {line}"
    yield from _notes(made.notes)


def _called_as_they_are(step: Segment) -> Iterator[str]:
    """The layers of torch that no kernel stands for, by the line of the user's that calls them."""
    found: dict[Span | None, dict[str, None]] = {}
    for node in walk(step.body):
        if node.op.name == "module.call":
            found.setdefault(node.span, {})[node.target] = None
    for span, layers in found.items():
        place = "" if span is None else f"{span}: {span.text()}\n         "
        yield f"{place}{', '.join(layers)}: called as it is, by no kernel"


def _notes(notes: Sequence[Diagnostic]) -> Iterator[str]:
    """Each reason once, with all the places that it holds for."""
    places: dict[tuple[str, str], list[Diagnostic]] = {}
    for note in notes:
        places.setdefault((note.code, note.message), []).append(note)
    for first, *others in places.values():
        yield from (f"  {line}" for line in str(first).splitlines())
        spans = dict.fromkeys(str(note.span) for note in others if note.span != first.span)
        if spans:
            yield f"    the same at {', '.join(spans)}"


def _extent(step: Segment, home: Span | None) -> str:
    """How large a transaction is, and the lines of the user's function that it covers."""
    nodes = list(walk(step.body))
    spans = [node.span for node in nodes if node.span is not None]
    lines = sorted({s.line for s in spans if home is None or s.filename == home.filename})
    place = "" if not lines else f", line {lines[0]}" if len(lines) == 1 else f", lines {lines[0]} to {lines[-1]}"
    return f"{_count(len(nodes), 'node')}{place}"


_IN_WORDS = {
    "true": "this is true",
    "false": "this is false",
    "equals": "this has the value it had",
    "is": "this is what it was",
    "bound": "this variable is bound",
    "container": "this is a container and no iterator",
    "plain_write": "the change in place leaves no history",
    "leaves": "these tensors have no history and no hooks",
    "tensor": "the items are tensors",
    "unsaved": "what is changed is nothing else that is read",
    "type": "the items are of one type",
}


def _assumptions(step: Segment) -> Iterator[str]:
    """What is assumed, by the line of the user's that needs it: access paths by name, tests by their outcome."""
    found: dict[Span | None, dict[str, None]] = {}
    for graph in (step.guards, step.body):
        for node in walk(graph):
            if node.op.name == "assert":
                line = None if node.span is None else Span(node.span.filename, node.span.line)
                found.setdefault(line, {})[_in_words(node)] = None
    for span, checks in found.items():
        place = "the arguments" if span is None else f"{span}: {span.text()}"
        yield f"{place}\n         {', '.join(checks)}"


def _in_words(node: Node) -> str:
    """An assert for a reader: what it is about, unless that is the place in the source, then what it says of it."""
    site = next((arg.value for name, arg in node.kwargs if name == "site" and isinstance(arg, Const)), "")
    about = str(site).split("|")[-2] if "|" in str(site) else str(site)
    return _IN_WORDS.get(node.target, node.target) if "@" in about or not about else about


def _failures(state: CompiledFunction) -> Iterator[str]:
    failures = list(state.notes.failures.values())
    if failures:
        yield "rolled back and finished eagerly:"
    for failure in failures:
        yield f"  {failure.count} × {_failure(state, failure)}"


def _failure(state: CompiledFunction, failure: Failure) -> str:
    span = state.span_of_site(failure.site or "")
    place = failure.site or "unknown place" if span is None else f"{span}: {span.text()}"
    if failure.site is not None and state.profile.is_refuted(failure.site):
        return f"{place}\n      what was assumed here was false, and is not assumed again"
    if failure.twin_succeeded:
        return f"{place}\n      {failure.error}, which eager did not raise"
    return f"{place}\n      {failure.error}, as eager raised"


def _refusals(state: CompiledFunction) -> Iterator[str]:
    for name, fault in state.profiling_faults.items():
        yield f"{name} could not be profiled, by a fault of janusc's own: {fault}"
    for diagnostic, count in state.notes.refusals.items():
        yield f"not converted, {_count(count, 'time')}:"
        yield from (f"  {line}" for line in str(diagnostic).splitlines())
    if state.verdict is not None:
        yield "runs eagerly because of"
        yield from (f"  {line}" for line in str(state.verdict).splitlines())
    if state.fault:
        yield from (f"  {line}" for line in state.fault.splitlines())
