"""Why a call was missed: the guards that do not hold for it, all of them, found without running the body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from janusc.interrupts import is_interrupt
from janusc.lowering import ops
from janusc.lowering.ir import FUNCTION, Chain, Const, Node, Segment, Value, inputs_of
from janusc.runtime.interpreter import ASSERTIONS, MEANINGS, Machine
from janusc.sentinels import UNBOUND


@dataclass(frozen=True, eq=False)
class Broken:
    """A guard that does not hold: its site, its kind, and what it was asked of; "" for a read that is not possible."""

    site: str
    kind: str
    args: tuple[Any, ...]


class _Reader(Machine):
    """Reads, and nothing else."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self.objects = objects


def broken_guards(chain: Chain, function: Any, arguments: Mapping[str, Any]) -> list[Broken]:
    """The guards of the first segment that fail; one that needs what could not be read is left out."""
    first = next(iter(chain.steps), None)
    if not isinstance(first, Segment):
        return []
    reader = _Reader(chain.objects)
    given = {FUNCTION: function, **arguments}
    env: dict[Value, Any] = {p: given.get(n, UNBOUND) for n, p in zip(first.live_ins, first.guards.params)}
    found: list[Broken] = []
    for node in first.guards.nodes:
        if not all(value in env for value in inputs_of(node)):
            continue
        try:
            _take(reader, node, env, found)
        except Exception as error:
            if is_interrupt(error):
                raise
            if node.op is ops.READ_ITEM and isinstance(error, KeyError):
                found.append(Broken("", "missing", tuple(reader.args(node, env))))
    return found


def _take(reader: Machine, node: Node, env: dict[Value, Any], found: list[Broken]) -> None:
    if node.op is not ops.ASSERT:
        result = MEANINGS[node.op.name](reader, node, env)
        env.update(zip(node.outputs, [result] if node.op is not ops.UNPACK else result))
        return
    args = reader.args(node, env)
    if not ASSERTIONS[node.target](*args):
        site = dict(node.kwargs).get("site")
        found.append(Broken(str(site.value) if isinstance(site, Const) else "", node.target, tuple(args)))
