"""Every op as Python: the same result as the operation itself."""

import operator

import pytest
import torch
from sketch import Sketch, run_once

from janusc.lowering.ir import Const, Dct, Lst, Slc, Tup
from janusc.lowering.ops import OPS
from janusc.runtime.forms import FORMS
from janusc.runtime.regions import write_nodes
from janusc.types import ANY

BINARY = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "eq", "ne",
    "lt", "le", "gt", "ge", "is_", "is_not",
]  # fmt: skip


def result(op, target, *args, **kwargs):
    """One node on run-time values."""

    def build(body, *params):
        return body(op, target, *params, **kwargs)

    return run_once(build, *args)


def test_every_op_has_a_form():
    assert write_nodes and FORMS.missing(OPS) == []


@pytest.mark.parametrize("name", BINARY)
def test_binary_operators(name):
    for a, b in ((7, 2), (-3, 2), (True, False)):
        try:
            expected = getattr(operator, name)(a, b)
        except ZeroDivisionError:
            continue
        assert result("operator", name, a, b) == expected
        constants = run_once(lambda body, b, a=a: body("operator", name, a, b), b)
        assert constants == expected and type(constants) is type(expected)


@pytest.mark.parametrize("name", ["neg", "pos", "invert", "inv", "not_", "abs", "truth", "index"])
def test_unary_operators(name):
    for value in (5, -5, 0):
        assert result("operator", name, value) == getattr(operator, name)(value)
        assert run_once(lambda body, value=value: body("operator", name, value)) == getattr(operator, name)(value)


def test_operators_by_their_names_in_the_language():
    items = [1, 2]
    assert result("operator", "is", items, items) is True and result("operator", "is_not", items, items) is False
    assert result("operator", "in", 1, items) is True and result("operator", "not_in", 1, items) is False
    assert result("operator.read", "contains", items, 1) is True
    assert result("operator", "not", items) is False
    assert result("operator", "matmul", torch.eye(2), torch.eye(2)).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor"]
)
def test_in_place_operators(name):
    x = torch.full((2,), 6)
    x = x.float() if name in ("itruediv", "ipow") else x
    expected = getattr(operator, name)(x.clone(), 2)
    out = result("operator.write", name, x, 2)
    assert out is x and torch.equal(x, expected)
    before = x.clone()
    run_once(lambda body, x: body("operator.write", name, x, 2, out=()), x)
    assert torch.equal(x, getattr(operator, name)(before, 2))


def test_an_in_place_operator_on_an_immutable_value_leaves_the_operand():
    def build(body, a):
        return Tup((body("operator.write", "iadd", a, Tup((Const(2),))), a))

    assert run_once(build, (1,)) == ((1, 2), (1,))


def test_items():
    table = {"a": 1}
    assert result("read.item", "", table, "a") == 1
    run_once(lambda body, t: body("operator.write", "setitem", t, "b", 2, out=()), table)
    run_once(lambda body, t: body("operator.write", "delitem", t, "a", out=()), table)
    assert table == {"b": 2}


N = Const(None)
SUBSCRIPTS = [
    (Const(1), 1), (Const(-1), -1), (Slc(N, N, N), slice(None)), (Slc(Const(1), N, Const(2)), slice(1, None, 2)),
    (Tup((Const(0), Slc(Const(1), Const(3), N))), (0, slice(1, 3))), (Tup(()), ()), (Tup((Const(1),)), (1,)),
    (Tup((Const(...), N, Const(0))), (..., None, 0)), (Lst((Const(0), Const(2))), [0, 2]),
    (Tup((Slc(N, Const(2), N), Lst((Const(1),)))), (slice(None, 2), [1])),
]  # fmt: skip


@pytest.mark.parametrize("template, index", SUBSCRIPTS, ids=[str(i) for _, i in SUBSCRIPTS])
def test_subscripts(template, index):
    class Asked:
        def __getitem__(self, key):
            return key

    given = run_once(lambda body, x: body("operator", "getitem", x, template), Asked())
    assert given == index and type(given) is type(index)
    tensor = torch.arange(12).reshape(3, 4)
    assert torch.equal(run_once(lambda body, x: body("operator", "getitem", x, template), tensor), tensor[index])
    run_once(lambda body, x: body("operator.write", "setitem", x, template, 7, out=()), tensor)
    assert bool((tensor[index] == 7).all())


def test_calls_and_methods():
    x = torch.tensor([-1.0, 2.0])
    assert result("torch", "torch.nn.functional.leaky_relu", x, negative_slope=0.5).tolist() == [-0.5, 2.0]
    assert result("method", "clamp", x, min=0).tolist() == [0.0, 2.0]
    assert result("builtin", "max", 1, 2) == 2 and result("builtin", "math.sqrt", 4) == 2.0
    assert result("builtin", "dict", **{"a": 1, "class": 2, "not a name": 3}) == {"a": 1, "class": 2, "not a name": 3}
    assert run_once(lambda body: body("method", "bit_length", 5)) == 3
    assert run_once(lambda body: body("method", "join", ",", Lst((Const("a"), Const("b"))))) == "a,b"
    assert result("module.call", "", torch.nn.Identity(), 3) == 3
    assert result("torch", "torch.nn.functional.relu", x) is not result("torch", "torch.relu", x)


def test_two_functions_of_one_name_are_kept_apart():
    def build(body, x):
        return Tup((body("torch", "torch.sqrt", x), body("builtin", "math.sqrt", 4), body("torch", "torch.sqrt", x)))

    first, second, third = run_once(build, torch.tensor(9.0))
    assert first.item() == third.item() == 3.0 and second == 2.0


def test_attributes_also_with_names_no_source_can_have():
    class Thing:
        pass

    thing = Thing()
    vars(thing).update({"a": 1, "class": 2, "b c": 3})
    assert [result("read.attr", name, thing) for name in ("a", "class", "b c")] == [1, 2, 3]
    for name in ("a", "class", "b c"):
        run_once(lambda body, t, name=name: body("write.attr", name, t, 5, out=()), thing)
        assert vars(thing).pop(name) == 5
    thing.a = 1
    run_once(lambda body, t: body("delete.attr", "a", t, out=()), thing)
    assert not vars(thing)


def test_cells_and_globals():
    def outer():
        count = 0
        return lambda: count

    inner, table = outer(), {}
    run_once(lambda body, c: body("write.cell", "", c, 5, out=()), inner.__closure__[0])
    run_once(lambda body, t: body("write.item", "", t, "x", 5, out=()), table)
    assert inner() == 5 and table == {"x": 5}


def test_templates():
    def build(body, x):
        items = (x, Const(1))
        parts = (Tup(items), Tup((x,)), Tup(()), Lst(items), Dct((Const("k"), x), items), Slc(x, N, Const(2)))
        return body("build", "", Tup(parts))

    assert run_once(build, 9) == ((9, 1), (9,), (), [9, 1], {"k": 9, 9: 1}, slice(9, None, 2))


def test_unpacking_wants_the_exact_number():
    def build(count):
        return lambda body, x: Tup(tuple(_outputs(body("unpack", "", x, out=(ANY,) * count))))

    for count in (0, 1, 2, 3):
        assert run_once(build(count), range(count)) == tuple(range(count))
        assert run_once(build(count), range(count + 1), twin=lambda x: "eager") == "eager"


def _outputs(out):
    return out if isinstance(out, tuple) else () if out is None else (out,)


def piece(value, conversion=None, spec=None):
    return Tup((value, Const(conversion), spec if hasattr(spec, "__dataclass_fields__") else Const(spec)))


def test_formatted_strings():
    def build(body, x, width):
        nested = body("format", "", ">", piece(width))
        pieces = ["{'\"\\\n} ", piece(x), " ", piece(x, "r"), piece(x, ord("a")), "|", piece(x, -1, nested), "|"]
        pieces += [piece(x, "s", "^9"), piece(Const(5), None, "03d"), piece(x, None, "")]
        return body("format", "", *pieces)

    x, width = "é'", 5
    assert run_once(build, x, width) == f"{{'\"\\\n}} {x} {x!r}{x!a}|{x:>5}|{x!s:^9}{5:03d}{x}"
    assert run_once(lambda body: body("format", "")) == ""

    class Echo:
        def __format__(self, spec):
            return spec

    assert run_once(lambda body, x: body("format", "", piece(x, None, "{'\"}\\\n")), Echo()) == "{'\"}\\\n"


def test_a_sketch_has_fresh_values():
    assert Sketch(ANY).params != Sketch(ANY).params
