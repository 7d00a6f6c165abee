"""From a parsed function and the arguments of a call to a chain of transactions.

A statement that can't stand in a graph becomes a host range, or only the opaque call in it does; what comes before and
after it are transactions of their own.
"""

from __future__ import annotations

import time
import types as pytypes
from collections.abc import Callable, Mapping
from typing import Any

from janusc.diagnostics import Refusal
from janusc.frontend.parse import ParsedFunction
from janusc.lowering import (  # noqa: F401  (each registers its constructs)
    assign,
    branch,
    codes,
    comprehension,
    introspection,
    loops,
    lower_call,
    lower_compare,
    lower_container,
    lower_expr,
    lower_instance,
    lower_operator,
    lower_random,
    lower_state,
    lower_stmt,
    ops,
)
from janusc.lowering.agenda import Lowered
from janusc.lowering.conditional_step import split_at_step
from janusc.lowering.lowering import Lowering, Unconvertible
from janusc.lowering.open_blocks import open_block
from janusc.lowering.open_loops import open_up
from janusc.lowering.routine import NoRoutine, Recursive
from janusc.lowering.segments import Walk
from janusc.lowering.split import split

_MANY, _MOST_SECONDS = 16, 5.0  # refusals, and the time after which a function is left to ordinary Python


def lower(
    parsed: ParsedFunction,
    function: pytypes.FunctionType,
    arguments: Mapping[str, Any],
    profile: Any,
    original: Callable[[Any], Any],
    is_opaque: Callable[[Any], bool],
) -> Lowered:
    """Convert a function, with the arguments of the call at hand as samples; Refusal where nothing can be converted."""
    walk = Walk(parsed, function, arguments, profile, lambda: Lowering(profile, original, is_opaque))
    try:
        return run(walk)
    finally:
        for site, length in walk.lengths.items():  # for the next conversion
            profile.trips(site, length)


def run(walk: Walk) -> Lowered:
    """Walk until nothing more is learned."""
    started = time.thread_time()
    refusals = 0
    while True:
        try:
            return walk.run()
        except Recursive as found:
            walk.recursive.add(found.key)
            walk.go_back(0)
        except NoRoutine as found:
            walk.recursive.discard(found.key)
            walk.inlined.add(found.key)
            walk.notes.append(found.error.diagnostic)
            walk.go_back(0)
        except Unconvertible as error:
            refusals += 1
            learn(walk, error, refusals >= _MANY and time.thread_time() - started > _MOST_SECONDS)


def learn(walk: Walk, error: Unconvertible, late: bool) -> None:
    """What could not be converted runs on the host from now on; Refusal where that is no way out."""
    if error.may_end and walk.endings.isdisjoint(map(id, error.culprits)):
        walk.endings.update(map(id, error.culprits))
        walk.reconsider()
        return
    if error.culprits and not any(id(s) in walk.host_ids for s in error.culprits):
        walk.host_ids.update((id(s), error.diagnostic) for s in error.culprits)
        walk.reconsider()
        return
    if walk.current is None or id(walk.current) in walk.host_ids:
        raise Refusal(error.diagnostic) from None
    if walk.parsed.captured_writes or late:
        raise Refusal(error.diagnostic, final=late) from None
    split_off(walk, error)
    if not walk.stop_before():
        walk.reconsider()


def split_off(walk: Walk, error: Unconvertible) -> None:
    """Run a statement on the host, or only the opaque call in it where what is around can stand in a graph."""
    statement = walk.current
    if open_up(walk, statement, error.diagnostic) or open_block(walk, statement, error.diagnostic):
        return
    parts = split_at_step(walk.lo, statement) if id(statement) not in walk.pieces else None
    if parts is not None:
        walk.pieces[id(statement)] = parts
        walk.host_ids[id(parts[0])] = error.diagnostic  # the test, which can't be in a graph
        return
    if error.call is not None and id(statement) not in walk.pieces:
        parts = split(statement, error.call, *walk.stable_names())
    if parts is None:
        walk.host_ids[id(statement)] = error.diagnostic
        return
    walk.pieces[id(statement)] = parts
    walk.host_ids[id(parts[-2])] = error.diagnostic  # the call alone, right before what is left of the statement
