"""Random valid graphs: they verify, and they run on the inputs of ``inputs_for``."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import torch
from hypothesis import strategies as st

from janusc.lowering import ops
from janusc.lowering.ir import FUNCTION, Chain, Const, Dct, Graph, Lst, Node, Ref, Segment, Slc, Tup, Value
from janusc.source import Span
from janusc.types import ANY, Constant, HostType, TensorType, TupleType, type_of

INT, BOOL, TENSOR = HostType("int"), HostType("bool"), TensorType(torch.float32, (2,))
KINDS = (INT, BOOL, TENSOR)
PARAMS = (TENSOR, TENSOR, INT, BOOL, ANY)
OBJECTS = {"int": int, "Net": SimpleNamespace}

# every literal and type that the text form knows

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(allow_nan=True, allow_infinity=True),
    st.text(max_size=8),
    st.binary(max_size=8),
)
TORCH_LITERALS = st.sampled_from(
    [torch.float32, torch.bool, torch.device("cpu"), torch.device("cuda", 1), torch.strided, torch.channels_last]
)
CONSTS = st.one_of(SCALARS, TORCH_LITERALS, st.just(...)).map(Const)
NAMES = st.one_of(st.sampled_from(["weight", "0", "a.b", "torch.nn.Linear"]), st.text(min_size=1, max_size=6))
TYPES = st.recursive(
    st.one_of(
        st.just(ANY),
        SCALARS.map(type_of),
        st.sampled_from(["int", "torch.Size", "builtins.f.<locals>.C", "m.<lambda>"]).map(HostType),
        st.builds(
            TensorType,
            st.sampled_from([None, torch.float32, torch.bool, torch.complex64]),
            st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=3).map(tuple)),
        ),
    ).filter(lambda t: not isinstance(t, Constant) or len(t.text) < 60),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: TupleType(tuple(items))),
    max_leaves=4,
)
SPANS = st.one_of(st.none(), st.builds(Span, st.sampled_from(["a.py", "<stdin>", "a b#c.py"]), st.integers(1, 99)))


def arguments(values):
    """Any argument over these values."""
    leaves = [CONSTS, NAMES.map(Ref)] + ([st.sampled_from(values)] if values else [])
    return st.recursive(
        st.one_of(*leaves),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: Tup(tuple(items))),
            st.lists(inner, max_size=3).map(lambda items: Lst(tuple(items))),
            st.lists(st.tuples(inner, inner), max_size=2).map(
                lambda pairs: Dct(tuple(k for k, _ in pairs), tuple(v for _, v in pairs))
            ),
            st.builds(Slc, inner, inner, inner),
        ),
        max_leaves=5,
    )


@st.composite
def syntactic_graphs(draw, depth=2):
    """Graphs that mean nothing, with every kind of argument, type and name: for the printer and the reader."""
    fresh = iter(range(1000))

    def define(count):
        return tuple(Value(next(fresh), draw(TYPES)) for _ in range(count))

    def graph(depth):
        params = define(draw(st.integers(0, 2)))
        values, nodes = list(params), []
        for _ in range(draw(st.integers(0, 3))):
            plain = [op for op in ops.OPS.values() if not op.regions or depth]
            op = draw(st.sampled_from(plain))
            args = tuple(draw(st.lists(arguments(values), max_size=3)))
            kwargs = tuple(draw(st.dictionaries(NAMES, arguments(values), max_size=2)).items())
            regions = tuple(graph(depth - 1) for _ in range(op.regions))
            outputs = define(draw(st.integers(0, 2)))
            target = draw(st.one_of(st.just(""), NAMES))
            nodes.append(Node(op, target, args, kwargs, outputs, regions, draw(SPANS)))
            values += outputs
        return Graph(params, tuple(nodes), tuple(draw(st.lists(arguments(values), max_size=2))))

    return graph(depth)


# graphs that run


@dataclass
class Scope:
    """A graph while it is made."""

    draw: object
    numbers: object
    depth: int
    params: list = field(default_factory=list)
    nodes: list = field(default_factory=list)

    def define(self, kind):
        return Value(next(self.numbers), kind)

    def values(self, kind):
        defined = [*self.params, *(v for n in self.nodes for v in n.outputs)]
        return [v for v in defined if v.type == kind]

    def pick(self, kind):
        """An argument of a kind; there is always a literal for host values, and a parameter for tensors."""
        literals = {INT: [Const(0), Const(2), Const(-3)], BOOL: [Const(True), Const(False)]}.get(kind, [])
        return self.draw(st.sampled_from([*self.values(kind), *literals]))

    def add(self, op, target, args, kind=None, **kwargs):
        outputs = () if kind is None else (self.define(kind),)
        pairs = tuple((k, Const(v)) for k, v in kwargs.items())
        self.nodes.append(Node(op, target, tuple(args), pairs, outputs))
        return outputs[0] if outputs else None


def add_arithmetic(s):
    target = s.draw(st.sampled_from(["add", "sub", "mul", "floordiv", "mod"]))
    s.add(ops.OPERATOR, target, (s.pick(INT), s.pick(INT)), INT)


def add_comparison(s):
    s.add(ops.OPERATOR, s.draw(st.sampled_from(["lt", "eq", "ge"])), (s.pick(INT), s.pick(INT)), BOOL)


def add_shape(s):
    shape = s.add(ops.ATTRIBUTE, "shape", (s.pick(TENSOR),), HostType("torch.Size"))
    s.add(ops.OPERATOR, "getitem", (shape, Const(0)), INT)


def add_length(s):
    s.add(ops.BUILTIN, "len", (Tup((s.pick(INT), s.pick(TENSOR))),), INT)


def add_tensor(s):
    target = s.draw(st.sampled_from(["relu", "tanh", "neg", "sigmoid"]))
    s.add(ops.TORCH, f"torch.{target}", (s.pick(TENSOR),), TENSOR)


def add_sum(s):
    s.add(ops.OPERATOR, "add", (s.pick(TENSOR), s.pick(s.draw(st.sampled_from([INT, TENSOR])))), TENSOR)


def add_item(s):
    total = s.add(ops.METHOD, "sum", (s.pick(TENSOR),), TensorType(torch.float32, ()))
    s.add(ops.OPERATOR, "gt", (total, Const(0.5)), TensorType(torch.bool, ()))
    s.add(ops.BUILTIN, "bool", (s.nodes[-1].outputs[0],), BOOL)


def add_write(s):
    tensor = s.pick(TENSOR)
    s.add(ops.SAVE, "tensor", (tensor,))
    s.add(ops.METHOD_WRITE, s.draw(st.sampled_from(["add_", "mul_"])), (tensor, s.pick(INT)), TENSOR)


def add_random(s):
    s.add(ops.TORCH_RANDOM, "torch.rand_like", (s.pick(TENSOR),), TENSOR)


def add_assert(s):
    target = s.draw(st.sampled_from(["true", "equals", "is"]))
    args = {
        "true": lambda: (s.pick(BOOL),),
        "equals": lambda: (s.pick(INT), Const(2)),
        "is": lambda: (s.pick(TENSOR), s.pick(TENSOR)),
    }[target]()
    s.add(ops.ASSERT, target, args, site=f"site {len(s.nodes)}")


def add_read(s):
    if s.values(ANY):
        s.add(ops.READ_ATTR, "count", (s.pick(ANY),), INT)


def add_print(s):
    s.add(ops.PRINT, "", (s.pick(INT), Const("shown")))


def add_cond(s):
    inputs = [s.pick(TENSOR), s.pick(INT)]
    kinds = s.draw(st.lists(st.sampled_from(KINDS), max_size=3))
    regions = tuple(region(s, (TENSOR, INT), kinds) for _ in range(2))
    outputs = tuple(s.define(k) for k in kinds)
    s.nodes.append(Node(ops.COND, "if", (s.pick(BOOL), *inputs), (), outputs, regions))


def add_loop(s):
    kinds = s.draw(st.lists(st.sampled_from(KINDS), max_size=3))
    carried, invariant = [s.pick(k) for k in kinds], [s.pick(TENSOR), s.pick(INT)]
    iterable = s.add(ops.BUILTIN, "range", (Const(s.draw(st.integers(0, 2))),), HostType("range"))
    body = region(s, (INT, *kinds, TENSOR, INT), (BOOL, *kinds))
    outputs = tuple(s.define(k) for k in kinds)
    args = (iterable, Tup(tuple(carried)), Tup(tuple(invariant)))
    s.nodes.append(Node(ops.LOOP, "for", args, (), outputs, (body,)))


def add_context(s):
    manager = s.add(ops.TORCH, "torch.no_grad", (), ANY)
    body = region(s, (TENSOR,), (TENSOR,))
    s.nodes.append(Node(ops.CONTEXT, "with", (manager, s.pick(TENSOR)), (), (s.define(TENSOR),), (body,)))


STEPS = (
    add_arithmetic, add_comparison, add_shape, add_length, add_tensor, add_sum, add_item, add_write, add_random,
    add_assert, add_read, add_print,
)  # fmt: skip
NESTING_STEPS = (add_cond, add_loop, add_context)


def fill(scope, most):
    steps = STEPS + NESTING_STEPS if scope.depth else STEPS
    for step in scope.draw(st.lists(st.sampled_from(steps), max_size=most)):
        step(scope)


def region(outer, params, outputs):
    scope = Scope(outer.draw, outer.numbers, outer.depth - 1)
    scope.params = [scope.define(kind) for kind in params]
    fill(scope, 4)
    return Graph(tuple(scope.params), tuple(scope.nodes), tuple(scope.pick(kind) for kind in outputs))


@st.composite
def chains(draw):
    """A chain of one segment: reads and asserts in the guards, anything in the body, then writes."""
    numbers = iter(range(10000))
    guards = Scope(draw, numbers, 0)
    guards.params = [guards.define(kind) for kind in (HostType("function"), *PARAMS)]
    guards.nodes.append(Node(ops.ASSERT, "type", (guards.params[-1], Ref("Net")), (("site", Const("net")),)))
    allowed = (add_arithmetic, add_comparison, add_shape, add_length, add_read, add_assert)
    for step in draw(st.lists(st.sampled_from(allowed), max_size=6)):
        step(guards)
    body = Scope(draw, numbers, 2)
    body.params = [body.define(kind) for kind in PARAMS]
    handed = [guards.pick(kind) for kind in PARAMS]
    fill(body, 10)
    for name in draw(st.lists(st.sampled_from(["count", "other"]), max_size=2)):
        body.add(ops.WRITE_ATTR, name, (body.params[-1], body.pick(INT)))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    result = Tup(tuple(body.pick(kind) for kind in kinds))
    segment = Segment(
        (FUNCTION, "a", "b", "n", "flag", "net"),
        Graph(tuple(guards.params), tuple(guards.nodes), tuple(handed)),
        Graph(tuple(body.params), tuple(body.nodes), (result,)),
        returns=True,
    )
    return Chain("made", (segment,), OBJECTS)


def inputs_for(number):
    """Fresh arguments for the parameters of ``chains``."""
    a, b = torch.tensor([0.5, -1.5]), torch.tensor([2.0, 0.0])
    return {"a": a, "b": b, "n": number, "flag": number > 0, "net": SimpleNamespace(count=number + 1)}
