"""The text form of graphs: pinned once, and read back as what was printed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lowering.graph_strategies import CONSTS, chains, syntactic_graphs

from janusc.lowering import ops
from janusc.lowering.ir import Chain, Const, Graph, HostRange, Mark, Node, Ref, Segment, Slc, Tup, Value
from janusc.lowering.printer import print_chain, print_graph, print_node
from janusc.lowering.reader import ReadError, read_chain, read_graph
from janusc.source import Span
from janusc.types import ANY, HostType, TensorType

TEXT = """\
graph(%0: float32[2,?], %1: any):
  %2: bool = torch torch.any(%0, dim=-1)  # model.py:4
  assert is(%1, None, site='f:1:2:Name')
  %3: bool[...], %4: =1.5 = cond if(%2, %0) {  # model.py:5
    region(%5: (any, int)):
      return (%5, 1)
    region(%6: any):
      return (%6, 1e-05)
  }
  return ((%3, [], {'a': &"odd name", 2: ...}), (%4,), slice(None, -3, %1), torch.int64, device('cuda:1'))
""".replace('"odd name"', "'odd name'")


def same(left, right, names=None):
    """Whether two graphs are equal up to the identity of values; ``names`` maps those of the left to the right's."""
    names = {} if names is None else names
    if type(left) is not type(right):
        return False
    if isinstance(left, Value):
        return names.setdefault(left, right) is right and left.type == right.type
    if isinstance(left, Const):
        return type(left.value) is type(right.value) and repr(left.value) == repr(right.value)
    if isinstance(left, Span):
        return str(left) == str(right)
    if isinstance(left, tuple):
        return len(left) == len(right) and all(same(a, b, names) for a, b in zip(left, right))
    if hasattr(left, "__dataclass_fields__"):
        return all(same(getattr(left, name), getattr(right, name), names) for name in left.__dataclass_fields__)
    return left == right


def test_the_text_is_stable():
    assert print_graph(read_graph(TEXT)) == TEXT


def test_values_are_numbered_in_order_of_appearance():
    a, b = Value(70, ANY), Value(3, HostType("int"))
    graph = Graph((a,), (Node(ops.BUILTIN, "len", (a,), (), (b,), (), Span("/some/where/f.py", 9, 4)),), (b, a))
    assert print_graph(graph) == ("graph(%0: any):\n  %1: int = builtin len(%0)  # f.py:9\n  return (%1, %0)\n")
    assert print_node(graph.nodes[0]) == "%3: int = builtin len(%70)  # f.py:9"


@given(syntactic_graphs())
def test_what_is_printed_is_read_back(graph):
    text = print_graph(graph)
    read = read_graph(text)
    assert print_graph(read) == text
    assert same(graph, read)


@given(chains())
def test_a_chain_is_read_back(chain):
    text = print_chain(chain)
    read = read_chain(text, chain.objects)
    assert print_chain(read) == text
    assert same(chain, read)


def test_steps_keep_all_they_say():
    graph = Graph((), (), ())
    steps = (
        Segment((), graph, graph, ("x", "1"), False, "rest 1"),
        Mark("start", ("x", "a name"), span=Span("f.py", 2)),
        Mark("test", (), "more"),
        Mark("enter", (), "manager"),
        Mark("leave", ()),
        Mark("end", ("x",), "if not", Span("f.py", 2)),
        HostRange("host 1", ("x",), (), True, "it's # opaque", Span("f.py", 3)),
    )
    chain = Chain("a name", steps, {"f": len})
    assert same(chain, read_chain(print_chain(chain), {"f": len}))


@given(CONSTS, st.sampled_from([1, True, 1.0, 0.0, -0.0]))
def test_literals_keep_their_type(const, number):
    graph = Graph((), (), (const, Const(number), Tup((const,)), Slc(const, const, const), Ref("x")))
    assert same(graph, read_graph(print_graph(graph)))


def test_bool_tensors_are_no_host_bools():
    graph = Graph((Value(0, TensorType(torch.bool)), Value(1, HostType("bool"))))
    assert same(graph, read_graph(print_graph(graph)))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("graph(%0: any):\n  return (%1)", "line 2: %1 is not defined"),
        ("graph(%0: any, %0: any):\n  return ()", "line 1: %0 is defined a second time"),
        ("graph():\n  fly()\n  return ()", "line 2: unknown op 'fly'"),
        ("graph():\n  print(1", "line 2: ')' expected"),
        ("graph():\n  print(1)", "the text ends in the middle of a graph"),
        ("graph():\n  return ()\nmore", "text after the end"),
        ("graph():\n  return (one)", "line 2: an argument expected at"),
        ("graph():\n  print() # nowhere\n  return ()", "line 2: file:line expected"),
    ],
)
def test_bad_text_is_refused(bad, message):
    with pytest.raises(ReadError) as caught:
        read_graph(bad)
    assert message in str(caught.value)
