"""The table of ops, by family.

Tensor and host computation name what the user called; nothing here knows a dtype or derivative rule.
Argument conventions of the nodes with regions:

``cond``     target "if"; args = (predicate, *inputs); regions = (then, else), both with params bound to the inputs and
             as many outputs as the node.
``loop``     target "for" or "while"; args = (iterable or Const(None), Tup(carried), Tup(invariant)); one region. Its
             params are (item, *carried, *invariant) for "for" and (*carried, *invariant) for "while"; its outputs are
             (go_on, *carried): the loop ends before the next item once ``go_on`` is false. A "while" node also carries
             its test inside: the body runs while ``go_on`` held, and the first entry is decided by kwargs ``enter``.
             The node's outputs are the final carried values.
``context``  target "with"; args = (manager, *inputs); one region run inside ``with manager:``.
``define``   target a name; args = the inputs; one region, which is not run here: its params are (itself, *parameters,
             *inputs) and it has one output. The node's output is the function, for ``invoke`` to call.
"""

from __future__ import annotations

from janusc.lowering.ir import Effect, Op
from janusc.registry import Registry

OPS: Registry[str, Op] = Registry("ops")


def _op(name: str, effect: Effect, summary: str, regions: int = 0) -> Op:
    return OPS.register(name, Op(name, effect, summary, regions))


# tensor computation
TORCH = _op("torch", Effect.PURE, "call of the torch function with the dotted name target")
TORCH_RANDOM = _op("torch.random", Effect.RANDOM, "the same, drawing from a generator")
TORCH_WRITE = _op("torch.write", Effect.WRITE, "the same, changing one of its arguments in place")
METHOD = _op("method", Effect.PURE, "method target of args[0], a tensor or immutable host object")
METHOD_RANDOM = _op("method.random", Effect.RANDOM, "the same, drawing from a generator")
METHOD_READ = _op("method.read", Effect.READ, "method target of args[0], a mutable container that is only read")
METHOD_WRITE = _op("method.write", Effect.WRITE, "method target of args[0], which it changes in place")
MODULE_CALL = _op("module.call", Effect.RANDOM, "args[0] is a library module, called through its own __call__")

# operators on tensors and host values; target is a name of the operator module, or not_in
OPERATOR = _op("operator", Effect.PURE, "operator target on args")
OPERATOR_READ = _op("operator.read", Effect.READ, "operator target on args, one of them a mutable container")
OPERATOR_WRITE = _op("operator.write", Effect.WRITE, "in-place operator (iadd ...), setitem or delitem on args[0]")
TEST = _op("test", Effect.PURE, "the truth of comparison target of args; no more is asked of it")
ATTRIBUTE = _op(
    "attribute", Effect.PURE, "attribute target of args[0] that no write in the graph changes (shape, dtype, T)"
)

# host values
BUILTIN = _op("builtin", Effect.PURE, "builtin function target on args")
BUILTIN_READ = _op("builtin.read", Effect.READ, "builtin function target on args, one of them a mutable container")
BUILTIN_RANDOM = _op("builtin.random", Effect.RANDOM, "function target of the module random on args")
BUILD = _op("build", Effect.PURE, "a fresh object from the template args[0] (tuple, list, dict, slice)")
MAKE = _op("make", Effect.READ, "a new object of args[0], a class: called with args[1:], or for target __new__ empty")
FORMAT = _op("format", Effect.PURE, "f-string: args are the pieces; each a Const str or Tup(value, conversion, spec)")
UNPACK = _op("unpack", Effect.PURE, "args[0] unpacked into exactly as many values as there are outputs")

# state; attribute and item reads are what guards are made of
READ_ATTR = _op("read.attr", Effect.READ, "getattr(args[0], target)")
READ_ITEM = _op("read.item", Effect.READ, "args[0][args[1]], a list, tuple or dict")
SET_ATTR = _op("set.attr", Effect.WRITE, "args[0].target = args[1] at once, of an object that was made in the graph")
WRITE_ATTR = _op("write.attr", Effect.WRITE, "setattr(args[0], target, args[1])")
WRITE_ITEM = _op("write.item", Effect.WRITE, "args[0][args[1]] = args[2], at commit; for globals too")
WRITE_CELL = _op("write.cell", Effect.WRITE, "args[0].cell_contents = args[1]")
DELETE_ATTR = _op("delete.attr", Effect.WRITE, "delattr(args[0], target)")
ZERO_GRAD = _op(
    "zero_grad", Effect.WRITE, "args[0], an optimizer, drops its gradients, or zeroes them if args[1] is False"
)
CLIP = _op("clip", Effect.WRITE, "torch.nn.utils.target, clip_grad_norm_ or clip_grad_value_, of the Tup args[0]")
BACKWARD = _op("backward", Effect.WRITE, "args[0].backward(), for the leaves in the Tup args[1]")
BACKWARD_LAST = _op(
    "backward.last", Effect.OPAQUE, "args[0].backward(), to wherever it leads, as the last node of a body"
)
STEP = _op(
    "step",
    Effect.OPAQUE,
    "args[0].step(), an optimizer: the last node of a body, after what can be taken back; not made if args[1] is false",
)
SAVE = _op(
    "save",
    Effect.WRITE,
    "target tensor|list|list.append|dict|set|deque|deque.append|deque.pop|deque.popleft: keep for rollback what "
    "args[0] holds, or object.attr: its attribute args[1] (list.append: how long it is; those of a deque: what the "
    "method changes)",
)

# assumptions; kwargs site = Const(str): what is refuted when it fails
ASSERT = _op(
    "assert",
    Effect.ASSERT,
    "target true|false (args[0]'s truth), is|is_not (args[0], args[1]), distinct (args are all other objects), apart "
    "(none of the Tup args[0] is in the Tup args[1]), equals (type and value, args[1] a Const, Tup "
    "or Ref), type (type(args[0]) is args[1], a Ref or Const), length (len(args[0]) == args[1]), empty (all args are "
    "empty), absent (args[1] not in args[0]), bound (args[0] is not UNBOUND), "
    "container (iterating over args[0] takes nothing from it), plain_write (writing args[1:] into "
    "args[0] makes no autograd history), leaves (tensors without history and hooks), "
    "tensor (a plain tensor or a parameter), unsaved (none of args was saved so far), "
    "among (type(args[0]) is in the Tup args[1])",
)

# effects at commit
PRINT = _op("print", Effect.DEFER, "print(*args, **kwargs) at commit; the text is made at once")

# control
COND = _op("cond", Effect.PURE, "see above", regions=2)
LOOP = _op("loop", Effect.PURE, "see above", regions=1)
CONTEXT = _op("context", Effect.PURE, "see above", regions=1)
DEFINE = _op("define", Effect.PURE, "see above", regions=1)
INVOKE = _op("invoke", Effect.READ, "args[0], the function a define made or itself inside, is called with args[1:]")
INVOKE_WRITE = _op("invoke.write", Effect.WRITE, "the same, where the function writes, draws or prints")
