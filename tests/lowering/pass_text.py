"""Short ways to run one pass on a graph given as text, and to compare the result with text."""

import textwrap

from janusc.lowering.ir import FUNCTION, Graph, Segment, Value
from janusc.lowering.printer import print_graph
from janusc.lowering.reader import read_graph
from janusc.lowering.rewrite import Fuel
from janusc.types import ANY

HEADER = "graph(%0: tensor, %1: any, %2: int, %3: bool):\n"


def graph_of(text):
    return read_graph(HEADER + textwrap.indent(textwrap.dedent(text).strip(), "  "))


def in_body(run, text):
    body = graph_of(text)
    guards = Graph((Value(90, ANY),), (), tuple(Value(90, ANY) for _ in body.params))
    return run(Segment((FUNCTION,), guards, body), Fuel()).body


def in_guards(run, text):
    return run(Segment((FUNCTION, *"abc"), graph_of(text), Graph()), Fuel()).guards


def same(graph, text):
    assert print_graph(graph) == print_graph(graph_of(text))


def unchanged(run, text, where=in_body):
    same(where(run, text), text)
