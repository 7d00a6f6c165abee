"""Steps that are left to torch: nothing is changed by looking, and no kernel is asked for in vain."""

import gc
import sys
import weakref

import pytest
import torch
from stepping import Pair, Uncompiled, all_parameters, parameters, random_grad, ready, snapshot
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from janusc.runtime.kernels.updates import fused
from janusc.runtime.kernels.updates.fused import FusedStep, step_of


class Odd(torch.Tensor):
    pass


def at(optimizer, number):
    return all_parameters(optimizer)[number]


def _shared(optimizer):
    at(optimizer, 6).data = at(optimizer, 0).data.reshape(4, 3).t().contiguous().t()
    at(optimizer, 2).data = at(optimizer, 1).data[2]


def _for_inference():
    with torch.inference_mode():
        return torch.tensor(3.0)


def _negative():
    found = torch.imag(torch.randn(5, dtype=torch.complex64).conj())
    assert found.is_neg()
    return found


def options(**given):
    return lambda o: o.param_groups[0].update(given)


def state(number=1, **given):
    return lambda o: o.state[at(o, number)].update(given)


def data(number, make):
    return lambda o: setattr(at(o, number), "data", make(o))


def grad(number, make):
    return lambda o: setattr(at(o, number), "grad", make(o))


SPOILT = {
    "a hook before": lambda o: o.register_step_pre_hook(lambda *args: None),
    "a hook behind": lambda o: o.register_step_post_hook(lambda *args: None),
    "scaled gradients": lambda o: setattr(o, "grad_scale", torch.tensor(2.0)),
    "another way to the parameters": lambda o: setattr(o, "_init_group", lambda *args: False),
    "capturable": options(capturable=True),
    "differentiable": options(differentiable=True),
    "foreach": options(foreach=True),
    "fused": options(fused=True),
    "a rate that is a tensor": options(lr=torch.tensor(0.1)),
    "a rate that is text": options(lr="fast"),
    "a rate that is nan": options(lr=float("nan")),
    "a rate that is infinite": options(lr=float("inf")),
    "a rate that is too small for single precision": options(lr=1e-42),
    "betas in a list": options(betas=[0.9, 0.99]),
    "three betas": options(betas=(0.9, 0.99, 0.999)),
    "a beta of one": options(betas=(1.0, 0.99)),
    "an option missing": lambda o: o.param_groups[0].pop("amsgrad"),
    "a gradient of none": grad(1, lambda o: None),
    "no gradients": lambda o: [setattr(p, "grad", None) for p in all_parameters(o)],
    "a sparse gradient": grad(0, lambda o: torch.eye(3, 4).to_sparse()),
    "a gradient of a subclass": grad(1, lambda o: torch.ones(5).as_subclass(Odd)),
    "a gradient with a history": grad(1, lambda o: torch.ones(5, requires_grad=True) * 2),
    "a gradient that is negated when it is read": grad(1, lambda o: _negative()),
    "a gradient of other strides": grad(0, lambda o: torch.ones(3, 4)),
    "a gradient that is a mean": grad(1, lambda o: o.state[at(o, 1)]["exp_avg"]),
    "a gradient that is a parameter": grad(6, lambda o: at(o, 6).detach()),
    "a gradient of another shape": lambda o: at(o, 1).grad.resize_(1).fill_(1),
    "a parameter of another shape": data(1, lambda o: torch.ones(2)),
    "a parameter of another dtype": data(1, lambda o: torch.ones(5, dtype=torch.float64)),
    "a parameter with gaps": data(1, lambda o: torch.ones(10)[::2]),
    "a parameter of one element for all": data(1, lambda o: torch.ones(1).expand(5)),
    "parameters that share memory": _shared,
    "a parameter that is a mean": data(1, lambda o: o.state[at(o, 1)]["exp_avg"].data),
    "a parameter without a gradient required": lambda o: at(o, 1).requires_grad_(False),
    "a parameter of a subclass": lambda o: setattr(at(o, 1), "__class__", type("P", (torch.nn.Parameter,), {})),
    "a parameter fewer": lambda o: o.param_groups[0]["params"].pop(),
    "parameters in another order": lambda o: o.param_groups[0]["params"].reverse(),
    "parameters in a tuple": lambda o: options(params=tuple(all_parameters(o)))(o),
    "another group": lambda o: o.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]}),
    "no state": lambda o: o.state.clear(),
    "no state of one": lambda o: o.state.pop(at(o, 1)),
    "state of another": lambda o: o.state.update({torch.nn.Parameter(torch.ones(2)): {}}),
    "no mean": lambda o: o.state[at(o, 1)].pop("exp_avg"),
    "a mean that is none": state(exp_avg=None),
    "a mean of another shape": state(exp_avg=torch.ones(1)),
    "a mean of another dtype": state(exp_avg=torch.ones(5, dtype=torch.float64)),
    "a mean on no device": state(exp_avg=torch.ones(5, device="meta")),
    "a mean of a subclass": state(exp_avg=torch.ones(5).as_subclass(Odd)),
    "a mean that is another's": lambda o: state(exp_avg=o.state[at(o, 1)]["exp_avg_sq"])(o),
    "a mean that requires a gradient": lambda o: o.state[at(o, 1)]["exp_avg"].requires_grad_(),
    "a count of two": state(step=torch.ones(2)),
    "a count that is a number": state(step=1.0),
    "a count made for inference": state(step=_for_inference()),
    "a count that differs": state(step=torch.tensor(17.0)),
    "negative counts": lambda o: [s["step"].fill_(-1) for s in o.state.values()],
    "counts that are no whole numbers": lambda o: [s["step"].fill_(1.5) for s in o.state.values()],
    "counts that do not add up": lambda o: [s["step"].fill_(2.0**24) for s in o.state.values()],
    "counts that are nan": lambda o: [s["step"].fill_(float("nan")) for s in o.state.values()],
}
OTHER_CLASSES = {
    "a gradient of none", "a gradient of other strides", "another group", "a parameter without a gradient required",
    "parameters in another order", "a count that differs",
}  # fmt: skip
"""What the kernel at hand does not take, but one of its own would."""


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_what_has_changed_is_left_to_torch(spoil):
    pair = ready(torch.optim.Adam)
    assert pair.fused.run(pair.ours)
    spoil(pair.ours)
    check_left(pair.fused, pair.ours)


def check_left(step, optimizer):
    """A step is not made, and nothing is changed."""
    before = snapshot(optimizer)
    for _ in range(2):
        assert step.run(optimizer) is False
    assert snapshot(optimizer) == before


def refuse(program):
    raise AssertionError("a kernel was asked for")


@pytest.mark.parametrize("name", SPOILT)
def test_no_kernel_is_asked_for_what_none_can_be_for(name):
    pair = ready(torch.optim.Adam)
    SPOILT[name](pair.ours)
    asked = []
    step = FusedStep(pair.ours, lambda program: asked.append(program) or Late(program), patience=1)
    check_left(step, pair.ours)
    assert len(asked) == (name in OTHER_CLASSES)


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


AROUND = {
    "a mode of functions": Functions,
    "a mode of operations": Operations,
    "inference": torch.inference_mode,
    "a profiler": lambda: torch.autograd.profiler.profile(),
    "autocast": lambda: torch.autocast("cpu"),
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
def test_what_goes_on_around_is_left_to_torch(around):
    pair = ready(torch.optim.Adam)
    before = snapshot(pair.ours)
    with around():
        assert not pair.fused.run(pair.ours)
    assert snapshot(pair.ours) == before
    assert pair.fused.run(pair.ours)


def test_a_traced_step_is_left_to_torch():
    pair = ready(torch.optim.Adam)
    before = sys.gettrace()
    sys.settrace(lambda *args: None)
    try:
        made = pair.fused.run(pair.ours)
    finally:
        sys.settrace(before)
    assert not made


def test_hooks_on_all_optimizers():
    pair = ready(torch.optim.SGD)
    handle = register_optimizer_step_post_hook(lambda *args: None)
    try:
        check_left(pair.fused, pair.ours)
    finally:
        handle.remove()
    assert pair.fused.run(pair.ours)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("cls", [torch.optim.SGD, torch.optim.Adam])
def test_other_dtypes(cls, dtype):
    pair = Pair(lambda ps: cls(ps, lr=0.05), lambda: parameters(dtype, [(3, 4)]), request=refuse)
    assert not any(pair.step(lambda number, p: torch.randn_like(p)) for _ in range(4))


def test_parameters_of_two_dtypes():
    def both():
        return [*parameters(), *parameters(torch.float64)]

    pair = Pair(lambda ps: torch.optim.SGD(ps, lr=0.05), both, request=refuse)
    assert not any(pair.step() for _ in range(4))


def test_optimizers_without_a_rule():
    pair = Pair(lambda ps: torch.optim.Adamax(ps, lr=0.05), request=refuse)
    assert not pair.step()
    assert "Adamax" in pair.fused.objection

    class Own(torch.optim.SGD):
        pass

    assert FusedStep(Own(parameters(), lr=0.1), refuse).objection


# ---- kernels


class Late:
    """A job that is done when the test says so."""

    def __init__(self, program):
        self.program, self.kernel, self.failure = program, None, None


def waiting():
    jobs = []
    pair = Pair(lambda ps: torch.optim.SGD(ps, lr=0.05), request=lambda program: jobs.append(Late(program)) or jobs[-1])
    for _ in range(3):
        assert not pair.step()
    (job,) = jobs
    return pair, job


def test_nobody_waits_for_a_kernel():
    pair, job = waiting()
    job.kernel = Uncompiled(job.program).kernel
    assert pair.step()
    pair.compare()


def test_without_a_kernel_there_is_a_reason():
    pair, job = waiting()
    job.failure = "no compiler"
    assert not pair.step()
    assert pair.fused.objection == "no compiler"
    pair.compare()


def test_a_kernel_that_fails_is_found_out_before_it_touches_anything():
    pair, job = waiting()

    def kernel(inputs):
        inputs[1].fill_(7)
        raise RuntimeError("out of memory")

    job.kernel = kernel
    assert not pair.step()
    assert "out of memory" in pair.fused.objection
    pair.compare()


def test_a_kernel_that_comes_when_the_class_of_input_is_another():
    pair, job = waiting()
    job.kernel = Uncompiled(job.program).kernel
    assert not pair.step(lambda number, p: random_grad(number, p) if number else None)
    assert pair.step()
    pair.compare()


def test_patience_counts_steps():
    asked = []
    pair = Pair(lambda ps: torch.optim.SGD(ps, lr=0.05), request=lambda p: asked.append(p) or Late(p), patience=5)
    for _ in range(4):
        pair.step()
    assert not asked
    pair.step()
    assert asked


def test_what_can_have_no_kernel_is_looked_at_ever_more_rarely(monkeypatch):
    looks, number = [], 0
    monkeypatch.setattr(fused.survey, "look", lambda *args: looks.append(number))
    pair = Pair(lambda ps: torch.optim.SGD(ps, lr=0.05), request=refuse)
    pair.set_grads(lambda number, p: None)
    while number < 100:
        number += 1
        assert not pair.fused.run(pair.ours)
    assert looks == [1, 3, 7, 15, 31, 63]


def test_a_step_in_the_middle_of_a_step():
    inner = []

    class Nested(Uncompiled):
        def __init__(self, program):
            super().__init__(program)
            kernel = self.kernel

            def twice(inputs):
                inner.append(pair.fused.run(pair.ours))
                kernel(inputs)

            self.kernel = twice

    pair = Pair(lambda ps: torch.optim.SGD(ps, lr=0.05), request=Nested)
    for _ in range(4):
        pair.step()
    pair.compare()
    assert set(inner) == {False}


def test_optimizers_are_held_weakly():
    optimizer = ready(torch.optim.Adam).ours
    step = step_of(optimizer, Uncompiled)
    assert step_of(optimizer, Uncompiled) is step
    step._left = 1
    for _ in range(2):
        step.run(optimizer)
    assert step.made == 1
    gone = [
        weakref.ref(optimizer),
        weakref.ref(at(optimizer, 0)),
        weakref.ref(optimizer.state[at(optimizer, 0)]["step"]),
    ]
    key = id(optimizer)
    del optimizer
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3
    assert fused._steps.get(key) is not step


def test_another_optimizer_is_not_stepped():
    pair = ready(torch.optim.SGD)
    assert not pair.fused.run(pair.plain)
