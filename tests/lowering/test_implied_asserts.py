"""Asserts on types that another assert on the same value implies."""

import pytest
from lowering.pass_text import in_body, in_guards, same, unchanged

from janusc.lowering.passes.implied_asserts import implied_asserts

BOTH = pytest.mark.parametrize("where", [in_guards, in_body])


@BOTH
@pytest.mark.parametrize("literal", ["equals(%2, 3)", "is(%3, False)", "is(%1, None)"])
def test_a_literal_says_its_type(literal, where):
    value = literal[literal.index("%") : literal.index(",")]
    fixed = f"assert {literal}\nreturn (%0)"
    same(where(implied_asserts, f"assert type({value}, &cls)\n{fixed}"), fixed)
    same(where(implied_asserts, f"assert {literal}\nassert type({value}, &cls)\nreturn (%0)"), fixed)


@BOTH
@pytest.mark.parametrize(
    "other",
    [
        "assert equals(%2, 3)",  # of another value
        "assert is(%1, 3)",  # an int equal to it is another object
        "assert is(%1, &thing)",
        "assert is_not(%1, None)",
        "assert true(%1)",
    ],
)
def test_what_fixes_no_literal_leaves_the_type_to_be_asked(other, where):
    unchanged(implied_asserts, f"assert type(%1, &cls)\n{other}\nreturn (%0)", where)
