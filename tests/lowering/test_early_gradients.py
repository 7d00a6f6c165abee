"""Gradients dropped and computed as early as can be, by text: what moves above what, and what stays."""

import pytest
from lowering.pass_text import in_body, same, unchanged

from janusc.lowering.passes.early_gradients import early_gradients


def test_a_backward_pass_moves_right_behind_its_loss_and_gradients_are_dropped_before_that():
    same(
        in_body(
            early_gradients,
            """
            %4: tensor = torch torch.exp(%0)
            %5: tensor = torch.random torch.dropout(%4)
            save tensor(%0)
            %6: tensor = torch.write torch.add_(%0, %5)
            %7: tensor = torch torch.sum(%6)
            %8: float = method item(%7)
            assert type(%8, 'float', site='s')
            %9: bool = operator gt(%8, 3.0)
            assert false(%9, site='t')
            zero_grad(%1, True)
            backward(%7, (%0))
            step(%1)
            return (%8)
            """,
        ),
        """
        zero_grad(%1, True)
        %4: tensor = torch torch.exp(%0)
        %5: tensor = torch.random torch.dropout(%4)
        save tensor(%0)
        %6: tensor = torch.write torch.add_(%0, %5)
        %7: tensor = torch torch.sum(%6)
        backward(%7, (%0))
        %8: float = method item(%7)
        assert type(%8, 'float', site='s')
        %9: bool = operator gt(%8, 3.0)
        assert false(%9, site='t')
        step(%1)
        return (%8)
        """,
    )


def test_gradients_are_dropped_before_a_region():
    same(
        in_body(
            early_gradients,
            """
            %4: any = torch torch.autocast('cpu')
            %5: tensor = context with(%4, %0) {
            region(%6: tensor):
            %7: tensor = torch torch.exp(%6)
            save tensor(%6)
            %8: tensor = torch.write torch.add_(%6, %7)
            return (%7)
            }
            zero_grad(%1, True)
            backward(%5, (%0))
            return ()
            """,
        ),
        """
        zero_grad(%1, True)
        %4: any = torch torch.autocast('cpu')
        %5: tensor = context with(%4, %0) {
          region(%6: tensor):
            %7: tensor = torch torch.exp(%6)
            save tensor(%6)
            %8: tensor = torch.write torch.add_(%6, %7)
            return (%7)
        }
        backward(%5, (%0))
        return ()
        """,
    )


@pytest.mark.parametrize(
    "text",
    [
        # what is in gradients may be what is computed with, and an object may hold them
        "%4: tensor = torch torch.exp(%0)\nzero_grad(%1, False)\nreturn (%4)",
        "%4: tensor = read.attr grad(%0)\nzero_grad(%1, True)\nreturn (%4)",
        "save list(%1)\nzero_grad(%1, True)\nreturn ()",
        "%4: any = torch torch.no_grad()\n%5: tensor = context with(%4, %0) {\nregion(%6: tensor):\n"
        "%7: tensor = read.attr grad(%6)\nreturn (%7)\n}\nzero_grad(%1, True)\nreturn (%5)",
        "assert unsaved(%1)\nzero_grad(%1, True)\nreturn ()",
        "%4: tensor = torch torch.exp(%0)\n%5: tensor = torch torch.sum(%0)\nbackward(%4, (%0))\nreturn (%5)",
        "%4: tensor = torch torch.exp(%0)\n%5: tensor = torch torch.add(%4, %0)\nbackward(%4, (%0))\nreturn (%5)",
        "%4: tensor = torch torch.exp(%0)\nassert true(%3)\nbackward(%4, (%0))\nreturn ()",
        "%4: tensor = torch torch.exp(%0)\n%5: tensor = torch.random torch.rand(%4)\nbackward(%4, (%0))\nreturn (%5)",
        "%4: tensor = torch torch.exp(%0)\nzero_grad(%1, False)\nbackward(%4, (%0))\nreturn ()",
    ],
)
def test_what_may_see_gradients_keeps_its_place(text):
    unchanged(early_gradients, text)


def test_what_is_detached_is_detached_where_it_is_made():
    same(
        in_body(
            early_gradients,
            """
            %4: tensor = torch torch.exp(%0)
            %5: tensor = torch torch.sin(%4)
            %6: tensor = method detach(%4)
            %7: tensor = method detach(%0)
            return (%5, %6, %7)
            """,
        ),
        """
        %4: tensor = torch torch.exp(%0)
        %6: tensor = method detach(%4)
        %5: tensor = torch torch.sin(%4)
        %7: tensor = method detach(%0)
        return (%5, %6, %7)
        """,
    )
