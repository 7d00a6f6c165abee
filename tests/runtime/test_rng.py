"""Random numbers: drawn as in eager mode, and given back."""

import pytest
import torch
from sketch import INT, Sketch, run_once

from janusc.runtime import rng
from janusc.runtime.transaction import rollback


def draw(target_op, target, *args, **kwargs):
    """A node drawing numbers, followed by a failing assert where ``bad`` is set."""

    def build(body, bad, *params):
        result = body(target_op, target, *(params or args), **kwargs)
        body.check("false", bad)
        return result

    return build


def test_the_same_numbers_as_in_eager_mode_also_after_a_failure():
    build = draw("torch.random", "torch.rand", 3)
    torch.manual_seed(0)
    expected = [torch.rand(3) for _ in range(3)]
    torch.manual_seed(0)
    outcomes = [run_once(build, False), run_once(build, True, twin=lambda bad: torch.rand(3)), torch.rand(3)]
    for given, wanted in zip(outcomes, expected):
        assert torch.equal(given, wanted)


@pytest.mark.parametrize(
    "op, target, args",
    [
        ("method.write", "normal_", ()),
        ("torch.write", "torch.nn.init.uniform_", ()),
        ("module.call", "", (torch.ones(4),)),
    ],
)
def test_what_draws_by_name_or_inside_a_module_is_kept_too(op, target, args):
    subject = torch.nn.Dropout() if op == "module.call" else torch.zeros(4)

    def build(body, subject):
        body(op, target, subject, *args)
        body.check("true", False)
        return None

    state = torch.get_rng_state()
    run_once(build, subject, twin=lambda subject: None)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_generator_of_the_users_is_given_back():
    generator = torch.Generator().manual_seed(1)

    def build(body, bad, generator):
        x = body("torch.random", "torch.rand", 2, generator=generator)
        y = body("torch.random", "torch.rand", 2, generator=generator)
        body.check("false", bad)
        return body("operator", "add", x, y)

    before = generator.get_state()
    run_once(build, True, generator, twin=lambda *a: None)
    assert torch.equal(generator.get_state(), before)
    result = run_once(build, False, generator)
    generator.set_state(before)
    assert torch.equal(result, torch.rand(2, generator=generator) + torch.rand(2, generator=generator))
    assert run_once(build, False, None).shape == (2,)


def test_nodes_that_draw():
    sketch = Sketch(INT)
    (x,) = sketch.params
    for op, target in (
        ("torch.random", "torch.rand"),
        ("method.write", "bernoulli_"),
        ("torch.write", "torch.nn.init.ones_"),
        ("builtin.random", "random.random"),
    ):
        sketch(op, target, x)
    for op, target in (("torch", "torch.relu"), ("method.write", "add_"), ("operator.write", "iadd")):
        sketch(op, target, x)
    expected = [rng.TORCH] * 3 + [rng.PYTHON] + [None] * 3
    assert [rng.stream(node) for node in sketch.graph().nodes] == expected


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_generators_are_given_back():
    x = torch.ones(2, device="cuda")
    undo = []
    rng.save_rng(undo, (x,))
    first = torch.rand(3, device="cuda")
    rollback(undo)
    assert torch.equal(first, torch.rand(3, device="cuda"))
