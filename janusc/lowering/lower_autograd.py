"""Differentiation inside a graph: ``torch.autograd.grad``, ``backward``, and tensors that begin to require a gradient.

To differentiate runs the hooks of every tensor on the way, and uses up what the way has saved. Neither could be rolled
back; so it stands in a graph only where the ways begin at leaves without hooks, which are guarded to be that.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import gast
import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import UNKNOWN, IterableV, Known, ListV, Live, Sym, TupleV
from janusc.lowering.builder import Region
from janusc.lowering.effects import ENDINGS, METADATA
from janusc.lowering.ir import Const, Graph, Node, Ref, Tup, Value, walk
from janusc.lowering.iterate import item_sample, static_items
from janusc.lowering.lowering import Lowering, Unconvertible
from janusc.lowering.mutation import check_layers
from janusc.lowering.operands import arg, sym
from janusc.lowering.rewrite import inlined
from janusc.typeinfer import torch_table
from janusc.types import ANY, HostType, TensorType

_SIGNATURE = inspect.signature(torch.autograd.grad)
_WITHOUT_READING = frozenset(
    {"zero_grad", "step", "save", "set.attr", "write.attr", "write.item", "write.cell", "assert"}
)
_TORCH_CALLS = frozenset({"torch", "torch.random", "torch.write", "method"})


def call_grad(lo: Lowering, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``torch.autograd.grad`` on tensors, lists or tuples of them."""
    try:
        bound = _SIGNATURE.bind(*args, **kwargs).arguments
    except TypeError:
        raise lo.refuse(codes.RAISES, "TypeError: grad gets other arguments") from None
    flags = {k: v for k, v in bound.items() if k not in ("outputs", "inputs", "grad_outputs")}
    if not all(isinstance(v, Known) for v in flags.values()) or flags.get("is_grads_batched", Known(False)).value:
        raise lo.refuse_call(codes.OPAQUE_CALL, "grad with flags that vary, or batched")
    check_layers(lo)
    lo.differentiates.append(lo.statement)
    tensors = {k: as_tensors(lo, v) for k, v in bound.items() if k not in flags}
    named = tuple((k, arg(lo, v)) for k, v in {**tensors, **flags}.items() if k not in ("outputs", "inputs"))
    given = arg(lo, tensors["outputs"]), arg(lo, tensors["inputs"])
    (value,) = lo.builder.emit(ops.TORCH_WRITE, "torch.autograd.grad", given, named, (ANY,), lo.span())
    create, unused = (flags.get(name, Known(False)).value for name in ("create_graph", "allow_unused"))
    return gradients(lo, value, tensors["inputs"], bool(create), bool(unused))


def call_backward(lo: Lowering, loss: Sym, args: list[Any], kwargs: dict[str, Any]) -> Known:
    """``loss.backward()`` of a tensor that was computed in this segment; from what leaves is known at its end."""
    flags = {k: v.value for k, v in kwargs.items() if isinstance(v, Known) and type(v.value) is bool}
    if args or len(flags) < len(kwargs) or not flags.keys() <= {"retain_graph"}:
        raise _on_its_own(lo, "Tensor.backward with arguments")
    if not lo.builder.top_level or not lo.grad:
        raise _on_its_own(lo, "Tensor.backward in a loop or branch of a graph, or under no_grad")
    named = tuple((k, Const(v)) for k, v in flags.items())
    mark(lo.node)
    if is_own_statement(lo):
        lo.endable.append(lo.statement)
        if id(lo.statement) in lo.endings:
            lo.builder.emit(ops.BACKWARD_LAST, "", (loss.value,), named, (), lo.span())
            lo.ends = True
            return Known(None)
    check_layers(lo)
    lo.differentiates.append(lo.statement)
    lo.builder.emit(ops.BACKWARD, "", (loss.value, Tup(())), named, (), lo.span())
    return Known(None)


def mark(node: Any) -> None:
    """A call that has an equivalent, in case its statement does not stay in the graph."""
    if isinstance(node, gast.Call):
        node._jc_enter = node._jc_equivalent = True


def _on_its_own(lo: Lowering, what: str) -> Unconvertible:
    error = lo.refuse_call(codes.METHOD, what)
    error.may_enter = error.has_equivalent = True
    return error


def is_own_statement(lo: Lowering) -> bool:
    """Whether the call at hand is all of a statement of the function itself."""
    is_statement = isinstance(lo.statement, gast.Expr) and lo.statement.value is lo.node
    return is_statement and lo.frame.caller is None and lo.frame.parent is None


def as_tensors(lo: Lowering, value: Any) -> Any:
    """One tensor, or several in a container; those of an existing one are read by path."""
    if isinstance(value, IterableV) or (isinstance(value, Live) and type(value.sample) in (list, tuple)):
        items = static_items(lo, value)
        value = value if items is None else TupleV(tuple(items))
    if isinstance(value, (TupleV, ListV)) and all(_is_tensor(x) for x in value.items):
        return value
    if _is_tensor(value) or (isinstance(value, Sym) and value.pytype in (list, tuple)) or _is_none(value):
        return value
    raise lo.refuse_call(codes.OPAQUE_CALL, "grad of something else than tensors")


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Sym) and value.is_tensor


def _is_none(value: Any) -> bool:
    return isinstance(value, Known) and value.value is None


def gradients(lo: Lowering, value: Value, inputs: Any, create: bool, unused: bool) -> Sym:
    """The tuple that comes out: each gradient is like its input."""
    items = [inputs] if _is_tensor(inputs) else list(inputs.items) if isinstance(inputs, (TupleV, ListV)) else None
    real = getattr(inputs, "real", None)
    if unused:
        return Sym(value, UNKNOWN, pytype=tuple)
    if items is None or real is not None:
        like = item_sample(lo, inputs)
        element = like if _is_tensor(like) else None
        return Sym(value, UNKNOWN, pytype=tuple, element=element)
    if any(not isinstance(x.sample, torch.Tensor) for x in items):
        return Sym(value, UNKNOWN, pytype=tuple)
    return sym(value, tuple(x.sample.detach().requires_grad_(create and _may_require(x.sample)) for x in items))


def _may_require(sample: torch.Tensor) -> bool:
    return sample.is_floating_point() or sample.is_complex()


def check_sources(lo: Lowering) -> None:
    """What comes into a segment that differentiates: leaves without hooks, and nothing that hands out tensors later."""
    if not lo.differentiates:
        return
    (region,) = lo.builder.regions
    before = Region(region.params, _until_differentiated(region.nodes))
    needed = lo.builder.free_values(before, ())
    tensors = [v for v in needed if isinstance(v.type, TensorType)]
    plain = {n.outputs[0] for n in lo.builder.guards if _gives_plain(n)}
    others = {v for v in needed if not isinstance(v.type, (TensorType, HostType))} - plain
    among = inlined(Graph((), tuple(before.nodes), ()))
    reading = (n for n in among.nodes if n.op.name not in _WITHOUT_READING)
    containers = _containers(lo)
    if any(not others.isdisjoint(v for v in n.inputs if not (v in containers and _takes_sizes(n))) for n in reading):
        raise refuse(lo, "a gradient is taken where tensors are read from objects at run time")
    if any(v in lo.histories for v in tensors):
        raise refuse(lo, "a gradient is taken through history from outside, or through a hook")
    if tensors:
        try:
            lo.check("leaves", tuple(tensors), "leaves without hooks", lo.span())
        except Unconvertible:
            raise refuse(lo, "a gradient was taken through history from outside, or through a hook") from None
    for index, node in enumerate(region.nodes):
        if node.op is ops.BACKWARD:
            region.nodes[index] = replace(node, args=(node.args[0], Tup(tuple(tensors))))


def _until_differentiated(nodes: list[Node]) -> list[Node]:
    """The nodes that a gradient may come from: none that stands behind the last backward pass."""
    inside = Graph((), tuple(nodes), ())
    if any(node.op is ops.TORCH_WRITE and node.target == "torch.autograd.grad" for node in walk(inside)):
        return nodes
    last = max((index for index, node in enumerate(nodes) if node.op is ops.BACKWARD), default=len(nodes))
    return nodes[: last + 1]


def _gives_plain(node: Node) -> bool:
    """Whether what a guard has computed, of whatever class, holds no tensors: a range, a device, a dtype."""
    return node.op is ops.BUILTIN or (node.op is ops.ATTRIBUTE and node.target in METADATA)


def _containers(lo: Lowering) -> set[Value]:
    """What the guards know to be a tuple or list."""
    kinds = {Ref(name) for name, held in lo.builder.objects.items() if held is tuple or held is list}
    checks = (n for n in lo.builder.guards if n.op is ops.ASSERT and n.target == "type")
    return {n.args[0] for n in checks if n.args[1] in kinds and isinstance(n.args[0], Value)}


def _takes_sizes(node: Node) -> bool:
    return node.op.name in _TORCH_CALLS and torch_table.takes_sizes(torch_table.last_name(node.target))


def put_last(lo: Lowering) -> None:
    """What ends a body comes after the writes that the commit has added."""
    nodes = lo.builder.regions[0].nodes
    nodes.sort(key=lambda node: node.op.name in ENDINGS)


def refuse(lo: Lowering, message: str) -> Unconvertible:
    """The statements that differentiate run as they are: each ends its segment, or is ordinary Python."""
    error = lo.refuse(codes.HISTORY, message, node=lo.differentiates[-1])
    error.culprits = list(lo.differentiates)
    error.may_end = all(any(s is own for own in lo.endable) for s in error.culprits)
    for statement in error.culprits:
        if isinstance(statement, gast.Expr) and isinstance(statement.value, gast.Call):
            statement.value._jc_enter = True  # something else may be called in its place
    return error


def require_gradient(lo: Lowering, owner: Sym, args: list[Any]) -> Sym:
    """``x.requires_grad_()`` of a tensor made in this transaction."""
    if args and not (len(args) == 1 and isinstance(args[0], Known) and args[0].value is True):
        raise lo.refuse_call(codes.METHOD, "Tensor.requires_grad_ with a flag")
    if not (owner.fresh or _is_made_here(lo, owner)):
        raise lo.refuse_call(codes.METHOD, "Tensor.requires_grad_ of a tensor from outside")
    (value,) = lo.builder.emit(ops.METHOD_WRITE, "requires_grad_", (owner.value,), (), (TensorType(),), lo.span())
    sample = owner.sample
    if isinstance(sample, torch.Tensor) and _may_require(sample):
        with torch.inference_mode(False):
            sample.requires_grad_()  # what else is known of this tensor is known by this sample
    return Sym(value, sample, fresh=owner.fresh, pytype=torch.Tensor)


def _is_made_here(lo: Lowering, owner: Sym) -> bool:
    """Whether a tensor is an object of its own, though it may share memory."""
    makers = (node for region in lo.builder.regions for node in region.nodes if owner.value in node.outputs)
    return any(node.op is ops.METHOD and node.target in ("detach", "clone") for node in makers)
