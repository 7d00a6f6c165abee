"""Functions that call themselves: one graph for all activations, defined once and invoked by name.

The first call defines the function in the graph, with a parameter for each argument that varies from activation to
activation; calls inside invoke it. What kind of value a parameter is follows from the arguments at hand, activation by
activation (see ``examples``), and from the calls inside; the body is lowered until the kinds settle. What a call
returns is of the type that the profile saw.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import gast
import torch

from janusc.frontend.parse import ParsedFunction
from janusc.lowering import codes, examples, ops
from janusc.lowering.abstract import UNKNOWN, Frame, Known, Live, Sym, TupleV
from janusc.lowering.builder import Region
from janusc.lowering.cond import freeze_containers, kind_of, reachable
from janusc.lowering.effects import acts
from janusc.lowering.ir import Arg, Graph, Node, Value, walk
from janusc.lowering.lower_state import check_once
from janusc.lowering.lower_torch import sample_from_type
from janusc.lowering.lowering import Lowering, Unconvertible, Unreached
from janusc.lowering.operands import SCALARS, arg, escape, sample_type
from janusc.lowering.own_calls import invariants
from janusc.lowering.store import own_dict
from janusc.lowering.worlds import OUTSIDE
from janusc.types import ANY, Constant, HostType, TensorType, TupleType, Type, join, type_of

_MOST_PASSES = 32
_MOST_ALIKE = 20  # activations that differ in numbers and text only: far fewer than passes
Arguments = list[tuple[str, Any]]


class Recursive(Exception):
    """A function calls itself: the walk begins anew, with the function as a routine."""

    def __init__(self, key: Any) -> None:
        super().__init__(str(key))
        self.key = key


class NoRoutine(Exception):
    """A recursive function can't be a routine: the walk begins anew without it."""

    def __init__(self, key: Any, error: Unconvertible) -> None:
        super().__init__(str(error))
        self.key, self.error = key, error


@dataclass
class Parameter:
    """A parameter of a routine: one abstract value for all activations, or what is known of its kind."""

    name: str
    fixed: Any = None
    kind: type | None = None  # of computed tensors and numbers; None: to be seen from the examples
    sample: Any = UNKNOWN
    examples: dict[int, Any] = field(default_factory=dict)
    is_any: bool = False  # values without examples of different kinds

    def type(self) -> Type:
        return sample_type(self.sample) if self.kind is not None else ANY


@dataclass(eq=False)
class Routine:
    """A recursive function while it is lowered."""

    name: str
    function: Any  # a Live, or the FunctionV of one made inside the call
    itself: Value
    parameters: list[Parameter]
    worlds: set[int] = field(default_factory=set)
    kinds: set[tuple[Any, ...]] = field(default_factory=set)  # of the worlds seen
    alike: Counter[tuple[Any, ...]] = field(default_factory=Counter)  # but for the values of numbers and text
    result: Type | None = None
    acts: bool = False  # whether it writes, draws or prints
    changed: bool = False
    inferred: bool = False  # whether the type of the result comes from the body, as no call was seen
    drafted: bool = False  # the body was lowered once, so that what it returns without calling itself is known

    @property
    def varying(self) -> list[Parameter]:
        return [p for p in self.parameters if p.fixed is None]


def call_routine(lo: Lowering, frame: Frame, bind: Callable[[], Arguments]) -> Any:
    """A call of a recursive function; ``bind`` gives the arguments by parameter."""
    active = len(lo.routines)
    for routine in lo.routines:
        if is_same_function(routine.function, frame.function):
            guard_function(lo, routine, frame)
            return invoke_inside(lo, routine, bind())
    try:
        return define(lo, frame, bind())
    except Unconvertible as error:
        del lo.routines[active:]
        raise NoRoutine(function_key(frame.function), error) from None


def function_key(function: Any) -> Any:
    """What a function is known by from walk to walk: closures of one code are different functions."""
    return function.sample if isinstance(function, Live) else function.node


def is_same_function(a: Any, b: Any) -> bool:
    """Whether two frames run one function object; closures of one code are different functions."""
    return a is b or (isinstance(a, Live) and isinstance(b, Live) and a.sample is b.sample)


def guard_function(lo: Lowering, routine: Routine, frame: Frame) -> None:
    """What is called is the very function that is being defined, and will be."""
    mine, other = routine.function, frame.function
    if mine is other or mine.value is other.value:
        return
    if not lo.builder.is_early(mine.value, other.value):
        raise lo.refuse(codes.RECURSION, f"{routine.name} is reached by a value that is known at run time only")
    check_once(lo, "is", (other.value, mine.value), f"{routine.name} is itself")


def define(lo: Lowering, frame: Frame, arguments: Arguments) -> Any:
    """The definition, at its first call, and that call."""
    parsed: ParsedFunction = frame.parsed
    constant = invariants(parsed.tree)
    outside = lo.worlds.active
    routine = Routine(name_of(parsed), frame.function, lo.builder.value(), [])
    routine.result = None if lo.node is None else lo.profile.type_at(lo.site(lo.node))
    for name, value in arguments:
        routine.parameters.append(Parameter(name, value if name in constant else None))
    roots = new_worlds(lo, routine, arguments) if outside else {lo.worlds.spawn(): None}
    first = {child: world for child, world in roots.items() if child is not None}
    if not first:
        raise lo.refuse(codes.RECURSION, f"{routine.name} is one recursion too many in this conversion")
    routine.worlds.update(first)
    for parameter, (_, value) in zip(routine.parameters, arguments):
        if parameter.fixed is None:
            join_argument(lo, parameter, value, first)
    freeze_containers(lo, [*seen_from(lo, frame), *(value for _, value in arguments)])
    given = [escape(lo, value) for p, (_, value) in zip(routine.parameters, arguments) if p.fixed is None]
    lo.routines.append(routine)
    point = lo.mark()
    for _ in range(_MOST_PASSES):
        routine.changed = False
        region, output = lower_body(lo, routine, frame, parsed.body)
        routine.drafted = True
        if not routine.acts and changes_something(lo, region):
            routine.acts = True
            region.nodes[:] = [calling_to_act(node, routine.name) for node in region.nodes]
        if not routine.changed:
            break
        lo.rewind(point)
    else:
        raise lo.refuse(codes.RECURSION, f"the kinds in {routine.name} don't settle")
    lo.routines.remove(routine)
    free = lo.builder.free_values(region, (output,))
    graph = lo.builder.close(region, (output,), free)
    function = lo.builder.value()
    lo.builder.place(ops.DEFINE, routine.name, tuple(free), (function,), (graph,), lo.span())
    guard_arguments(lo, routine, given)
    return invoke(lo, routine, function, given)


def name_of(parsed: ParsedFunction) -> str:
    """A name that a function may have: a lambda's is no such."""
    name = parsed.name.strip("<>")
    return f"{name}_" if keyword.iskeyword(name) else name


def seen_from(lo: Lowering, frame: Frame) -> list[Any]:
    """What the body may change: what it names in the frames around it, and own writes."""
    outer, lo.frame = lo.frame, frame
    try:
        return reachable(lo, frame.parsed.body)
    finally:
        lo.frame = outer


def lower_body(lo: Lowering, routine: Routine, frame: Frame, body: Any) -> tuple[Any, Arg]:
    """One pass over the body under the present kinds."""
    before, written = lo.store.snapshot(), len(lo.written_containers)
    region = lo.builder.open_region([routine.itself])
    frame.caller, frame.depth = lo.frame, lo.frame.depth + 1
    outer, lo.frame = lo.frame, frame
    lo.loop_depth += 1
    try:
        with examples.inside(lo, frozenset(routine.worlds)):
            for parameter in routine.parameters:
                value = parameter.fixed
                if value is None:
                    value = open_parameter(lo, region, parameter)
                lo.bind(parameter.name, value)
            frame.first = lo.fetch(lo.local(routine.parameters[0].name)) if routine.parameters else None
            result: Any = Known(None)
            for stmt in body:
                if isinstance(stmt, gast.Return):
                    result = Known(None) if stmt.value is None else lo.expr(stmt.value)
                    break
                lo.stmt(stmt)
            infer_result(routine, result)
            ensure(lo, result, routine.result)
            output = escape(lo, result)
    finally:
        lo.frame = outer
        lo.loop_depth -= 1
        lo.builder.pop_region()
    if len(lo.written_containers) > written or any(
        s[:2] != ("local", frame.id) for s in lo.store.changes(before, frame.id)
    ):
        raise lo.refuse(codes.RECURSION, f"{routine.name} changes what outlives the call")
    return region, output


def open_parameter(lo: Lowering, region: Any, parameter: Parameter) -> Sym:
    value = lo.builder.value(parameter.type())
    region.params.append(value)
    if parameter.kind is not None:
        return Sym(value, parameter.sample, pytype=parameter.kind)
    if not parameter.is_any:
        lo.worlds.note(value, parameter.examples)
    return Sym(value)


def invoke_inside(lo: Lowering, routine: Routine, arguments: Arguments) -> Any:
    """A call from inside the routine: its arguments may widen the parameters, its worlds are new ones."""
    seen = lo.profile.type_at(lo.site(lo.node))
    result = seen if routine.result is None else routine.result if seen is None else join(routine.result, seen)
    if result != routine.result:
        routine.result, routine.changed = result, True
    if result is None:
        unseen(lo, routine)
    new = new_worlds(lo, routine, arguments)
    for parameter, (_, value) in zip(routine.parameters, arguments):
        if parameter.fixed is not None:
            if not is_same(lo, parameter.fixed, value):
                raise lo.refuse(codes.RECURSION, f"{parameter.name} varies from call to call")
        elif join_argument(lo, parameter, value, new):
            routine.changed = True
    given = [escape(lo, value) for p, (_, value) in zip(routine.parameters, arguments) if p.fixed is None]
    return invoke(lo, routine, routine.itself, given)


def unseen(lo: Lowering, routine: Routine) -> NoReturn:
    """A call that was never reached: its branch gives up the graph when it is taken, and is profiled then."""
    place = lo.site(lo.node, "unseen")
    error = lo.refuse(codes.RECURSION, f"{routine.name} was not seen to call itself here")
    raise error if lo.profile.is_refuted(place) and routine.drafted else Unreached(error.diagnostic, place)


def infer_result(routine: Routine, result: Any) -> None:
    """What is returned is of the type of the ways that return without a call, where the profile saw no call."""
    found = result_type(result)
    if found is None or not (routine.result is None or routine.inferred):
        return
    wider = found if routine.result is None else join(routine.result, found)
    if wider != routine.result:
        routine.result, routine.inferred, routine.changed = wider, True, True


def result_type(result: Any) -> Type | None:
    """The type of what is returned, as a profile would have it."""
    if isinstance(result, TupleV):
        items = [result_type(item) for item in result.items]
        return TupleType(tuple(t for t in items if t is not None)) if None not in items else None
    if isinstance(result, Sym) and result.is_tensor and isinstance(result.sample, torch.Tensor):
        return type_of(result.sample.detach())
    value = result.value if isinstance(result, Known) else getattr(result, "sample", None)
    known = isinstance(result, Known) or getattr(result, "pytype", None) is type(value)
    return HostType(type(value).__name__) if known and type(value) in SCALARS else None


def new_worlds(lo: Lowering, routine: Routine, arguments: Arguments) -> dict[int, int | None]:
    """For each active world the activation it calls, where that one is unlike those seen so far.

    A recursion that counts has an activation for each number: after a few of them there is no more to be learned.
    """
    columns = [examples.of(lo, v) for p, (_, v) in zip(routine.parameters, arguments) if p.fixed is None]
    new: dict[int, int | None] = {}
    for world in sorted(lo.worlds.active):
        row = [c.get(world, UNKNOWN) for c in columns]
        kind = tuple(map(_signature, row))
        alike = tuple(part[0] if type(part) is tuple and part[0] in SCALARS else part for part in kind)
        if kind in routine.kinds or routine.alike[alike] >= _MOST_ALIKE:
            continue
        routine.kinds.add(kind)
        routine.alike[alike] += 1
        child = lo.worlds.spawn(None if routine in lo.routines else world)
        if child is not None:
            new[child] = world
    if new:
        routine.worlds.update(new)
        routine.changed = True
    return new


def _signature(example: Any) -> Any:
    """What makes activations alike: numbers and text by value, containers by length, objects by what they hold."""
    cls = type(example)
    if cls in SCALARS:
        return cls, example
    if cls in (tuple, list):
        return cls, tuple(type(x) for x in example[:8])
    if cls in (torch.Tensor, torch.nn.Parameter):
        return cls, example.dtype, example.ndim
    held = own_dict(example)
    if held is not None:
        plain = (type(v) if type(v) not in (str, bool) else v for v in held.values())
        return cls, tuple(held), tuple(plain)
    return cls


def join_argument(lo: Lowering, parameter: Parameter, value: Any, worlds: dict[int, Any]) -> bool:
    """Let a parameter also stand for this argument; whether that changed what is known of it."""
    if parameter.is_any:
        return False
    if not lo.worlds.active and lo.routines and kind_of(value) is None and not isinstance(value, Live):
        if parameter.kind is not None:  # no activation at hand gets here, so nothing is to be learned
            lo.check("type", (arg(lo, value), lo.builder.ref(parameter.kind)), lo.site(lo.node, "argument"), lo.span())
        return False
    shown = examples.has_examples(lo, value) or isinstance(value, (Known, Live))
    if parameter.kind is None and shown:
        for child, world in worlds.items():
            example = _example(lo, value, world)
            if example is not UNKNOWN:
                parameter.examples[child] = example
        return False  # the new worlds say so
    kind = kind_of(value)
    tensor = isinstance(value, Sym) and value.is_tensor
    known = {type(e) for e in parameter.examples.values()} if parameter.kind is None else {parameter.kind}
    wanted = {torch.Tensor, torch.nn.Parameter} if tensor else {kind}
    if kind is not None and known <= wanted and (tensor or kind in SCALARS):
        if parameter.kind is not None:
            return False
        parameter.kind, parameter.sample = (torch.Tensor if tensor else kind), getattr(value, "sample", UNKNOWN)
        if isinstance(value, Known):
            parameter.sample = value.value
        return True
    parameter.kind, parameter.sample, parameter.is_any = None, UNKNOWN, True
    return True


def _example(lo: Lowering, value: Any, world: int | None) -> Any:
    if isinstance(value, Known):
        return value.value
    if isinstance(value, Live):
        return value.sample
    if world is None:  # the first call, from outside all worlds
        return lo.worlds.examples.get(value.value, {}).get(OUTSIDE, UNKNOWN)
    return examples.of(lo, value).get(world, UNKNOWN)


def is_same(lo: Lowering, fixed: Any, value: Any) -> bool:
    """Whether an argument is what a parameter stands for in all activations; an object by another path is guarded."""
    if isinstance(fixed, Live) and isinstance(value, Live) and fixed.value is not value.value:
        if fixed.sample is not value.sample or not lo.builder.is_early(fixed.value, value.value):
            return False
        check_once(lo, "is", (value.value, fixed.value), "the same object")
        return True
    if isinstance(fixed, Known) and isinstance(value, Known):
        return fixed.value is value.value
    return fixed is value or (isinstance(fixed, (Live, Sym)) and getattr(value, "value", None) is fixed.value)


def guard_arguments(lo: Lowering, routine: Routine, given: list[Arg]) -> None:
    """What the first call gives is of the kinds that the body was lowered for."""
    for parameter, argument in zip(routine.varying, given):
        if parameter.kind is not None and isinstance(argument, Value) and argument.type == ANY:
            lo.check("type", (argument, lo.builder.ref(parameter.kind)), f"{routine.name}.{parameter.name}", lo.span())


def invoke(lo: Lowering, routine: Routine, function: Value, given: list[Arg]) -> Any:
    sample = sample_from_type(routine.result)
    kind = sample_type(sample) if sample is not UNKNOWN else ANY
    op = ops.INVOKE_WRITE if routine.acts else ops.INVOKE
    (value,) = lo.builder.emit(op, routine.name, (function, *given), (), (kind,), lo.span())
    lo.made.clear()  # it may set what was given
    if isinstance(routine.result, TensorType):
        return Sym(value, sample, pytype=torch.Tensor)
    if isinstance(routine.result, TupleType):
        return Sym(value, sample, pytype=tuple)
    if isinstance(routine.result, (HostType, Constant)) and type(sample) in SCALARS:
        return Sym(value, sample, pytype=type(sample))
    return Sym(value)


def ensure(lo: Lowering, result: Any, wanted: Type | None) -> None:
    """The body returns what its calls are taken to return."""
    if isinstance(wanted, TupleType):
        if not isinstance(result, TupleV) or len(result.items) != len(wanted.items):
            raise lo.refuse(codes.RECURSION, "a result of another length")
        for item, part in zip(result.items, wanted.items):
            ensure(lo, item, part)
        return
    sample = sample_from_type(wanted)
    if wanted is None or sample is UNKNOWN:
        return
    cls = torch.Tensor if isinstance(wanted, TensorType) else type(sample)
    kind = kind_of(result)
    if kind is cls or (cls is torch.Tensor and kind is torch.nn.Parameter):
        return
    if not (isinstance(result, Sym) and result.pytype is None):
        raise lo.refuse(codes.RECURSION, f"a result of type {kind.__name__ if kind else 'unknown'}")
    lo.check("type", (result.value, lo.builder.ref(cls)), lo.site(lo.node or lo.frame.parsed.tree, "result"), lo.span())


def changes_something(lo: Lowering, region: Region) -> bool:
    """Whether the body does more than compute; adding to a list of its own is no more than that.

    A container of the user's that it may reach by other ways than by name could not be read by path any longer.
    """
    inner = list(walk(Graph((), tuple(region.nodes), ())))
    if any(n.op is ops.SAVE and n.target not in ("tensor", "object.attr") for n in inner):
        raise lo.refuse(codes.RECURSION, "the recursion changes a container that outlives the call")
    free = lo.builder.free_values(region, ())
    shared = any(v.type == ANY and not lo.builder.is_early(v) for v in free)  # lists made around it, for one
    return acts(region.nodes, is_collecting) or (shared and any(map(is_collecting, inner)))


def calling_to_act(node: Node, name: str) -> Node:
    """The node with calls of a routine of this name, in its regions too, as such of one that acts."""
    if node.op is ops.INVOKE and node.target == name:
        return replace(node, op=ops.INVOKE_WRITE)
    if not node.regions:
        return node
    regions = (replace(r, nodes=tuple(calling_to_act(n, name) for n in r.nodes)) for r in node.regions)
    return replace(node, regions=tuple(regions))


def is_collecting(node: Node) -> bool:
    """Whether a node adds to a list; one that was there before the call would be saved first, which is an act."""
    return node.op is ops.METHOD_WRITE and node.target in ("append", "extend")
