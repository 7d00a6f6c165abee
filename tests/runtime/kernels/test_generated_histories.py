"""Generated blocks between histories: outputs and gradients of some passes through them, beside eager's.

Inputs are leaves, results of other operations, or plain; some are detached inside. Passes begin at some of the outputs,
and keep what they meet or not: where eager finds something freed, so must the kernel. What a pass that fails has added
before is not compared: eager's depends on the order of its nodes.
"""

import linecache
import random

import pytest
import torch
import traced
from linked_cases import assert_same

import janusc as janus

OPERATIONS = (
    "torch.tanh({a})",
    "torch.sigmoid({a}) - {b}",
    "{a} * 2 + {b}",
    "{a} @ {b}",
    "{a} * {b}",
    "{a}.detach() + {b}",
    "({a} + {b}).relu()",
    "{a}.t()",
    "{a}.exp()",
    "{a}.pow(2)",
    "{a}.sum(0, keepdim=True) + {b}",
)
INPUTS = ("x", "y", "w", "v")
PROGRAMS, ROUNDS = 150, 5


def text_of(rng):
    names, lines = list(INPUTS), ["def f(x, y, w, v):"]
    for number in range(rng.randint(3, 8)):
        operation = rng.choice(OPERATIONS).format(a=rng.choice(names), b=rng.choice(names))
        names.append(f"t{number}")
        lines.append(f"    {names[-1]} = {operation}")
    made = names[len(INPUTS) :]
    outputs = rng.sample(made, min(len(made), rng.randint(1, 3)))
    return "\n".join([*lines, f"    return ({', '.join(outputs)},)"]) + "\n"


def passes_of(rng):
    """The outputs that each pass begins at, and whether it keeps the history."""
    return [(set(rng.sample(range(3), rng.randint(1, 3))), rng.random() < 0.3) for _ in range(rng.randint(1, 3))]


def define(text, name):
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = {"torch": torch}
    exec(compile(text, name, "exec"), scope)
    return scope["f"]


def run(function, seed, before, passes):
    """What can be seen of some rounds, up to the first pass that fails."""
    torch.manual_seed(seed)
    leaves = [torch.nn.Parameter(torch.randn(3, 3) * 0.5) for _ in range(4)]
    seen = []
    for _ in range(ROUNDS):
        x, y = torch.randn(3, 3), torch.randn(3, 3)
        x = torch.tanh(leaves[2] * x) if before[0] else x
        y = torch.sigmoid(leaves[3] * 2) if before[1] else y
        outputs = function(x, y, *leaves[:2])
        seen.append([(output.detach().clone(), output.requires_grad) for output in outputs])
        for chosen, keeps in passes:
            begun = [output.sum() for number, output in enumerate(outputs) if number in chosen]
            try:
                sum(begun, torch.zeros(())).backward(retain_graph=keeps)
            except RuntimeError as error:
                return [*seen, str(error).split(" (")[0]]
            seen.append([None if leaf.grad is None else leaf.grad.clone() for leaf in leaves])
    return seen


@pytest.mark.filterwarnings("ignore:An output with one or more elements")
def test_passes_through_generated_blocks():
    kernels, failing = 0, 0
    for seed in range(PROGRAMS):
        rng = random.Random(seed)
        text, before, passes = text_of(rng), (rng.random() < 0.7, rng.random() < 0.7), passes_of(rng)
        try:
            expected = run(define(text, f"<eager {seed}>"), seed, before, passes)
        except RuntimeError:  # of shapes that don't fit
            continue
        ours = janus.compile(backend=traced.NAME, warmup=1)(define(text, f"<ours {seed}>"))
        found = run(ours, seed, before, passes)
        assert_same(found, expected, text, rtol=1e-4, atol=1e-5)
        kernels += "a kernel" in janus.explain(ours)
        failing += isinstance(expected[-1], str)
    assert kernels > PROGRAMS // 5
    assert failing > 5
