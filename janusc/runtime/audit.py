"""Why a call was missed: the guards that do not hold for it, all of them, found without running the body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from janusc.interrupts import is_interrupt
from janusc.lowering import ops
from janusc.lowering.ir import FUNCTION, Chain, Const, Node, Segment, Value
from janusc.runtime.interpreter import ASSERTIONS, MEANINGS, Machine
from janusc.sentinels import MISS, UNBOUND


@dataclass(frozen=True, eq=False)
class Broken:
    """A guard that does not hold: its site, its kind, and what it was asked of."""

    site: str
    kind: str
    args: tuple[Any, ...]


class _Reader(Machine):
    """Reads, and nothing else."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self.objects = objects


_OF_VALUES = frozenset({"type", "is", "among", "equals", "length", "true", "false"})
"""What is asked of one value: where it does not hold, only what goes on from that value is left out."""


def broken_guards(chain: Chain, function: Any, arguments: Mapping[str, Any]) -> list[Broken]:
    """The guards of the first segment that fail. Nothing is read that may not be what a guard before it asked for."""
    first = next(iter(chain.steps), None)
    if not isinstance(first, Segment):
        return []
    reader = _Reader(chain.objects)
    given = {FUNCTION: function, **arguments}
    env: dict[Value, Any] = {p: given.get(n, UNBOUND) for n, p in zip(first.live_ins, first.guards.params)}
    makers = {out: node for node in first.guards.nodes for out in node.outputs}
    found: list[Broken] = []
    for node in first.guards.nodes:
        if not all(value in env for value in node.inputs):
            continue
        if node.op is not ops.ASSERT:
            result = _read(reader, node, env)
            if result is MISS:
                break
            env.update(zip(node.outputs, [result] if node.op is not ops.UNPACK else result))
            continue
        args = reader.args(node, env)
        holds = _holds(node, args)
        if holds is None:
            break
        if not holds:
            site = dict(node.kwargs).get("site")
            found.append(Broken(str(site.value) if isinstance(site, Const) else "", node.target, tuple(args)))
            if node.target not in _OF_VALUES or not isinstance(node.args[0], Value):
                break
            for value in node.inputs:
                _forget(value, makers, env)
    return found


def _read(reader: Machine, node: Node, env: dict[Value, Any]) -> Any:
    """What a guard reads; MISS where it is not there."""
    try:
        return MEANINGS[node.op.name](reader, node, env)
    except Exception as error:
        if is_interrupt(error):
            raise
        return MISS


def _holds(node: Node, args: list[Any]) -> bool | None:
    """Whether a guard holds; None where it can't be asked, of what another path has shown to be of another class."""
    try:
        return bool(ASSERTIONS[node.target](*args))
    except Exception as error:
        if is_interrupt(error):
            raise
        return None


def _forget(value: Value, makers: Mapping[Value, Node], env: dict[Value, Any]) -> None:
    """A value is not what it was taken for, and neither is what it was computed from, as the keys of a dict are."""
    env.pop(value, None)
    maker = makers.get(value)
    if maker is not None and maker.op in (ops.METHOD, ops.BUILTIN, ops.BUILTIN_READ, ops.ATTRIBUTE, ops.OPERATOR):
        for operand in maker.inputs:
            _forget(operand, makers, env)
