"""Saves by text: which of them no failure can need."""

import pytest
from lowering.pass_text import in_body, same, unchanged

from janusc.lowering.passes.prune_saves import prune_saves
from janusc.lowering.printer import print_graph


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
