"""Rebuilding graphs: what is not changed stays the same object."""

from dataclasses import replace

from janusc.lowering import ops
from janusc.lowering.ir import Const, Dct, Graph, Lst, Node, Slc, Tup, Value
from janusc.lowering.reader import read_graph
from janusc.lowering.rewrite import Fuel, count_nodes, inlined, keep_if_same, rewrite_graph, substitute, used_values
from janusc.types import ANY

NESTED = """graph(%0: any):
  context with(%0, %0) {
    region(%1: any):
      %2: any = torch torch.relu(%1)
      context with(%2) {
        region():
          print('inner')
          return ()
      }
      return ()
  }
  return ()
"""


def test_substitution_reaches_every_corner_of_an_argument():
    a, b = Value(0, ANY), Value(1, ANY)
    node = Node(ops.BUILD, "", (Lst((Tup((a,)), Dct((a,), (a,)), Slc(a, Const(1), a))),), (("k", a),))
    changed = substitute(node, {a: b})
    assert changed.args == (Lst((Tup((b,)), Dct((b,), (b,)), Slc(b, Const(1), b))),)
    assert changed.kwargs == (("k", b),)


def test_a_node_without_the_value_stays_itself():
    a, b = Value(0, ANY), Value(1, ANY)
    node = Node(ops.PRINT, "", (a,))
    assert substitute(node, {b: a}) is node
    assert substitute(node, {}) is node


def test_regions_are_rewritten_from_the_inside_out():
    seen = []

    def change(graph):
        seen.append([n.op.name for n in graph.nodes])
        return replace(graph, nodes=tuple(n for n in graph.nodes if n.op.name != "print"))

    graph = read_graph(NESTED)
    changed = rewrite_graph(graph, change)
    assert seen == [["print"], ["torch", "context"], ["context"]]
    assert (count_nodes(graph), count_nodes(changed)) == (4, 3)


def test_blocks_are_looked_at_in_place():
    graph = read_graph(
        """graph(%0: any):
  %1: any = context with(%0, %0) {
    region(%2: any):
      %3: any = torch torch.relu(%2)
      %4: any = context with(%3, %3) {
        region(%5: any):
          %6: any = torch torch.exp(%5)
          return (%6)
      }
      return (%4)
  }
  %7: any = torch torch.abs(%1)
  return (%7, %1)
"""
    )
    found = inlined(graph)
    read = [(node.target, [value.id for value in node.inputs]) for node in found.nodes]
    assert read == [("torch.relu", [0]), ("torch.exp", [3]), ("torch.abs", [6])]
    assert [value.id for value in found.outputs] == [7, 6]
    outer = inlined(graph, lambda node, inside: inside is graph)
    assert [node.op.name for node in outer.nodes] == ["torch", "context", "torch"]


def test_an_unchanged_graph_stays_itself():
    graph = read_graph(NESTED)
    assert rewrite_graph(graph, lambda g: g) is graph
    assert keep_if_same(graph, replace(graph)) is graph
    other = replace(graph, outputs=graph.params)
    assert keep_if_same(graph, other) is other


def test_used_values_are_those_of_the_graph_itself():
    graph = read_graph(NESTED)
    assert used_values(graph) == set(graph.params)
    assert used_values(Graph((), (), (Tup((Value(5, ANY),)),)))


def test_fuel_runs_out():
    fuel = Fuel(2)
    assert [fuel.spend() for _ in range(3)] == [True, True, False]
    assert fuel.spent == 2
    assert all(Fuel().spend() for _ in range(3))
