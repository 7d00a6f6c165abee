"""How a graph is written: its nodes in order, blocks by their backend, and regions as ordinary Python suites.

A value that has been read for the last time is deleted on that line, so memory is given back as early as in eager mode.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from janusc.lowering.effects import may_fail
from janusc.lowering.ir import Arg, Const, Graph, Node, Tup, Value, values_of
from janusc.runtime.backends.aten import reuse_buffers
from janusc.runtime.blocks import Block, closed, last_uses
from janusc.runtime.forms import FORMS, assign, attribute, form, item_text
from janusc.runtime.writer import Writer, tuple_text
from janusc.source import Span
from janusc.types import Constant, HostType, Type

_SMALL = frozenset({"NoneType", "bool", "int", "float", "complex", "str", "bytes", "torch.Size", "torch.dtype"})


def is_small(kind: Type) -> bool:
    """Whether holding a value of this type for a while costs nothing."""
    return isinstance(kind, Constant) or isinstance(kind, HostType) and kind.name in _SMALL


def write_nodes(writer: Writer, graph: Graph, release: bool = True) -> None:
    """Every node of a graph whose parameters have names."""
    uses = last_uses(graph)
    _write_run(writer, graph, uses, () if writer.one_by_one else writer.backend.blocks(graph, uses), release)


def _write_one_by_one(writer: Writer, graph: Graph) -> None:
    """The nodes of a block for which there is no kernel, and those in their regions."""
    writer.one_by_one = True
    write_nodes(writer, graph)
    writer.one_by_one = False


def _write_run(writer: Writer, graph: Graph, uses: dict[Value, int], found: Sequence[Block], release: bool) -> None:
    blocks = {block.start: block for block in found}
    nodes = reuse_buffers(graph, uses)
    own: set[Value] = set()
    index = 0
    while index < len(nodes):
        block = blocks.get(index)
        if block is not None and _write_block(writer, graph, block):
            stop, met, same_line = block.stop, (*block.inputs, *block.outputs), False
            made = block.outputs
        else:
            node = nodes[index]
            _write_node(writer, node, uses)
            stop, met, made = index + 1, (*node.inputs, *node.outputs), node.outputs
            same_line = not node.regions and node.op.name != "assert"
        if release:
            dead = [v for v in met if uses.get(v, -1) < stop]
            own.update(v for v in made if writer.is_named(v))
            _release(writer, [v for v in dead if v in own], same_line)
            own.difference_update(dead)
        index = stop


_ASKED_ONCE = frozenset({"type", "is", "is_not", "empty", "length", "absent", "true", "false"})


def write_guards(writer: Writer, graph: Graph) -> None:
    """The guards of a call: what only the next assert needs is read inside its condition."""
    counts = Counter(v for node in graph.nodes for v in node.inputs)
    counts.update(values_of(graph.outputs))
    nodes = graph.nodes
    for index, node in enumerate(nodes):
        asked = _only_asked(nodes, index, counts)
        if asked:
            text = item_text(writer, node) if node.op.name == "read.item" else attribute(writer, node)
            writer.rename(node.outputs[0], text)
        else:
            FORMS[node.op.name](writer, node)


def _only_asked(nodes: Sequence[Node], index: int, counts: Counter[Value]) -> bool:
    """Whether a node is a read for nothing but the assert that follows, with reads of the same sort between them."""
    after = index
    while after < len(nodes) and nodes[after].op.name in ("read.item", "read.attr"):
        if counts[nodes[after].outputs[0]] != 1:
            return False
        after += 1
    if after == index or after == len(nodes):
        return False
    check = nodes[after]
    wanted = set(check.inputs)
    between = all(n.outputs[0] in wanted for n in nodes[index:after])
    return check.op.name == "assert" and check.target in _ASKED_ONCE and between


def _write_block(writer: Writer, graph: Graph, block: Block) -> bool:
    """Announce a block, and write it where the backend compiles it; False where its nodes are still to be written."""
    writer.blocks += 1
    count = block.stop - block.start
    writer.line(f"# block {writer.blocks} ({writer.backend.name}, {count} ops)")
    inner = closed(graph, block)
    bare = frozenset(index for index, value in enumerate(block.outputs) if value in writer.bare)
    site = writer.backend.compile(inner, writer.objects, bare)
    if site is None:
        return False
    name = writer.bind(site, f"block_{writer.blocks}")
    writer.places.append((f"block {writer.blocks}", site))
    found = writer.fresh("_jc_found")
    inputs = ["_jc_undo" if block.acts else "None", *map(writer.expr, block.inputs)]
    writer.line(f"{found} = {name}({', '.join(inputs)}) if {name}.awake else None")
    names = [writer.define(v) for v in block.outputs]
    writer.line(f"if {found} is None:")
    write_suite(writer, inner, names, _write_one_by_one)
    if site.measures:
        writer.line(f"    if {name}.running: {name}.stop({tuple_text(names) if names else '()'})")
    if names:
        writer.line("else:")
        writer.line(f"    {tuple_text(names)} = {found}; del {found}")  # which would keep them all
    return True


def _write_node(writer: Writer, node: Node, uses: dict[Value, int]) -> None:
    if node.outputs and node.op.name != "unpack" and not node.regions and not any(v in uses for v in node.outputs):
        unread = replace(node, outputs=())
        writer.last = unread if node is writer.last else writer.last
        node = unread
    if writer.abort_hooks and node.op.name != "assert" and may_fail(node):
        writer.line(f"if _jc_abort('node'): {writer.fail(None)}")
    FORMS[node.op.name](writer, node)


def _release(writer: Writer, values: Iterable[Value], same_line: bool) -> None:
    names = dict.fromkeys(writer.expr(v) for v in values if not is_small(v.type))
    if names:
        writer.release(names, same_line)


# ---- regions -----------------------------------------------------------------------------------------------------


def write_suite(
    writer: Writer, region: Graph, names: Sequence[str], write: Callable[[Writer, Graph], None] = write_nodes
) -> None:
    """A region that runs at most once, its outputs under these names."""
    writer.indent()
    before = len(writer.lines)
    counts = Counter(values_of(region.outputs))
    inside = {v for n in region.nodes for v in n.outputs}
    direct = set()
    for name, output in zip(names, region.outputs):
        if isinstance(output, Value) and output in inside and counts[output] == 1:
            writer.rename(output, name)
            direct.add(output)
    write(writer, region)
    for name, output in zip(names, region.outputs):
        if output not in direct:
            writer.line(f"{name} = {writer.expr(output)}")
    _release_rest(writer, (v for v in counts if v in inside and v not in direct))
    if len(writer.lines) == before:
        writer.line("pass")
    writer.dedent()


def _release_rest(writer: Writer, values: Iterable[Value]) -> None:
    names = [writer.expr(v) for v in values if not is_small(v.type)]
    if names:
        writer.release(names, same_line=False)


def _alias_all(writer: Writer, params: Iterable[Value], args: Iterable[Arg]) -> None:
    for param, arg in zip(params, args):
        writer.alias(param, arg)


@form("cond")
def write_cond(writer: Writer, node: Node) -> None:
    """``if v1:`` ... ``else:`` ..."""
    predicate, *inputs = node.args
    then, orelse = node.regions
    _alias_all(writer, then.params, inputs)
    _alias_all(writer, orelse.params, inputs)
    names = [writer.define(v) for v in node.outputs]
    writer.line(f"if {writer.expr(predicate)}:", node.span)
    write_suite(writer, then, names)
    if names or orelse.nodes:
        writer.line("else:")
        write_suite(writer, orelse, names)


@form("define")
def write_function(writer: Writer, node: Node) -> None:
    """``def visit(v1, v2, v3=v3):`` ...

    The function gets itself as an argument and its inputs as defaults: it holds no cell, so that no cycle of references
    keeps tensors alive.
    """
    (region,) = node.regions
    first = len(region.params) - len(node.args)
    name = writer.fresh(node.target)
    writer.rename(node.outputs[0], name)
    parameters = [writer.define(v) for v in region.params[:first]]
    _alias_all(writer, region.params[first:], node.args)
    names = dict.fromkeys(writer.expr(v) for v in region.params[first:])
    held = [n for n in names if n.isidentifier() and n not in writer.namespace and not hasattr(builtins, n)]
    writer.line(f"def {name}({', '.join([*parameters, *(f'{n}={n}' for n in held)])}):", node.span)
    writer.indent()
    write_nodes(writer, region)
    writer.line(f"return {writer.expr(region.outputs[0])}")
    writer.dedent()


@form("invoke", "invoke.write")
def write_invoke(writer: Writer, node: Node) -> None:
    """``v3 = visit(visit, v1, v2)``"""
    function = writer.expr(node.args[0])
    assign(writer, node, f"{function}({', '.join([function, *map(writer.expr, node.args[1:])])})")


@form("context")
def write_context(writer: Writer, node: Node) -> None:
    """``with v1:`` ..."""
    manager, *inputs = node.args
    _alias_all(writer, node.regions[0].params, inputs)
    names = [writer.define(v) for v in node.outputs]
    writer.line(f"with {writer.expr(manager)}:", node.span)
    write_suite(writer, node.regions[0], names)


@form("loop")
def write_loop(writer: Writer, node: Node) -> None:
    """``for v1 in v2:`` ... or ``while _jc_go:`` ..., carried values as variables that each turn assigns anew."""
    iterable, carried, invariant = node.args
    (region,) = node.regions
    assert isinstance(carried, Tup) and isinstance(invariant, Tup)
    names = [writer.define(v) for v in node.outputs]
    for name, initial in zip(names, carried.items):
        writer.line(f"{name} = {writer.expr(initial)}")
    params = region.params[1:] if node.target == "for" else region.params
    for name, param in zip(names, params):
        writer.rename(param, name)
    _alias_all(writer, params[len(names) :], invariant.items)
    if node.target == "for":
        item = writer.define(region.params[0])
        writer.line(f"for {item} in {writer.expr(iterable)}:", node.span)
        _write_turn(writer, region, names, None, node.span)
    else:
        go = writer.fresh("_jc_go")
        writer.line(f"{go} = {writer.expr(dict(node.kwargs).get('enter', Const(True)))}")
        writer.line(f"while {go}:", node.span)
        _write_turn(writer, region, names, go, node.span)


def _write_turn(writer: Writer, region: Graph, names: Sequence[str], flag: str | None, span: Span | None) -> None:
    """The body of a loop: its nodes, then all carried values at once; ``flag`` is the variable a ``while`` tests."""
    writer.indent()
    before = len(writer.lines)
    write_nodes(writer, region)
    go_on, *outputs = region.outputs
    checked = flag is None and not (isinstance(go_on, Const) and go_on.value is True)
    condition = writer.operand(go_on)
    targets = list(names)
    if checked and condition in names:
        # The flag of this turn is a carried value, which the assignment is about to replace.
        condition = flag = writer.fresh("_jc_go")
    if flag is not None:
        targets.append(flag)
        outputs.append(go_on)
    _assign_at_once(writer, targets, outputs)
    inside = {v for n in region.nodes for v in n.outputs}
    _release_rest(writer, (v for v in dict.fromkeys(values_of(tuple(outputs))) if v in inside and v is not go_on))
    if checked:
        writer.line(f"if not {condition}: break", span)
    if len(writer.lines) == before:
        writer.line("pass")
    writer.dedent()


def _assign_at_once(writer: Writer, targets: Sequence[str], sources: Sequence[Arg]) -> None:
    """One assignment a line where their order does not matter, else a single one for all."""
    pairs = [(target, source) for target, source in zip(targets, sources) if writer.expr(source) != target]
    assigned: set[str] = set()
    in_order = True
    for target, source in pairs:
        in_order = in_order and not assigned & {writer.expr(v) for v in values_of(source)}
        assigned.add(target)
    if in_order:
        for target, source in pairs:
            writer.line(f"{target} = {writer.expr(source)}")
    else:
        writer.line(f"{', '.join(t for t, _ in pairs)} = {', '.join(writer.expr(s) for _, s in pairs)}")
