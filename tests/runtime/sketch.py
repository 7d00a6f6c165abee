"""Short ways to write graphs and chains by hand."""

import dataclasses
import functools
import inspect
import itertools

import torch

from janusc.lowering.ir import FUNCTION, Chain, Const, Graph, Node, Segment, Value
from janusc.lowering.ops import OPS
from janusc.runtime.emit import emit
from janusc.runtime.recovery import Rest
from janusc.types import ANY, HostType, TensorType

TENSOR = TensorType(torch.float32, (4,))
INT = HostType("int")
_ids = itertools.count(1)


def arg(x):
    """Python literals are constants."""
    return x if hasattr(type(x), "__dataclass_fields__") else Const(x)


class Sketch:
    """A graph under construction; calling it adds a node and returns its output, or a tuple of several, or None."""

    def __init__(self, *types):
        self.params = tuple(Value(next(_ids), t) for t in types)
        self.nodes = []

    def __call__(self, op, target="", *args, out=(ANY,), regions=(), span=None, **kwargs):
        outputs = tuple(Value(next(_ids), t) for t in out)
        pairs = tuple((k, arg(v)) for k, v in kwargs.items())
        self.nodes.append(Node(OPS[op], target, tuple(map(arg, args)), pairs, outputs, regions, span))
        return outputs[0] if len(outputs) == 1 else outputs or None

    def check(self, target, *args, site="site"):
        self("assert", target, *args, out=(), site=site)

    def graph(self, *outputs):
        return Graph(self.params, tuple(self.nodes), tuple(map(arg, outputs)))


def single(function, build, guard=None, objects=None, types=None):
    """The chain of one segment: ``build(body, *params)`` gives the result; ``guard`` adds to the guards."""
    names = list(inspect.signature(function).parameters)
    types = types or [ANY] * len(names)
    guards = Sketch(ANY, *types)
    handed = guards.params
    if guard is not None:
        handed = (*handed, *(guard(guards, *handed) or ()))
    body = Sketch(*(p.type for p in handed))
    result = build(body, *body.params)
    segment = Segment((FUNCTION, *names), guards.graph(*handed), body.graph(result), (), True)
    return Chain(function.__name__, (segment,), objects or {})


class Record:
    """A listener that remembers."""

    def __init__(self):
        self.failures = []

    def observed(self, function):
        return function

    def failed(self, site, error, twin_succeeded):
        self.failures.append((site, type(error), twin_succeeded))


def emitted(function, chain, hosts=None, listener=None, **options):
    """The executable of a chain made for ``function``; ``run`` finishes what it rolled back, as the wrapper does."""
    executable = emit(
        chain,
        name=function.__name__,
        parameters=inspect.signature(function),
        hosts=hosts or {},
        listener=listener,
        **options,
    )

    @functools.wraps(executable.run)
    def run(*args, **kwargs):
        return finished(executable.run(*args, **kwargs))

    return dataclasses.replace(executable, run=run)


def finished(result):
    """The result of a call that an executable has perhaps only rolled back."""
    return result.finish() if type(result) is Rest else result


def run_once(build, *args, objects=None, types=None, listener=None, twin=None):
    """The result of a single body on positional arguments; without a twin, a failure fails the test."""
    names = [f"a{i}" for i in range(len(args))]
    scope = {}
    exec(f"def program({', '.join(names)}): return twin({', '.join(names)})", {"twin": twin or _no_twin}, scope)
    chain = single(scope["program"], lambda body, function, *params: build(body, *params), None, objects, types)
    executable = emitted(scope["program"], chain, listener=listener)
    return executable.run(scope["program"], *args)


def _no_twin(*args):
    raise AssertionError("the body failed")
