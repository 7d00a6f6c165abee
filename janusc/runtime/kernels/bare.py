"""Values whose history nobody can see: what becomes of them in the rest of a chain asks for numbers alone.

A tensor that a joint kernel hands out would need a history that is used up, to be like eager's; to make one takes
longer than many a small kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from janusc.lowering.ir import Chain, Graph, HostRange, Mark, Segment, Step, Value, values_of

_ASKS_FOR_NUMBERS = frozenset({"item", "tolist", "detach"})


def bare_values(chain: Chain) -> frozenset[Value]:
    """What is made before a backward pass, and of which only numbers are asked after it."""
    if any(isinstance(step, Mark) for step in chain.steps):
        return frozenset()
    found: set[Value] = set()
    for index, step in enumerate(chain.steps):
        if isinstance(step, Segment):
            found |= _bare_in(step, chain.steps[index + 1 :])
    return frozenset(found)


def _bare_in(segment: Segment, rest: Sequence[Step]) -> set[Value]:
    nodes = segment.body.nodes
    last = max((i for i, node in enumerate(nodes) if node.op.name == "backward"), default=0)
    made = {v for node in nodes[:last] for v in node.outputs}
    after = Graph((), nodes[last + 1 :], ())
    outputs = segment.body.outputs
    first = 1 if segment.returns else 0  # what is returned is seen
    for value in [v for v in made if _uses(after, v) or any(v in values_of(output) for output in outputs[:first])]:
        made.discard(value)
    for name, output in zip(segment.live_outs, outputs[first:]):
        if not isinstance(output, Value) or _is_seen(name, rest):
            made.difference_update(values_of(output))
    return made


def _is_seen(name: str, steps: Iterable[Step]) -> bool:
    for step in steps:
        if name not in step.live_ins:
            continue
        if isinstance(step, HostRange) or not isinstance(step, Segment):
            return True
        param = step.guards.params[step.live_ins.index(name)]
        if any(param in node.inputs for node in step.guards.nodes if node.op.name != "assert" or node.target != "type"):
            return True
        if any(
            _uses(step.body, p) for p, given in zip(step.body.params, step.guards.outputs) if param in values_of(given)
        ):
            return True
    return False


def _uses(graph: Graph, value: Value) -> bool:
    """Whether more than numbers of a value are asked for in a graph."""
    if value in values_of(graph.outputs):
        return True
    for node in graph.nodes:
        asks = node.op.name == "method" and node.target in _ASKS_FOR_NUMBERS and len(node.args) == 1
        if value in node.inputs and not asks:
            return True
    return False
