"""The passes together: order, records, fuel, dumps; and that their docstrings tell the truth."""

import inspect
import re
import sys

import pytest
from lowering.pass_text import graph_of, in_body

from janusc.lowering.passes import pipeline
from janusc.lowering.printer import ById, print_chain, print_graph
from janusc.lowering.reader import read_chain
from janusc.lowering.verify import VerifyError

DOCUMENTED = re.compile(r"Before::\n\n(.*?)\n\nAfter::\n\n(.*?)(?=\n\n\S|\Z)", re.DOTALL)


@pytest.mark.parametrize("item", pipeline.PIPELINE, ids=lambda item: item.name)
def test_the_docstring_of_a_pass_tells_the_truth(item):
    before, after = DOCUMENTED.search(inspect.getdoc(sys.modules[item.run.__module__])).groups()
    shown = [print_graph(g, ById()).split("\n", 1)[1] for g in (in_body(item.run, before), graph_of(after))]
    assert shown[0] == shown[1]


CHAIN = """
chain c:
  segment(__function__, n) -> () returns:
    guards(%0: any, %1: int):
      return (%1)
    body(%2: int):
      %3: int = operator add(1, 2)
      %4: int = operator add(%2, %3)
      %5: int = operator add(%2, %3)
      return (%4, %5)
"""


def test_passes_are_named_once_and_say_why():
    assert len({item.name for item in pipeline.PIPELINE}) == len(pipeline.PIPELINE)
    assert all(item.reason and "\n" not in item.reason for item in pipeline.PIPELINE)


def test_records_and_dumps_follow_the_passes():
    chain, dumped = read_chain(CHAIN.replace("(%4, %5)", "((%4, %5))"), {}), []
    optimised = pipeline.run_passes(chain, dump=lambda name, after: dumped.append((name, print_chain(after))))
    names = [item.name for item in pipeline.PIPELINE]
    assert [r.name for r in optimised.records] == names
    assert [name for name, _ in dumped] == ["lowered", *names]
    assert dumped[-1][1] == print_chain(optimised.chain)
    assert sum(r.rewrites for r in optimised.records) == 2
    assert optimised.records[-1].nodes == 1
    assert all(r.seconds >= 0 for r in optimised.records)


def test_switched_off_passes_leave_the_chain_alone():
    chain = read_chain(CHAIN.replace("(%4, %5)", "((%4, %5))"), {})
    assert pipeline.optimise(chain, enabled=False) is chain
    assert print_chain(pipeline.optimise(chain, fuel=0)) == print_chain(chain)


def test_fuel_stops_after_so_many_rewrites():
    chain = read_chain(CHAIN.replace("(%4, %5)", "((%4, %5))"), {})
    one = print_chain(pipeline.optimise(chain, fuel=1))
    assert "operator add(%2, 3)" in one
    assert one.count("operator") == 2


def test_the_input_is_verified():
    with pytest.raises(VerifyError):
        pipeline.optimise(read_chain(CHAIN, {}), enabled=False)
