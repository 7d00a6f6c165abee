"""Assert hoisting by text: what moves, and what keeps an assert where it is."""

import pytest
from lowering.pass_text import in_body, in_guards, same, unchanged

from janusc.lowering.passes.hoist_asserts import hoist_asserts


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
