"""One minimal program for every diagnostic code of the frontend and the fallback, with the whole text of its message.

Those of the lowering are in ``test_messages_lowering``; that every code has its message is asked here.
"""

from __future__ import annotations

import functools
import linecache
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import gast
import pytest
from test_messages_lowering import MESSAGES

from janusc.diagnostics import CODES, JanusWarning, Refusal
from janusc.fallback import cache
from janusc.frontend import language, parse
from janusc.lowering.ir import Chain
from janusc.options import make_options
from janusc.sentinels import MISS

FILE = "<program>"


def program(text: str) -> dict[str, Any]:
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, FILE, "exec", dont_inherit=True), names)
    return names


def refusal_of(target: Any) -> str:
    with pytest.raises(Refusal) as caught:
        parse.parse(target)
    return str(caught.value)


def statement_message(text: str) -> str:
    """The message for the last statement of a module."""
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    node = language.blocking(gast.parse(text).body[-1])
    assert node is not None
    return str(language.diagnose(node, FILE))


def edited() -> Any:
    function = program("def f(x):\n    return x + 1\n")["f"]
    program("def f(x):\n    return x + 2\n")
    return function


def without_source() -> Any:
    names: dict[str, Any] = {}
    exec("def f(x): return x", names)
    return names["f"]


REFUSED: dict[str, tuple[Any, str]] = {
    "JC101": (
        without_source,
        """
JC101: no source for 'f' in '<string>'
  effect: runs eagerly; results unaffected
  hint: define the function in a file; functions made by exec have no source
""",
    ),
    "JC102": (
        edited,
        """
JC102: the source of 'f' is not what it was compiled from
  at <program>:1
    def f(x):
    ^^^^^^^^^
  effect: runs eagerly; results unaffected
  hint: reload the module after editing it; code rewritten on import (such as a test's asserts) stays eager
""",
    ),
    "JC103": (
        lambda: len,
        """
JC103: 'len' is implemented in C
  effect: runs eagerly; results unaffected
""",
    ),
    "JC104": (
        lambda: program("def f(xs):\n    for x in xs:\n        yield x\n")["f"],
        """
JC104: 'f' is a generator function
  at <program>:1
    def f(xs):
    ^^^^^^^^^^
  effect: runs eagerly; results unaffected
  hint: compile the function that does the work for one item
""",
    ),
    "JC105": (
        lambda: program("async def f(x):\n    return x\n")["f"],
        """
JC105: 'f' is an async function
  at <program>:1
    async def f(x):
    ^^^^^^^^^^^^^^^
  effect: runs eagerly; results unaffected
""",
    ),
    "JC106": (
        lambda: program("async def f(x):\n    yield x\n")["f"],
        """
JC106: 'f' is an async generator function
  at <program>:1
    async def f(x):
    ^^^^^^^^^^^^^^^
  effect: runs eagerly; results unaffected
""",
    ),
    "JC107": (
        lambda: program("class Plain:\n    pass\n")["Plain"],
        """
JC107: class 'Plain' is no torch.nn.Module
  effect: runs eagerly; results unaffected
  hint: compile its methods one by one
""",
    ),
    "JC108": (
        lambda: functools.partial(print),
        """
JC108: an object of type 'partial' is no Python function
  effect: runs eagerly; results unaffected
""",
    ),
    "JC109": (
        lambda: program('def f(x):\n    return eval("x + 1")\n')["f"],
        """
JC109: 'f' reads its own local names through eval()
  at <program>:2
    return eval("x + 1")
           ^^^^^^^^^^^^^
  effect: runs eagerly; results unaffected
  hint: give eval() its namespaces
""",
    ),
    "JC110": (
        lambda: program("def f(x):\n    try:\n        x()\n    finally:\n        return 1\n")["f"],
        """
JC110: return inside a finally block
  at <program>:5
    return 1
    ^^^^^^^^
  effect: runs eagerly; results unaffected
  hint: it drops an exception on its way; move it after the try statement
""",
    ),
    "JC111": (
        lambda: program("def f(x):\n    breakpoint()\n    return x + 1\n")["f"],
        """
JC111: 'f' calls a debugger
  at <program>:2
    breakpoint()
    ^^^^^^^^^^^^
  effect: runs eagerly; results unaffected
  hint: take the call out to have graphs again
""",
    ),
    "JC112": (
        lambda: program("from sys import _getframe as here\ndef f(x):\n    return here().f_lineno\n")["f"],
        """
JC112: 'f' looks at its own frame
  at <program>:3
    return here().f_lineno
           ^^^^
  effect: runs eagerly; results unaffected
""",
    ),
}

STATEMENTS: dict[str, tuple[str, str]] = {
    "JC201": (
        "try:\n    f()\nexcept ValueError:\n    pass\n",
        """
JC201: a try statement is not converted
  at <program>:1
    try:
    ^^^^
  effect: this statement runs as ordinary Python between two graphs; results unaffected
  hint: move what it guards against out of the hot path
""",
    ),
    "JC202": (
        "try:\n    f()\nexcept* ValueError:\n    pass\n",
        """
JC202: a try statement with except* is not converted
  at <program>:1
    try:
    ^^^^
  effect: this statement runs as ordinary Python between two graphs; results unaffected
  hint: move what it guards against out of the hot path
""",
    ),
    "JC203": (
        "raise ValueError(x)\n",
        """
JC203: a raise statement is not converted
  at <program>:1
    raise ValueError(x)
    ^^^^^^^^^^^^^^^^^^^
  effect: this statement runs as ordinary Python between two graphs; results unaffected
""",
    ),
    "JC204": (
        "match x:\n    case 1:\n        pass\n",
        """
JC204: a match statement is not converted
  at <program>:1
    match x:
    ^^^^^^^^
  effect: this statement runs as ordinary Python between two graphs; results unaffected
  hint: if and elif are converted
""",
    ),
    "JC205": (
        "class C:\n    pass\n",
        """
JC205: a class definition inside a function is not converted
  at <program>:1
    class C:
    ^^^^^^^^
  effect: this statement runs as ordinary Python between two graphs; results unaffected
  hint: define the class at module level
""",
    ),
    "JC206": (
        "del x.y\n",
        """
JC206: a del statement of something else than names and items is not converted
  at <program>:1
    del x.y
    ^^^^^^^
  effect: this statement runs as ordinary Python between two graphs; results unaffected
""",
    ),
    "JC207": (
        "import math\n",
        """
JC207: an import inside a function is not converted
  at <program>:1
    import math
    ^^^^^^^^^^^
  effect: this statement runs as ordinary Python between two graphs; results unaffected
  hint: import at module level
""",
    ),
    "JC208": (
        "type A = int\n",
        """
JC208: a type alias inside a function is not converted
  at <program>:1
    type A = int
    ^^^^^^^^^^^^
  effect: this statement runs as ordinary Python between two graphs; results unaffected
""",
    ),
    "JC209": (
        'x = t"{y}"\n',
        """
JC209: a template string is not converted
  at <program>:1
    x = t"{y}"
        ^^^^^^
  effect: this statement runs as ordinary Python between two graphs; results unaffected
""",
    ),
    "JC210": (
        "async def g():\n    pass\n",
        """
JC210: an async function defined inside a function is not converted
  at <program>:1
    async def g():
    ^^^^^^^^^^^^^^
  effect: this statement runs as ordinary Python between two graphs; results unaffected
""",
    ),
    "JC211": (
        "x = await y\n",
        """
JC211: asynchronous code is not converted
  at <program>:1
    x = await y
        ^^^^^^^
  effect: runs eagerly; results unaffected
""",
    ),
    "JC212": (
        "x = yield y\n",
        """
JC212: a generator's yield is not converted
  at <program>:1
    x = yield y
        ^^^^^^^
  effect: runs eagerly; results unaffected
""",
    ),
}

# syntax that older versions of Python don't parse
NEEDS = {"JC202": (3, 11), "JC208": (3, 12), "JC209": (3, 14)}


@pytest.mark.parametrize("code", REFUSED)
def test_refused_functions(code: str) -> None:
    make, text = REFUSED[code]
    assert refusal_of(make()) == text.strip("\n")
    assert text.lstrip("\n").startswith(code)


@pytest.mark.parametrize("code", STATEMENTS)
def test_statements_that_are_not_converted(code: str) -> None:
    source, text = STATEMENTS[code]
    if sys.version_info < NEEDS.get(code, (3, 10)):
        with pytest.raises(SyntaxError):
            gast.parse(source)
        return
    assert statement_message(source) == text.strip("\n")
    assert text.lstrip("\n").startswith(code)


def test_a_module_is_no_function() -> None:
    found = language.diagnose(gast.parse("x = 1"), FILE)
    assert str(found) == (
        "JC213: a whole module is not converted\n  at <program>:0\n  effect: runs eagerly; results unaffected"
    )


def fail(*_: Any, **__: Any) -> Any:
    raise KeyError("oops")


def make_misfit(*_: Any, **__: Any) -> SimpleNamespace:
    """A specialisation whose guards hold for no call."""
    return SimpleNamespace(
        run=lambda function, x: MISS, chain=Chain("misfit", ()), source="", notes=(), guard_count=1, places=()
    )


FALLBACK: dict[str, tuple[Any, str]] = {
    "JC901": (
        fail,
        """
JC901: a fault of janusc's own (KeyError: 'oops')
  effect: runs eagerly; results unaffected
  hint: please report this, with what janus.explain() prints for it
""",
    ),
    "JC902": (
        make_misfit,
        """
JC902: the guards of a new graph did not hold for its own call
  at <program>:1
    def f(x):
    ^^^^^^^^^
  effect: runs eagerly; results unaffected
""",
    ),
}


@pytest.mark.parametrize("code", FALLBACK)
def test_messages_of_the_fallback(code: str) -> None:
    convert, text = FALLBACK[code]
    function = cache.wrap(program("def f(x):\n    return x + 1\n")["f"], make_options({"warmup": 0}), convert)
    state = cache.find_state(function)
    assert state is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JanusWarning)
        assert function(1) == 2
    found = [*state.notes.refusals, *([state.verdict] if state.verdict is not None else [])]
    assert [str(diagnostic) for diagnostic in found] == [text.strip("\n")]


def test_every_code_has_its_message() -> None:
    assert set(CODES) == {*REFUSED, *STATEMENTS, "JC213", *MESSAGES, *FALLBACK}
