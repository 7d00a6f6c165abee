"""Passes keep the meaning of a graph: the interpreter cannot tell a chain from its optimised form, for any fuel."""

import contextlib
import io
from dataclasses import replace

import pytest
import torch
from hypothesis import given, note
from hypothesis import strategies as st
from lowering.graph_strategies import chains, inputs_for

from janusc.lowering.ir import Segment, walk
from janusc.lowering.passes import pipeline
from janusc.lowering.printer import print_chain
from janusc.lowering.rewrite import Fuel
from janusc.lowering.verify import verify
from janusc.runtime.interpreter import run_chain
from janusc.sentinels import MISS


class Failures:
    """A listener that notes that something failed; which of several sites is no part of the meaning."""

    def __init__(self):
        self.count = 0

    def observed(self, function):
        return function

    def failed(self, site, error, twin_succeeded):
        self.count += 1


def eager(a, b, n, flag, net):
    """Stands for the user's function: shows the state that it is given."""
    return "eager", a.tolist(), b.tolist(), n, flag, vars(net).copy(), torch.rand(()).item()


def shown(value):
    return value.tolist() if isinstance(value, torch.Tensor) else value


def behaviour(chain, number):
    """All that a caller can see of a call."""
    torch.manual_seed(7)
    arguments, failures, printed = inputs_for(number), Failures(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = run_chain(chain, eager, arguments, {}, failures)
    if result is not MISS and not (isinstance(result, tuple) and result[:1] == ("eager",)):
        result = tuple(map(shown, result))
    state = (arguments["a"].tolist(), arguments["b"].tolist(), vars(arguments["net"]))
    return repr((result, state, printed.getvalue(), failures.count, torch.rand(()).item()))


@given(chains(), st.sampled_from([0, 2]))
def test_the_pipeline_keeps_the_meaning(chain, number):
    optimised = pipeline.optimise(chain)
    note(print_chain(chain) + print_chain(optimised))
    assert behaviour(optimised, number) == behaviour(chain, number)


@given(chains(), st.integers(0, 12))
def test_every_amount_of_fuel_gives_a_valid_chain_of_the_same_meaning(chain, fuel):
    optimised = pipeline.run_passes(chain, fuel)
    assert sum(r.rewrites for r in optimised.records) <= fuel
    assert behaviour(optimised.chain, 2) == behaviour(chain, 2)


@pytest.mark.parametrize("item", pipeline.PIPELINE, ids=lambda item: item.name)
@given(chain=chains())
def test_each_pass_alone_keeps_the_meaning_and_settles(item, chain):
    (segment,) = chain.steps
    once = item.run(segment, Fuel())
    verify(replace(chain, steps=(once,)))
    assert behaviour(replace(chain, steps=(once,)), 2) == behaviour(chain, 2)
    fuel = Fuel()
    item.run(once, fuel)
    if item.name != "dead_code":  # what goes from a nested region may leave more unused around it
        assert fuel.spent == 0


@given(chains())
def test_no_pass_adds_nodes(chain):
    def size(chain):
        return sum(1 for s in chain.steps if isinstance(s, Segment) for g in (s.guards, s.body) for _ in walk(g))

    sizes = [size(chain)]
    pipeline.optimise(chain, dump=lambda name, after: sizes.append(size(after)))
    assert sizes == sorted(sizes, reverse=True)
