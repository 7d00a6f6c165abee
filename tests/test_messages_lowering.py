"""The whole text of every diagnostic of the lowering, on a minimal program each.

Lines are counted from the first line of the program, so that programs may move.
"""

import re
import textwrap
import warnings

import pytest
from messages.programs import PROGRAMS

import janusc as janus
from janusc.diagnostics import CODES
from janusc.lowering import codes

# enough for the graph that keeps failing to be given up, and for both ways of a branch
CALLS = 12

MESSAGES: dict[str, str] = {
    "JC301": """
JC301: Import statements are not converted
  at programs.py:+2
    import math
    ^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC302": """
JC302: a tensor or module fixed at conversion would be kept alive by the graph
  at programs.py:+3
    return torch.mul(y, Weight.double)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC303": """
JC303: a function or method made inside the call is used as a value
  at programs.py:+3
    return y, lambda z: z + 1
    ^^^^^^^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
  hint: call it directly
""",
    "JC304": """
JC304: an error was raised here in the graph, and not in the eager run
  at programs.py:+3
    try:
    ^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC305": """
JC305: weight is a torch.sparse_coo tensor
  at programs.py:+1
    def sparse(x, weight):
    ^^^^^^^^^^^^^^^^^^^^^^
  effect: runs eagerly; results unaffected
""",
    "JC306": """
JC306: missing is not defined
  at programs.py:+4
    y = y + missing
            ^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC307": """
JC307: library state _global_forward_hooks is read
  at module.py:?
    _global_forward_hooks, extra_dict=_global_forward_hooks_always_called
    ^^^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC308": """
JC308: a variable is written on one path only
  at programs.py:+3
    if (y * sign).sum() > 0:
    ^^^^^^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC309": """
JC309: Plain finds dynamic dynamically or not at all
  at programs.py:+3
    return y * plain.dynamic
               ^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC310": """
JC310: super().forward is not a plain method
  at programs.py:-3
    return super().forward(x) + 1
           ^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC311": """
JC311: class attribute last is assigned
  at programs.py:+3
    Plain.last = y
    ^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC312": """
JC312: del of something else than a local variable
  at programs.py:+3
    del plain.scale
    ^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC313": """
JC313: starred unpacking of unknown length
  at programs.py:+2
    first, *rest = x.sin() + x.cos()
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  effect: runs eagerly; results unaffected
""",
    "JC314": """
JC314: a dictionary key that varies
  at programs.py:+3
    return {key: y}
           ^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC315": """
JC315: an object is turned into text
  at programs.py:+3
    return y, f"{plain}"
              ^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC316": """
JC316: a huge power
  at programs.py:+3
    return y, 3**5000
              ^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC317": """
JC317: ZeroDivisionError at conversion
  at programs.py:+4
    y = y * (1 / 0)
             ^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC318": """
JC318: operator add on objects
  at programs.py:+3
    return y, plain + 1
              ^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC319": """
JC319: a subscript of a array
  at programs.py:+3
    return y * weights[0]
               ^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC320": """
JC320: Plain decides its own truth
  at programs.py:+3
    return y if plain else x
           ^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC321": """
JC321: iteration over Plain
  at programs.py:+3
    for factor in plain:
    ^^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC322": """
JC322: an iterator is kept
  at programs.py:+3
    pairs = zip((1, 2), (3, 4))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC323": """
JC323: a tensor from outside is changed in place with its history
  at programs.py:+3
    x += weight
    ^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
  hint: use an out-of-place op
""",
    "JC324": """
JC324: a call of time.perf_counter
  at programs.py:+3
    return y, time.perf_counter()
              ^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC325": """
JC325: recursion in descend
  at programs.py:-3
    return x if depth == 0 else descend(x, depth - 1) + 1
                                ^^^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC326": """
JC326: a decorated function inside the call
  at programs.py:+3
    def double(z):
    ^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC327": """
JC327: Hooked has hooks
  at programs.py:+2
    return module(x.sin() + x.cos())
           ^^^^^^^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
  hint: hooks run eagerly, with the module they belong to
""",
    "JC328": """
JC328: out= may resize its tensor
  at programs.py:+3
    torch.add(y, 1, out=out)
    ^^^^^^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC329": """
JC329: method popitem of a dict
  at programs.py:+3
    numbers.popitem()
    ^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC330": """
JC330: print to a file, or with a flush
  at programs.py:+3
    print("in", flush=True)
    ^^^^^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC331": """
JC331: a generator expression that is kept
  at programs.py:+3
    return y, frozenset(n + 1 for n in (1, 2))
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
    "JC332": """
JC332: a context manager other than torch's grad modes and autocast
  at programs.py:+2
    with torch.profiler.record_function("part"):
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  effect: runs eagerly; results unaffected
""",
    "JC333": """
JC333: there is no tensor work to convert
  at programs.py:+1
    def no_work(x):
    ^^^^^^^^^^^^^^^
  effect: runs eagerly; results unaffected
""",
    "JC334": """
JC334: what is read here changed in ordinary Python before it
  at programs.py:+4
    return y, plain.scale
              ^^^^^^^^^^^
  effect: this statement runs eagerly; results unaffected
""",
}


def explanation(code):
    """What ``explain`` says of a program, with lines relative to the program's own."""
    program = PROGRAMS[code]
    first = program.function.__code__.co_firstlineno
    compiled = janus.compile(program.function, warmup=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", janus.JanusWarning)
        for _ in range(CALLS):
            compiled(*program.arguments())
    text = re.sub(r"module\.py:\d+", "module.py:?", janus.explain(compiled))  # torch's own file
    return re.sub(r"programs\.py:(\d+)", lambda found: f"programs.py:{int(found[1]) - first:+d}", text)


@pytest.mark.parametrize("code", MESSAGES)
def test_the_message(code):
    text = MESSAGES[code].strip("\n")
    assert text.startswith(f"{code}: ")
    assert textwrap.indent(text, "  ") + "\n" in explanation(code)


def test_every_code_of_the_lowering_has_its_program_and_message():
    own = {code for code in CODES if code.startswith("JC3")}
    declared = {value for name, value in vars(codes).items() if name.isupper()}
    assert own == declared == MESSAGES.keys() == PROGRAMS.keys()
