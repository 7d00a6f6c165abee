"""Two optimizers with the same parameters: one is stepped by torch, the other by kernels where there are some.

Kernels are run uncompiled, unless a test asks for compiled ones: as the operations that they are made from.
"""

import copy

import torch

from janusc.runtime.kernels.updates.fused import FusedStep

SHAPES = [(3, 4), (5,), (), (0,), (2, 3, 2), (1,)]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


class Uncompiled:
    """A job that is done at once: the program itself, which counts no changes, as kernels don't."""

    failure = None

    def __init__(self, program):
        function, _ = program.functions()

        def kernel(inputs):
            given = [tensor.data for tensor in inputs]
            inputs.clear()
            return function(*given)

        self.kernel = kernel

    def wait(self):
        pass


def parameters(dtype=torch.float32, shapes=SHAPES):
    found = [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes]
    found.append(torch.nn.Parameter(torch.randn(4, 3, dtype=dtype).t()))
    return found


def random_grad(number, parameter):
    """Of several kinds of strides, by the number of the parameter."""
    shape, dtype = parameter.shape, parameter.dtype
    if number == 0:
        return torch.randn(shape[::-1], dtype=dtype).t()
    if number == 4:
        return torch.randn((), dtype=dtype).expand(shape)
    return torch.randn(shape, dtype=dtype)


def all_parameters(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


def contents(value):
    """A copy of whatever a step might change, with identities, strides and counters of changes."""
    if isinstance(value, torch.Tensor):
        count = None if value.is_inference() else value._version
        return id(value), type(value), str(value.layout), value.shape, count, _bits(value)
    if isinstance(value, dict):
        return [(key if isinstance(key, str) else id(key), contents(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [contents(item) for item in value]
    return repr(value)


def _bits(tensor):
    if tensor.is_meta:
        return None
    found = tensor.detach().resolve_neg().resolve_conj()
    found = found.to_dense() if found.layout is not torch.strided else found
    return found.contiguous().reshape(-1).view(torch.uint8).tolist()


def snapshot(optimizer):
    """All that a step may change, and what it reads."""
    grads = [p.grad for p in all_parameters(optimizer) if p.is_leaf]
    return contents([optimizer.param_groups, dict(optimizer.state), grads, sorted(vars(optimizer))])


def assert_near(ones, others, what):
    """The tensors look alike, and are equal but for rounding in relation to the largest number among them."""
    for one, other in zip(ones, others, strict=True):
        looks = [(type(t), t.dtype, t.shape, t.stride(), t.requires_grad) for t in (one, other)]
        assert looks[0] == looks[1], what
    pairs = [(one, other) for one, other in zip(ones, others) if one.numel()]
    error = max((one - other).abs().max().item() for one, other in pairs)
    assert error <= TOLERANCE[ones[0].dtype] * max(one.abs().max().item() for one, _ in pairs), (what, error)


class Pair:
    """``plain`` is stepped by torch, ``ours`` by kernels; ``both`` does the same to each."""

    def __init__(self, make_optimizer, make_parameters=parameters, request=Uncompiled, patience=1, seed=1):
        torch.manual_seed(seed)
        given = make_parameters()
        self.plain, self.ours = make_optimizer(given), make_optimizer(copy.deepcopy(given))
        self.fused = FusedStep(self.ours, request, patience)

    def both(self, act):
        for optimizer in (self.plain, self.ours):
            act(optimizer)

    def set_grads(self, make=random_grad):
        for number, (p, q) in enumerate(zip(all_parameters(self.plain), all_parameters(self.ours))):
            p.grad = q.grad = make(number, p)

    def versions(self):
        """How often each of the tensors that a step changes was changed."""
        changed = [p for p in all_parameters(self.ours) if p.grad is not None]
        states = [self.ours.state.get(p, {}).values() for p in changed]
        return [tensor._version for tensor in (*changed, *(value for values in states for value in values))]

    def step(self, make=random_grad):
        """One step of each, with new gradients; whether ours was a kernel's."""
        self.set_grads(make)
        self.plain.step()
        before = self.versions()
        is_fused = self.fused.run(self.ours)
        if is_fused:
            assert all(now == then + 1 for then, now in zip(before, self.versions(), strict=True))
        else:
            self.ours.step()
        return is_fused

    def compare(self):
        """All parameters and all state are alike, each kind in relation to the largest of its numbers."""
        columns = {}
        for p, q in zip(all_parameters(self.plain), all_parameters(self.ours)):
            one, other = self.plain.state.get(p, {}), self.ours.state.get(q, {})
            assert list(one) == list(other)
            for name, pair in {"parameter": (p, q), **{name: (one[name], other[name]) for name in one}}.items():
                columns.setdefault(name, []).append(pair)
        for name, pairs in columns.items():
            assert_near(*zip(*pairs), name)


def ready(cls, make_parameters=parameters, request=Uncompiled, **options):
    """A pair whose next steps are made by a kernel."""
    pair = Pair(lambda ps: cls(ps, **{"lr": 0.05, **options}), make_parameters, request)
    for _ in range(3):
        if pair.step():
            break
    assert pair.step()
    pair.set_grads()
    return pair
