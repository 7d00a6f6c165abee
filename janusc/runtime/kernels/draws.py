"""Random numbers of a kernel: torch's own calls draw them before it, in eager's order, and it takes what they drew.

Before::

    %a = aten.rand([3])
    %b = aten.bernoulli_(%empty, 0.9)

After::

    %a = aten.clone(%draw_0)  # draw_0, an input: torch.ops.aten.rand.default([3])
    %b = aten.copy_(%empty, %draw_1)  # draw_1: torch.empty((8,), dtype=torch.float32).bernoulli_(0.9)

What is drawn may depend on the layout of tensors, and on the contents of inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from janusc import torch_private
from janusc.runtime.compiler.program import NotCarried, value_text
from janusc.runtime.kernels.functional import Unfit

_FILLS = frozenset("bernoulli_ normal_ uniform_ exponential_ cauchy_ geometric_ log_normal_ random_".split())
"""Operations that draw in place, whatever was there."""

_MADE = {"randn": "normal_", "rand": "uniform_"}
"""Operations that make a tensor, and what torch fills it with: a method, which is reached faster."""

_LIKE = frozenset(("rand_like", "randn_like", "randint_like", "bernoulli.p"))
"""Operations that take the layout of their first tensor, and nothing else of it."""

_COPY, _CLONE, _ADD, _MUL = (
    torch.ops.aten.copy_.default,
    torch.ops.aten.clone.default,
    torch.ops.aten.add.Tensor,
    torch.ops.aten.mul.Tensor,
)

Drawing = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]
"""From the tensors that a kernel takes to those that are drawn for it."""


def lift_draws(module: torch.fx.GraphModule) -> tuple[str, ...]:
    """Make random numbers inputs of a traced graph; the expressions that draw them. Raises Unfit where that can't be.

    An expression finds ``torch``, ``device``, ``inf``, ``nan``, ``laid_out``, and as ``given`` the other inputs.
    """
    nodes = list(module.graph.nodes)
    places = {node: i for i, node in enumerate(n for n in nodes if n.op == "placeholder")}
    drawing = [node for node in nodes if draws(node)]
    if not drawing:
        return ()
    if any(node.target is _CLONE and node.args[0] in places and _moves(node) for node in nodes):
        raise Unfit("it writes a tensor with gaps, and draws")  # in another order than into the copy that was traced
    start = next(node for node in nodes if node.op != "placeholder")
    expressions = []
    for number, node in enumerate(drawing):
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            raise Unfit(f"{node.target} draws more than a tensor")
        expressions.append(_expression(node, places))
        with module.graph.inserting_before(start):
            drawn = module.graph.placeholder(f"draw_{number}")
        drawn.meta["val"] = value.new_empty_strided(value.size(), value.stride())
        _replace(module.graph, node, drawn)
    module.recompile()
    return tuple(expressions)


def drawer(expressions: Sequence[str]) -> Drawing | None:
    """What draws by expressions, in their order; None where there are none."""
    if not expressions:
        return None
    names = {"torch": torch, "device": torch.device, "inf": float("inf"), "nan": float("nan")}
    names["laid_out"] = _laid_out
    made: Drawing = eval(compile(f"lambda given: [{', '.join(expressions)}]", "<draws>", "eval"), names)
    return made


def draws(node: torch.fx.Node) -> bool:
    """Whether a node draws random numbers; attention says that it may, and does not without dropout."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    schema: Any = getattr(node.target, "_schema", None)
    for position, argument in enumerate(schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[position] if position < len(node.args) else argument.default_value
            return bool(node.kwargs.get("dropout_p", given) != 0.0)
    return True


def _moves(node: torch.fx.Node) -> bool:
    """Whether a copy of a tensor lies otherwise than the tensor."""
    original: Any = node.args[0]
    return bool(original.meta["val"].stride() != node.meta["val"].stride())


def _replace(graph: torch.fx.Graph, node: torch.fx.Node, drawn: torch.fx.Node) -> None:
    """Have a node take what was drawn for it."""
    target: Any = node.target
    spread = _spread(node)
    if target._schema.is_mutable:
        node.target, node.args, node.kwargs = _COPY, (node.args[0], drawn), {}
    elif not spread:
        node.target, node.args, node.kwargs = _CLONE, (drawn,), {}
    else:
        mean, deviation = node.args
        if isinstance(deviation, torch.fx.Node):
            value = drawn.meta["val"]
            with graph.inserting_before(node):
                drawn = graph.call_function(_MUL, (drawn, deviation))
            drawn.meta["val"] = value.new_empty_strided(value.size(), value.stride())
        node.target, node.args, node.kwargs = _ADD, (drawn, mean), {}


def _spread(node: torch.fx.Node) -> bool:
    """Whether a node draws from normal distributions by tensors, which torch does by spreading standard ones."""
    target: Any = node.target
    return target.overloadpacket is torch.ops.aten.normal and "Tensor" in target._overloadname


def _expression(node: torch.fx.Node, places: dict[torch.fx.Node, int]) -> str:
    """What draws as a node does."""
    target: Any = node.target
    path = torch_private.compiling.op_path(target)
    if path is None or any(isinstance(x, torch.Generator) for x in (*node.args, *node.kwargs.values())):
        raise Unfit(f"{target} draws from elsewhere")
    name = target.overloadpacket.__name__
    try:
        if _spread(node):
            deviation = node.args[1]
            given = 1.0 if isinstance(deviation, torch.fx.Node) else deviation
            return f"{_blank(node.meta['val'])}.normal_(0.0, {value_text(given, {})})"
        args: list[Any] = list(node.args)
        texts = {place: f"given[{i}]" for place, i in places.items()}
        if name in _FILLS or name in _LIKE or f"{name}.{target._overloadname}" in _LIKE:
            texts[args[0]] = _blank(args[0].meta["val"])
        elif target._schema.is_mutable:
            raise Unfit(f"{target} draws by what it computes")
        arguments = [value_text(x, texts) for x in args]
        arguments += [f"{key}={value_text(x, texts)}" for key, x in node.kwargs.items()]
    except (NotCarried, KeyError):
        raise Unfit(f"{target} draws by what is computed before") from None
    if name in _MADE and target._overloadname == "default" and not node.kwargs.get("pin_memory"):
        return f"{_blank(node.meta['val'])}.{_MADE[name]}()"
    if name in _FILLS:  # a method is faster
        return f"{arguments[0]}.{name}({', '.join(arguments[1:])})"
    value = node.meta["val"]
    return f"laid_out({path}({', '.join(arguments)}), {tuple(value.size())!r}, {tuple(value.stride())!r})"


def _laid_out(drawn: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...]) -> torch.Tensor:
    """What was drawn, if it lies as it did where it was traced: a kernel relies on it."""
    if drawn.shape != size or drawn.stride() != stride:
        raise Unfit("what was drawn lies otherwise than expected")
    return drawn


def _blank(value: torch.Tensor) -> str:
    """What makes a tensor of a layout, with whatever is in its memory."""
    size, stride, dtype = tuple(value.size()), tuple(value.stride()), value.dtype
    place = "" if value.device.type == "cpu" else f", device={value.device!r}"
    if value.is_contiguous():
        return f"torch.empty({size!r}, dtype={dtype}{place})"
    return f"torch.empty_strided({size!r}, {stride!r}, dtype={dtype}{place})"
