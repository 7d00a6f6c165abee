"""The interpreter: a chain executed node by node, plainly. It is the oracle that emitted code is tested against.

It keeps the protocol of emitted code, and shares the transaction with it, but not the writing of a single op: what each
op means is said here a second time, as simply as Python allows.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import operator
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from janusc.lowering.ir import (
    FUNCTION,
    Arg,
    Chain,
    Const,
    Dct,
    Graph,
    HostRange,
    Lst,
    Mark,
    Node,
    Ref,
    Segment,
    Slc,
    Step,
    Tup,
    Value,
    end_of,
)
from janusc.registry import Registry
from janusc.runtime import gradients, recovery, rng, transaction
from janusc.runtime.predicates import is_container
from janusc.runtime.recovery import Listener
from janusc.runtime.transaction import Deopt, UndoLog
from janusc.runtime.writer import resolve
from janusc.sentinels import MISS, UNBOUND

Meaning = Callable[["Machine", Node, dict[Value, Any]], Any]
CONVERSIONS: dict[Any, Callable[[Any], str]] = {"s": str, "r": repr, "a": ascii}
MEANINGS: Registry[str, Meaning] = Registry("meanings of ops")
ASSERTIONS: Registry[str, Callable[..., bool]] = Registry("meanings of asserts")


def executable(chain: Chain, hosts: Mapping[str, Any], listener: Listener | None = None) -> Callable[..., Any]:
    """A function ``run(function, *args, **kwargs)`` like the one emitted for the chain."""

    def run(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.Signature.from_callable(function, follow_wrapped=False).bind(*args, **kwargs)
        bound.apply_defaults()
        return run_chain(chain, function, bound.arguments, hosts, listener)

    return run


def run_chain(
    chain: Chain,
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    hosts: Mapping[str, Any],
    listener: Listener | None = None,
) -> Any:
    """The result of a call with these arguments by parameter name, or MISS where the first guards fail."""
    signature = inspect.Signature.from_callable(function, follow_wrapped=False)
    call = inspect.BoundArguments(signature, dict(arguments))
    run = _Run(chain, function, call, hosts, listener)
    loops: list[int] = []  # where the loops around began
    number, steps = 0, chain.steps
    with run.managers:
        while number < len(steps):
            step = steps[number]
            if isinstance(step, Mark):
                number = run.mark(step, number, steps, loops)
                continue
            done, result = run.host_range(step) if isinstance(step, HostRange) else run.segment(step, number == 0)
            if done:
                return result
            number += 1
    return None


class _Run:
    """One call: the user's locals by name between the steps."""

    def __init__(
        self,
        chain: Chain,
        function: Callable[..., Any],
        call: inspect.BoundArguments,
        hosts: Mapping[str, Any],
        listener: Listener | None,
    ) -> None:
        self.function, self.call, self.hosts, self.listener = function, call, hosts, listener
        self.locals: dict[str, Any] = {FUNCTION: function, **call.arguments}
        self.machine = Machine(chain.objects)
        self.managers = contextlib.ExitStack()  # of the blocks that the step stands in
        self.blocks: list[contextlib.ExitStack] = []

    def host(self, key: str, live_ins: tuple[str, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Outlined statements as a function of this call, and their arguments."""
        host = self.hosts[key]
        args = tuple(self.locals.get(name, UNBOUND) for name in live_ins if name != FUNCTION)
        return (host.bind(self.function) if hasattr(host, "bind") else host), args

    def mark(self, step: Mark, number: int, steps: Sequence[Step], loops: list[int]) -> int:
        """The step after a mark; ``loops`` are the starts of the loops that it stands in."""
        if step.kind == "start":
            loops.append(number)
            return number + 1
        if step.kind == "enter":
            block = self.managers.enter_context(contextlib.ExitStack())
            block.enter_context(self.locals[step.name])
            self.blocks.append(block)
            return number + 1
        if step.kind == "leave":
            self.blocks.pop().close()
            return number + 1
        holds = bool(step.name and self.locals.get(step.name))
        if holds is (step.kind == "test"):
            return number + 1 if holds else loops[-1] + 1
        after = end_of(steps, loops.pop()) + 1
        needed = {name for later in steps[after:] for name in later.live_ins}
        for name in [name for name in self.locals if name.startswith("_jc_") and name not in needed]:
            del self.locals[name]  # an iterator ends with its loop
        return after

    def host_range(self, step: HostRange) -> tuple[bool, Any]:
        """Run the statements; says whether the call is over, and with what result."""
        host, args = self.host(step.key, step.live_ins)
        result = host(*args)
        if not step.returns and step.live_outs:
            self.locals.update(zip(step.live_outs, result))
        return step.returns, result

    def segment(self, segment: Segment, first: bool) -> tuple[bool, Any]:
        """Run a transaction; says whether the call is over, and with what result."""
        machine = self.machine
        machine.undo, machine.prints, machine.endings = [], [], []
        live_ins = [self.locals.get(name, UNBOUND) for name in segment.live_ins]
        error: BaseException | None = None
        if first:
            try:
                inputs = machine.run(segment.guards, live_ins)
            except Exception:
                return True, MISS
        try:
            if not first:
                inputs = machine.run(segment.guards, live_ins)
            streams = rng.streams(segment.body)
            if rng.TORCH in streams:
                rng.save_rng(machine.undo, tuple(inputs))
            if rng.PYTHON in streams:
                rng.save_python(machine.undo)
            outputs = machine.run(segment.body, inputs)
        except BaseException as caught:
            error = caught
        if error is not None:
            return True, self.recover(segment, first, error)
        transaction.flush_prints(machine.prints)
        for function, args, kwargs in machine.endings:
            function(*args, **kwargs)
        result = outputs.pop(0) if segment.returns else None
        self.locals.update(zip(segment.live_outs, outputs))
        return segment.returns, result

    def recover(self, segment: Segment, first: bool, error: BaseException) -> Any:
        """Roll back and run the rest of the call eagerly."""
        self.managers.close()
        if first and not segment.resume:
            args, kwargs = self.call.args, self.call.kwargs
            return recovery.recover(self.listener, error, self.machine.undo, self.function, args, kwargs)
        host, args = self.host(segment.resume, segment.live_ins)
        return recovery.recover(self.listener, error, self.machine.undo, host, args)


class Machine:
    """Runs graphs; holds what one transaction keeps for its end."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self.objects = objects
        self.undo: UndoLog = []
        self.prints: list[Any] = []
        self.endings: list[tuple[Callable[..., None], list[Any], dict[str, Any]]] = []  # run after the transaction
        self.abort = transaction.begin_run()

    def run(self, graph: Graph, inputs: list[Any]) -> list[Any]:
        """The outputs of a graph for these inputs."""
        env: dict[Value, Any] = dict(zip(graph.params, inputs))
        for node in graph.nodes:
            result = MEANINGS[node.op.name](self, node, env)
            if len(node.outputs) == 1 and not node.regions and node.op.name != "unpack":
                env[node.outputs[0]] = result
            elif node.outputs:
                env.update(zip(node.outputs, result))
        return [self.value(arg, env) for arg in graph.outputs]

    def value(self, arg: Arg, env: dict[Value, Any]) -> Any:
        """What an argument stands for."""
        if isinstance(arg, Value):
            return env[arg]
        if isinstance(arg, Const):
            return arg.value
        if isinstance(arg, Ref):
            if arg.name == UNBOUND.name and arg.name not in self.objects:
                return UNBOUND
            target = self.objects[arg.name]
            return target() if isinstance(target, weakref.ref) else target
        if isinstance(arg, Tup):
            return tuple(self.value(item, env) for item in arg.items)
        if isinstance(arg, Lst):
            return [self.value(item, env) for item in arg.items]
        if isinstance(arg, Dct):
            return {self.value(k, env): self.value(v, env) for k, v in zip(arg.keys, arg.values)}
        assert isinstance(arg, Slc)
        return slice(*(self.value(bound, env) for bound in (arg.lower, arg.upper, arg.step)))

    def holds(self, target: str, args: Sequence[Any]) -> bool:
        """Whether an assert of this target is true of its arguments."""
        return ASSERTIONS[target](*args)

    def args(self, node: Node, env: dict[Value, Any]) -> list[Any]:
        """What the positional arguments stand for."""
        return [self.value(arg, env) for arg in node.args]

    def kwargs(self, node: Node, env: dict[Value, Any]) -> dict[str, Any]:
        """What the keyword arguments stand for."""
        return {name: self.value(arg, env) for name, arg in node.kwargs}


def meaning(*names: str) -> Callable[[Meaning], Meaning]:
    """Register what one or more ops do."""

    def register(function: Meaning) -> Meaning:
        for name in names:
            MEANINGS.register(name, function)
        return function

    return register


def _call(machine: Machine, node: Node, env: dict[Value, Any], callee: Any, args: list[Any]) -> Any:
    kwargs = machine.kwargs(node, env)
    if isinstance(kwargs.get("generator"), torch.Generator):
        rng.save_generator(machine.undo, kwargs["generator"])
    return callee(*args, **kwargs)


@meaning("torch", "torch.random", "torch.write", "builtin", "builtin.read", "builtin.random")
def _function(machine: Machine, node: Node, env: dict[Value, Any]) -> Any:
    return _call(machine, node, env, resolve(node.target), machine.args(node, env))


@meaning("method", "method.random", "method.read", "method.write")
def _method(machine: Machine, node: Node, env: dict[Value, Any]) -> Any:
    owner, *args = machine.args(node, env)
    return _call(machine, node, env, getattr(owner, node.target), args)


@meaning("module.call")
def _module_call(machine: Machine, node: Node, env: dict[Value, Any]) -> Any:
    module, *args = machine.args(node, env)
    return _call(machine, node, env, module, args)


@meaning("operator", "operator.read", "operator.write", "test")
def _operator(machine: Machine, node: Node, env: dict[Value, Any]) -> Any:
    args = machine.args(node, env)
    if node.target == "not_in":
        return not operator.contains(*args)
    return getattr(operator, node.target)(*args)


@meaning("attribute", "read.attr")
def _attribute(machine: Machine, node: Node, env: dict[Value, Any]) -> Any:
    return getattr(machine.value(node.args[0], env), node.target)


@meaning("read.item")
def _item(machine: Machine, node: Node, env: dict[Value, Any]) -> Any:
    owner, key = machine.args(node, env)
    return owner[key]


@meaning("make")
def _make(machine: Machine, node: Node, env: dict[Value, Any]) -> Any:
    cls, *args = machine.args(node, env)
    return object.__new__(cls) if node.target else cls(*args, **machine.kwargs(node, env))


@meaning("set.attr")
def _set_attr(machine: Machine, node: Node, env: dict[Value, Any]) -> None:
    owner, value = machine.args(node, env)
    setattr(owner, node.target, value)


@meaning("build")
def _build(machine: Machine, node: Node, env: dict[Value, Any]) -> Any:
    return machine.value(node.args[0], env)


@meaning("format")
def _format(machine: Machine, node: Node, env: dict[Value, Any]) -> str:
    return "".join(map(_piece, machine.args(node, env)))


def _piece(piece: Any) -> str:
    if isinstance(piece, str):
        return piece
    value, conversion, spec = piece
    code = chr(conversion) if isinstance(conversion, int) and conversion > 0 else conversion
    if code in CONVERSIONS:
        value = CONVERSIONS[code](value)
    return format(value, spec or "")


@meaning("unpack")
def _unpack(machine: Machine, node: Node, env: dict[Value, Any]) -> list[Any]:
    items = list(machine.value(node.args[0], env))
    if len(items) != len(node.outputs):
        raise ValueError(f"{len(items)} values to unpack into {len(node.outputs)}")
    return items


@meaning("write.attr")
def _write_attr(machine: Machine, node: Node, env: dict[Value, Any]) -> None:
    owner, value = machine.args(node, env)
    transaction.save_attr(machine.undo, owner, node.target)
    setattr(owner, node.target, value)


@meaning("delete.attr")
def _delete_attr(machine: Machine, node: Node, env: dict[Value, Any]) -> None:
    owner = machine.value(node.args[0], env)
    transaction.save_attr(machine.undo, owner, node.target)
    delattr(owner, node.target)


@meaning("write.item")
def _write_item(machine: Machine, node: Node, env: dict[Value, Any]) -> None:
    owner, key, value = machine.args(node, env)
    transaction.save_item(machine.undo, owner, key)
    owner[key] = value


@meaning("write.cell")
def _write_cell(machine: Machine, node: Node, env: dict[Value, Any]) -> None:
    cell, value = machine.args(node, env)
    transaction.save_cell(machine.undo, cell)
    cell.cell_contents = value


@meaning("save")
def _save(machine: Machine, node: Node, env: dict[Value, Any]) -> None:
    transaction.SAVES[node.target](machine.undo, *machine.args(node, env))


@meaning("zero_grad", "backward")
def _gradients(machine: Machine, node: Node, env: dict[Value, Any]) -> None:
    getattr(gradients, node.op.name)(machine.undo, *machine.args(node, env), **machine.kwargs(node, env))


@meaning("clip")
def _clip(machine: Machine, node: Node, env: dict[Value, Any]) -> Any:
    return gradients.clip(machine.undo, node.target, *machine.args(node, env), **machine.kwargs(node, env))


@meaning("step", "backward.last")
def _ending(machine: Machine, node: Node, env: dict[Value, Any]) -> None:
    subject, *condition = machine.args(node, env)
    if all(condition):
        machine.endings.append((gradients.ENDINGS[node.op.name], [subject], machine.kwargs(node, env)))


@meaning("print")
def _print(machine: Machine, node: Node, env: dict[Value, Any]) -> None:
    transaction.defer_print(machine.prints, *machine.args(node, env), **machine.kwargs(node, env))


@meaning("cond")
def _cond(machine: Machine, node: Node, env: dict[Value, Any]) -> list[Any]:
    predicate, *inputs = machine.args(node, env)
    return machine.run(node.regions[0] if predicate else node.regions[1], inputs)


@meaning("context")
def _context(machine: Machine, node: Node, env: dict[Value, Any]) -> list[Any]:
    manager, *inputs = machine.args(node, env)
    with manager:
        outputs = machine.run(node.regions[0], inputs)
    return outputs


@meaning("loop")
def _loop(machine: Machine, node: Node, env: dict[Value, Any]) -> list[Any]:
    iterable, carried, invariant = machine.args(node, env)
    state = list(carried)
    if node.target == "while":
        go_on = machine.kwargs(node, env).get("enter", True)
        while go_on:
            go_on, *state = machine.run(node.regions[0], [*state, *invariant])
        return state
    for item in iterable:
        go_on, *state = machine.run(node.regions[0], [item, *state, *invariant])
        if not go_on:
            break
    return state


@meaning("define")
def _define(machine: Machine, node: Node, env: dict[Value, Any]) -> list[Any]:
    inputs = machine.args(node, env)

    def function(*args: Any) -> Any:
        return machine.run(node.regions[0], [*args, *inputs])[0]

    return [function]


@meaning("invoke", "invoke.write")
def _invoke(machine: Machine, node: Node, env: dict[Value, Any]) -> Any:
    function, *args = machine.args(node, env)
    return function(function, *args)


@meaning("assert")
def _assert(machine: Machine, node: Node, env: dict[Value, Any]) -> None:
    args = machine.args(node, env)
    if node.target == "unsaved":
        args = [transaction.is_saved(machine.undo, *args)]
    if machine.abort() or not machine.holds(node.target, args):
        raise Deopt(machine.kwargs(node, env).get("site"))


def _equals(value: Any, expected: Any) -> bool:
    """Of the same type and value, all through; signs of zero and nan count."""
    if type(value) is not type(expected):
        return False
    if isinstance(value, tuple):
        return len(value) == len(expected) and all(map(_equals, value, expected))
    if isinstance(value, float):
        both_nan = math.isnan(value) and math.isnan(expected)
        return both_nan or (value == expected and math.copysign(1.0, value) == math.copysign(1.0, expected))
    if isinstance(value, complex):
        return repr(value) == repr(expected)
    return bool(value == expected)


def _is_of_type(value: Any, expected: Any) -> bool:
    if isinstance(expected, str):
        expected = resolve(expected)
    return type(value) is (type(None) if expected is None else expected)


def _has_no_history(*args: Any) -> bool:
    return not (torch.is_grad_enabled() and any(getattr(a, "requires_grad", False) for a in args))


def _register_assertions() -> None:
    table: dict[str, Callable[..., bool]] = {
        "true": bool,
        "false": operator.not_,
        "is": operator.is_,
        "is_not": operator.is_not,
        "distinct": lambda *objects: len(set(map(id, objects))) == len(objects),
        "apart": lambda left, right: set(map(id, left)).isdisjoint(map(id, right)),
        "equals": _equals,
        "type": _is_of_type,
        "length": lambda owner, count: len(owner) == count,
        "empty": lambda *owners: not any(owners),
        "absent": lambda owner, key: key not in owner,
        "bound": lambda value: value is not UNBOUND,
        "container": is_container,
        "plain_write": _has_no_history,
        "among": lambda value, classes: type(value) in classes,
        "unsaved": operator.not_,
        "tensor": lambda value: type(value) in (torch.Tensor, torch.nn.Parameter),
        "leaves": lambda *tensors: not any(t.grad_fn is not None or t._backward_hooks for t in tensors),
    }
    for name, holds in table.items():
        ASSERTIONS.register(name, holds)


_register_assertions()
