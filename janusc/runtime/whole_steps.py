"""How a whole training step is written: at one place that asks for all of its kernels, and node by node beside it.

::

    _jc_whole = whole_1.begin(_jc_undo, v7, (x, v40, v41)) if whole_1.is_awake else None
    if _jc_whole is None:
        _jc_zero_grad(_jc_undo, v7, True)
        ...
    else:
        (v79,) = _jc_whole[0]
    ...
    if _jc_whole is None: _jc_ending(step_1, __function__, globals(), v7)
    else: _jc_whole = whole_1.finish(v7, _jc_whole[1])
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
_HARMLESS = frozenset({"torch", "method", "operator", "attribute", "builtin", "build", "unpack", "assert"})


def write_body(writer: Writer, body: Graph, ending: Sequence[Node]) -> str | None:
    """The nodes of a body, behind whose transaction this comes; the name of the whole step, where it is one."""
    block = _block_of(writer, body, ending)
    if block is None:
        regions.write_nodes(writer, body)
        return None
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
    writer.line(f"if {_FOUND} is None:")
    writer.indent()
    FORMS[node.op.name](writer, node)
    writer.dedent()
    writer.line("else:")
    writer.line(f"    {_FOUND} = {whole}.finish({writer.expr(node.args[0])}, {_FOUND}[1])", node.span)


def _block_of(writer: Writer, body: Graph, ending: Sequence[Node]) -> Block | None:
    """The block that begins right behind gradients that are dropped, where a step of the same optimizer ends it all.

    What comes between the block and the step leaves gradients alone.
    """
    if not ending or ending[0].op.name != "step" or not body.nodes or writer.backend.step() is None:
        return None
    first = body.nodes[0]
    if first.op.name != "zero_grad" or first.args != (ending[0].args[0], Const(True)):
        return None
    blocks = writer.backend.blocks(body, last_uses(body))
    if len(blocks) != 1 or blocks[0].start != 1 or body.nodes[blocks[0].stop - 1].op.name != "backward":
        return None
    return blocks[0] if all(node.op.name in _HARMLESS for node in body.nodes[blocks[0].stop :]) else None
