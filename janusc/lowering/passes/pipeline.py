"""The passes in their order, and running them: verified, timed, dumped, with fuel for bisecting.

Before::

    a chain as the lowering made it

After::

    the same chain, each segment through every pass of ``PIPELINE``; host ranges are the user's and stay
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from janusc.lowering.ir import Chain, Segment
from janusc.lowering.passes.constants import constants
from janusc.lowering.passes.dead_code import dead_code
from janusc.lowering.passes.early_gradients import early_gradients
from janusc.lowering.passes.folding import folding
from janusc.lowering.passes.hoist_asserts import hoist_asserts
from janusc.lowering.passes.implied_asserts import implied_asserts
from janusc.lowering.passes.prune_saves import prune_saves
from janusc.lowering.passes.subexpressions import subexpressions
from janusc.lowering.passes.truths import truths
from janusc.lowering.rewrite import Fuel, count_nodes
from janusc.lowering.verify import verify


@dataclass(frozen=True)
class Pass:
    """A named rewrite of one segment and why it stands where it does."""

    name: str
    run: Callable[[Segment, Fuel], Segment]
    reason: str


PIPELINE = (
    Pass("constants", constants, "first: what the guards fix need not be handed over and asked for again"),
    Pass("folding", folding, "what becomes a literal makes others fold, merge and die"),
    Pass("subexpressions", subexpressions, "shapes and guards are asked for again and again"),
    Pass("implied_asserts", implied_asserts, "fewer guards on each call, before they are ordered"),
    Pass("hoist_asserts", hoist_asserts, "an assert that fails before a write has nothing to undo"),
    Pass("dead_code", dead_code, "after merging and folding, which leave unused nodes behind"),
    Pass("prune_saves", prune_saves, "fewer nodes that may fail are left, so fewer copies to keep"),
    Pass("early_gradients", early_gradients, "after the asserts, which would move above it, and the saves they need"),
    Pass("truths", truths, "last: the others know comparisons as operators"),
)


@dataclass(frozen=True)
class PassRecord:
    """What one pass did to a chain."""

    name: str
    seconds: float
    rewrites: int
    chain: Chain  # after the pass

    @property
    def nodes(self) -> int:
        """How many nodes there were left."""
        segments = [s for s in self.chain.steps if isinstance(s, Segment)]
        return sum(count_nodes(s.guards) + count_nodes(s.body) for s in segments)


@dataclass(frozen=True)
class Optimised:
    """A chain that went through the passes, and what each of them did."""

    chain: Chain
    records: tuple[PassRecord, ...]


Dump = Callable[[str, Chain], None]


EACH_IS_VERIFIED = os.environ.get("JANUSC_VERIFY") == "each"
"""Whether a fault is told of the pass that made it; a user's calls wait for their graph, which is verified once."""


def optimise(chain: Chain, fuel: int | None = None, enabled: bool = True, dump: Dump | None = None) -> Chain:
    """The chain after all passes; see ``run_passes``."""
    return run_passes(chain, fuel, enabled, dump).chain


def run_passes(chain: Chain, fuel: int | None = None, enabled: bool = True, dump: Dump | None = None) -> Optimised:
    """Run every pass and verify the result, or that of each pass if the environment has ``JANUSC_VERIFY=each``.

    ``fuel`` bounds the number of single rewrites over all passes: the smallest one that breaks a program names the
    rewrite at fault. ``dump`` gets the name of each pass and the chain after it, first ``"lowered"`` with the input.
    """
    if EACH_IS_VERIFIED or not enabled:
        verify(chain)
    if dump is not None:
        dump("lowered", chain)
    if not enabled:
        return Optimised(chain, ())
    tank = Fuel(fuel)
    records = []
    for item in PIPELINE:
        start, before = time.perf_counter(), tank.spent
        steps = tuple(item.run(s, tank) if isinstance(s, Segment) else s for s in chain.steps)
        chain = replace(chain, steps=steps)
        if EACH_IS_VERIFIED or item is PIPELINE[-1]:
            verify(chain)
        records.append(PassRecord(item.name, time.perf_counter() - start, tank.spent - before, chain))
        if dump is not None:
            dump(item.name, chain)
    return Optimised(chain, tuple(records))
