"""Literals by text: what becomes one, and what stays for run time."""

import pytest
from lowering.pass_text import in_body, in_guards, same, unchanged

from janusc.lowering.passes import pipeline
from janusc.lowering.passes.constants import constants
from janusc.lowering.passes.folding import folding
from janusc.lowering.printer import print_graph
from janusc.lowering.reader import read_chain


def test_what_the_guards_fix_is_a_literal_in_the_body_and_its_regions():
    chain = read_chain(
        """
        chain c:
          segment(__function__, x, n, flag) -> () returns:
            guards(%0: any, %1: any, %2: int, %3: bool):
              assert equals(%2, 3)
              assert is(%3, None)
              return (%1, %2, %3)
            body(%4: any, %5: int, %6: bool):
              %7: any = loop for(%4, (%5,), (%5, %6)) {
                region(%8: any, %9: int, %10: int, %11: bool):
                  %12: any = context with(%4, %11) {
                    region(%13: bool):
                      return (%13)
                  }
                  %14: int = operator add(%9, %10)
                  return (%11, %14)
              }
              return ((%5, %7))
        """.replace("with(%4, %11)", "with(%8, %11)"),
        {},
    )
    (segment,) = pipeline.optimise(chain).steps
    assert print_graph(segment.body) == (
        "graph(%0: any):\n"
        "  %1: any = loop for(%0, (3,), ()) {\n"
        "    region(%2: any, %3: int):\n"
        "      context with(%2) {\n"
        "        region():\n"
        "          return ()\n"
        "      }\n"
        "      %4: int = operator add(%3, 3)\n"
        "      return (None, %4)\n"
        "  }\n"
        "  return ((3, %1))\n"
    )
    assert len(segment.guards.nodes) == 2


@pytest.mark.parametrize(
    "text",
    [
        "assert equals(%2, 1000)\nreturn (%2)",  # another object than the one that came in
        "assert equals(%2, 1.5)\nreturn (%2)",
        "assert equals(%1, 'a')\nreturn (%1)",
        "%4: int = operator neg(%2)\nassert equals(%2, 1)\nreturn (%4)",  # read before only
        "assert is_not(%1, None)\nassert true(%3)\nreturn (%1, %3)",
    ],
)
def test_what_is_not_certain_or_not_one_object_stays_a_value(text):
    unchanged(constants, text)


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


# flags


@pytest.mark.parametrize("target, literal", [("true", True), ("false", False)])
def test_a_guarded_flag_is_asked_for_once(target, literal):
    text = f"""
        assert type(%3, &bool)
        %4: bool = operator not_(%3)
        assert {target}(%3, site='f')
        assert {target}(%3, site='g')
        return (%0, %4)
    """
    once = f"""
        assert is(%3, {literal}, site='f')
        %4: bool = operator not_({literal})
        return (%0, %4)
    """
    same(in_guards(constants, text), once)


@pytest.mark.parametrize(
    "text",
    [
        "assert type(%1, &cls)\nassert true(%1)\nreturn (%0)",  # truth of another type is no identity
        "assert true(%3)\nreturn (%0)",  # its type is not known
    ],
)
def test_what_may_be_no_flag_is_asked_as_before(text):
    unchanged(constants, text, in_guards)


def test_a_flag_that_must_be_both_is_never_right():
    text = "assert type(%3, &bool)\nassert true(%3)\nassert false(%3)\nreturn (%0)"
    same(in_guards(constants, text), "assert is(%3, True)\nassert false(%3)\nreturn (%0)")
