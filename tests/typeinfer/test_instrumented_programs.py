"""Generated programs do the same when they are instrumented: results, exceptions and their lines, order of effects."""

from __future__ import annotations

import traceback
import warnings

from from_source import define
from hypothesis import given
from hypothesis import strategies as st

from janusc.typeinfer.instrument import Instrumenter
from janusc.typeinfer.profile import Profile

NAMES = ["a", "b", "c"]
EXPRESSIONS = st.recursive(
    st.sampled_from([*NAMES, "0", "1", "2", "[]", "[1, 2]", "'s'", "None"]),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("(not {})".format, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("({} == {})".format, inner, inner),
        st.builds("trace({})".format, inner),
        st.builds("helper({}, k={})".format, inner, inner),
        st.builds("[x for x in ({}, {}) if {}]".format, inner, inner, inner),
        st.builds("f'{{{}!r}}'".format, st.sampled_from(NAMES)),
        st.builds("(c := {})".format, inner).filter(lambda text: " for " not in text),
        st.builds("(lambda a: {})({})".format, inner, inner),
    ),
    max_leaves=5,
)


def indent(lines):
    return ["    " + line for line in lines]


def suites(statement):
    return st.lists(statement, min_size=1, max_size=3).map(lambda blocks: [line for block in blocks for line in block])


def compound(inner):
    body = suites(inner).map(indent)
    return st.one_of(
        st.builds(lambda e, x, y: [f"if {e}:", *x, "else:", *y], EXPRESSIONS, body, body),
        st.builds(
            lambda n, t, x, y: [f"for {t} in range({n}):", *x, "else:", *y],
            st.integers(0, 3),
            st.sampled_from(NAMES),
            body,
            body,
        ),
        st.builds(lambda e, x: [f"while tick() and {e}:", *x], EXPRESSIONS, body),
        st.builds(lambda x, y: ["try:", *x, "except (TypeError, AssertionError):", *y], body, body),
        st.builds(lambda x, y: ["try:", *x, "finally:", *y], body, body),
        st.builds(lambda x: ["with manager():", *x], body),
        st.builds(lambda e, x: [f"for _ in [{e}]:", *x, "    if trace(_): break", "    continue"], EXPRESSIONS, body),
    )


SIMPLE = st.one_of(
    st.builds(lambda n, e: [f"{n} = {e}"], st.sampled_from(NAMES), EXPRESSIONS),
    st.builds(lambda n, e: [f"{n} += {e}"], st.sampled_from(NAMES), EXPRESSIONS),
    st.builds(lambda e: [f"trace({e})"], EXPRESSIONS),
    st.builds(lambda e: [f"assert {e}, trace('failed')"], EXPRESSIONS),
    st.builds(lambda e, g: [f"a, b = {e}, {g}"], EXPRESSIONS, EXPRESSIONS),
    st.builds(lambda e: [f"if {e}: return {e}"], EXPRESSIONS),
)
PROGRAMS = suites(st.recursive(SIMPLE, compound, max_leaves=6))


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")

    def __exit__(self, kind, *rest):
        self.log.append(f"exit {kind and kind.__name__}")


def run(function, log):
    """Result or exception with its lines, and all that was traced."""
    log.clear()
    try:
        outcome = ("result", repr(function(1, [], None)))
    except Exception as error:
        lines = [(s.filename, s.lineno) for s in traceback.extract_tb(error.__traceback__)[1:]]
        outcome = (type(error).__name__, str(error), lines, type(error.__context__).__name__)
    return outcome, list(log)


@given(PROGRAMS)
def test_generated_programs_do_the_same(body):
    source = "\n".join(
        ["def f(a, b, c):", *indent(body), "    return a, b, c", "", "def helper(x, k=0):", "    return x if k else k"]
    )
    log, budget = [], [0]

    def trace(value):
        log.append(repr(value))
        return value

    def tick():
        budget[0] += 1
        return budget[0] % 4

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            f = define(source, trace=trace, tick=tick, manager=lambda: Manager(log))
        except SyntaxError:  # such as a walrus where none may be
            return
        expected = run(f, log)
        budget[0] = 0
        instrumenter = Instrumenter(Profile())
        twin = instrumenter.twin(f)
        assert not instrumenter.faults
        assert run(twin, log) == expected
