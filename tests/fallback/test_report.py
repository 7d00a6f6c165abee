"""What ``stats``, ``explain`` and ``graphs`` say."""

from __future__ import annotations

import pytest
from conversions import Made

from janusc.diagnostics import Diagnostic
from janusc.fallback import cache, places, report
from janusc.frontend import parse
from janusc.lowering import ops
from janusc.lowering.ir import Chain, Const, Graph, HostRange, Node, Segment, Value
from janusc.options import make_options
from janusc.source import Span
from janusc.types import ANY


def sample(x):
    y = x + 1
    print(y)
    return y


LINE = sample.__code__.co_firstlineno


def span(offset):
    return Span(__file__, LINE + offset)


def chain():
    x, y = Value(0, ANY), Value(1, ANY)
    check = Node(ops.ASSERT, "is", (x, Const(None)), (("site", Const("s")),), span=span(0))
    add = Node(ops.OPERATOR, "add", (x, Const(1)), outputs=(y,), span=span(1))
    segment = Segment(("x",), Graph((x,), (check,), (x,)), Graph((x,), (add,), (y,)), ("y",))
    return Chain("sample", (segment, HostRange("rest", ("y",), returns=True, reason="it prints", span=span(2))))


@pytest.fixture
def state():
    note = Diagnostic("JC777", "a note", span(2))

    def convert(*_, listener, enter):
        return Made(lambda function, x: function(x), chain(), "def run(): ...\n", (note,))

    f = cache.wrap(sample, make_options({"warmup": 1}), convert)
    found = cache.find_state(f)
    found.call = f
    return found


def test_explain_before_any_call(state):
    assert report.explain_state(state).splitlines()[:3] == [
        f"sample (test_report.py:{LINE})",
        "  is being profiled: 0 of 1 calls",
        "  0 calls: 0 in graphs, 0 eager, 0 begun in a graph and finished eagerly",
    ]


def test_explain_shows_transactions_assumptions_and_ordinary_python(state, capsys):
    state.call(1), state.call(1)
    text = report.explain_state(state)
    assert "\n  runs in graphs\n  2 calls: 1 in graphs, 1 eager, 0 begun" in text
    assert text.partition("\n\n")[2] == (
        "graph 1: 1 call, 0 of them finished eagerly\n"
        f"  1. transaction      1 node, line {LINE + 1}\n"
        f"     assumes  test_report.py:{LINE}: def sample(x):\n"
        "         s\n"
        f"  2. ordinary Python  test_report.py:{LINE + 2}: print(y)\n"
        "     because it prints\n"
        "  JC777: a note\n"
        f"    at test_report.py:{LINE + 2}\n"
        "      print(y)\n"
        "      ^^^^^^^^\n"
        "    effect: runs eagerly; results unaffected\n"
    )


def test_explain_names_the_line_of_a_failed_assumption(state, capsys):
    parsed = parse.parse(sample)
    state.call(1), state.call(1)
    state.variants[0].failed(parse.site(parsed, parsed.tree.body[0]), AssertionError(), True)
    text = report.explain_state(state)
    assert "rolled back and finished eagerly:" in text
    assert f"1 × test_report.py:{LINE + 1}: y = x + 1\n" in text and "is not assumed again" in text
    assert report.make_stats(state).fallbacks == 1


def test_graphs_print(state, capsys):
    assert str(report.list_graphs(state)) == ""
    state.call(1), state.call(1)
    views = report.list_graphs(state)
    assert len(views) == 1 and views[0].calls == 1 and views[0].source == "def run(): ...\n"
    assert "add" in str(views[0]) and str(views[0]) in str(views)


def test_sites_of_other_functions_are_found_by_their_module():
    parsed = parse.parse(places.span_of_site)
    site = parse.site(parsed, parsed.tree.body[1])  # after the docstring
    found = places.span_of_site(site, "other", "other.py")
    assert found is not None and found.filename == places.__file__
    assert found.text() == "found = _SITE.fullmatch(site)"
    assert places.span_of_site("no site", "other", "other.py") is None
