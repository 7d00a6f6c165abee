"""Asserts as expressions: what holds, and what does not."""

import itertools

import pytest
import torch
from sketch import Record, run_once

from janusc.lowering.ir import Const, Ref, Tup
from janusc.runtime.predicates import PREDICATES
from janusc.sentinels import UNBOUND

NAN = float("nan")
LITERALS = [
    None, ..., True, False, 0, 1, -1, 1 << 200, 0.0, -0.0, 1.0, 2.5, float("inf"), -float("inf"), NAN, 1j, complex(1),
    complex(0.0, -0.0), complex(NAN, 1), "", "1", "a'b\n{}", b"", b"1", torch.float32, torch.float64,
    torch.device("cpu"), torch.device("meta"), torch.strided, torch.contiguous_format,
]  # fmt: skip


def holds(target, *args, objects=None, twin=lambda *a: "eager"):
    """Whether an assert on run-time values (everything that is no constant or reference) holds."""
    given = [a for a in args if not isinstance(a, (Const, Ref, Tup))]

    def build(body, *params):
        values = iter(params)
        body.check(target, *[a if isinstance(a, (Const, Ref, Tup)) else next(values) for a in args], site="here")
        return "held"

    listener = Record()
    result = run_once(build, *given, objects=objects, listener=listener, twin=twin)
    assert result in ("held", "eager")
    assert listener.failures == ([] if result == "held" else listener.failures[:1])
    assert [site for site, _, _ in listener.failures] == ["here"] * (result == "eager")
    return result == "held"


@pytest.mark.parametrize("expected", LITERALS, ids=repr)
def test_equals_tells_type_and_value_apart(expected):
    for other in LITERALS:
        same = type(other) is type(expected) and repr(other) == repr(expected)
        assert holds("equals", other, Const(expected)) == same, other


def test_equals_never_asks_a_foreign_type():
    class Sly:
        def __eq__(self, other):
            raise AssertionError("asked")

        def __ne__(self, other):
            raise AssertionError("asked")

    for literal in LITERALS:
        assert not holds("equals", Sly(), Const(literal))


def test_equals_on_tuples_goes_by_item():
    pattern = Tup((Const(1), Tup((Const(0.0), Const("x")))))
    assert holds("equals", (1, (0.0, "x")), pattern)
    for other in [(1.0, (0.0, "x")), (1, (-0.0, "x")), (1, (0.0,)), [1, (0.0, "x")], (1, (0.0, "y")), (1,), None]:
        assert not holds("equals", other, pattern)


def test_identity():
    x, y = [], []
    assert holds("is", x, x) and not holds("is", x, y)
    assert holds("is_not", x, y) and not holds("is_not", x, x)
    assert holds("is", None, Const(None)) and not holds("is", 0, Const(None))
    assert holds("is", x, Ref("x"), objects={"x": x}) and not holds("is", y, Ref("x"), objects={"x": x})
    assert not holds("is", [], Const("literal"))


def test_truth_length_and_emptiness():
    for value, truth in ((1, True), (0, False), ([], False), ("a", True)):
        assert holds("true", value) == truth and holds("false", value) != truth
    assert holds("length", [1, 2], Const(2)) and not holds("length", [1], Const(2))
    assert holds("length", [1, 2], 2) and not holds("length", [1], 2)
    for sizes in itertools.product((0, 1), repeat=2):
        assert holds("empty", *[{} if not size else {1: 1} for size in sizes]) == (sum(sizes) == 0)
    assert holds("absent", {"a": 1}, Const("b")) and not holds("absent", {"a": 1}, Const("a"))


def test_types_are_exact():
    class Sub(dict):
        pass

    assert holds("type", {}, Const("dict")) and not holds("type", Sub(), Const("dict"))
    assert holds("type", Sub(), Ref("Sub"), objects={"Sub": Sub}) and not holds(
        "type", {}, Ref("Sub"), objects={"Sub": Sub}
    )
    assert holds("type", torch.ones(1), Const("torch.Tensor"))
    assert not holds("type", torch.nn.Parameter(torch.ones(1)), Const("torch.Tensor"))
    assert holds("type", None, Const(None)) and holds("type", 1, Const(int)) and not holds("type", True, Const(int))


def test_many_objects_at_once():
    x, y, z = [], [], []
    assert holds("distinct", x, y, z) and not holds("distinct", x, y, x)
    for left, right, outcome in (((x, y), (z,), True), ((x, y), (z, y), False), ((x, x), (y,), True)):

        def build(body, *params, right=right):
            body.check("apart", Tup(params[: -len(right)]), Tup(params[-len(right) :]), site="here")
            return True

        assert run_once(build, *left, *right, listener=Record(), twin=lambda *a: False) is outcome


def test_bound():
    assert holds("bound", None) and not holds("bound", UNBOUND)


def test_container_is_what_can_be_iterated_again():
    class Rows(list):
        pass

    class Odd(list):
        def __iter__(self):
            return iter(())

    for value in ([], (), {}, Rows(), torch.ones(2), {}.items(), torch.ones(2).max(0), range(2), "text"):
        assert holds("container", value)
    for value in (iter([]), (x for x in ()), map(len, []), zip(), Odd(), 3, None):
        assert not holds("container", value)


def test_plain_write_is_about_autograd_history():
    plain, grad = torch.ones(2), torch.ones(2, requires_grad=True)
    assert holds("plain_write", plain, plain, 3)
    assert not holds("plain_write", plain, plain, grad) and not holds("plain_write", grad, plain)
    assert holds("plain_write", plain) and holds("plain_write", Const(1))
    with torch.no_grad():
        assert holds("plain_write", grad, grad)


def test_leaves_have_neither_history_nor_hooks():
    plain, grad, hooked = torch.ones(2), torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    hooked.register_hook(lambda slope: None)
    assert holds("leaves", plain, grad)
    assert not holds("leaves", plain, grad * 2) and not holds("leaves", hooked, plain)


def test_a_parameter_is_a_tensor_and_an_object_is_none():
    assert holds("tensor", torch.ones(1)) and holds("tensor", torch.nn.Parameter(torch.ones(1)))
    assert not holds("tensor", 1.0) and not holds("tensor", None)


def test_one_class_among_several():
    classes = Tup((Ref("int"), Ref("list")))
    for value, good in ((1, True), ([], True), (True, False), (1.0, False)):
        assert holds("among", value, classes, objects={"int": int, "list": list}) is good


def test_every_target_the_table_of_ops_names_has_a_predicate():
    names = "among true false is is_not distinct apart equals type length empty absent bound container leaves tensor"
    names += " unsaved"
    assert sorted(PREDICATES) == sorted([*names.split(), "plain_write"])
