"""How each op is written as Python, without control flow."""

from __future__ import annotations

from collections.abc import Callable

from janusc.lowering.ir import FUNCTION, Arg, Const, Node, Slc, Tup, Value
from janusc.registry import Registry
from janusc.runtime import gradients, numbers, recovery, rng, transaction
from janusc.runtime.predicates import violation
from janusc.runtime.transaction import Deopt
from janusc.runtime.truths import TRUTHS
from janusc.runtime.writer import Writer, is_plain, tuple_text

Form = Callable[[Writer, Node], None]
FORMS: Registry[str, Form] = Registry("forms")

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "is": "is", "is_": "is", "is_not": "is not", "in": "in", "not_in": "not in",
}  # fmt: skip
_UNARY = {"neg": "-", "pos": "+", "invert": "~", "inv": "~", "not": "not ", "not_": "not "}
_IDENTITY = frozenset({"is", "is_", "is_not"})


def form(*names: str) -> Callable[[Form], Form]:
    """Register the form of one or more ops."""

    def register(function: Form) -> Form:
        for name in names:
            FORMS.register(name, function)
        return function

    return register


def assign(writer: Writer, node: Node, expression: str) -> None:
    """``outputs = expression``; the bare expression where nobody reads an output."""
    names = [writer.define(v) for v in node.outputs]
    writer.line(f"{', '.join(names)} = {expression}" if names else expression, node.span)


def prepare(writer: Writer, node: Node) -> None:
    """Keep the state of a generator that is named in the call before it is drawn from."""
    generator = dict(node.kwargs).get("generator")
    if isinstance(generator, Value):
        save = writer.runtime("_jc_save_generator", rng.save_generator)
        writer.line(f"{save}(_jc_undo, {writer.expr(generator)})")


# ---- calls -------------------------------------------------------------------------------------------------------


@form("torch", "torch.random", "torch.write", "builtin", "builtin.read", "builtin.random")
def write_call(writer: Writer, node: Node) -> None:
    """``relu(v1)``"""
    prepare(writer, node)
    assign(writer, node, f"{writer.target(node.target)}({writer.call(node.args, node.kwargs)})")


@form("method", "method.random", "method.read", "method.write")
def write_method(writer: Writer, node: Node) -> None:
    """``v1.view(-1)``"""
    prepare(writer, node)
    given = None if node.kwargs else numbers.argument(writer, node.target, node.args)
    assign(writer, node, f"{attribute(writer, node)}({given or writer.call(node.args[1:], node.kwargs)})")


@form("module.call")
def write_module_call(writer: Writer, node: Node) -> None:
    """``v1(v2)``"""
    assign(writer, node, f"{writer.name(node.args[0])}({writer.call(node.args[1:], node.kwargs)})")


# ---- operators ---------------------------------------------------------------------------------------------------


@form("operator", "operator.read")
def write_operator(writer: Writer, node: Node) -> None:
    """``v1 + v2``, ``v1[v2]``"""
    target, args = node.target, node.args
    if target in _UNARY and len(args) == 1:
        text = f"{_UNARY[target]}{writer.operand(args[0])}"
    elif target in _BINARY and len(args) == 2:
        side = writer.name if target in _IDENTITY else writer.operand
        prepared = numbers.operation(writer, target, args, _BINARY[target])
        text = prepared or f"{side(args[0])} {_BINARY[target]} {side(args[1])}"
    elif target == "contains":
        text = f"{writer.operand(args[1])} in {writer.operand(args[0])}"
    elif target == "getitem":
        text = f"{writer.name(args[0])}[{subscript(writer, args[1])}]"
    else:
        text = f"{writer.target(f'operator.{target}')}({writer.call(args, node.kwargs)})"
    assign(writer, node, text)


@form("test")
def write_test(writer: Writer, node: Node) -> None:
    """``_jc_lt(v1, v2)``"""
    name = writer.runtime(f"_jc_{node.target}", TRUTHS[node.target])
    assign(writer, node, f"{name}({writer.call(node.args)})")


@form("operator.write")
def write_operator_write(writer: Writer, node: Node) -> None:
    """``v3 = v1`` and ``v3 += v2``; ``v1[v2] = v3``; ``del v1[v2]``"""
    target, args = node.target, node.args
    symbol = _BINARY.get(target[1:]) or _BINARY.get(target[1:] + "_")
    if target == "setitem" and not node.outputs:
        writer.line(f"{writer.name(args[0])}[{subscript(writer, args[1])}] = {writer.expr(args[2])}", node.span)
    elif target == "delitem" and not node.outputs:
        writer.line(f"del {writer.name(args[0])}[{subscript(writer, args[1])}]", node.span)
    elif target[0] == "i" and symbol and len(node.outputs) == 1:
        # The name of the operand must go on meaning the operand: for an immutable one the result is another object.
        name = writer.define(node.outputs[0])
        operand = numbers.argument(writer, f"{target[1:]}_", args) or writer.expr(args[1])
        writer.line(f"{name} = {writer.expr(args[0])}; {name} {symbol}= {operand}", node.span)
    else:
        assign(writer, node, f"{writer.target(f'operator.{target}')}({writer.call(args, node.kwargs)})")


def subscript(writer: Writer, index: Arg) -> str:
    """What goes between the brackets of ``v1[...]``."""
    if isinstance(index, Slc):
        return _slice(writer, index)
    if isinstance(index, Tup) and len(index.items) > 1:
        return ", ".join(subscript(writer, i) if isinstance(i, Slc) else writer.expr(i) for i in index.items)
    return writer.expr(index)


def _slice(writer: Writer, index: Slc) -> str:
    lower, upper, step = ("" if _is_none(a) else writer.expr(a) for a in (index.lower, index.upper, index.step))
    return f"{lower}:{upper}" + (f":{step}" if step else "")


def _is_none(arg: Arg) -> bool:
    return isinstance(arg, Const) and arg.value is None


# ---- attributes, host values -------------------------------------------------------------------------------------


def attribute(writer: Writer, node: Node) -> str:
    """``v1.name``, also for the names that no source can write."""
    name = node.target
    if is_plain(name):
        return f"{writer.name(node.args[0])}.{name}"
    return f"{writer.builtin('getattr')}({writer.expr(node.args[0])}, {name!r})"


@form("attribute", "read.attr")
def write_attribute(writer: Writer, node: Node) -> None:
    """``v1.shape``"""
    assign(writer, node, attribute(writer, node))


@form("read.item")
def write_item(writer: Writer, node: Node) -> None:
    """``v1["weight"]``"""
    assign(writer, node, item_text(writer, node))


def item_text(writer: Writer, node: Node) -> str:
    """The expression of a ``read.item``."""
    return f"{writer.name(node.args[0])}[{subscript(writer, node.args[1])}]"


@form("build")
def write_build(writer: Writer, node: Node) -> None:
    """``[v1, v2]``"""
    assign(writer, node, writer.expr(node.args[0]))


@form("make")
def write_make(writer: Writer, node: Node) -> None:
    """``Item(v1, v2)``, ``object.__new__(Item)``"""
    cls, rest = writer.name(node.args[0]), writer.call(node.args[1:], node.kwargs)
    assign(writer, node, f"{writer.builtin('object')}.__new__({cls})" if node.target else f"{cls}({rest})")


@form("unpack")
def write_unpack(writer: Writer, node: Node) -> None:
    """``v2, v3 = v1``"""
    targets = tuple_text([writer.define(v) for v in node.outputs])
    writer.line(f"{targets} = {writer.expr(node.args[0])}", node.span)


@form("format")
def write_format(writer: Writer, node: Node) -> None:
    """``f'loss {v1:.3f}'``"""
    assign(writer, node, f"f'{''.join(_piece(writer, p) for p in node.args)}'")


def _piece(writer: Writer, piece: Arg) -> str:
    if isinstance(piece, Const):
        # The quote appended makes repr choose, and escape, single quotes.
        return repr(f'{piece.value}"')[1:-2].replace("{", "{{").replace("}", "}}")
    value, conversion, spec = piece.items if isinstance(piece, Tup) else (piece, Const(None), Const(None))
    text = writer.name(value)
    how = conversion.value if isinstance(conversion, Const) else None
    if how not in (None, -1, ""):
        text += f"!{chr(how) if isinstance(how, int) else how}"
    if isinstance(spec, Const) and spec.value in (None, ""):
        return f"{{{text}}}"
    plain = isinstance(spec, Const) and not set(spec.value) & set("{}'\"\\\n")
    return f"{{{text}:{spec.value if isinstance(spec, Const) and plain else _nested(writer, spec)}}}"


def _nested(writer: Writer, spec: Arg) -> str:
    return f"{{{writer.bind_const(spec.value) if isinstance(spec, Const) else writer.name(spec)}}}"


# ---- state -------------------------------------------------------------------------------------------------------


def _commit(writer: Writer, node: Node, keep: str, statement: str) -> None:
    """A write at the end of the transaction; what it replaces is kept only where something may yet fail."""
    if node is not writer.last or node.op.name == "write.attr":  # a module's ``__setattr__`` can be interrupted
        writer.line(keep)
    writer.line(statement, node.span)


def _assignment(writer: Writer, node: Node) -> str:
    """``v1.count = v2``, also for the names that no source can write."""
    owner, value = node.args
    if is_plain(node.target):
        return f"{writer.name(owner)}.{node.target} = {writer.expr(value)}"
    return f"{writer.builtin('setattr')}({writer.expr(owner)}, {node.target!r}, {writer.expr(value)})"


@form("set.attr")
def set_attr(writer: Writer, node: Node) -> None:
    """``v1.count = v2`` of an object that nobody else has"""
    writer.line(_assignment(writer, node), node.span)


@form("write.attr")
def write_attr(writer: Writer, node: Node) -> None:
    """``v1.count = v2``"""
    save = writer.runtime("_jc_save_attr", transaction.save_attr)
    keep = f"{save}(_jc_undo, {writer.expr(node.args[0])}, {node.target!r})"
    _commit(writer, node, keep, _assignment(writer, node))


@form("delete.attr")
def delete_attr(writer: Writer, node: Node) -> None:
    """``del v1.count``"""
    save = writer.runtime("_jc_save_attr", transaction.save_attr)
    subject = writer.expr(node.args[0])
    keep = f"{save}(_jc_undo, {subject}, {node.target!r})"
    _commit(writer, node, keep, f"{writer.builtin('delattr')}({subject}, {node.target!r})")


@form("write.item")
def write_item_at_commit(writer: Writer, node: Node) -> None:
    """``v1["total"] = v2``"""
    save = writer.runtime("_jc_save_item", transaction.save_item)
    keep = f"{save}(_jc_undo, {writer.expr(node.args[0])}, {writer.expr(node.args[1])})"
    place = f"{writer.name(node.args[0])}[{subscript(writer, node.args[1])}]"
    _commit(writer, node, keep, f"{place} = {writer.expr(node.args[2])}")


@form("write.cell")
def write_cell(writer: Writer, node: Node) -> None:
    """``v1.cell_contents = v2``"""
    save = writer.runtime("_jc_save_cell", transaction.save_cell)
    keep = f"{save}(_jc_undo, {writer.expr(node.args[0])})"
    _commit(writer, node, keep, f"{writer.name(node.args[0])}.cell_contents = {writer.expr(node.args[1])}")


@form("save")
def write_save(writer: Writer, node: Node) -> None:
    """``_jc_save_tensor(_jc_undo, v1)``"""
    function = transaction.SAVES[node.target]
    name = writer.runtime(f"_jc_{function.__name__}", function)
    writer.line(f"{name}(_jc_undo, {writer.call(node.args, ())})", node.span)


@form("zero_grad", "backward")
def write_gradients(writer: Writer, node: Node) -> None:
    """``_jc_zero_grad(_jc_undo, v1, True)``, ``_jc_backward(_jc_undo, v2, (v3, v4))``"""
    name = writer.runtime(f"_jc_{node.op.name}", getattr(gradients, node.op.name))
    writer.line(f"{name}(_jc_undo, {writer.call(node.args, node.kwargs)})", node.span)


@form("clip")
def write_clip(writer: Writer, node: Node) -> None:
    """``v3 = _jc_clip(_jc_undo, "clip_grad_norm_", (v1, v2), 1.0)``"""
    name = writer.runtime("_jc_clip", gradients.clip)
    assign(writer, node, f"{name}(_jc_undo, {node.target!r}, {writer.call(node.args, node.kwargs)})")


@form("step", "backward.last")
def write_ending(writer: Writer, node: Node) -> None:
    """``if v2 and not step_1(v1): _jc_ending(_jc_step, __function__, globals(), v1)``"""
    function = gradients.ENDINGS[node.op.name]
    ending = writer.runtime("_jc_ending", recovery.ending)
    subject, *condition = node.args
    name, args = writer.runtime(f"_jc_{function.__name__}", function), writer.call((subject,), node.kwargs)
    tests = [writer.name(value) for value in condition]
    place = writer.backend.step() if node.op.name == "step" else None
    if place is not None:
        writer.steps += 1
        at = writer.bind(place, f"step_{writer.steps}")
        writer.places.append((f"step {writer.steps}", place))
        tests.append(f"not {at}({args})")
    when = f"if {' and '.join(tests)}: " if tests else ""
    writer.line(f"{when}{ending}({name}, {FUNCTION}, {writer.builtin('globals')}(), {args})", node.span)


@form("print")
def write_print(writer: Writer, node: Node) -> None:
    """``_jc_defer_print(_jc_prints, v1)``"""
    name = writer.runtime("_jc_defer_print", transaction.defer_print)
    pieces = ["_jc_prints", writer.call(node.args, node.kwargs)]
    assign(writer, node, f"{name}({', '.join(p for p in pieces if p)})")


# ---- asserts -----------------------------------------------------------------------------------------------------


@form("assert")
def write_assert(writer: Writer, node: Node) -> None:
    """``if type(v1) is not Net: raise _jc_Deopt('site')``"""
    writer.runtime("_jc_Deopt", Deopt)
    site = dict(node.kwargs).get("site")
    statement = writer.fail(site.value if isinstance(site, Const) else None)
    place = "" if writer.fail == writer.deopt else "'guard'"
    hook = f"_jc_abort({place}) or " if writer.abort_hooks else ""
    writer.line(f"if {hook}{violation(writer, node)}: {statement}", node.span)
