"""Emitted functions: their text, their signature, and the way through segments and host ranges."""

import gc
import inspect
import textwrap
import time
import weakref

import pytest
import torch
from sketch import INT, TENSOR, Record, Sketch, emitted, single

from janusc.lowering.ir import FUNCTION, Chain, Const, HostRange, Ref, Segment, Tup
from janusc.runtime import emit
from janusc.runtime.backends.aten import ATEN
from janusc.runtime.backends.base import BACKENDS
from janusc.runtime.blocks import partition
from janusc.sentinels import MISS, UNBOUND
from janusc.source import Span
from janusc.types import ANY


def scale(x, factor=2.0):
    return ("eager", x, factor)


def scaled(body, function, x, factor):
    return body("operator", "mul", x, factor, out=(TENSOR,))


def float_factor(guards, function, x, factor):
    guards.check("type", factor, "float")


def test_the_text_of_a_function():
    executable = emitted(scale, single(scale, scaled, float_factor))
    numbered = textwrap.dedent(executable.source)
    name = numbered.partition(" = x * factor")[0].split()[-1]
    assert numbered == (
        "def scale(__function__, /, x, factor=_jc_default):\n"
        "    try:\n"
        "        if factor is _jc_default: factor = __function__.__defaults__[-1]\n"
        "        if type(factor) is not float: return _jc_MISS\n"
        "    except Exception as _jc_caught:\n"
        "        return _jc_missed(_jc_caught)\n"
        "    try:\n"
        f"        {name} = x * factor\n"
        f"        return {name}\n"
        "    except BaseException as _jc_caught:\n"
        "        _jc_error = _jc_caught\n"
        "    try:\n"
        "        return _jc_give_up(_jc_listener, _jc_error, [], __function__, (x, factor))\n"
        "    except BaseException as _jc_caught:\n"
        "        return _jc_give_up(_jc_listener, _jc_caught, [], __function__, (x, factor))\n"
    )


def test_the_users_line_is_the_comment():
    line = inspect.getsourcelines(scale)[1]

    def build(body, function, x, factor):
        return body("operator", "mul", x, factor, span=Span(__file__, line))

    assert f"x * factor  # {line}: def scale(x, factor=2.0):" in emitted(scale, single(scale, build)).source


def test_guards_that_fail_or_raise_are_a_miss():
    run = emitted(scale, single(scale, scaled, float_factor)).run
    assert torch.equal(run(scale, torch.ones(4), 3.0), torch.full((4,), 3.0))
    assert run(scale, torch.ones(4), 3) is MISS

    def deep(guards, function, x, factor):
        guards.check("true", guards("read.attr", "missing", x))

    assert emitted(scale, single(scale, scaled, deep)).run(scale, torch.ones(4)) is MISS


def test_defaults_are_read_at_the_call():
    def program(x, factor=2.0, *, extra=1.0):
        raise AssertionError

    def build(body, function, x, factor, extra):
        return Tup((x, factor, extra))

    run = emitted(program, single(program, build)).run
    assert run(program, 1) == (1, 2.0, 1.0)
    program.__defaults__ = (7.0,)
    program.__kwdefaults__ = {"extra": 8.0}
    assert run(program, 1) == (1, 7.0, 8.0)
    program.__defaults__ = None
    assert run(program, 1) is MISS


def all_kinds(a, /, b, c=3, *rest, d, e=5, **more):
    return ("eager", a, b, c, rest, d, e, more)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(1, 2, d=4),
        lambda f: f(1, b=2, d=4, x=1),
        lambda f: f(1, 2, 3, 4, 5, d=4, e=6, a=7, __function__=8),
    ],
)
def test_every_kind_of_parameter_and_the_way_back_to_the_function(call):
    def build(body, function, *params):
        return Tup(params)

    def fail(body, function, *params):
        body.check("true", False)
        return Tup(params)

    run = emitted(all_kinds, single(all_kinds, build)).run
    assert call(lambda *a, **k: run(all_kinds, *a, **k)) == call(all_kinds)[1:]
    back = emitted(all_kinds, single(all_kinds, fail)).run
    assert call(lambda *a, **k: back(all_kinds, *a, **k)) == call(all_kinds)


def test_a_wrong_call_is_refused_before_the_body():
    run = emitted(scale, single(scale, scaled)).run.__wrapped__
    with pytest.raises(TypeError, match=r"scale\(\)") as caught:
        run(scale, 1, 2, 3)
    assert caught.value.__traceback__.tb_next is None


@pytest.mark.parametrize(
    "names", [("v1", "v2", "v3"), ("torch", "relu", "type"), ("len", "slice", "Tensor"), ("self", "_", "print")]
)
def test_names_of_parameters_hide_nothing(names):
    scope = {}
    exec(f"def program({', '.join(names)}): raise AssertionError", scope)
    program = scope["program"]

    def guard(guards, function, a, b, c):
        guards.check("type", a, "torch.Tensor")
        guards.check("length", b, 2)

    def build(body, function, a, b, c):
        x = body("torch", "torch.relu", a, out=(TENSOR,))
        y = body("builtin", "len", b, out=(INT,))
        z = body("builtin", "print", out=(ANY,)) if False else body("operator", "add", x, y, out=(TENSOR,))
        return Tup((z, c))

    for ids in range(3):  # values get other numbers each time
        chain = single(program, build, guard)
        result, last = emitted(program, chain).run(program, torch.tensor([-1.0, 1.0]), [1, 2], "c")
        assert result.tolist() == [2.0, 3.0] and last == "c", ids


def test_a_name_no_source_can_have():
    function = lambda x: x
    executable = emitted(function, single(function, lambda body, function, x: x))
    assert executable.source.startswith("def lambda_(") and executable.run(function, 3) == 3


# ---- failures ----------------------------------------------------------------------------------------------------


def test_an_assert_in_the_body_runs_the_function_instead():
    def build(body, function, x, factor):
        y = scaled(body, function, x, factor)
        body.check("true", body("operator", "gt", factor, 1), site="scale:1")
        return y

    listener = Record()
    run = emitted(scale, single(scale, build), listener=listener).run
    x = torch.ones(4)
    assert run(scale, x).tolist() == [2.0] * 4
    assert run(scale, x, 0.5) == ("eager", x, 0.5)
    assert [(site, ok) for site, _, ok in listener.failures] == [("scale:1", True)]


def test_the_users_exception_comes_from_the_function_without_context():
    def broken(x, factor):
        raise ValueError("mine")

    def build(body, function, x, factor):
        return body("operator", "truediv", x, factor)

    listener = Record()
    run = emitted(broken, single(broken, build), listener=listener).run
    with pytest.raises(ValueError, match="mine") as caught:
        run(broken, 1, 0)
    assert caught.value.__context__ is None
    assert listener.failures == [(None, ZeroDivisionError, False)]


def test_an_interrupt_is_raised_again_after_rollback():
    def program(x, stop):
        raise AssertionError("not to be run")

    def interrupt():
        raise KeyboardInterrupt

    def build(body, function, x, stop):
        body("save", "tensor", x, out=())
        body("method.write", "add_", x, 1, out=())
        body("method.write", "__call__", stop, out=())
        return x

    listener = Record()
    x = torch.zeros(4)
    with pytest.raises(KeyboardInterrupt) as caught:
        emitted(program, single(program, build), listener=listener).run(program, x, interrupt)
    assert x.tolist() == [0.0] * 4 and not listener.failures and caught.value.__context__ is None


def test_a_failure_leaves_nothing_alive():
    class Big:
        pass

    def program(x):
        return None

    def build(body, function, x):
        big = body("method", "__call__", Ref("Big"))
        body.check("true", False)
        return big

    made = []
    objects = {"Big": lambda: made.append(weakref.ref(big := Big())) or big}
    run = emitted(program, single(program, build, objects=objects), listener=Record()).run
    gc.disable()
    try:
        assert run(program, 1) is None
        assert made and made[0]() is None
    finally:
        gc.enable()


def test_commits_that_were_made_are_undone_when_a_later_one_fails():
    class Thing:
        pass

    class Frozen:
        __slots__ = ()

    def program(thing, table, frozen):
        return "eager", vars(thing).copy(), dict(table)

    def build(body, function, thing, table, frozen):
        body("write.attr", "count", thing, 1, out=())
        body("write.item", "", table, "k", 2, out=())
        body("write.attr", "count", frozen, 3, out=())
        return "graph"

    thing, table = Thing(), {"j": 0}
    run = emitted(program, single(program, build)).run
    assert run(program, thing, table, Frozen()) == ("eager", {}, {"j": 0})
    assert run(program, thing, table, Thing()) == "graph"
    assert vars(thing) == {"count": 1} and table == {"j": 0, "k": 2}


def test_the_only_commit_needs_no_log_unless_an_interrupt_may_come_after_it():
    def build(kind, name, *args):
        def body(body, function, x, factor):
            body(kind, name, x, *args, out=())

        return emitted(scale, single(scale, body)).source

    assert "_jc_undo" not in build("write.item", "", "key", 1)
    assert "_jc_save_attr(_jc_undo, x, 'count')" in build("write.attr", "count", 1)


def test_prints_come_at_the_end_and_not_from_a_failed_body(capsys):
    def program(x):
        print("eager", x)

    def build(body, function, x):
        body("print", "", "x is", x, "!", out=(), sep="-", end=";\n")
        body("method.write", "append", x, 1, out=())
        body("print", "", out=())
        body.check("length", x, 1)
        return x

    run = emitted(program, single(program, build)).run
    assert run(program, []) == [1]
    assert capsys.readouterr().out == "x is-[]-!;\n\n"
    run(program, [0])
    assert capsys.readouterr().out == "eager [0, 1]\n"


def test_a_replaced_print_is_left_to_the_function(monkeypatch):
    seen = []

    def program(x):
        print(x)

    def build(body, function, x):
        body("print", "", x, out=())
        return x

    run = emitted(program, single(program, build)).run
    monkeypatch.setattr("builtins.print", lambda *args: seen.append(args))
    run(program, 3)
    assert seen == [(3,)]


# ---- several steps -----------------------------------------------------------------------------------------------


def staged(x, n):
    raise AssertionError("the whole function is not to run again")


def staged_chain(resume="rest"):
    """x = x * n | host(x) -> seen | return (x + 1, seen, never)"""
    first, body = Sketch(ANY, TENSOR, INT), Sketch(TENSOR, INT)
    scaled = body("operator", "mul", *body.params, out=(TENSOR,))
    start = Segment((FUNCTION, "x", "n"), first.graph(*first.params[1:]), body.graph(scaled, 5), ("x", "five"))
    middle = HostRange("host", ("x", "five"), ("seen", "never"))
    guards, rest = Sketch(TENSOR, ANY, ANY), Sketch(TENSOR, ANY, ANY)
    guards.check("is", guards.params[1], None, site="seen")
    result = rest("operator", "add", rest.params[0], 1, out=(TENSOR,))
    end = Segment(("x", "seen", "never"), guards.graph(*guards.params), rest.graph(Tup((result,))), (), True, resume)
    return Chain("staged", (start, middle, end))


def test_segments_and_host_ranges_hand_over_live_values():
    calls = []

    def host(x, five):
        calls.append((x.tolist(), five))
        return None, UNBOUND

    hosts = {"host": host, "rest": None}
    (result,) = emitted(staged, staged_chain(), hosts).run(staged, torch.ones(4), 3)
    assert result.tolist() == [4.0] * 4 and calls == [([3.0] * 4, 5)]


def test_a_later_guard_that_fails_runs_the_rest_from_the_live_ins():
    listener = Record()
    hosts = {"host": lambda x, five: ("seen", UNBOUND), "rest": lambda *live: live}
    x, seen, never = emitted(staged, staged_chain(), hosts, listener).run(staged, torch.ones(4), 3)
    assert x.tolist() == [3.0] * 4 and seen == "seen" and never is UNBOUND
    assert [(site, ok) for site, _, ok in listener.failures] == [("seen", True)]


def test_an_exception_of_a_host_range_is_the_users():
    def host(x, five):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine") as caught:
        emitted(staged, staged_chain(), {"host": host, "rest": None}).run(staged, torch.ones(4), 3)
    assert caught.value.__context__ is None


def test_a_template_is_bound_to_the_function_of_the_call():
    class Template:
        def bind(self, function):
            return lambda x: (function, x)

    def program(x):
        raise AssertionError

    chain = Chain("program", (HostRange("all", ("x",), returns=True),))
    assert emitted(program, chain, {"all": Template()}).run(program, 3) == (program, 3)


def test_a_local_no_step_has_set_is_unbound():
    chain = Chain("scale", (HostRange("part", ("x", "later"), ("later",)), HostRange("end", ("later",), returns=True)))
    hosts = {"part": lambda x, later: (later,), "end": lambda later: later}
    assert emitted(scale, chain, hosts).run(scale, 1) is UNBOUND


def test_a_chain_that_does_not_return_gives_none():
    body = Sketch(ANY)
    segment = Segment((FUNCTION,), Sketch(ANY).graph(), body.graph())
    assert emitted(scale, Chain("scale", (segment,))).run(scale, 1) is None


def test_a_later_segment_without_a_way_to_resume_is_refused():
    with pytest.raises(ValueError, match="resume"):
        emitted(staged, staged_chain(resume=""), {"host": len})


# ---- the code object ---------------------------------------------------------------------------------------------


def test_emitted_lines_are_the_users_lines():
    assert emit.lines_of(
        [None, Span("u.py", 7), None, Span("library.py", 3), Span("u.py", 9)], Span("u.py", 5, end_line=9)
    ) == [
        5,
        7,
        7,
        7,
        9,
    ]


def test_warnings_are_filed_under_the_given_module():
    run = emitted(scale, single(scale, scaled), module="users.model").run.__wrapped__
    assert run.__globals__["__name__"] == "users.model"


def test_a_use_before_the_definition_is_refused():
    stray = Sketch(ANY).params[0]
    with pytest.raises(ValueError, match="used before"):
        emitted(scale, single(scale, lambda body, *params: stray))


def test_emission_takes_linear_time():
    def build_of(count):
        def build(body, function, x, factor):
            for _ in range(count):
                x = body("operator", "add", x, factor, out=(TENSOR,))
            return x

        return single(scale, build)

    seconds = []
    for count in (1000, 8000):
        chain = build_of(count)
        start = time.perf_counter()
        executable = emitted(scale, chain)
        seconds.append(time.perf_counter() - start)
    assert seconds[1] < 24 * seconds[0] + 0.2
    assert executable.run(scale, torch.zeros(4), 1.0).tolist() == [8000.0] * 4


def test_backends_are_found_by_name_and_unknown_ones_refused():
    assert BACKENDS["aten"] is ATEN and list(BACKENDS)[:3] == ["aten", "auto", "inductor"]
    with pytest.raises(KeyError):
        emitted(scale, single(scale, scaled), backend="none")


def test_a_compiled_block_is_called_with_what_enters_it():
    class Compiled:
        name = "summing"

        def blocks(self, graph, uses):
            return partition(graph, uses)

        def compile(self, block, objects, bare):
            assert [len(block.params), len(block.outputs)] == [2, 1]
            return Place()

        def step(self):
            return None

    class Place:
        awake = True
        measures = False

        def __call__(self, undo, x, factor):
            return (x * factor + 1,) if factor > 0 else None

    def build(body, function, x, factor):
        y = body("operator", "add", scaled(body, function, x, factor), 1, out=(TENSOR,))
        body.check("true", True)
        return y

    executable = emitted(scale, single(scale, build), backend=Compiled())
    assert "# block 1 (summing, 2 ops)" in executable.source
    assert executable.run(scale, torch.ones(4), 3.0).tolist() == [4.0] * 4
    assert executable.run(scale, torch.ones(4), -3.0).tolist() == [-2.0] * 4
    inline = emitted(scale, single(scale, build), backend="aten")
    assert "# block 1 (aten, 2 ops)" in inline.source and "factor" in inline.source
    assert inline.run(scale, torch.ones(4), 3.0).tolist() == [4.0] * 4


def test_constants_of_every_kind_arrive():
    values = (
        None,
        ...,
        True,
        -1,
        1 << 200,
        0.5,
        -0.0,
        float("inf"),
        1j,
        complex(-0.0, 1),
        "a'\"\n\ud800",
        b"\0",
        "%s {x}",
    )
    values += (torch.float32, torch.device("cpu"), torch.strided, torch.channels_last)
    result = emitted(scale, single(scale, lambda *_: Tup(tuple(map(Const, values))))).run(scale, 1)
    assert [repr(v) for v in result] == [repr(v) for v in values]
