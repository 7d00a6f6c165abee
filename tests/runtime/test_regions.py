"""Control flow as it is written: conditions, loops, contexts, and values let go in time."""

import contextlib
import gc
import weakref

import pytest
import torch
from sketch import INT, TENSOR, Sketch, run_once

from janusc.lowering.ir import Const, Ref, Tup
from janusc.sentinels import UNBOUND
from janusc.types import ANY, HostType

BOOL = HostType("bool")


def region(build, *types):
    """A closed graph: ``build(sketch, *params)`` gives its outputs."""
    sketch = Sketch(*types)
    return sketch.graph(*build(sketch, *sketch.params))


# ---- cond --------------------------------------------------------------------------------------------------------


def choose(body, x, flag):
    then = region(lambda b, x: (b("operator", "add", x, 1), x), ANY)
    orelse = region(lambda b, x: (0, b("operator", "neg", b("operator", "mul", x, 2))), ANY)
    first, second = body("cond", "if", flag, x, out=(ANY, ANY), regions=(then, orelse))
    return Tup((first, second, x))


@pytest.mark.parametrize("flag, expected", [(True, (6, 5, 5)), (False, (0, -10, 5))])
def test_both_sides_of_a_condition(flag, expected):
    assert run_once(choose, 5, flag) == expected


@pytest.mark.parametrize("a", [0, 1])
@pytest.mark.parametrize("b", [0, 1])
def test_nested_conditions(a, b):
    def leaf(text):
        return region(lambda s, x: (s("operator", "add", x, text),), ANY)

    def inner(left, right):
        def build(s, x, flag):
            return (s("cond", "if", flag, x, regions=(leaf(left), leaf(right))),)

        return region(build, ANY, ANY)

    def build(body, x, a, b):
        return body("cond", "if", a, x, b, regions=(inner("11", "10"), inner("01", "00")))

    assert run_once(build, "x", a, b) == f"x{a}{b}"


def test_an_output_used_twice_and_inputs_that_are_literals_or_templates():
    def build(body, flag):
        def then(s, literal, pair, name):
            real = s("attribute", "real", literal)
            total = s("operator", "getitem", pair, 1)
            return s("operator", "add", real, total), Tup((total, total)), s("method", "upper", name)

        side = region(then, ANY, ANY, ANY)
        other = region(lambda s, *params: (params[0], params[1], None), ANY, ANY, ANY)
        regions = (side, other)
        out = body("cond", "if", flag, Const(3), Tup((Const(4), flag)), Const("n"), out=(ANY,) * 3, regions=regions)
        return Tup(out)

    assert run_once(build, 1) == (4, (1, 1), "N")
    assert run_once(build, 0) == (3, (4, 0), None)


def test_a_literal_keeps_its_meaning_through_nested_regions():
    def build(body, flag):
        def outer(s, number, flag):
            def inner(s, number):
                return (s("method", "bit_length", number), s("operator", "sub", 0, number), number)

            sides = (region(inner, ANY), region(lambda s, number: (0, 0, number), ANY))
            return s("cond", "if", flag, number, out=(ANY,) * 3, regions=sides)

        sides = (region(outer, ANY, ANY), region(lambda s, number, flag: (number,) * 3, ANY, ANY))
        return Tup(body("cond", "if", flag, Const(-5), flag, out=(ANY,) * 3, regions=sides))

    assert run_once(build, True) == (3, 5, -5)
    assert run_once(build, False) == (-5, -5, -5)


def test_a_condition_without_outputs():
    def build(body, items, flag):
        def then(s, items):
            s("method.write", "append", items, 1)
            return ()

        regions = (region(then, ANY), region(lambda s, items: (), ANY))
        body("cond", "if", flag, items, out=(), regions=regions)
        return items

    assert run_once(build, [], True) == [1]
    assert run_once(build, [], False) == []


def test_an_assert_in_a_condition_gives_up_the_whole_body():
    def build(body, x, flag):
        def then(s, x):
            s.check("true", x)
            return (x,)

        return body("cond", "if", flag, x, regions=(region(then, ANY), region(lambda s, x: (None,), ANY)))

    assert run_once(build, 1, True, twin=lambda *a: "eager") == 1
    assert run_once(build, 0, False, twin=lambda *a: "eager") is None
    assert run_once(build, 0, True, twin=lambda *a: "eager") == "eager"


# ---- loops -------------------------------------------------------------------------------------------------------


def test_a_sum_over_items():
    def build(body, items, step):
        def turn(s, item, total, step):
            return True, s("operator", "add", total, s("operator", "mul", item, step))

        turns = region(turn, ANY, ANY, ANY)
        return body("loop", "for", items, Tup((Const(0),)), Tup((step,)), regions=(turns,))

    assert run_once(build, [1, 2, 3], 10) == 60
    assert run_once(build, [], 10) == 0


def test_carried_values_change_at_once():
    def build(body, n):
        def turn(s, item, a, b, c):
            return True, b, s("operator", "add", a, b), a

        carried = Tup((Const(0), Const(1), Const(None)))
        out = body("loop", "for", n, carried, Tup(()), out=(INT, INT, INT), regions=(region(turn, *[ANY] * 4),))
        return Tup(out)

    assert run_once(build, range(6)) == (8, 13, 5)
    assert run_once(build, range(0)) == (0, 1, None)


def test_the_break_flag_is_checked_after_the_values_are_carried():
    def build(body, items, limit):
        def turn(s, item, total, limit):
            total = s("operator", "add", total, item)
            return s("operator", "lt", total, limit, out=(BOOL,)), total

        return body("loop", "for", items, Tup((Const(0),)), Tup((limit,)), regions=(region(turn, *[ANY] * 3),))

    assert run_once(build, iter([1, 2, 3, 4]), 3) == 3
    rest = iter([1, 2, 3, 4])
    run_once(build, rest, 3)
    assert list(rest) == [3, 4]


def test_a_flag_that_is_itself_a_carried_value():
    def build(body, items):
        def turn(s, item, go, count):
            return go, item, s("operator", "add", count, 1)

        carried = Tup((Const(True), Const(0)))
        out = body("loop", "for", items, carried, Tup(()), out=(ANY, ANY), regions=(region(turn, *[ANY] * 3),))
        return Tup(out)

    assert run_once(build, [True, False, True, True]) == (True, 3)


def test_a_loop_that_always_stops():
    def build(body, items):
        return body(
            "loop", "for", items, Tup((Const(0),)), Tup(()), regions=(region(lambda s, i, c: (False, i), ANY, ANY),)
        )

    assert run_once(build, [7, 8]) == 7


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_while_loop_enters_by_its_test(n):
    def build(body, n):
        def turn(s, left, count):
            left = s("operator", "sub", left, 1)
            return s("operator", "gt", left, 0, out=(BOOL,)), left, s("operator", "add", count, 1)

        enter = body("operator", "gt", n, 0, out=(BOOL,))
        carried, regions = Tup((n, Const(0))), (region(turn, ANY, ANY),)
        out = body("loop", "while", None, carried, Tup(()), out=(INT, INT), regions=regions, enter=enter)
        return Tup((n, *out))

    assert run_once(build, n) == (n, 0, n)


def test_a_while_loop_whose_flag_is_carried():
    def build(body, x):
        def turn(s, go, count):
            return go, False, s("operator", "add", count, 1)

        out = body(
            "loop", "while", None, Tup((x, Const(0))), Tup(()), out=(ANY, ANY), regions=(region(turn, ANY, ANY),)
        )
        return Tup(out)

    assert run_once(build, True) == (False, 2)


def test_nested_loops_with_an_empty_body_and_a_condition():
    def build(body, rows):
        def turn(s, row, total):
            def inner(s, item, total):
                sides = (
                    region(lambda s, t, i: (s("operator", "add", t, i),), ANY, ANY),
                    region(lambda s, t, i: (t,), ANY, ANY),
                )
                return True, s("cond", "if", item, total, item, regions=sides)

            return True, s("loop", "for", row, Tup((total,)), Tup(()), regions=(region(inner, ANY, ANY),))

        total = body("loop", "for", rows, Tup((Const(0),)), Tup(()), regions=(region(turn, ANY, ANY),))
        body("loop", "for", rows, Tup(()), Tup(()), out=(), regions=(region(lambda s, item: (True,), ANY),))
        return total

    assert run_once(build, [[1, 0, 2], [], [None, 3]]) == 6


def test_carried_values_may_start_unbound():
    def build(body, items):
        def turn(s, item, last):
            return True, item

        last = body("loop", "for", items, Tup((Ref("UNBOUND"),)), Tup(()), regions=(region(turn, ANY, ANY),))
        body.check("bound", last)
        return last

    assert run_once(build, [1, 2]) == 2
    assert run_once(build, [], twin=lambda items: "eager") == "eager"
    assert run_once(build, [3], objects={"UNBOUND": UNBOUND}) == 3


# ---- contexts ----------------------------------------------------------------------------------------------------


def test_a_region_under_a_manager():
    def build(body, x):
        def inner(s, x):
            return s("operator", "mul", x, 2, out=(TENSOR,)), x

        manager = body("torch", "torch.no_grad", out=(ANY,))
        out = body("context", "with", manager, x, out=(TENSOR, ANY), regions=(region(inner, TENSOR),))
        return Tup(out)

    x = torch.ones(4, requires_grad=True)
    doubled, same = run_once(build, x)
    assert not doubled.requires_grad and same is x and torch.is_grad_enabled()


def test_a_manager_that_swallows_the_failure_does_not_hide_it():
    def build(body, x):
        def inner(s, x):
            return (s("operator", "truediv", 1, x),)

        return body("context", "with", Ref("manager"), x, regions=(region(inner, ANY),))

    manager = contextlib.suppress(ZeroDivisionError)
    assert run_once(build, 0, objects={"manager": manager}, twin=lambda x: "eager") == "eager"


# ---- memory ------------------------------------------------------------------------------------------------------


class Probe:
    """Counts the objects alive each time it is called."""

    def __init__(self):
        self.made = []

    def __call__(self, *old):
        made = Tracked()
        self.made.append(weakref.ref(made))
        return made

    def alive(self, *_):
        return sum(r() is not None for r in self.made)


class Tracked:
    pass


@pytest.fixture
def no_collector():
    gc.disable()
    yield
    gc.enable()


def test_a_value_is_let_go_after_its_last_use(no_collector):
    def build(body, probe):
        x = body("method", "__call__", probe)
        for _ in range(5):
            x = body("method", "__call__", probe, x)
        count = body("method", "alive", probe, x, out=(INT,))
        body.check("true", count)
        return count

    assert run_once(build, Probe()) == 1


def test_values_inside_a_loop_are_let_go_too(no_collector):
    def build(body, probe, n):
        def turn(s, item, last, probe):
            x = s("method", "__call__", probe, last)
            y = s("method", "__call__", probe, x)
            return True, y

        start = body("method", "__call__", probe)
        regions = (region(turn, *[ANY] * 3),)
        last = body("loop", "for", n, Tup((start,)), Tup((probe,)), regions=regions)
        used = body("method", "__call__", probe, last)
        return Tup((used, body("method", "alive", probe, out=(INT,))))

    assert run_once(build, Probe(), range(3))[1] == 1


def test_unread_results_are_not_kept(no_collector):
    def build(body, probe):
        body("method", "__call__", probe)
        body("unpack", "", Tup((body("method", "__call__", probe), Const(1))), out=(ANY, INT))
        return body("method", "alive", probe, out=(INT,))

    assert run_once(build, Probe()) == 0
