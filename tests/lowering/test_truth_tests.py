"""Comparisons by text: which of them are asked for their truth alone."""

import pytest
from lowering.pass_text import in_body, same, unchanged

from janusc.lowering.passes.truths import truths

CHOICE = """
%4: tensor = operator gt(%0, {right})
{between}
%6: int = cond if(%4, {handed}) {{
  region(%7: any):
    return ({then})
  region(%8: any):
    return (2)
}}
return ({outputs})
"""


def choice(right="0.5", between="", handed="1", then="1", outputs="%6"):
    return CHOICE.format(right=right, between=between, handed=handed, then=then, outputs=outputs)


def test_what_only_decides_is_a_test():
    same(in_body(truths, choice()), choice().replace("operator gt", "test gt"))


@pytest.mark.parametrize("right", ["0.5", "%0", "3"])
def test_the_other_side_is_a_number_or_a_tensor(right):
    same(in_body(truths, choice(right)), choice(right).replace("operator gt", "test gt"))


@pytest.mark.parametrize(
    "text",
    [
        choice(outputs="%6, %4"),
        choice(between="%5: tensor = torch torch.sum(%4)", outputs="%6, %5"),
        choice(between="assert type(%4, 1)"),
        choice(handed="%4", then="%7"),
        choice(right="'a'"),
        choice(right="True"),
        choice(right="%1"),  # nothing is known of it
    ],
)
def test_what_more_is_asked_of_stays_a_tensor(text):
    unchanged(truths, text)


def test_asserts_and_not_ask_for_the_truth():
    text = "%4: tensor = operator le(%0, 1)\nassert false(%4)\n%5: bool = operator not_(%4)\nreturn (%5)"
    same(in_body(truths, text), text.replace("operator le", "test le"))


def test_a_region_hands_out_what_decides_later():
    text = """
    %4: tensor = operator lt(%0, 1.5)
    %5: any = cond if(%4, %4, %0) {
      region(%6: any, %7: tensor):
        return (%6)
      region(%8: any, %9: tensor):
        %10: tensor = operator lt(%9, 3)
        return (%10)
    }
    assert true(%5)
    return ()
    """
    same(in_body(truths, text), text.replace("operator lt", "test lt"))
    unchanged(truths, text.replace("return ()", "return (%5)"))


def test_a_loop_asks_for_the_truth_of_whether_it_goes_on():
    text = """
    %4: tensor = loop while(None, (%0,), (), enter=True) {
      region(%5: tensor):
        %6: tensor = torch torch.abs(%5)
        %7: tensor = operator gt(%6, 0.25)
        return (%7, %6)
    }
    return (%4)
    """
    same(in_body(truths, text), text.replace("operator gt", "test gt"))
    unchanged(truths, text.replace("return (%7, %6)", "return (%7, %7)"))
