"""Common subexpressions by text: what is merged, and what stays apart."""

import pytest
from lowering.pass_text import in_body, in_guards, same, unchanged

from janusc.lowering.passes.subexpressions import subexpressions


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
