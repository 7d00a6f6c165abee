"""Names and liveness respect scopes."""

from __future__ import annotations

import textwrap
from typing import Any

import gast
import pytest

from janusc.frontend import liveness, names


def statements(text: str) -> list[Any]:
    return gast.parse(textwrap.dedent(text)).body


@pytest.mark.parametrize(
    ("text", "loads", "stores"),
    [
        ("x = y", {"y"}, {"x"}),
        ("x += y", {"x", "y"}, {"x"}),
        ("a.b[c] = d", {"a", "c", "d"}, set()),
        ("for i, *j in k: l = i", {"k", "i"}, {"i", "j", "l"}),
        ("with a as b: pass", {"a"}, {"b"}),
        ("import a.b, c as d", set(), {"a", "d"}),
        ("[x for x in y if z]", {"y", "z"}, set()),
        ("[x + w for x in x]", {"x", "w"}, set()),
        ("{k: (last := v) for k, v in d}", {"d"}, {"last"}),
        ("f(lambda a, b=c: a + b + e)", {"f", "c", "e"}, set()),
        ("def g(a: b = c) -> d: return a + g + e", {"b", "c", "d", "g", "e"}, {"g"}),
        ("def g():\n    nonlocal n\n    n = 1", {"n"}, {"g", "n"}),
        ("def g():\n    global n\n    n = n + m", {"m"}, {"g"}),
        ("def g():\n    n = 1\n    def h():\n        nonlocal n\n        n = 2", set(), {"g"}),
        ("class C(b):\n    x = y\n    def m(self): return z", {"b", "y", "z"}, {"C"}),
        ("try: pass\nexcept E as e: pass", {"E"}, {"e"}),
        ("match a:\n    case [b, *c] if d: pass\n    case {'k': e, **f}: pass", {"a", "d"}, {"b", "c", "e", "f"}),
        ("x: int = y", {"y"}, {"x"}),
        ("x: int", set(), {"x"}),
    ],
)
def test_loads_and_stores(text: str, loads: set[str], stores: set[str]) -> None:
    found = names.names_of(statements(text))
    assert (found.loads, found.stores) == (loads, stores)


def test_deletes() -> None:
    assert names.deletes(statements("del a, b[c], d.e")) == {"a"}
    assert names.loads(statements("del a, b[c], d.e")) == {"b", "c", "d"}


def test_a_generator_that_is_used_up_at_once_captures_nothing() -> None:
    assert names.captures(statements("sum(x * i for i in y)")) == set()
    assert names.captures(statements("g = (x * i for i in y)")) == {"x"}
    assert names.captures(statements("[lambda: x + i for i in y]")) == {"x"}


@pytest.mark.parametrize(
    ("text", "out", "live"),
    [
        ("x = y", "x z", "y z"),
        ("if a: x = b\nelse: x = c", "x", "a b c"),
        ("if a: x = b", "x", "a b x"),
        ("for i in xs: s = s + i", "s", "xs s"),
        ("for i in xs:\n    t = i\n    s = t", "", "xs"),
        ("while n: n = n - m", "k", "n m k"),
        ("while n:\n    a = b\n    b = c\n    n = a", "", "n b c"),
        ("with m as v: y = v", "", "m"),
        ("with m: y = x", "y", "m x y"),
        ("try: y = x\nexcept E: y = z", "y", "x E z y"),
        ("del x", "x", "x"),
        ("return x", "y", "x"),
        ("def g(): return x", "g", "x"),
        ("a, (b, c.d) = e", "a b", "c e"),
        ("match s:\n    case [a]: r = a\n    case _: r = q", "r", "s a q r"),
        ("(x := y)", "x", "x y"),
    ],
)
def test_live_in(text: str, out: str, live: str) -> None:
    assert liveness.live_in(statements(text), frozenset(out.split())) == set(live.split())


def test_a_stop_flag_is_live_at_the_end_of_the_body() -> None:
    body = statements("for i in xs: f(i)")
    body[0]._jc_stop = "flag"
    assert liveness.live_in(body) == {"xs", "f", "flag"}


def test_a_loop_loads_its_stop_flag() -> None:
    body = statements("for i in xs: f(i)")
    body[0]._jc_stop = "flag"
    assert names.loads(body) == {"xs", "f", "i", "flag"}


def test_live_between_has_a_set_for_every_cut() -> None:
    sets = liveness.live_between(statements("a = x\nb = a\nc = b"), frozenset({"c"}))
    assert sets == ({"x"}, {"a"}, {"b"}, {"c"})
