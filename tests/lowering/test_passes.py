"""Passes by text: what each does to a graph, and what it leaves alone."""

import inspect
import re
import sys
import textwrap

import pytest

from janusc.lowering.ir import FUNCTION, Chain, Graph, Segment, Value
from janusc.lowering.passes import pipeline
from janusc.lowering.passes.dead_code import dead_code
from janusc.lowering.passes.folding import folding
from janusc.lowering.passes.hoist_asserts import hoist_asserts
from janusc.lowering.passes.prune_saves import prune_saves
from janusc.lowering.passes.subexpressions import subexpressions
from janusc.lowering.printer import print_chain, print_graph
from janusc.lowering.reader import read_chain, read_graph
from janusc.lowering.rewrite import Fuel
from janusc.lowering.verify import VerifyError
from janusc.types import ANY

DOCUMENTED = re.compile(r"Before::\n\n(.*?)\n\nAfter::\n\n(.*?)(?=\n\n\S|\Z)", re.DOTALL)
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


@pytest.mark.parametrize("item", pipeline.PIPELINE, ids=lambda item: item.name)
def test_the_docstring_of_a_pass_tells_the_truth(item):
    before, after = DOCUMENTED.search(inspect.getdoc(sys.modules[item.run.__module__])).groups()
    same(in_body(item.run, before), after)


# folding


def test_arithmetic_on_literals_is_done():
    same(
        in_body(
            folding,
            """
            %4: int = operator add(2, 3)
            %5: int = operator mul(%4, %4)
            %6: str = builtin str(%5)
            %7: bool = operator not_in((1, 2), %4)
            %8: int = builtin len((%0, %1))
            assert equals(%4, 5, site='a')
            assert true(%7, site='b')
            assert length((%0, %1), 2)
            %9: any = operator is_(None, 1)
            return (%5, [%6, %8], %9)
            """,
        ),
        "return (25, ['25', 2], False)",
    )


@pytest.mark.parametrize(
    "line",
    [
        "operator add(%2, 1)",  # not known
        "operator floordiv(1, 0)",  # raises
        "operator add(1, 'a')",
        "operator getitem((1, 2), 5)",
        "builtin int('x')",
        "operator pow(10, 1000)",  # large
        "operator lshift(1, 100000)",
        "operator mul('a', 100000)",
        "operator mod('%99999d', 1)",
        "operator invert(True)",  # warns
        "operator is_(1000, 1000)",  # depends on who made the number
        "operator add((1,), (2,))",  # one object for all its users
        "operator matmul(1, 2)",
        "builtin input('?')",
        "builtin print(1)",
    ],
)
def test_what_raises_warns_or_is_large_stays_for_run_time(line):
    unchanged(folding, f"%4: any = {line}\nreturn (%4)")


def test_an_assert_that_fails_stays():
    unchanged(
        folding, "assert true(0)\nassert equals(1, True)\nassert equals(0.0, -0.0)\nassert is(None, 1)\nreturn ()"
    )


def test_folding_reaches_regions_and_guards():
    text = """
    context with(%1) {
      region():
        %4: int = operator sub(2, 3)
        print(%4)
        return ()
    }
    return ()
    """
    assert "print(-1)" in print_graph(in_body(folding, text))
    same(in_guards(folding, "%4: int = builtin max(2, 3)\nreturn (%4)"), "return (3)")


# subexpressions


def test_shapes_and_host_arithmetic_are_computed_once():
    same(
        in_body(
            subexpressions,
            """
            %4: torch.Size = attribute shape(%0)
            %5: int = operator getitem(%4, 0)
            save tensor(%0)
            %6: any = method.write add_(%0, 1)
            %7: torch.Size = attribute shape(%0)
            %8: int = operator getitem(%7, 0)
            %9: int = operator getitem(%7, -1)
            return (%5, %8, %9)
            """,
        ),
        """
        %4: torch.Size = attribute shape(%0)
        %5: int = operator getitem(%4, 0)
        save tensor(%0)
        %6: any = method.write add_(%0, 1)
        %9: int = operator getitem(%4, -1)
        return (%5, %5, %9)
        """,
    )


def test_guards_read_and_assert_once():
    same(
        in_guards(
            subexpressions,
            """
            %4: any = read.attr weight(%1)
            assert type(%4, 'torch.Tensor', site='one')
            %5: any = read.attr weight(%1)
            assert type(%5, 'torch.Tensor', site='two')
            %6: any = read.item(%5, 0)
            %7: any = read.item(%4, 0)
            %8: any = read.item(%4, False)
            return (%5, %6, %7, %8)
            """,
        ),
        """
        %4: any = read.attr weight(%1)
        assert type(%4, 'torch.Tensor', site='one')
        %6: any = read.item(%4, 0)
        %8: any = read.item(%4, False)
        return (%4, %6, %6, %8)
        """,
    )


def test_small_tensors_are_merged_while_nobody_can_tell():
    same(
        in_body(
            subexpressions,
            """
            %4: bool[3] = operator gt(%0, 0)
            %5: bool[3] = operator gt(%0, 0)
            %6: int = method count(%4)
            %7: int = method total(%5)
            return (%6, %7)
            """,
        ),
        """
        %4: bool[3] = operator gt(%0, 0)
        %6: int = method count(%4)
        %7: int = method total(%4)
        return (%6, %7)
        """,
    )


@pytest.mark.parametrize(
    "text",
    [
        # floating-point tensors, and those of unknown dtype: gradients would add up in another order
        "%4: float32[2] = torch torch.exp(%0)\n%5: float32[2] = torch torch.exp(%0)\nreturn (%4, %5)",
        "%4: tensor = torch torch.exp(%0)\n%5: tensor = torch torch.exp(%0)\nreturn (%4, %5)",
        # fresh mutable objects
        "%4: any = build([])\n%5: any = build([])\nreturn (%4, %5)",
        "%4: any = builtin list(%1)\n%5: any = builtin list(%1)\nreturn (%4, %5)",
        # handed out, written, or the base of what is
        "%4: int64[2] = torch torch.argmax(%0)\n%5: int64[2] = torch torch.argmax(%0)\nreturn (%4, %5)",
        "%4: bool[2] = operator gt(%0, 0)\n%5: bool[2] = operator gt(%0, 0)\n"
        "%6: any = method view(%5, -1)\n%7: any = method.write zero_(%6)\n%8: int = method total(%4)\nreturn (%8)",
        # state that a write may change in between
        "%4: any = read.attr n(%1)\n%5: any = method.write append(%1, 1)\n%6: any = read.attr n(%1)\nreturn (%4, %6)",
        "%4: float = method item(%0)\n%5: any = method.write add_(%0, 1)\n%6: float = method item(%0)\nreturn (%4, %6)",
        "assert empty(%1)\n%5: any = method.write append(%1, 1)\nassert empty(%1)\nreturn ()",
        "assert plain_write(%0)\nassert plain_write(%0)\nreturn ()",
        # literals that only compare equal
        "%4: int = operator add(%2, 1)\n%5: int = operator add(%2, True)\nreturn (%4, %5)",
        "%4: float = operator mul(%2, 0.0)\n%5: float = operator mul(%2, -0.0)\nreturn (%4, %5)",
        # a fresh slice
        "%4: any = read.item(%1, slice(0, 1, None))\n%5: any = read.item(%1, slice(0, 1, None))\nreturn (%4, %5)",
        # draws
        "%4: int64[1] = torch.random torch.randint(9)\n%5: int64[1] = torch.random torch.randint(9)\nreturn (%4, %5)",
    ],
)
def test_what_must_stay_apart_stays_apart(text):
    unchanged(subexpressions, text)


# hoisting


def test_an_assert_moves_above_what_would_have_to_be_undone():
    same(
        in_body(
            hoist_asserts,
            """
            %4: tensor = torch torch.exp(%0)
            save tensor(%0)
            %5: any = method.write add_(%0, 1)
            %6: torch.Size = attribute shape(%4)
            %7: int = operator getitem(%6, 0)
            assert equals(%7, 4, site='s')
            return (%5)
            """,
        ),
        """
        %4: tensor = torch torch.exp(%0)
        %6: torch.Size = attribute shape(%4)
        %7: int = operator getitem(%6, 0)
        assert equals(%7, 4, site='s')
        save tensor(%0)
        %5: any = method.write add_(%0, 1)
        return (%5)
        """,
    )


def test_an_assert_stays_below_what_it_depends_on():
    same(
        in_body(
            hoist_asserts,
            """
            %4: any = torch.random torch.rand(2)
            save tensor(%0)
            assert is(%4, %0)
            assert true(%3)
            return ()
            """,
        ),
        """
        assert true(%3)
        %4: any = torch.random torch.rand(2)
        assert is(%4, %0)
        save tensor(%0)
        return ()
        """,
    )


@pytest.mark.parametrize(
    "text",
    [
        "save list(%1)\nassert empty(%1)\nreturn ()",  # a write may change what it asserts
        "save list(%1)\nassert plain_write(%0)\nreturn ()",
        "save tensor(%0)\n%4: tensor = torch torch.sum(%0)\n%5: bool = builtin bool(%4)\nassert true(%5)\nreturn ()",
        "save tensor(%0)\n%4: any = read.attr x(%1)\nassert is(%4, None)\nreturn ()",
        "%4: tensor = torch torch.exp(%0)\nassert true(%3)\nreturn (%4)",  # nothing to undo
    ],
)
def test_an_assert_that_gains_nothing_or_depends_on_state_stays(text):
    unchanged(hoist_asserts, text)


def test_guards_are_ordered_by_cost_under_the_reads_they_need():
    same(
        in_guards(
            hoist_asserts,
            """
            %4: any = read.attr a(%1)
            %5: any = read.attr b(%1)
            %6: torch.Size = attribute shape(%0)
            assert equals(%6, 3)
            assert type(%5, 'int')
            assert is(%4, None)
            assert true(%3)
            return (%5)
            """,
        ),
        """
        assert true(%3)
        %6: torch.Size = attribute shape(%0)
        assert equals(%6, 3)
        %4: any = read.attr a(%1)
        assert is(%4, None)
        %5: any = read.attr b(%1)
        assert type(%5, 'int')
        return (%5)
        """,
    )


def test_no_read_moves_above_an_assert_about_its_owner():
    unchanged(
        hoist_asserts,
        """
        %4: any = builtin type(%1)
        assert is(%4, &Net)
        %5: any = read.attr a(%1)
        assert is(%5, None)
        return ()
        """,
        in_guards,
    )


# dead code


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


# saves


def test_a_save_after_which_nothing_fails_goes():
    same(
        in_body(prune_saves, "%4: any = torch torch.exp(%0)\nsave tensor(%0)\nreturn (%4)"),
        "%4: any = torch torch.exp(%0)\nreturn (%4)",
    )


def test_what_was_saved_is_not_saved_again():
    same(
        in_body(
            prune_saves,
            """
            save tensor(%0)
            %4: any = method.write add_(%0, 1)
            save tensor(%0)
            %5: any = method.write mul_(%0, 2)
            save list.append(%1)
            %6: any = method.write append(%1, 2)
            save list(%1)
            %7: any = method.write clear(%1)
            return ()
            """,
        ),
        """
        save tensor(%0)
        %4: any = method.write add_(%0, 1)
        %5: any = method.write mul_(%0, 2)
        save list.append(%1)
        %6: any = method.write append(%1, 2)
        save list(%1)
        %7: any = method.write clear(%1)
        return ()
        """,
    )


@pytest.mark.parametrize(
    "text",
    [
        "save tensor(%0)\n%4: any = method.write add_(%0, 1)\nreturn ()",  # the write itself may fail
        "save tensor(%0)\nwrite.attr n(%1, 1)\nreturn ()",  # a setter may refuse
        "save tensor(%0)\nprint(%0)\nreturn ()",
        "context with(%1, %0) {\n  region(%4: any):\n    save tensor(%4)\n    return ()\n}\nreturn ()",
        "loop for(%1, (), (%0,)) {\n  region(%4: any, %5: any):\n    save tensor(%5)\n    return (True)\n}\nreturn ()",
    ],
)
def test_a_save_that_may_be_needed_stays(text):
    unchanged(prune_saves, text)


def test_a_save_in_a_branch_looks_at_what_follows_the_branch():
    branch = """
    cond if(%3, %0) {{
      region(%4: any):
        save tensor(%4)
        return ()
      region(%5: any):
        return ()
    }}
    {after}
    return ()
    """
    assert "save" not in print_graph(in_body(prune_saves, branch.format(after="")))
    assert "save" in print_graph(in_body(prune_saves, branch.format(after="assert true(%3)")))


# the pipeline

CHAIN = """
chain c:
  segment(__function__, n) -> () returns:
    guards(%0: any, %1: int):
      return (%1)
    body(%2: int):
      %3: int = operator add(1, 2)
      %4: int = operator add(%2, %3)
      %5: int = operator add(%2, %3)
      return (%4, %5)
"""


def test_passes_are_named_once_and_say_why():
    assert len({item.name for item in pipeline.PIPELINE}) == len(pipeline.PIPELINE)
    assert all(item.reason and "\n" not in item.reason for item in pipeline.PIPELINE)


def test_records_and_dumps_follow_the_passes():
    chain, dumped = read_chain(CHAIN.replace("(%4, %5)", "((%4, %5))"), {}), []
    optimised = pipeline.run_passes(chain, dump=lambda name, after: dumped.append((name, print_chain(after))))
    names = [item.name for item in pipeline.PIPELINE]
    assert [r.name for r in optimised.records] == names
    assert [name for name, _ in dumped] == ["lowered", *names]
    assert dumped[-1][1] == print_chain(optimised.chain)
    assert sum(r.rewrites for r in optimised.records) == 2
    assert optimised.records[-1].nodes == 1
    assert all(r.seconds >= 0 for r in optimised.records)


def test_switched_off_passes_leave_the_chain_alone():
    chain = read_chain(CHAIN.replace("(%4, %5)", "((%4, %5))"), {})
    assert pipeline.optimise(chain, enabled=False) is chain
    assert print_chain(pipeline.optimise(chain, fuel=0)) == print_chain(chain)


def test_fuel_stops_after_so_many_rewrites():
    chain = read_chain(CHAIN.replace("(%4, %5)", "((%4, %5))"), {})
    one = print_chain(pipeline.optimise(chain, fuel=1))
    assert "operator add(%2, 3)" in one
    assert one.count("operator") == 2


def test_the_input_is_verified():
    with pytest.raises(VerifyError):
        pipeline.optimise(read_chain(CHAIN, {}), enabled=False)
