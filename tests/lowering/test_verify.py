"""Every rule of the IR has a graph that breaks it, and the message holds the node."""

import operator
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from lowering.graph_strategies import chains

from janusc.lowering import op_rules, ops
from janusc.lowering.ir import (
    Chain,
    Const,
    Dct,
    Effect,
    Graph,
    HostRange,
    Lst,
    Mark,
    Node,
    Op,
    Ref,
    Segment,
    Tup,
    Value,
)
from janusc.lowering.reader import read_chain, read_graph
from janusc.lowering.verify import VerifyError, verify
from janusc.types import ANY


def refused(text, message):
    with pytest.raises(VerifyError) as caught:
        verify(read_graph(text) if text.startswith("graph") else read_chain(text, {"f": len}))
    assert message in str(caught.value)


def body_of(*lines):
    return "graph(%0: any, %1: tensor):\n" + "".join(f"  {line}\n" for line in lines) + "  return ()"


@given(chains())
def test_made_chains_keep_the_rules(chain):
    verify(chain)


def test_every_op_has_a_rule():
    assert not op_rules.RULES.missing(ops.OPS)
    assert len(op_rules.RULES) == len(ops.OPS)


def test_operator_names_are_those_of_the_operator_module():
    named = {*op_rules.OPERATOR_ARITY, *op_rules.WRITE_ARITY} - {"not_in"}
    assert all(callable(getattr(operator, name)) for name in named)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%2: any = torch torch.no_such_thing(%0)", "can't have the target 'torch.no_such_thing'"),
        ("%2: any = torch os.system(%0)", "can't have the target 'os.system'"),
        ("%2: any, %3: any = torch torch.relu(%0)", "0 to 1 outputs wanted, 2 given"),
        ("%2: any = torch.random relu(%0)", "can't have the target 'relu'"),
        ("%2: any = torch.write torch(%0)", "can't have the target 'torch'"),
        ("%2: any = method 'not a name'(%0)", "can't have the target 'not a name'"),
        ("%2: any = method relu()", "at least 1 arguments wanted, 0 given"),
        ("%2: any = method.random normal_()", "at least 1 arguments"),
        ("%2: any = method.read copy()", "at least 1 arguments"),
        ("%2: any = method.write add_()", "at least 1 arguments"),
        ("%2: any = module.call Linear()", "at least 1 arguments"),
        ("%2: any = operator plus(%0, %1)", "can't have the target 'plus'"),
        ("%2: any = operator neg(%0, %1)", "1 arguments wanted, 2 given"),
        ("%2: any = operator add(%0)", "2 arguments wanted, 1 given"),
        ("%2: any = operator.read getitem(%0)", "2 arguments wanted, 1 given"),
        ("%2: any = operator.write add(%0, %1)", "can't have the target 'add'"),
        ("operator.write setitem(%0, %1)", "3 arguments wanted, 2 given"),
        ("%2: any = attribute shape(%0, %1)", "1 arguments wanted, 2 given"),
        ("%2: any = builtin no_such_builtin(%0)", "can't have the target 'no_such_builtin'"),
        ("%2: any = builtin.read True(%0)", "can't have the target 'True'"),
        ("%2: any = build(%0)", "build takes a template"),
        ("%2: any = format(%0)", "a piece of a format is a string or (value, conversion, spec)"),
        ("unpack(%0, %1)", "1 arguments wanted, 2 given"),
        ("%2: any = read.attr(%0)", "can't have the target ''"),
        ("%2: any = read.item(%0)", "2 arguments wanted, 1 given"),
        ("write.attr count(%0)", "2 arguments wanted, 1 given"),
        ("%2: any = write.attr count(%0, 1)", "0 outputs wanted, 1 given"),
        ("write.item(%0, 1)", "3 arguments wanted, 2 given"),
        ("write.cell(%0)", "2 arguments wanted, 1 given"),
        ("delete.attr(%0)", "can't have the target ''"),
        ("save module(%0)", "can't have the target 'module'"),
        ("assert likely(%0)", "can't have the target 'likely'"),
        ("assert is(%0)", "2 arguments wanted, 1 given"),
        ("assert equals(%0, %1)", "equals compares with something fixed"),
        ("assert type(%0, %1)", "type compares with a class by name"),
        ("assert true(%0, site=1)", "the site of an assert is a string"),
        ("assert true(%0, where='x')", "unknown keyword argument 'where'"),
        ("print(%0, color='red')", "unknown keyword argument 'color'"),
    ],
)
def test_a_bad_node_is_refused(line, message):
    refused(body_of(line), message)


def test_a_good_node_of_each_kind_is_accepted():
    verify(
        read_graph(
            body_of(
                "%2: any = torch torch.nn.functional.linear(%1, %1, bias=None)",
                "%3: any = method sum(%1, dim=0)",
                "%4: any = operator not_in([1], 2)",
                "%5: any = build([%2, {'a': slice(1, None, %3)}])",
                "%6: str = format('x', (%4, None, '.3f'))",
                "%7: any, %8: any = unpack(%5)",
                "save list.append(%5)",
                "operator.write iadd(%5, %5)",
                "assert equals(%0, (1, 'a'))",
                "assert bound(%0, site='here')",
                "print(%0, sep='')",
                "write.attr x(%0, %1)",
                "delete.attr y(%0)",
                "write.item(%0, 'k', 1)",
                "write.cell(%0, 1)",
            )
        )
    )


# scope


def test_a_value_is_defined_once():
    value = Value(0, ANY)
    node = Node(ops.TORCH, "torch.rand", (), (), (value,))
    for graph in (Graph((value,), (node,)), Graph((), (node, node)), Graph((value, value))):
        with pytest.raises(VerifyError, match="%0 is defined a second time"):
            verify(graph)


def test_regions_are_closed():
    outer, inner = Value(0, ANY), Value(1, ANY)
    region = Graph((inner,), (), (outer,))
    node = Node(ops.CONTEXT, "with", (outer, outer), (), (Value(2, ANY),), (region,))
    with pytest.raises(VerifyError, match="%0 is not defined here"):
        verify(Graph((outer,), (node,)))


def test_values_inside_templates_are_checked():
    template = Lst((Tup((Const(1), Dct((Const("a"),), (Value(9, ANY),)))),))
    with pytest.raises(VerifyError, match="%9 is not defined here"):
        verify(Graph((), (Node(ops.BUILD, "", (template,), (), (Value(1, ANY),)),)))


def test_a_value_is_used_after_its_definition():
    a, b = Value(0, ANY), Value(1, ANY)
    use, define = Node(ops.TORCH, "torch.relu", (a,), (), (b,)), Node(ops.TORCH, "torch.rand", (), (), (a,))
    verify(Graph((), (define, use)))
    with pytest.raises(VerifyError, match="torch torch.relu"):
        verify(Graph((), (use, define)))


@pytest.mark.parametrize("value", [torch.zeros(1), (1, 2), [], len, object(), type("I", (int,), {})(1)])
def test_a_const_is_a_literal(value):
    with pytest.raises(VerifyError, match="is not a literal"):
        verify(Graph((), (), (Lst((Const(value),)),)))


def test_what_is_no_argument_is_refused():
    with pytest.raises(VerifyError, match="1 is not an argument"):
        verify(Graph((), (), (Tup((1,)),)))


def test_an_unknown_op_and_a_wrong_number_of_regions_are_refused():
    with pytest.raises(VerifyError, match="op 'fly' is not in the table of ops"):
        verify(Graph((), (Node(Op("fly", Effect.PURE, ""), ""),)))
    with pytest.raises(VerifyError, match="cond has 2 regions, not 0"):
        verify(Graph((), (Node(ops.COND, "if", (Const(True),)),)))


# control


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            "%2: any = cond if(%0, %1) {\n region():\n return (1)\n region(%3: any):\n return (1)\n }",
            "the first region has 0",
        ),
        (
            "%2: any = cond if(%0) {\n region():\n return (1)\n region():\n return ()\n }",
            "the second region has 0 outputs",
        ),
        ("cond unless(%0) {\n region():\n return ()\n region():\n return ()\n }", "can't have the target 'unless'"),
        ("%2: any = context with(%0) {\n region():\n return ()\n }", "the first region has 0 outputs"),
        ("%2: any = define f(%0) {\n region(%3: any):\n return (1)\n }", "the body has 1 parameters where 2 at least"),
        ("%2: any = define f() {\n region(%3: any):\n return ()\n }", "the body has 0 outputs where one is wanted"),
        ("%2: any = invoke f()", "at least 1 arguments wanted"),
        ("loop for(%0, %1, ()) {\n region(%3: any):\n return (True)\n }", "a loop takes (iterable, Tup(carried)"),
        (
            "loop for(%0, (1,), ()) {\n region(%3: any, %4: any):\n return (True, 1)\n }",
            "1 carried values but 0 outputs",
        ),
        ("loop for(%0, (), (1,)) {\n region(%3: any):\n return (True)\n }", "the body has 1 parameters for 2 inputs"),
        ("loop for(%0, (), ()) {\n region(%3: any):\n return ()\n }", "the body has 0 outputs where 1 are wanted"),
        ("loop while(%0, (), (), enter=True) {\n region():\n return (False)\n }", "a while loop has no iterable"),
        ("loop while(None, (), ()) {\n region():\n return (False)\n }", "says whether it is entered"),
    ],
)
def test_a_bad_region_is_refused(node, message):
    refused(body_of(*node.split("\n")), message)


# order


def test_writes_to_state_follow_all_that_may_raise():
    refused(body_of("write.attr x(%0, 1)", "%2: any = torch torch.relu(%0)"), "may raise after write.attr x")
    refused(body_of("write.item(%0, 1, 1)", "assert true(%0)"), "may raise after write.item")
    verify(read_graph(body_of("%2: any = torch torch.relu(%0)", "write.cell(%0, 1)", "delete.attr x(%0)")))


def test_a_region_writes_no_state():
    lines = ["context with(%0, %1) {", "region(%2: any):", "write.attr x(%2, 1)", "return ()", "}"]
    refused(body_of(*lines), "a write to state inside a region: write.attr x")


# chains

CHAIN = """chain c:
  segment({ins}) -> ({outs}){returns}:
    guards(%0: any):
      {guard}
      return (%0)
    body(%1: any):
      return ({result})
"""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ins": "x"}, "the first live-in of a segment is __function__"),
        ({"ins": "__function__, x"}, "a segment has 2 live-ins but 1 parameters of the guards"),
        ({"outs": "x"}, "a segment has 2 live-outs but 1 outputs of the body"),
        ({"result": "1, 2"}, "a segment has 1 live-outs but 2 outputs of the body"),
        ({"guard": "save list(%0)"}, "a guard may only read, assert or compute host values: save list"),
        ({"guard": "print(%0)"}, "a guard may only read"),
        ({"guard": "%2: any = torch.random torch.rand(2)"}, "a guard may only read"),
        ({"guard": "%2: tensor = torch torch.relu(%0)"}, "a guard may not compute tensors"),
        ({"guard": "context with(%0) {\n region():\n return ()\n }"}, "a guard may only read"),
        ({"guard": "assert is(%0, &g)"}, "no object is named 'g'"),
    ],
)
def test_a_bad_chain_is_refused(changes, message):
    good = {"ins": "__function__", "outs": "", "returns": " returns", "guard": "assert is(%0, &f)", "result": "%1"}
    verify(read_chain(CHAIN.format(**good), {"f": len}))
    refused(CHAIN.format(**{**good, **changes}), message)


def test_a_guard_may_ask_for_modes_and_for_unbound_variables():
    guards = "%2: bool = torch torch.is_grad_enabled()\n      assert is_not(%0, &UNBOUND)"
    verify(read_chain(CHAIN.format(ins="__function__", outs="", returns=" returns", guard=guards, result="%1"), {}))


def test_steps_of_a_chain():
    graph = Graph((Value(0, ANY),), (), ())
    empty = Graph()
    first = Segment(("__function__",), graph, empty)
    second = Graph((Value(1, ANY),), (), ())
    later = Segment(("__function__",), second, empty, resume="rest")
    verify(Chain("c", (first, HostRange("h", ()), later)))
    with pytest.raises(VerifyError, match="step 0 returns but is not the last"):
        verify(Chain("c", (HostRange("h", (), returns=True), later)))
    with pytest.raises(VerifyError, match="step 1 does not say where the call goes on"):
        verify(Chain("c", (first, replace(later, resume=""))))


def test_a_graph_of_many_nodes_and_deep_regions():
    value = Value(0, ANY)
    nodes = []
    for number in range(1, 5001):
        value, before = Value(number, ANY), value
        nodes.append(Node(ops.OPERATOR, "add", (before, Const(1)), (), (value,)))
    verify(Graph((nodes[0].args[0],), tuple(nodes), (value,)))
    region = Graph()
    for _ in range(5000):
        region = Graph((), (Node(ops.CONTEXT, "with", (Ref("f"),), (), (), (region,)),))
    verify(region)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["start"], "no end"),
        (["end"], "step 0 is not in a loop"),
        (["start", "end", "test"], "step 2 is not in a loop"),
        (["start", "host", "end"], "returns in the middle of a loop"),
        (["enter"], "no end"),
        (["start", "enter", "end", "leave"], "step 2 is not in a loop"),
        (["start", "enter", "test"], "step 2 is not in a loop"),
    ],
)
def test_loops_of_steps_are_closed(kinds, message):
    steps = [HostRange("h", (), returns=True) if kind == "host" else Mark(kind, ()) for kind in kinds]
    with pytest.raises(VerifyError, match=message):
        verify(Chain("c", tuple(steps)))
    verify(Chain("c", (Mark("start", ()), Mark("test", (), "x"), Mark("end", ()))))
    verify(Chain("c", (Mark("enter", (), "x"), Mark("start", ()), Mark("end", ()), Mark("leave", ()))))
