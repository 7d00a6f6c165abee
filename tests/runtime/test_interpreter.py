"""The interpreter: every op by hand, the protocol of a call, and agreement with emitted code on random chains."""

import contextlib
import inspect
import io
import types

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lowering.graph_strategies import chains, inputs_for
from sketch import finished

from janusc.lowering.op_rules import ASSERT_ARITY
from janusc.lowering.ops import OPS
from janusc.lowering.reader import read_chain, read_graph
from janusc.lowering.verify import verify
from janusc.runtime import transaction
from janusc.runtime.emit import emit
from janusc.runtime.interpreter import ASSERTIONS, MEANINGS, Machine, executable, run_chain
from janusc.sentinels import MISS, UNBOUND


def outputs(text, *inputs, objects=None):
    """The outputs of a graph given without its header; %0, %1 ... are the inputs."""
    params = ", ".join(f"%{i}: any" for i in range(len(inputs)))
    graph = read_graph(f"graph({params}):\n{text}")
    verify(graph)
    return Machine(objects or {}).run(graph, list(inputs))


def test_every_op_and_assert_has_a_meaning():
    assert not MEANINGS.missing(OPS)
    assert not ASSERTIONS.missing(ASSERT_ARITY)


def test_values_of_arguments():
    assert outputs("return (1, (2, %0), [%0], {'k': %0}, slice(%0, None, 2), &f)", 5, objects={"f": len}) == [
        1, (2, 5), [5], {"k": 5}, slice(5, None, 2), len,
    ]  # fmt: skip
    assert outputs("return (&UNBOUND)") == [UNBOUND]


@pytest.mark.parametrize(
    ("line", "inputs", "wanted"),
    [
        ("%9: any = torch torch.nn.functional.relu(%0, inplace=False)", (torch.tensor([-1.0]),), torch.tensor([0.0])),
        ("%9: any = torch.write torch.nn.functional.relu_(%0)", (torch.tensor([-1.0]),), torch.tensor([0.0])),
        ("%9: any = method sum(%0, dim=0)", (torch.ones(3),), torch.tensor(3.0)),
        ("%9: any = method.read index(%0, 2)", ([1, 2],), 1),
        ("%9: any = method.write pop(%0)", ([1, 2],), 2),
        ("%9: any = module.call(%0, %1)", (torch.nn.ReLU(), torch.tensor([-1.0])), torch.tensor([0.0])),
        ("%9: any = operator not_in(%0, 3)", ([1, 2],), True),
        ("%9: any = operator contains(%0, 2)", ([1, 2],), True),
        ("%9: any = operator is_not(%0, None)", (1,), True),
        ("%9: any = operator.read getitem(%0, slice(1, None, None))", ([1, 2],), [2]),
        ("%9: any = operator.write iadd(%0, 1)", (1,), 2),
        ("%9: any = attribute ndim(%0)", (torch.ones(2, 2),), 2),
        ("%9: any = builtin divmod(7, 2)", (), (3, 1)),
        ("%9: any = builtin.read len(%0)", ([1],), 1),
        ("%9: any = build([%0, (%0,)])", (1,), [1, (1,)]),
        ("%9: any = format('<', (%0, 114, None), (1.5, None, '.2f'), (%0, -1, '>3'))", ("a",), "<'a'1.50  a"),
        ("%9: any = read.attr real(%0)", (3,), 3),
        ("%9: any = read.item(%0, 'k')", ({"k": 1},), 1),
        ("%8: any, %9: any = unpack(%0)", ([1, 2],), 2),
    ],
)
def test_nodes(line, inputs, wanted):
    (got,) = outputs(f"{line}\nreturn (%9)", *inputs)
    assert torch.equal(got, wanted) if isinstance(wanted, torch.Tensor) else got == wanted


def test_unpacking_counts():
    for items in ([1], [1, 2, 3]):
        with pytest.raises(ValueError, match="to unpack into 2"):
            outputs("%8: any, %9: any = unpack(%0)\nreturn (%9)", items)


def test_random_nodes_follow_the_seed_and_generators_are_kept():
    generator = torch.Generator().manual_seed(1)
    machine, graph = (
        Machine({}),
        read_graph(
            "graph(%0: any):\n%1: any = torch.random torch.rand(2, generator=%0)\n"
            "%2: any = method.random uniform_(%1)\nreturn (%1)"
        ),
    )
    torch.manual_seed(3)
    first = machine.run(graph, [generator])[0].clone()
    transaction.rollback(machine.undo)
    torch.manual_seed(3)
    assert torch.equal(machine.run(graph, [generator])[0], first)


CONTROL = """
    %2: any = cond if(%0, %1) {
      region(%3: any):
        return (%3)
      region(%4: any):
        %5: any = operator neg(%4)
        return (%5)
    }
    return (%2)
"""


@pytest.mark.parametrize(("predicate", "wanted"), [(True, 3), (0, -3)])
def test_conditions(predicate, wanted):
    assert outputs(CONTROL, predicate, 3) == [wanted]


def test_a_for_loop_ends_after_go_on_turns_false():
    loop = """
    %2: any, %3: any = loop for(%0, (0, 1), (%1,)) {
      region(%4: any, %5: any, %6: any, %7: any):
        %8: any = operator add(%5, %4)
        %9: any = operator lt(%8, %7)
        return (%9, %8, %5)
    }
    return (%2, %3)
    """
    assert outputs(loop, [1, 2, 3, 4], 100) == [10, 6]
    assert outputs(loop, [1, 2, 3, 4], 3) == [3, 1]
    assert outputs(loop, [], 3) == [0, 1]


def test_a_while_loop_may_not_be_entered():
    loop = """
    %1: any = loop while(None, (%0,), (3,), enter=%0) {
      region(%2: any, %3: any):
        %4: any = operator add(%2, 1)
        %5: any = operator lt(%4, %3)
        return (%5, %4)
    }
    return (%1)
    """
    assert outputs(loop, 1) == [3]
    assert outputs(loop, 0) == [0]


def test_a_context_surrounds_its_region():
    text = """
    %1: any = context with(%0) {
      region():
        %2: any = torch torch.is_grad_enabled()
        return (%2)
    }
    %3: any = torch torch.is_grad_enabled()
    return (%1, %3)
    """
    assert outputs(text, torch.no_grad()) == [False, True]


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("true(%0)", (1,), (0,)),
        ("false(%0)", ([],), ([1],)),
        ("is(%0, None)", (None,), (0,)),
        ("is_not(%0, None)", (0,), (None,)),
        ("equals(%0, 1)", (1,), (True,)),
        ("equals(%0, 0.0)", (0.0,), (-0.0,)),
        ("equals(%0, nan)", (float("nan"),), (1.0,)),
        ("equals(%0, (1, 'a'))", ((1, "a"),), ((1.0, "a"),)),
        ("equals(%0, 0j)", (0j,), (complex(0.0, -0.0),)),
        ("equals(%0, torch.float32)", (torch.float32,), (torch.float64,)),
        ("type(%0, 'int')", (1,), (True,)),
        ("type(%0, 'torch.Tensor')", (torch.ones(1),), (torch.nn.Parameter(torch.ones(1)),)),
        ("type(%0, None)", (None,), (1,)),
        ("type(%0, &C)", (types.SimpleNamespace(),), (1,)),
        ("length(%0, 2)", ([1, 2],), ([1],)),
        ("empty(%0, [])", ({},), ({1: 1},)),
        ("absent(%0, 'k')", ({},), ({"k": 1},)),
        ("bound(%0)", (None,), (UNBOUND,)),
        ("plain_write(%0, 1)", (torch.ones(1),), (torch.ones(1, requires_grad=True),)),
        ("tensor(%0)", (torch.nn.Parameter(torch.ones(1)),), (1.0,)),
        ("leaves(%0)", (torch.ones(1, requires_grad=True),), (torch.ones(1, requires_grad=True) * 2,)),
    ],
)
def test_asserts(text, good, bad):
    graph = f"assert {text}\nreturn ()" if "site" in text else f"assert {text[:-1]}, site='here')\nreturn ()"
    objects = {"C": types.SimpleNamespace}
    assert outputs(graph, *good, objects=objects) == []
    with pytest.raises(transaction.Deopt) as caught:
        outputs(graph, *bad, objects=objects)
    assert caught.value.site == "here"


# the protocol of a call


class Recorder:
    def __init__(self):
        self.failures = []

    def observed(self, function):
        return function

    def failed(self, site, error, twin_succeeded):
        self.failures.append((site, type(error), twin_succeeded))


STATE = """
chain c:
  segment(__function__, x, box) -> () returns:
    guards(%0: any, %1: any, %2: any):
      assert type(%2, &Box)
      return (%1, %2)
    body(%3: any, %4: any):
      save tensor(%3)
      %5: any = method.write add_(%3, 1)
      %6: any = torch.random torch.rand(1)
      print('added', sep='')
      {check}
      write.attr n(%4, 2)
      delete.attr old(%4)
      {last}
      return (%5)
"""


def called(text, function, *args, listener=None, hosts=None):
    chain = read_chain(text, {"Box": types.SimpleNamespace})
    verify(chain)
    return executable(chain, hosts or {}, listener)(function, *args)


def test_a_segment_commits(capsys):
    box, x = types.SimpleNamespace(n=1, old=0), torch.zeros(1)
    assert called(STATE.format(check="", last=""), lambda x, box: None, x, box) is x
    assert (x.item(), vars(box), capsys.readouterr().out) == (1.0, {"n": 2}, "added\n")


@pytest.mark.parametrize(
    ("check", "last", "failure"),
    [
        ("assert true(0, site='s')", "", ("s", transaction.Deopt, True)),
        ("%7: any = operator truediv(1, 0)", "", (None, ZeroDivisionError, True)),
        ("", "write.item(%4, 0, 0)", (None, TypeError, True)),  # a commit that fails after others
    ],
)
def test_a_failure_rolls_back_and_runs_the_function(check, last, failure, capsys):
    box, x, listener = types.SimpleNamespace(n=1, old=0), torch.zeros(1), Recorder()
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    result = called(
        STATE.format(check=check, last=last),
        lambda x, box: (x.item(), dict(vars(box)), torch.rand(1)),
        x,
        box,
        listener=listener,
    )
    assert result == (0.0, {"n": 1, "old": 0}, wanted)
    assert (listener.failures, capsys.readouterr().out) == ([failure], "")


def test_failing_guards_are_a_miss():
    assert called(STATE.format(check="", last=""), lambda x, box: None, torch.zeros(1), 3) is MISS
    deep = STATE.format(check="", last="").replace("assert type(%2, &Box)", "%9: any = read.attr missing(%2)")
    assert called(deep, lambda x, box: None, torch.zeros(1), types.SimpleNamespace()) is MISS


def test_an_interrupt_is_no_deoptimisation():
    def stop(*args):
        raise KeyboardInterrupt

    x = torch.zeros(1)
    text = STATE.format(check="%7: any = read.attr n(%4)", last="").replace("assert type(%2, &Box)", "")
    box = type("B", (), {"n": property(stop)})()
    with pytest.raises(KeyboardInterrupt):
        called(text, lambda x, box: None, x, box)
    assert x.item() == 0.0


RANGES = """
chain c:
  segment(__function__, x) -> (a, b):
    guards(%0: any, %1: any):
      return (%1)
    body(%2: any):
      %3: any = operator add(%2, 1)
      return (%3, 10)
  host 'middle'(a, missing) -> (b, c)
  segment(__function__, b, c) -> () returns resume 'rest':
    guards(%4: any, %5: any, %6: any):
      assert type(%5, 'int', site='b')
      return (%5, %6)
    body(%7: any, %8: any):
      %9: any = operator add(%7, %8)
      return (%9)
"""


def test_steps_hand_on_locals_and_resume_where_they_failed():
    rest = types.SimpleNamespace(bind=lambda function: lambda b, c: ("rest", function(0), b, c))
    for middle, wanted, failures in [
        (lambda a, missing: (a, 5), 7, []),
        (lambda a, missing: (2.5, missing), ("rest", "eager", 2.5, UNBOUND), [("b", transaction.Deopt, True)]),
    ]:
        listener = Recorder()
        hosts = {"middle": middle, "rest": rest}
        assert called(RANGES, lambda x: "eager", 1, listener=listener, hosts=hosts) == wanted
        assert listener.failures == failures


def test_a_host_range_may_end_the_call():
    text = "chain c:\n  host 'all'(__function__, x) -> () returns\n"
    assert called(text, lambda x: None, 4, hosts={"all": lambda x: x + 1}) == 5
    assert called("chain c:\n  host 'all'(x) -> ()\n", lambda x: None, 4, hosts={"all": lambda x: x}) is None


def test_arguments_are_bound_as_python_binds_them():
    def function(a, b=2, *rest, c=3, **more):
        return "eager", a, b, rest, c, more

    text = """
    chain c:
      segment(__function__, a, b, rest, c, more) -> () returns:
        guards(%0: any, %1: any, %2: any, %3: any, %4: any, %5: any):
          return (%1, %2, %3, %4, %5)
        body(%6: any, %7: any, %8: any, %9: any, %10: any):
          {check}
          return ((%6, %7, %8, %9, %10))
    """
    run = executable(read_chain(text.format(check=""), {}), {})
    assert run(function, 1) == (1, 2, (), 3, {})
    assert run(function, 1, 5, 6, c=7, d=8) == (1, 5, (6,), 7, {"d": 8})
    failing = executable(read_chain(text.format(check="assert true(0)"), {}), {})
    assert failing(function, 1, 5, 6, c=7, d=8) == ("eager", 1, 5, (6,), 7, {"d": 8})


def test_forced_aborts_reach_every_check():
    text = STATE.format(check="assert true(1, site='second')", last="")
    with transaction.force_abort(0):
        assert called(text, lambda x, box: "eager", torch.zeros(1), types.SimpleNamespace(old=1)) is MISS
    with transaction.force_abort(1) as forced:
        assert called(text, lambda x, box: "eager", torch.zeros(1), types.SimpleNamespace(old=1)) == "eager"
    assert forced.fired


# agreement with emitted code


def eager(a, b, n, flag, net):
    return "eager", a.tolist(), b.tolist(), n, flag, vars(net).copy(), torch.rand(()).item()


def shown(value):
    if isinstance(value, tuple):
        return [shown(item) for item in value]
    return value.tolist() if torch.is_tensor(value) else value


@given(chains(), st.sampled_from([0, 2]))
def test_emitted_code_and_interpreter_agree(chain, number):
    seen = []
    emitted = emit(chain, name="eager", parameters=inspect.signature(eager), hosts={}, listener=Recorder())
    for run in (emitted.run, lambda f, **arguments: run_chain(chain, f, arguments, {})):
        torch.manual_seed(7)
        arguments, printed = inputs_for(number), io.StringIO()
        with contextlib.redirect_stdout(printed):
            result = finished(run(eager, **arguments))
        state = (arguments["a"].tolist(), arguments["b"].tolist(), vars(arguments["net"]))
        seen.append(repr((shown(result), state, printed.getvalue(), torch.rand(()).item())))
    assert seen[0] == seen[1]
