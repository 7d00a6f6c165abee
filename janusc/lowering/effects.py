"""What a node may do, regions included: fail, write, draw; and whether its result depends on what a write may change.

Everything here errs on the safe side: an unknown node may do all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from janusc.lowering.ir import Arg, Const, Dct, Effect, Graph, Node, Ref, Value, values_of, walk
from janusc.types import Constant, HostType, TensorType, TupleType, Type, type_name

COMMIT_WRITES = frozenset({"write.attr", "write.item", "write.cell", "delete.attr"})
ENDINGS = frozenset({"step", "backward.last"})
"""The last node of a body: it comes after the transaction, is not taken back, and its error is the program's."""
METADATA = frozenset({"shape", "dtype", "device", "ndim", "layout", "itemsize", "is_cuda", "is_sparse", "is_nested"})
SCALARS = frozenset("int float bool complex str bytes NoneType ellipsis torch.dtype torch.device torch.layout".split())
IMMUTABLE = SCALARS | {"torch.Size", "torch.memory_format", "range", "slice"}
IDENTITY_OPERATORS = frozenset({"is_", "is_not"})
SAFE_ARITHMETIC = frozenset({"add", "sub", "mul", "neg", "pos", "lt", "le", "eq", "ne", "gt", "ge"})
SAFE_TENSOR_OPS = frozenset({"relu", "tanh", "sigmoid", "neg", "exp", "sin", "cos", "abs", "detach", "clone"})
SAFE_DTYPES = frozenset({"float16", "bfloat16", "float32", "float64"})
FIXED_ASSERTS = frozenset({"is", "is_not", "distinct", "apart", "bound", "type", "equals"})


def arg_type(arg: Arg) -> Type | None:
    """The type of a leaf argument; None for a template or a reference."""
    if isinstance(arg, Value):
        return arg.type
    if isinstance(arg, Const):
        return HostType(type_name(type(arg.value)))
    return None


def host_name(kind: Type | None) -> str | None:
    """The name of the host type of a constant or host value."""
    if isinstance(kind, Constant):
        return kind.host
    return kind.name if isinstance(kind, HostType) else None


def is_immutable(kind: Type | None) -> bool:
    """Whether values of this type are known never to change, all through."""
    if isinstance(kind, TupleType):
        return all(is_immutable(item) for item in kind.items)
    return host_name(kind) in IMMUTABLE


def is_scalar(arg: Arg, names: frozenset[str] = SCALARS) -> bool:
    """Whether an argument is known to be a host value of one of these types."""
    return host_name(arg_type(arg)) in names


def may_fail(node: Node) -> bool:
    """Whether executing a node may raise; a commit write counts as unable to, by the rule that it comes last."""
    if node.op.name == "save" or node.op.name in COMMIT_WRITES:
        return False
    if node.op.name == "define" or node.op.name in ENDINGS:
        return False
    if node.regions:
        return not (node.op.name == "cond" and is_scalar(node.args[0])) or any(may_fail(n) for n in _inside(node))
    check = _CANNOT_FAIL.get(node.op.name)
    return check is None or not check(node)


def _inside(node: Node) -> list[Node]:
    return [inner for region in node.regions for inner in region.nodes]


def _attribute_is_safe(node: Node) -> bool:
    if len(node.args) != 1:
        return False
    kind = arg_type(node.args[0])
    return isinstance(kind, TensorType) and node.target in METADATA


def _build_is_safe(node: Node) -> bool:
    template = node.args[0]
    stack = [template]
    while stack:
        item = stack.pop()
        if isinstance(item, Dct):
            if not all(isinstance(k, (Const, Ref)) for k in item.keys):
                return False  # a run-time key may have no hash
            stack.extend(item.values)
        elif not isinstance(item, (Value, Const, Ref)):
            stack.extend(getattr(item, "items", ()))
    return True


def _operator_is_safe(node: Node) -> bool:
    if node.target in IDENTITY_OPERATORS:
        return True
    if node.target == "not_":
        return is_scalar(node.args[0])
    kinds = {host_name(arg_type(a)) for a in node.args}
    return node.target in SAFE_ARITHMETIC and (kinds <= {"int", "bool"} or kinds == {"float"})


def _builtin_is_safe(node: Node) -> bool:
    if node.target in {"bool", "type"} and len(node.args) == 1:
        return node.target == "type" or is_scalar(node.args[0])
    if node.target == "len" and len(node.args) == 1:
        return host_name(arg_type(node.args[0])) in {"list", "tuple", "dict", "str", "torch.Size"}
    return False


def _tensor_op_is_safe(node: Node) -> bool:
    if len(node.args) != 1 or node.kwargs or node.target.rpartition(".")[2] not in SAFE_TENSOR_OPS:
        return False
    kind = arg_type(node.args[0])
    return isinstance(kind, TensorType) and str(kind.dtype).removeprefix("torch.") in SAFE_DTYPES


def _unpack_is_safe(node: Node) -> bool:
    kind = arg_type(node.args[0])
    return isinstance(kind, TupleType) and len(kind.items) == len(node.outputs)


_CANNOT_FAIL = {
    "attribute": _attribute_is_safe,
    "build": _build_is_safe,
    "operator": _operator_is_safe,
    "builtin": _builtin_is_safe,
    "builtin.read": _builtin_is_safe,
    "format": lambda node: all(isinstance(a, Const) for a in node.args),
    "unpack": _unpack_is_safe,
    "torch": _tensor_op_is_safe,
    "method": _tensor_op_is_safe,
}


def is_droppable(node: Node) -> bool:
    """Whether nobody can tell that a node with unused outputs did not run."""
    if node.op.name == "define":
        return True
    if node.regions:
        return not may_fail(node) and all(is_droppable(n) for n in _inside(node))
    return node.op.effect in (Effect.PURE, Effect.READ) and not may_fail(node)


def is_barrier(node: Node) -> bool:
    """Whether a node, or one in its regions, writes, draws or is opaque: reads of state must not cross it."""
    barriers = (Effect.WRITE, Effect.RANDOM, Effect.OPAQUE)
    if not node.regions:
        return node.op.effect in barriers
    if node.op.name == "define":
        return False  # what is inside runs where it is invoked
    if node.op.name == "context":
        return True  # a manager's enter and exit change the modes that reads depend on
    return any(inner.op.effect in barriers or inner.op.name == "context" for r in node.regions for inner in walk(r))


def acts(nodes: Iterable[Node], but: Callable[[Node], bool]) -> bool:
    """Whether any of these nodes, or one inside, does more than compute, read and assert; ``but`` says what is none."""
    harmless = (Effect.PURE, Effect.READ, Effect.ASSERT)
    found = (n for n in walk(Graph((), tuple(nodes), ())) if n.op.effect not in harmless or n.op.name == "context")
    return not all(map(but, found))


def is_fixed(node: Node) -> bool:
    """Whether a node's result follows from its inputs alone, whatever is written in between."""
    if node.regions or node.op.effect not in (Effect.PURE, Effect.ASSERT):
        return False
    if node.op.name == "attribute":
        return node.target in METADATA
    if node.op.name == "assert" and node.target in FIXED_ASSERTS:
        return True
    if node.op.name == "operator" and node.target in IDENTITY_OPERATORS:
        return True
    if node.op.name in {"assert", "operator", "builtin", "format", "method", "unpack"}:
        return all(is_immutable(v.type) for v in node.inputs)
    return node.op.name == "build" and not list(values_of(node.args))
