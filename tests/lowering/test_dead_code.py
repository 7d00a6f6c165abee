"""Dead code by text: what goes, and what somebody could miss."""

import textwrap

import pytest
from lowering.pass_text import in_body

from janusc.lowering.ir import Chain
from janusc.lowering.passes import pipeline
from janusc.lowering.passes.dead_code import dead_code
from janusc.lowering.printer import print_chain, print_graph
from janusc.lowering.reader import read_chain


def test_unused_nodes_that_cannot_fail_go():
    body = in_body(
        dead_code,
        """
        %4: torch.Size = attribute shape(%0)
        %5: int = operator add(%2, 1)
        %6: any = build([%4, {'k': %5}])
        %7: bool = operator is_(%1, None)
        return (%3)
        """,
    )
    assert print_graph(body) == "graph(%0: bool):\n  return (%0)\n"


@pytest.mark.parametrize(
    "line",
    [
        "%4: any = torch torch.mm(%0, %0)",
        "%4: any = torch torch.relu(%0)",  # of a bool tensor it raises
        "%4: any = attribute mT(%0)",
        "%4: any = attribute shape(%1)",
        "%4: any = operator floordiv(%2, %2)",
        "%4: any = operator add(%2, %0)",
        "%4: any = operator getitem((%0,), 1)",
        "%4: any = build({%1: 1})",  # may have no hash
        "%4: any = read.attr x(%1)",
        "%4: any = torch.random torch.rand(2)",
        "%4: any = method.write zero_(%0)",
        "assert true(%3)",
        "print(%2)",
    ],
)
def test_an_unused_node_that_somebody_could_miss_stays(line):
    assert line.split(" = ")[-1].split("(")[0] in print_graph(in_body(dead_code, f"{line}\nreturn ()"))


def test_guards_hand_over_what_the_body_needs_and_read_nothing_else():
    chain = read_chain(
        """
        chain c:
          segment(__function__, x) -> () returns:
            guards(%0: any, %1: any):
              %2: any = read.attr weight(%0)
              %3: any = read.attr bias(%0)
              assert is(%2, None)
              %4: int = operator floordiv(1, 0)
              return (%1, %3, %2)
            body(%5: any, %6: any, %7: any):
              %8: bool = operator is_(%6, %7)
              return (%5)
        """,
        {},
    )
    (segment,) = pipeline.optimise(chain).steps
    assert print_chain(Chain("c", (segment,))) == textwrap.dedent(
        """\
        chain c:
          segment(__function__, x) -> () returns:
            guards(%0: any, %1: any):
              %2: any = read.attr weight(%0)
              assert is(%2, None)
              %3: int = operator floordiv(1, 0)
              return (%1)
            body(%4: any):
              return (%4)
        """
    )


def test_unused_slots_of_a_condition_go():
    body = in_body(
        dead_code,
        """
        %4: any, %5: any = cond if(%3, %0, %1) {
          region(%6: any, %7: any):
            return (%6, %7)
          region(%8: any, %9: any):
            %10: any = torch torch.mm(%8, 1)
            return (%8, %9)
        }
        return (%4)
        """,
    )
    assert print_graph(body) == (
        "graph(%0: tensor, %1: bool):\n"
        "  %2: any = cond if(%1, %0) {\n"
        "    region(%3: any):\n"
        "      return (%3)\n"
        "    region(%4: any):\n"
        "      %5: any = torch torch.mm(%4, 1)\n"
        "      return (%4)\n"
        "  }\n"
        "  return (%2)\n"
    )


def test_a_carried_value_lives_while_something_that_lives_needs_it():
    """The second is needed by the first in the next round; the third only by itself; the fourth by an assert."""
    body = in_body(
        dead_code,
        """
        %4: int, %5: int, %6: int, %7: bool = loop for(%1, (%2, 1, 2, %3), (%0, %2)) {
          region(%10: any, %11: int, %12: int, %13: int, %14: bool, %15: tensor, %16: int):
            %20: int = operator add(%11, %12)
            %21: int = operator add(%13, 1)
            assert true(%14)
            return (True, %20, %16, %21, %14)
        }
        return (%4)
        """,
    )
    assert print_graph(body) == (
        "graph(%0: any, %1: int, %2: bool):\n"
        "  %3: int, %4: int, %5: bool = loop for(%0, (%1, 1, %2), (%1,)) {\n"
        "    region(%6: any, %7: int, %8: int, %9: bool, %10: int):\n"
        "      %11: int = operator add(%7, %8)\n"
        "      assert true(%9)\n"
        "      return (True, %11, %10, %9)\n"
        "  }\n"
        "  return (%3)\n"
    )


def test_a_function_that_nobody_invokes_goes():
    body = in_body(dead_code, "%4: any = define f(%0) {\nregion(%5: any, %6: any):\nreturn (%6)\n}\nreturn (%3)")
    assert print_graph(body) == "graph(%0: bool):\n  return (%0)\n"


def test_a_function_keeps_its_parameters_and_loses_what_it_does_not_use():
    body = in_body(
        dead_code,
        """
        %4: any = define f(%0, %1) {
          region(%5: any, %6: any, %7: any, %8: any):
            %9: any = operator is_(%8, None)
            return (%8)
        }
        %10: any = invoke f(%4, %2)
        return (%10)
        """,
    )
    text = print_graph(body)
    assert "define f(%0) {" in text and "region(%3: any, %4: any, %5: any):" in text and "is_" not in text


def test_a_truth_that_an_assert_asks_for_again_goes():
    kept = "assert true(%4, site='a')"
    lines = f"%4: tensor = method all(%0)\n        %5: bool = operator not_(%4)\n        {kept}\n        return (%3)"
    body = print_graph(in_body(dead_code, lines))
    assert "assert true" in body and "not_" not in body
    assert "not_" in print_graph(in_body(dead_code, lines.replace(kept, "assert true(%3, site='a')")))
