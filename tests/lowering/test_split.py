"""Statements split around an opaque call."""

import gast

from janusc.lowering.split import split


def parts_of(source):
    statement = gast.parse(source).body[0]
    call = next(n for n in gast.walk(statement) if isinstance(n, gast.Call) and n.func.id == "step")
    return [gast.unparse(part) for part in split(statement, call, frozenset(), frozenset())]


def test_what_runs_before_the_call_is_named_before_it():
    first, second, call, last = parts_of("y = net(x) + step(net(x))")
    names = [part.partition(" = ")[0] for part in (first, second, call)]
    assert len(set(names)) == 3
    assert [first, second] == [f"{name} = net(x)" for name in names[:2]]
    assert call == f"{names[2]} = step({names[1]})"
    assert last == f"y = {names[0]} + {names[2]}"


def test_parts_have_the_same_names_each_time():
    """What was refuted of one is found by its name when the function is converted again."""
    source = "y = net(x) + step(net(x))"
    assert parts_of(source) == parts_of(source)
