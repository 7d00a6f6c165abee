"""How a whole training step is written: at one place that asks for all of its kernels, and node by node beside it.

::

    _jc_whole = whole_1.begin(_jc_undo, v7, (x, v40, v41)) if whole_1.is_awake else None
    if _jc_whole is None:
        _jc_zero_grad(_jc_undo, v7, True)
        ...
    else:
        (v79,) = _jc_whole[0]
    ...
    if _jc_whole is not None: _jc_whole = whole_1.finish(v7, _jc_whole[1])
    if _jc_whole is None:
        if not step_1(v7): _jc_ending(_jc_step, __function__, globals(), v7)
"""

from __future__ import annotations

from collections.abc import Sequence

from janusc.lowering.ir import Const, Graph, Node, Value
from janusc.runtime import regions
from janusc.runtime.blocks import Block, block_of, closed, last_uses
from janusc.runtime.forms import FORMS
from janusc.runtime.kernels.whole import WholeStep
from janusc.runtime.writer import Writer, tuple_text

_FOUND = "_jc_whole"
_PURE = frozenset({"torch", "torch.random", "method", "operator"})
_HARMLESS = frozenset({"torch", "method", "operator", "attribute", "builtin", "build", "unpack", "assert"})


def write_body(writer: Writer, body: Graph, ending: Sequence[Node]) -> str | None:
    """The nodes of a body, behind whose transaction this comes; the name of the whole step, where it is one."""
    found = _find(writer, body, ending)
    if found is None:
        regions.write_nodes(writer, body)
        return None
    first, body, block = found
    regions.write_nodes(writer, first)
    whole = WholeStep()
    name, optimizer = writer.bind(whole, "whole_1"), writer.expr(ending[0].args[0])
    inputs = tuple_text(list(map(writer.expr, block.inputs)))
    writer.line(
        f"{_FOUND} = {name}.begin(_jc_undo, {optimizer}, {inputs}) if {name}.is_awake else None", ending[0].span
    )
    head = closed(body, block_of(body, 0, block.stop, last_uses(body)))
    names = [writer.define(v) for v in head.outputs if isinstance(v, Value)]
    before = len(writer.places)
    writer.line(f"if {_FOUND} is None:")
    regions.write_suite(writer, head, names)
    if names:
        writer.line("else:")
        writer.line(f"    {tuple_text(names)} = {_FOUND}[0]")
    for _, place in writer.places[before:]:
        whole.site = place
    regions.write_nodes(writer, Graph(body.params, body.nodes[block.stop :], body.outputs))
    return name


def write_ending(writer: Writer, node: Node, whole: str | None) -> None:
    """What comes behind the transaction."""
    if whole is None:
        FORMS[node.op.name](writer, node)
        return
    finish = f"{_FOUND} = {whole}.finish({writer.expr(node.args[0])}, {_FOUND}[1])"
    writer.line(f"if {_FOUND} is not None: {finish}", node.span)
    writer.line(f"if {_FOUND} is None:")
    writer.indent()
    FORMS[node.op.name](writer, node)
    writer.dedent()


def _find(writer: Writer, body: Graph, ending: Sequence[Node]) -> tuple[Graph, Graph, Block] | None:
    """The body in two: what comes first, and from gradients that are dropped on, with the block behind that.

    The block has a backward pass, a step of the same optimizer ends it all, and what comes between the block and the
    step leaves gradients alone. What stands between the drop and the block can't tell which of them is first.
    """
    if not ending or ending[0].op.name != "step" or len(ending[0].args) > 1 or writer.backend.step() is None:
        return None
    drops = [i for i, node in enumerate(body.nodes) if node.op.name == "zero_grad"]
    if not drops or body.nodes[drops[-1]].args != (ending[0].args[0], Const(True)):
        return None
    drop, nodes = drops[-1], body.nodes
    known = [b for b in writer.backend.blocks(body, last_uses(body)) if nodes[b.stop - 1].op.name == "backward"]
    if not known or known[-1].start <= drop or any(n.op.name not in _PURE for n in nodes[drop + 1 : known[-1].start]):
        return None
    start = known[-1].start
    moved = Graph(body.params, (*nodes[:drop], *nodes[drop + 1 : start], nodes[drop], *nodes[start:]), body.outputs)
    before = closed(moved, block_of(moved, 0, start - 1, last_uses(moved)))
    rest = Graph(body.params, moved.nodes[start - 1 :], body.outputs)
    blocks = writer.backend.blocks(rest, last_uses(rest))
    if len(blocks) != 1 or blocks[0].start != 1 or rest.nodes[blocks[0].stop - 1].op.name != "backward":
        return None
    if any(node.op.name not in _HARMLESS for node in rest.nodes[blocks[0].stop :]):
        return None
    return before, rest, blocks[0]
