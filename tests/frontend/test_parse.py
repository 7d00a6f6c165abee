"""What is known of a function once it is parsed."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import gast
import pytest
from sources import function_of, namespace_of

from janusc.diagnostics import Refusal
from janusc.frontend import parse


def parsed(text: str, **names: Any) -> parse.ParsedFunction:
    return parse.parse(function_of(text, **names))


def test_record() -> None:
    names = namespace_of(
        """
        def outer(n):
            @mark
            def f(a, /, b=1, *c, d, **e):
                global g, h
                x = [y for y in b]
                g = n
                return lambda: x
            return f
        """,
        mark=lambda function: function,
    )
    found = parse.parse(names["outer"](3))
    assert found.key == "written.outer.<locals>.f@4:4"
    assert found.parameters == ("a", "b", "d", "c", "e")
    assert found.local_names == {"a", "b", "c", "d", "e", "x"}
    assert found.global_names == {"g", "h"}
    assert found.free_names == ("n",)
    assert found.cell_names == {"x"}
    assert found.captured_writes == set()
    assert found.tree.decorator_list == []
    assert not [node for node in found.body if isinstance(node, gast.Global)]
    assert found.source.startswith("    @mark\n")


def test_same_code_same_record() -> None:
    names = namespace_of("def outer():\n    def f(): return 1\n    return f\n")
    assert parse.parse(names["outer"]()) is parse.parse(names["outer"]())
    assert parse.parse(names["outer"]()) is not parse.parse(names["outer"])


def test_equal_code_in_two_files_is_told_apart() -> None:
    text = "def f(x):\n    return x\n"
    one, two = parsed(text), parsed(text)
    assert one.code == two.code
    assert one.filename != two.filename


def test_refusals_are_kept() -> None:
    function = function_of("def f():\n    return locals()\n")
    with pytest.raises(Refusal) as first:
        parse.parse(function)
    with pytest.raises(Refusal) as second:
        parse.parse(function)
    assert first.value.diagnostic is second.value.diagnostic
    assert first.value is not second.value


@pytest.mark.parametrize(
    "call",
    ["sys._getframe()", "inspect.currentframe()", "inspect.stack()", "breakpoint()", "pdb.set_trace()", "set_trace()"],
)
def test_who_looks_at_frames_sees_those_of_the_user(call: str) -> None:
    with pytest.raises(Refusal, match="its own frame|a debugger"):
        parse.parse(function_of(f"def f(x):\n    y = [x, (lambda: {call})]\n    return torch.stack(y)\n"))
    assert parsed("def f(x, breakpoint):\n    breakpoint()\n    return torch.stack(x)\n").name == "f"


@pytest.mark.parametrize(
    "text",
    [
        "from sys import _getframe as own\ndef f(x):\n    return own()\n",
        "import inspect as looks\ndef f(x):\n    return looks.stack()\n",
        "from inspect import stack\ndef f(x):\n    return [frame.function for frame in stack()]\n",
        "def f(x):\n    from sys import _getframe as own\n    return own(1)\n",
        "def outer():\n    from sys import _getframe as g\n    def f(x):\n        g()\n    return f\nf = outer()\n",
        "def f(x):\n    try:\n        x()\n    except TypeError as e:\n        return e.__traceback__.tb_frame\n",
    ],
)
def test_who_looks_at_frames_under_another_name_is_found(text: str) -> None:
    with pytest.raises(Refusal, match="looks at its own frame"):
        parse.parse(function_of(text))
    assert parsed("from torch import stack, trace\ndef f(x):\n    return stack(x), trace(x[0])\n").name == "f"


def test_records_are_not_kept_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "_CACHED_FUNCTIONS", 0)
    alive = weakref.ref(parsed("def f(x):\n    return x\n"))
    gc.collect()
    assert alive() is None


def test_sites_are_unique() -> None:
    found = parsed(
        """
        def f(a, b):
            if a.b.c(b)(a) + a + b:
                return f"{a}{a} {b:{a}}"
            return a < b < a
        """
    )
    nodes = [node for node in gast.walk(found.tree) if hasattr(node, "lineno")]
    sites = [parse.site(found, node) for node in nodes]
    assert len(set(sites)) == len(sites)


def test_sites_of_the_body_are_those_of_the_tree_or_new_ones() -> None:
    text = """
    def f(xs):
        for x in xs:
            if x:
                if x > 1: continue
                y = x
            if y: return y
        return 0
    """
    found = parsed(text)
    kept = {parse.site(found, node) for node in gast.walk(found.tree) if hasattr(node, "lineno")}
    body = [node for statement in found.body for node in gast.walk(statement) if hasattr(node, "lineno")]
    sites = [parse.site(found, node) for node in body if isinstance(node, (gast.If, gast.For, gast.Assign))]
    assert len(set(sites)) == len(sites)
    assert {site for site in sites if "~" not in site} <= kept
    assert parse.site(found, found.tree.body[0], "trips").endswith(":3:4-7:22:trips")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(x):\n    g = lambda: x\n    return g\n", set()),
        ("def f(x):\n    x = x + 1\n    g = lambda: x\n    return g\n", set()),
        ("def f(x):\n    g = lambda: x\n    x = 2\n    return g\n", {"x"}),
        ("def f(x):\n    def g():\n        nonlocal x\n        x = 1\n    g()\n    return x\n", {"x"}),
        ("def f(x):\n    def g(n):\n        return g(n - 1) if n else 0\n    return g(x)\n", set()),
        ("def f(x):\n    fs = []\n    for i in x:\n        fs.append(lambda: i)\n    return fs\n", {"i"}),
        ("def f(x):\n    for i in x:\n        i = i + sum(i * j for j in x)\n    return i\n", set()),
        ("def f(x):\n    g = (x for _ in x)\n    x = 1\n    return g\n", {"x"}),
        ("def f(x):\n    while x:\n        y = x\n        x = y - 1\n    return lambda: y\n", set()),
    ],
)
def test_captured_writes(text: str, names: set[str]) -> None:
    assert parsed(text).captured_writes == names


def test_super_is_spelled_out() -> None:
    names = namespace_of("class A:\n    def f(me, x):\n        return [super().g(x), (lambda q: super())]\n")
    body = parse.parse(names["A"].f).body
    assert gast.unparse(gast.Module(body=list(body), type_ignores=[])).strip() == (
        "return [super(__class__, me).g(x), lambda q: super()]"
    )


def test_annotated_assignments() -> None:
    body = parsed("def f(x):\n    y: int = x\n    z: int\n    x.a: int = y\n").body
    assert [type(node).__name__ for node in body] == ["Assign", "Pass", "Assign"]
    assert parsed("def f(x):\n    y: int\n").local_names == {"x", "y"}


def test_frame_readers() -> None:
    assert parsed("def f(locals):\n    return locals()\n").name == "f"
    assert parsed("def f(x):\n    return vars(x), dir(x), eval('1', {}, {})\n").name == "f"
    for text in ("vars()", "dir()", "eval('x')", "exec('x', {})"):
        with pytest.raises(Refusal):
            parsed(f"def f(x):\n    return {text}\n")
