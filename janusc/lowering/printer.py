"""The text form of graphs and chains: deterministic, one node a line, the user's line as a comment.

Example::

    graph(%0: float32[2,3], %1: any):
      %2: float32[2,3] = torch torch.relu(%0)  # model.py:12
      assert is(%1, None, site='f:12:4:Name')
      return (%2, [%0], 1.5)

Values are numbered in order of appearance, so equal structure gives equal text. ``reader`` reads it back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from janusc.lowering.ir import Chain, Const, Dct, Graph, HostRange, Lst, Mark, Node, Ref, Segment, Slc, Tup, Value
from janusc.source import Span

INDENT = "  "
PLAIN_NAME = re.compile(r"[^\W\d]\w*(\.\w+)*")


class Numbering:
    """Numbers for values, given out at first sight."""

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}

    def name(self, value: Value) -> str:
        """The printed name of a value."""
        return f"%{self._numbers.setdefault(value, len(self._numbers))}"


class ById(Numbering):
    """The names that ``repr`` of a value shows: for messages about a node alone."""

    def name(self, value: Value) -> str:
        return repr(value)


def print_chain(chain: Chain) -> str:
    """The text of a chain; its objects appear by name only."""
    return "\n".join(_chain_lines(chain, Numbering())) + "\n"


def print_graph(graph: Graph, numbering: Numbering | None = None) -> str:
    """The text of one graph."""
    return "\n".join(_graph_lines("graph", graph, numbering or Numbering())) + "\n"


def print_node(node: Node) -> str:
    """The text of one node without the insides of its regions; values appear by their own id."""
    return _node_line(node, ById())


def _name(text: str) -> str:
    return text if PLAIN_NAME.fullmatch(text) else repr(text)


def print_literal(value: Any) -> str:
    """The text of a Const's value."""
    if value is Ellipsis:
        return "..."
    if isinstance(value, torch.device):
        return f"device('{value}')"
    return repr(value)


def print_arg(arg: Any, numbering: Numbering) -> str:
    """The text of one argument."""
    if isinstance(arg, Value):
        return numbering.name(arg)
    if isinstance(arg, Const):
        return print_literal(arg.value)
    if isinstance(arg, Ref):
        return f"&{_name(arg.name)}"
    if isinstance(arg, Tup):
        inner = ", ".join(print_arg(x, numbering) for x in arg.items)
        return f"({inner},)" if len(arg.items) == 1 else f"({inner})"
    if isinstance(arg, Lst):
        return f"[{', '.join(print_arg(x, numbering) for x in arg.items)}]"
    if isinstance(arg, Dct):
        pairs = zip(arg.keys, arg.values)
        return f"{{{', '.join(f'{print_arg(k, numbering)}: {print_arg(v, numbering)}' for k, v in pairs)}}}"
    if isinstance(arg, Slc):
        return f"slice({', '.join(print_arg(x, numbering) for x in (arg.lower, arg.upper, arg.step))})"
    return f"<not an argument: {arg!r}>"


def _comment(span: Span | None) -> str:
    return f"  # {span}" if span is not None else ""


def _typed(values: Iterable[Value], numbering: Numbering) -> str:
    return ", ".join(f"{numbering.name(v)}: {v.type}" for v in values)


def _node_line(node: Node, numbering: Numbering) -> str:
    pieces = [print_arg(a, numbering) for a in node.args]
    pieces += [f"{_name(k)}={print_arg(a, numbering)}" for k, a in node.kwargs]
    call = f"{node.op.name} {_name(node.target)}" if node.target else node.op.name
    left = f"{_typed(node.outputs, numbering)} = " if node.outputs else ""
    opening = " {" if node.regions else ""
    return f"{left}{call}({', '.join(pieces)}){opening}{_comment(node.span)}"


def _graph_lines(title: str, graph: Graph, numbering: Numbering) -> Iterator[str]:
    yield f"{title}({_typed(graph.params, numbering)}):"
    for node in graph.nodes:
        yield INDENT + _node_line(node, numbering)
        if node.regions:
            for region in node.regions:
                for line in _graph_lines("region", region, numbering):
                    yield INDENT * 2 + line
            yield INDENT + "}"
    yield f"{INDENT}return ({', '.join(print_arg(a, numbering) for a in graph.outputs)})"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(_name, names))


def _chain_lines(chain: Chain, numbering: Numbering) -> Iterator[str]:
    yield f"chain {_name(chain.name)}:"
    for step in chain.steps:
        if isinstance(step, Mark):
            name = f" by {_name(step.name)}" if step.name else ""
            yield f"{INDENT}{step.kind}({_names(step.locals)}){name}{_comment(step.span)}"
            continue
        returns = " returns" if step.returns else ""
        if isinstance(step, HostRange):
            reason = f" reason {step.reason!r}" if step.reason else ""
            names = f"({_names(step.live_ins)}) -> ({_names(step.live_outs)})"
            yield f"{INDENT}host {step.key!r}{names}{returns}{reason}{_comment(step.span)}"
            continue
        yield f"{INDENT}segment({_names(step.live_ins)}) -> ({_names(step.live_outs)}){returns}{_resume(step)}:"
        for title, graph in (("guards", step.guards), ("body", step.body)):
            for line in _graph_lines(title, graph, numbering):
                yield INDENT * 2 + line


def _resume(segment: Segment) -> str:
    return f" resume {segment.resume!r}" if segment.resume else ""
