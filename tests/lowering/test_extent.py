"""How many lines a conversion goes through: in a loop that will be unrolled, each pass counts."""

from __future__ import annotations

import linecache

import pytest
import torch
from torch import nn

from janusc.lowering.extent import AGAIN, count_lines
from janusc.typeinfer.instrument import Instrumenter
from janusc.typeinfer.profile import Profile

LAYERS = [nn.Linear(2, 2) for _ in range(6)]


def lines_of(source, *calls):
    """The lines told after some calls of ``f``."""
    filename = f"<extent {abs(hash(source))}>"
    text = f"import torch\n{source}"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    space = {"__name__": "program", "LAYERS": LAYERS}
    exec(compile(text, filename, "exec"), space)
    profile = Profile()
    instrumenter = Instrumenter(profile)
    for arguments in calls:
        instrumenter.twin(space["f"])(*arguments)
    return count_lines(instrumenter.extents, profile)


def counted(once, again):
    """What lines count as of which so many are gone through once, and so many again."""
    return once + again // AGAIN


X = torch.ones(2)
STRAIGHT = """
def f(x):
    y = x + 1
    return y
"""
PLAIN = 3
"""The lines of STRAIGHT: that of the ``def`` among them."""


def loop(over, *body, before=()):
    """A function with a loop in it: two lines and those of the body more than STRAIGHT less one."""
    lines = ["def f(x, *rest):", *("    " + line for line in before), f"    for item in {over}:"]
    return "\n".join([*lines, *("        " + line for line in body), "    return x", ""])


@pytest.mark.parametrize(
    ("source", "calls", "expected"),
    [
        (STRAIGHT, [(X,)], PLAIN),
        (loop("LAYERS", "x = item(x)", "x = x + 1"), [(X,)], counted(5, 5 * 2)),
        (loop("range(6)", "x = x + 1"), [(X,)], counted(4, 5)),
        (
            loop("range(6)", "for layer in LAYERS:", "    x = layer(x)", "    x = x + 1"),
            [(X,)],
            counted(6, 6 * (1 + 6 * 2) - 3),
        ),
        (loop("(1, 2, 3)", "x = x + item"), [(X,)], counted(4, 2)),
        (loop("range(len(rest))", "x = x + 1"), [(X, 1, 2)], counted(4, 1)),
    ],
    ids=["straight", "objects", "a fixed range", "nested", "a display", "few"],
)
def test_a_pass_of_an_unrolled_loop_counts(source, calls, expected):
    assert lines_of(source, *calls) == expected


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        (loop("x", "x = x + item"), [(torch.ones(30),)]),
        (loop("range(len(rest))", "x = x + 1"), [(X, *range(30))]),
        (loop("rest", "x = item(x)"), [(X, *LAYERS), (X, *LAYERS[:5])]),
        (loop("range(500)", "x = x + 1"), [(X,)]),
        (loop("range(3)", "raise ValueError"), []),
    ],
    ids=["a tensor", "a run-time range", "trips that vary", "too many", "never called"],
)
def test_a_loop_that_stays_one_counts_once(source, calls):
    once = 4 if calls else 0
    assert lines_of(source, *calls) == once


CALLED = """
def block(layer, x):
    y = layer(x)
    return torch.relu(y)

def f(x):
    for layer in LAYERS:
        x = block(layer, x)
    return x
"""


def test_what_an_unrolled_loop_calls_counts_once_a_pass():
    assert lines_of(CALLED, (X,)) == counted(4 + 3, 5 * (1 + 3))


PARTS = """
from torch import nn

class Block(nn.Module):
    def forward(self, x):
        x = x + 1
        return x

class Other(Block):
    def forward(self, x):
        return x * 2

model = nn.Sequential(Block(), nn.Sequential(Block(), Other()), nn.Linear(2, 2), Block())

def f(x):
    return model(x)
"""


def test_parts_of_a_sequential_count_each():
    assert lines_of(PARTS, (X,)) == counted(2 + 3 + 2, 2 * 3)


def test_a_recursion_counts_once():
    source = """
def walk(tree, x):
    for child in tree:
        x = walk(child, x)
    return x + 1

def f(x):
    return walk(((), ((), ()), ((), (), ((),))), x)
"""
    assert lines_of(source, (X,)) == 2 + 4
