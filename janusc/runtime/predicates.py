"""The predicates of asserts, as inline expressions that are true where the assumption does not hold."""

from __future__ import annotations

import builtins
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import torch

from janusc.lowering.ir import Arg, Const, Node, Ref, Tup, Value, values_of
from janusc.registry import Registry
from janusc.runtime.transaction import is_saved
from janusc.runtime.writer import Writer, resolve
from janusc.sentinels import UNBOUND
from janusc.types import Constant, HostType, TensorType

_NUMBERS = frozenset({"int", "float", "bool", "complex"})

Predicate = Callable[[Writer, Node], str]
PREDICATES: Registry[str, Predicate] = Registry("predicates")


def _predicate(name: str) -> Callable[[Predicate], Predicate]:
    return lambda function: PREDICATES.register(name, function)


def violation(writer: Writer, node: Node) -> str:
    """The expression that is true where the assert fails."""
    return PREDICATES[node.target](writer, node)


@_predicate("true")
def _true(writer: Writer, node: Node) -> str:
    return f"not {writer.operand(node.args[0])}"


@_predicate("false")
def _false(writer: Writer, node: Node) -> str:
    return writer.expr(node.args[0])


@_predicate("is")
def _is(writer: Writer, node: Node) -> str:
    return f"{writer.name(node.args[0])} is not {writer.name(node.args[1])}"


@_predicate("is_not")
def _is_not(writer: Writer, node: Node) -> str:
    return f"{writer.name(node.args[0])} is {writer.name(node.args[1])}"


@_predicate("distinct")
def _distinct(writer: Writer, node: Node) -> str:
    return f"{writer.builtin('len')}({_identities(writer, node.args)}) != {len(node.args)}"


@_predicate("apart")
def _apart(writer: Writer, node: Node) -> str:
    left, right = node.args
    assert isinstance(left, Tup) and isinstance(right, Tup)
    return f"not {_identities(writer, left.items)}.isdisjoint({_identities(writer, right.items)})"


def _identities(writer: Writer, args: tuple[Arg, ...]) -> str:
    identity = writer.builtin("id")
    return f"{{{', '.join(f'{identity}({writer.expr(a)})' for a in args)}}}"


@_predicate("equals")
def _equals(writer: Writer, node: Node) -> str:
    return _differs(writer, writer.name(node.args[0]), node.args[1])


def _differs(writer: Writer, subject: str, expected: Arg) -> str:
    """That ``subject`` is not of the very type and value expected; never asks an ``__eq__`` of another type."""
    kind = writer.builtin("type")
    if isinstance(expected, Tup):
        parts = [
            f"{kind}({subject}) is not {writer.builtin('tuple')}",
            f"{writer.builtin('len')}({subject}) != {len(expected.items)}",
        ]
        return " or ".join(parts + [_differs(writer, f"{subject}[{i}]", e) for i, e in enumerate(expected.items)])
    if not isinstance(expected, Const):
        other = writer.name(expected)
        return f"{kind}({subject}) is not {kind}({other}) or {subject} != {other}"
    value = expected.value
    if value is None or value is ... or isinstance(value, (bool, torch.dtype, torch.layout, torch.memory_format)):
        return f"{subject} is not {writer.expr(expected)}"
    wrong_type = f"{kind}({subject}) is not {class_name(writer, type(value))}"
    return f"{wrong_type} or {_other_value(writer, subject, value)}"


def _other_value(writer: Writer, subject: str, value: Any) -> str:
    if isinstance(value, complex):
        # The text tells signs of zeros and nans apart, as == does not.
        return f"{writer.builtin('repr')}({subject}) != {repr(value)!r}"
    if isinstance(value, float) and value != value:
        return f"{subject} == {subject}"
    text = f"{subject} != {writer.expr(Const(value))}"
    if isinstance(value, float) and value == 0.0:
        sign = "-1.0" if repr(value).startswith("-") else "1.0"
        text += f" or {writer.target('math.copysign')}(1.0, {subject}) != {sign}"
    return text


def class_name(writer: Writer, cls: type) -> str:
    """The name by which emitted code knows a class."""
    return (
        writer.builtin(cls.__name__) if getattr(builtins, cls.__name__, None) is cls else writer.bind(cls, cls.__name__)
    )


@_predicate("type")
def _type(writer: Writer, node: Node) -> str:
    subject, expected = node.args
    kind = writer.builtin("type")
    if isinstance(expected, Const):
        named = expected.value
        cls = named if isinstance(named, type) else type(None) if named is None else resolve(named)
        return f"{kind}({writer.expr(subject)}) is not {class_name(writer, cls)}"
    return f"{kind}({writer.expr(subject)}) is not {writer.expr(expected)}"


@_predicate("length")
def _length(writer: Writer, node: Node) -> str:
    return f"{writer.builtin('len')}({writer.expr(node.args[0])}) != {writer.operand(node.args[1])}"


@_predicate("empty")
def _empty(writer: Writer, node: Node) -> str:
    return " or ".join(writer.operand(a) for a in node.args) or "False"


@_predicate("absent")
def _absent(writer: Writer, node: Node) -> str:
    return f"{writer.operand(node.args[1])} in {writer.operand(node.args[0])}"


@_predicate("bound")
def _bound(writer: Writer, node: Node) -> str:
    return f"{writer.expr(node.args[0])} is {writer.expr(Ref(UNBOUND.name))}"


_PLAIN_ITERATION: tuple[Any, ...] = (
    list, tuple, dict, set, frozenset, str, bytes, range, deque, OrderedDict, torch.Tensor,
    type({}.keys()), type({}.values()), type({}.items()),
)  # fmt: skip
_ITERATIONS: tuple[Any, ...] = tuple(cls.__dict__["__iter__"] for cls in _PLAIN_ITERATION)


def is_container(value: object) -> bool:
    """Whether iterating over a value runs no code of the user's and takes nothing from it."""
    for cls in type(value).__mro__:
        if "__iter__" in cls.__dict__:
            return any(cls.__dict__["__iter__"] is known for known in _ITERATIONS)
    return False


@_predicate("container")
def _container(writer: Writer, node: Node) -> str:
    return f"not {writer.runtime('_jc_is_container', is_container)}({writer.expr(node.args[0])})"


@_predicate("plain_write")
def _plain_write(writer: Writer, node: Node) -> str:
    asked: dict[str, None] = {}
    for value in values_of(node.args):
        if not (isinstance(value.type, Constant) or isinstance(value.type, HostType) and value.type.name in _NUMBERS):
            asked[_requires_grad(writer, value)] = None
    if not asked:
        return "False"
    wanted = " or ".join(asked)  # first: it is cheaper, and seldom true
    return f"({wanted}) and {writer.target('torch.is_grad_enabled')}()"


@_predicate("tensor")
def _tensor(writer: Writer, node: Node) -> str:
    kind, subject = writer.builtin("type"), writer.expr(node.args[0])
    classes = (class_name(writer, cls) for cls in (torch.Tensor, torch.nn.Parameter))
    return " and ".join(f"{kind}({subject}) is not {cls}" for cls in classes)


@_predicate("among")
def _among(writer: Writer, node: Node) -> str:
    kind, subject = writer.builtin("type"), writer.expr(node.args[0])
    classes = node.args[1]
    assert isinstance(classes, Tup)
    return " and ".join(f"{kind}({subject}) is not {writer.expr(c)}" for c in classes.items)


@_predicate("unsaved")
def _unsaved(writer: Writer, node: Node) -> str:
    return f"{writer.runtime('_jc_is_saved', is_saved)}(_jc_undo, {writer.call(node.args, ())})"


@_predicate("leaves")
def _leaves(writer: Writer, node: Node) -> str:
    tensors = [writer.name(a) for a in node.args]
    return " or ".join(f"{t}.grad_fn is not None or {t}._backward_hooks" for t in tensors)


def _requires_grad(writer: Writer, value: Value) -> str:
    if isinstance(value.type, TensorType):
        return f"{writer.expr(value)}.requires_grad"
    return f"{writer.builtin('getattr')}({writer.expr(value)}, 'requires_grad', False)"
