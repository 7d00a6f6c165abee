"""One rule per op: arity, target, outputs and regions of a well-formed node.

A rule yields what is wrong, in words; ``verify`` adds the node.
"""

from __future__ import annotations

import builtins
import functools
import keyword
from collections.abc import Callable, Collection, Iterator

import torch

from janusc.lowering.ir import Const, Dct, Graph, Lst, Node, Ref, Slc, Tup
from janusc.registry import Registry

Rule = Callable[[Node], Iterator[str]]
Count = tuple[int, "int | None"]

RULES: Registry[str, Rule] = Registry("rules of ops")

UNARY = frozenset({"neg", "pos", "invert", "not_", "abs", "truth"})
BINARY = frozenset(
    "add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor "
    "lt le eq ne gt ge is_ is_not contains not_in getitem".split()
)
IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow imatmul ilshift irshift iand ior ixor iconcat".split()
OPERATOR_ARITY = {**dict.fromkeys(UNARY, 1), **dict.fromkeys(BINARY, 2)}
WRITE_ARITY = {**dict.fromkeys(IN_PLACE, 2), "setitem": 3, "delitem": 2}
SAVE_TARGETS = frozenset(
    {"tensor", "list", "list.append", "dict", "set", "deque", "deque.append", "deque.pop", "deque.popleft"}
    | {"object.attr"}
)
ASSERT_ARITY: dict[str, Count] = {
    "true": (1, 1),
    "false": (1, 1),
    "is": (2, 2),
    "is_not": (2, 2),
    "distinct": (2, None),
    "apart": (2, 2),
    "equals": (2, 2),
    "type": (2, 2),
    "length": (2, 2),
    "empty": (1, None),
    "absent": (2, 2),
    "bound": (1, 1),
    "container": (1, 1),
    "plain_write": (1, None),
    "leaves": (1, None),
    "among": (2, 2),
    "tensor": (1, 1),
    "unsaved": (1, None),
}


def _is_within(number: int, count: Count) -> bool:
    return count[0] <= number and (count[1] is None or number <= count[1])


def _counted(what: str, number: int, count: Count) -> Iterator[str]:
    low, high = count
    if not _is_within(number, count):
        wanted = f"{low}" if low == high else f"at least {low}" if high is None else f"{low} to {high}"
        yield f"{wanted} {what} wanted, {number} given"


@functools.lru_cache(maxsize=4096)
def _is_torch_name(target: str) -> bool:
    first, *rest = target.split(".")
    found: object = torch
    for name in rest:
        found = getattr(found, name, None)
    return first == "torch" and callable(found)


def _is_attribute_name(target: str) -> bool:
    return target != ""  # any text: setattr and ModuleDict allow more than identifiers


def _is_name(target: str) -> bool:
    return target.isidentifier() and not keyword.iskeyword(target)


def _any_target(target: str) -> bool:
    return True


def _shape(
    args: Count,
    outputs: Count = (1, 1),
    target: Callable[[str], bool] = _any_target,
    more: Rule | None = None,
    keywords: Collection[str] | None = (),
) -> Rule:
    """A rule from its parts; ``keywords`` None allows any keyword argument."""

    def rule(node: Node) -> Iterator[str]:
        if not _is_within(len(node.args), args):
            yield from _counted("arguments", len(node.args), args)
        if not _is_within(len(node.outputs), outputs):
            yield from _counted("outputs", len(node.outputs), outputs)
        if not target(node.target):
            yield f"{node.op.name} can't have the target {node.target!r}"
        if node.kwargs and keywords is not None:
            yield from (f"unknown keyword argument {k!r}" for k, _ in node.kwargs if k not in keywords)
        if more is not None:
            yield from more(node)

    return rule


def _arity(table: dict[str, int]) -> Rule:
    def rule(node: Node) -> Iterator[str]:
        if node.target in table:
            yield from _counted("arguments", len(node.args), (table[node.target], table[node.target]))

    return rule


def _assert(node: Node) -> Iterator[str]:
    if node.target in ASSERT_ARITY:
        yield from _counted("arguments", len(node.args), ASSERT_ARITY[node.target])
    if node.target == "equals" and len(node.args) == 2 and not isinstance(node.args[1], (Const, Tup, Ref)):
        yield "equals compares with something fixed"
    if node.target == "type" and len(node.args) == 2 and not isinstance(node.args[1], (Const, Ref)):
        yield "type compares with a class by name"
    for _, site in node.kwargs:
        if not (isinstance(site, Const) and isinstance(site.value, str)):
            yield "the site of an assert is a string"


def _build(node: Node) -> Iterator[str]:
    if node.args and not isinstance(node.args[0], (Tup, Lst, Dct, Slc)):
        yield "build takes a template"


def _format(node: Node) -> Iterator[str]:
    for piece in node.args:
        text = isinstance(piece, Const) and isinstance(piece.value, str)
        if not text and not (isinstance(piece, Tup) and len(piece.items) == 3):
            yield "a piece of a format is a string or (value, conversion, spec)"


def _region(title: str, region: Graph, params: int, outputs: int) -> Iterator[str]:
    if len(region.params) != params:
        yield f"{title} has {len(region.params)} parameters for {params} inputs"
    if len(region.outputs) != outputs:
        yield f"{title} has {len(region.outputs)} outputs where {outputs} are wanted"


def _regions_like_node(node: Node) -> Iterator[str]:
    for title, region in zip(("the first region", "the second region"), node.regions):
        yield from _region(title, region, len(node.args) - 1, len(node.outputs))


def _define(node: Node) -> Iterator[str]:
    least = 1 + len(node.args)
    if len(node.regions[0].params) < least:
        yield f"the body has {len(node.regions[0].params)} parameters where {least} at least are wanted"
    if len(node.regions[0].outputs) != 1:
        yield f"the body has {len(node.regions[0].outputs)} outputs where one is wanted"


def _loop(node: Node) -> Iterator[str]:
    if len(node.args) != 3 or not isinstance(node.args[1], Tup) or not isinstance(node.args[2], Tup):
        yield "a loop takes (iterable, Tup(carried), Tup(invariant))"
        return
    is_for = node.target == "for"
    carried, invariant = len(node.args[1].items), len(node.args[2].items)
    if carried != len(node.outputs):
        yield f"{carried} carried values but {len(node.outputs)} outputs"
    yield from _region("the body", node.regions[0], is_for + carried + invariant, 1 + carried)
    if not is_for and (node.args[0] != Const(None) or [k for k, _ in node.kwargs] != ["enter"]):
        yield "a while loop has no iterable, and says whether it is entered"


def _among(names: Collection[str]) -> Callable[[str], bool]:
    return lambda target: target in names


def _is_builtin(target: str) -> bool:
    return callable(getattr(builtins, target, None)) or "." in target  # or a function of the standard library


def _register() -> None:
    call, anything = (0, 1), (0, None)
    torch_rule = _shape(anything, call, _is_torch_name, keywords=None)
    method_rule = _shape((1, None), call, str.isidentifier, keywords=None)
    operator_rule = _shape((1, 2), (1, 1), _among(OPERATOR_ARITY), _arity(OPERATOR_ARITY))
    builtin_rule = _shape(anything, call, _is_builtin, keywords=None)
    for name in ("torch", "torch.random", "torch.write"):
        RULES.register(name, torch_rule)
    for name in ("method", "method.random", "method.read", "method.write"):
        RULES.register(name, method_rule)
    for name in ("operator", "operator.read", "test"):
        RULES.register(name, operator_rule)
    for name in ("builtin", "builtin.read", "builtin.random"):
        RULES.register(name, builtin_rule)
    for name, rule in {
        "module.call": _shape((1, None), call, keywords=None),
        "operator.write": _shape((2, 3), call, _among(WRITE_ARITY), _arity(WRITE_ARITY)),
        "attribute": _shape((1, 1), target=str.isidentifier),
        "build": _shape((1, 1), more=_build),
        "format": _shape(anything, more=_format),
        "unpack": _shape((1, 1), anything),
        "read.attr": _shape((1, 1), target=_is_attribute_name),
        "read.item": _shape((2, 2)),
        "write.attr": _shape((2, 2), (0, 0), _is_attribute_name),
        "write.item": _shape((3, 3), (0, 0)),
        "write.cell": _shape((2, 2), (0, 0)),
        "delete.attr": _shape((1, 1), (0, 0), _is_attribute_name),
        "save": _shape((1, 2), (0, 0), _among(SAVE_TARGETS)),
        "assert": _shape(anything, (0, 0), _among(ASSERT_ARITY), _assert, ("site",)),
        "print": _shape(anything, (0, 0), keywords=("sep", "end", "file", "flush")),
        "cond": _shape((1, None), anything, _among({"if"}), _regions_like_node),
        "loop": _shape((3, 3), anything, _among({"for", "while"}), _loop, ("enter",)),
        "context": _shape((1, None), anything, _among({"with"}), _regions_like_node),
        "zero_grad": _shape((2, 2), (0, 0)),
        "clip": _shape((1, None), (1, 1), _among({"clip_grad_norm_", "clip_grad_value_"}), keywords=None),
        "step": _shape((1, 2), (0, 0)),
        "backward.last": _shape((1, 1), (0, 0), keywords=("retain_graph",)),
        "backward": _shape((2, 2), (0, 0), keywords=("retain_graph",)),
        "make": _shape((1, None), (1, 1), lambda target: target in ("", "__new__"), keywords=None),
        "set.attr": _shape((2, 2), (0, 0), _is_attribute_name),
        "define": _shape(anything, target=_is_name, more=_define),
        "invoke": _shape((1, None), target=_is_name),
        "invoke.write": _shape((1, None), target=_is_name),
    }.items():
        RULES.register(name, rule)


_register()
