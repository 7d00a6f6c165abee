"""Two optimizers with the same parameters: one is stepped by torch, the other through what stands in for torch."""

import copy
import types

import torch

from janusc.runtime.optimizers import adagrad, adam, lookup, rmsprop, sgd, steps

FAMILIES = {
    cls: family
    for family in (sgd.SGD, adam.ADAM, rmsprop.RMSPROP, adagrad.ADAGRAD)
    for cls in sorted(family.classes, key=lambda cls: cls.__name__)
}


def entered(callee):
    """What a host range calls instead."""
    function = callee.__func__ if type(callee) is types.MethodType else callee
    if type(function) is not types.FunctionType or not lookup.is_candidate(function):
        return callee
    return lookup.equivalent_of(callee, function)


def is_equivalent(optimizer):
    """Whether the next step is made without torch's; looks, and touches nothing."""
    return steps._prepared(FAMILIES[type(optimizer)], optimizer) is not None


def bits(tensor):
    """A tensor as what two of them must have in common."""
    found = tensor.detach()
    if found.layout is not torch.strided:
        return str(found.layout), bits(found.to_dense())
    if not found.is_cpu:
        return str(found.device), found.shape
    flat = torch.empty(found.numel(), dtype=found.dtype, device="cpu")  # of one stride, whatever the size
    flat.copy_(found.reshape(-1))
    raw = flat.view(torch.uint8).tolist()
    return found.dtype, tuple(found.shape), found.stride(), raw


def plain(value):
    """State of an optimizer, with tensors as their bits and counters of changes."""
    if isinstance(value, torch.Tensor):
        return type(value), bits(value), value.requires_grad, None if value.is_inference() else value._version
    if isinstance(value, dict):
        return [(key, plain(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [plain(item) for item in value]
    return type(value), value


def seen(optimizer):
    """All that a step may change."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    grads = [None if not p.is_leaf or p.grad is None else plain(p.grad) for p in parameters]
    options = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    states = [plain(state) for state in optimizer.state.values()]
    return [plain(p) for p in parameters], grads, states, plain(options), sorted(vars(optimizer))


def outcome(call):
    """What a call returns or raises."""
    try:
        return "returns", call()
    except Exception as error:
        return type(error), str(error)


class Twins:
    """The two; ``both`` does the same to each, ``step`` makes a step and compares all there is."""

    def __init__(self, make_parameters, make_optimizer):
        torch.manual_seed(1)
        self.plain = make_optimizer(make_parameters())
        torch.manual_seed(1)
        self.ours = make_optimizer(make_parameters())

    def both(self, act):
        for optimizer in (self.plain, self.ours):
            act(optimizer)

    def parameters(self):
        return [
            pair
            for one, other in zip(self.plain.param_groups, self.ours.param_groups)
            for pair in zip(one["params"], other["params"])
        ]

    def set_grads(self, make):
        """Give each parameter the gradient that ``make`` has for it, or none."""
        for number, (p, q) in enumerate(self.parameters()):
            grad = make(number, p)
            p.grad, q.grad = copy.deepcopy(grad), copy.deepcopy(grad)

    def step(self, expect=None):
        """One step of each; ``expect`` says whether it must be, or must not be, made without torch's."""
        if expect is not None:
            assert is_equivalent(self.ours) is expect
        assert outcome(self.plain.step) == outcome(lambda: entered(self.ours.step)())
        self.compare()

    def compare(self):
        for one, other in zip(seen(self.plain), seen(self.ours)):
            assert one == other
