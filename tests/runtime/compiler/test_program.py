"""Programs as text: what they are told apart by, and what has no text."""

import dataclasses

import pytest
import torch

from janusc import torch_private
from janusc.runtime.compiler.program import Input, NotCarried, Program, literal
from janusc.runtime.compiler.settings import Settings, machine


def graph_of(function, *examples):
    return torch_private.compiling.trace(function, examples)


def work(x, y):
    parts = torch.split(torch.where(x > 0, x, float("-inf")).to(torch.float64), 2, dim=1)
    return parts[0] + y, torch.full((2,), 1e-30, device="cpu"), x * torch.tensor([0.5, float("nan")] * 2)


def test_the_text_of_a_graph_computes_the_same():
    inputs = [torch.randn(3, 4), torch.randn(3, 2, dtype=torch.float64)]
    program = Program.of(graph_of(work, *inputs))
    torch.testing.assert_close(program.functions()[0](*inputs), work(*inputs), equal_nan=True)


def test_equal_graphs_have_equal_texts_and_keys():
    def first(a, b):
        return (torch.mm(a, b).relu(),)

    def second(some, other):
        product = some.mm(other)
        return (torch.relu(product),)

    def third(a, b):
        return (torch.mm(a, b).tanh(),)

    inputs, settings = [torch.randn(2, 3), torch.randn(3, 2)], Settings.current()
    programs = [Program.of(graph_of(function, *inputs)) for function in (first, second, third)]
    assert programs[0] == programs[1]
    keys = [program.key(settings) for program in programs]
    assert keys[0] == keys[1] != keys[2]


def test_a_program_survives_its_text():
    program = Program(
        "def program(x): ...\n", (Input((2, 3), (3, 1), "float32", "cpu", True), Input((), (), "int64", "cpu"))
    )
    assert Program.loads(program.dumps()) == program


def test_each_part_is_in_the_key(monkeypatch):
    settings, one = Settings.current(), Input((2,), (1,), "float32", "cpu")
    program = Program("def program(x): return (x,)", (one,))
    others = [Program(program.source + " ", (one,)), Program(program.source, ()), Program(program.source, (one, one))]
    for change in ({"size": (3,)}, {"stride": (2,)}, {"dtype": "float64"}, {"device": "meta"}, {"requires_grad": True}):
        others.append(Program(program.source, (dataclasses.replace(one, **change),)))
    keys = [program.key(settings), *(other.key(settings) for other in others)]
    for change in ({"threads": 99}, {"dtype": "float64"}, {"precision": "medium"}, {"deterministic": True}):
        keys.append(program.key(dataclasses.replace(settings, **change)))
    monkeypatch.setattr(torch_private.compiling, "KERNEL_OPTIONS", {})
    keys.append(program.key(settings))
    monkeypatch.setattr("janusc.__version__", "another")
    keys.append(program.key(settings))
    monkeypatch.setattr("janusc.runtime.compiler.program.machine", lambda: "another")
    keys.append(program.key(settings))
    assert len(set(keys)) == len(keys)
    assert len(machine()) == 64


def test_settings_can_be_made_those_of_a_process():
    before = Settings.current()
    try:
        changed = Settings(before.threads, "float64", "high", True)
        changed.apply()
        assert Settings.current() == changed
    finally:
        before.apply()


def test_what_an_input_looks_like_can_be_made_again():
    tensor = torch.randn(4, 6, dtype=torch.float64)[:, ::2].requires_grad_()
    assert Input.of(Input.of(tensor).make()) == Input.of(tensor)


def test_what_has_no_text():
    graph = torch.fx.Graph()
    given = graph.placeholder("x")
    given.meta["val"] = torch.ones(2)
    graph.output((graph.call_function(torch.ops.quantized.add_relu.default, (given, given, 1.0, 0)),))
    with pytest.raises(NotCarried, match="quantized.add_relu.default is no operation of torch's"):
        Program.of(torch.fx.GraphModule({}, graph))
    with pytest.raises(NotCarried, match="sparse"):
        Input.of(torch.ones(2, 2).to_sparse())
    with pytest.raises(NotCarried, match="not small"):
        literal(torch.zeros(5000))
    with pytest.raises(NotCarried, match="not small"):
        literal(None)
    with pytest.raises(NotCarried, match="an input is on meta: kernels are made for the CPU"):
        Program("", (Input((2,), (1,), "float32", "meta"),)).check()
