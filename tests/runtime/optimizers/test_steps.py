"""Steps made without torch's own: the same bits, state and counters of changes, in every step, under all options."""

import copy
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import FAMILIES, Twins, plain

from janusc.runtime.optimizers import batches

SHAPES = [(3, 4), (5,), (), (0,), (2, 3, 2), (1,)]
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-42, -1e-39, 3e38, 1.0]


def parameters(dtype=torch.float32, shapes=SHAPES):
    found = [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes]
    found.append(torch.nn.Parameter(torch.randn(4, 3, dtype=dtype).t()))
    return found


def random_grad(number, parameter):
    """Of many kinds of strides; sometimes none."""
    shape, dtype = parameter.shape, parameter.dtype
    kind = torch.randint(0, 6, ()).item()
    if kind == 0:
        return None
    if kind == 1 and len(shape) == 2:
        return torch.randn(shape[::-1], dtype=dtype).t()
    if kind == 2:
        return torch.randn((), dtype=dtype).expand(shape)
    grad = torch.randn(shape, dtype=dtype)
    return grad * 1e-3 if kind == 3 else grad


def special_grad(number, parameter):
    count = parameter.numel()
    values = list(itertools.islice(itertools.cycle(SPECIAL), number, number + count))
    return torch.tensor(values, dtype=parameter.dtype).reshape(parameter.shape)


def combinations(**options):
    return [dict(zip(options, values)) for values in itertools.product(*options.values())]


SGD = [
    options
    for options in combinations(
        momentum=[0, 0.9], dampening=[0, 0.25], weight_decay=[0, 0.1], nesterov=[False, True], maximize=[False, True]
    )
    if not options["nesterov"] or (options["momentum"] and not options["dampening"])
]
ADAM = combinations(weight_decay=[0, 0.1], amsgrad=[False, True], maximize=[False, True])
RMSPROP = combinations(weight_decay=[0, 0.1], momentum=[0, 0.5], centered=[False, True], maximize=[False, True])
ADAGRAD = combinations(
    lr_decay=[0, 0.1], weight_decay=[0, 0.1], initial_accumulator_value=[0, 0.5], maximize=[False, True]
)
ALL = [
    *((torch.optim.SGD, options) for options in SGD),
    *((torch.optim.Adam, options) for options in ADAM),
    *((torch.optim.AdamW, options) for options in ADAM),
    *((torch.optim.RMSprop, options) for options in RMSPROP),
    *((torch.optim.Adagrad, options) for options in ADAGRAD),
    (torch.optim.Adam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (torch.optim.Adam, {"betas": (0.5, 0.0), "eps": 0.0}),
]
IDS = [f"{cls.__name__} {options}" for cls, options in ALL]


@pytest.mark.parametrize(("cls", "options"), ALL, ids=IDS)
def test_every_step_leaves_the_same_bits(cls, options):
    check_steps(cls, options, torch.float32)


@pytest.mark.parametrize(("cls", "options"), ALL[::3], ids=IDS[::3])
def test_every_step_leaves_the_same_bits_in_double_precision(cls, options):
    check_steps(cls, options, torch.float64)


def check_steps(cls, options, dtype):
    """Twenty steps with gradients of many kinds."""
    twins = Twins(lambda: parameters(dtype), lambda ps: cls(ps, lr=0.05, **options))
    twins.set_grads(lambda number, p: torch.ones_like(p))
    twins.step()  # makes the state, of most
    for _ in range(20):
        twins.set_grads(random_grad)
        twins.step(expect=True)
    assert plain(twins.plain.state_dict()) == plain(twins.ours.state_dict())


@pytest.mark.parametrize(("cls", "options"), ALL[::3], ids=IDS[::3])
def test_special_numbers(cls, options):
    twins = Twins(parameters, lambda ps: cls(ps, lr=0.05, **options))
    for number in range(4):
        twins.set_grads(special_grad)
        twins.step(expect=True if number else None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("cls", FAMILIES)
def test_other_dtypes_are_left_to_torch(cls, dtype):
    twins = Twins(lambda: parameters(dtype), lambda ps: cls(ps, lr=0.05))
    for _ in range(3):
        twins.set_grads(lambda number, p: torch.randn_like(p))
        twins.step(expect=False)


def test_parameters_of_two_dtypes_are_left_to_torch():
    twins = Twins(lambda: [*parameters(), *parameters(torch.float64)], lambda ps: torch.optim.SGD(ps, lr=0.05))
    twins.set_grads(random_grad)
    twins.step(expect=False)


def test_sparse_gradients_are_left_to_torch():
    twins = Twins(lambda: parameters(shapes=[(3, 4)]), lambda ps: torch.optim.SGD(ps, lr=0.05))
    twins.set_grads(lambda number, p: torch.eye(3, 4).to_sparse() if number == 0 else torch.ones_like(p))
    twins.step(expect=False)


def test_large_parameters_are_updated_in_parts(monkeypatch):
    monkeypatch.setattr(batches, "_LARGEST", 20)
    shapes = [(20, 10), (3, 5), (3,), (), (0,), (2, 2), (25, 9), (2, 2)]
    twins = Twins(lambda: parameters(shapes=shapes), lambda ps: torch.optim.AdamW(ps, lr=0.05))
    for number in range(3):
        twins.set_grads(lambda number, p: torch.randn_like(p))
        twins.step(expect=bool(number))


@pytest.mark.parametrize("cls", FAMILIES)
def test_groups_have_options_of_their_own_and_may_come_late(cls):
    decays = {"weight_decay": 0.1}
    twins = Twins(lambda: [{"params": parameters()[:3], "lr": 0.1}, {"params": parameters()[3:], **decays}], cls)
    for number in range(8):
        twins.set_grads(lambda number, p: torch.randn_like(p))
        twins.step(expect=None if number in (0, 4) else True)
        if number == 3:
            twins.both(lambda o: o.add_param_group({"params": [torch.nn.Parameter(torch.ones(n, 2)) for n in (1, 3)]}))
        if number == 5:
            twins.both(lambda o: [group.update(lr=0.02) for group in o.param_groups])


@pytest.mark.parametrize("cls", [torch.optim.SGD, torch.optim.Adam])
def test_state_that_is_loaded_copied_or_changed_by_hand_is_the_state(cls):
    options = {"momentum": 0.9} if cls is torch.optim.SGD else {"amsgrad": True}
    twins = Twins(parameters, lambda ps: cls(ps, lr=0.05, **options))

    def steps(count=3):
        for _ in range(count):
            twins.set_grads(random_grad)
            twins.step(expect=True)

    twins.set_grads(lambda number, p: torch.ones_like(p))
    twins.step()
    kept = copy.deepcopy(twins.plain.state_dict())
    steps()
    twins.both(lambda o: o.load_state_dict(copy.deepcopy(kept)))
    steps()
    name = "momentum_buffer" if cls is torch.optim.SGD else "exp_avg"
    twins.both(lambda o: o.state[o.param_groups[0]["params"][1]].update({name: torch.full((5,), 2.0)}))
    twins.both(lambda o: o.state[o.param_groups[0]["params"][0]][name].mul_(3))
    steps()
    twins.both(lambda o: setattr(o.param_groups[0]["params"][0], "data", torch.ones(3, 4)))
    steps()
    twins.plain, twins.ours = copy.deepcopy(twins.plain), copy.deepcopy(twins.ours)
    steps()
    twins.both(lambda o: o.state.clear())
    twins.set_grads(random_grad)
    twins.step()


def test_each_parameter_has_a_count_of_its_own():
    twins = Twins(parameters, lambda ps: torch.optim.Adam(ps, lr=0.05))
    twins.set_grads(lambda number, p: torch.ones_like(p))
    twins.step()
    twins.both(lambda o: [s["step"].fill_(float(n)) for n, s in enumerate(o.state.values())])
    for _ in range(3):
        twins.step(expect=True)


@pytest.mark.parametrize("value", [0.5, -1.0, 2.0**24, math.nan])
def test_counts_that_do_not_add_up_are_left_to_torch(value):
    twins = Twins(parameters, lambda ps: torch.optim.Adam(ps, lr=0.05))
    twins.set_grads(lambda number, p: torch.ones_like(p))
    twins.step()
    twins.both(lambda o: next(iter(o.state.values()))["step"].fill_(value))
    twins.step(expect=False)


@pytest.mark.parametrize("lr", [1e-40, 1e39, math.inf, math.nan, 0.0, -0.0, 1, torch.tensor(0.1)])
@pytest.mark.parametrize("cls", FAMILIES)
def test_rates_of_all_kinds(cls, lr):
    twins = Twins(parameters, lambda ps: cls(ps, lr=0.1))
    twins.set_grads(lambda number, p: torch.ones_like(p))
    twins.step()
    twins.both(lambda o: o.param_groups[0].update(lr=copy.deepcopy(lr)))
    for _ in range(2):
        twins.step(expect=lr in (0, 1))


def _at(optimizer, number):
    return optimizer.param_groups[0]["params"][number]


class Odd(torch.Tensor):
    pass


SPOILT = {
    "a parameter of another shape": lambda o: setattr(_at(o, 1), "data", torch.ones(2)),
    "a parameter of another dtype": lambda o: setattr(_at(o, 1), "data", torch.ones(5, dtype=torch.float64)),
    "a gradient of another shape": lambda o: _at(o, 1).grad.resize_(1).fill_(1),
    "a mean of another shape": lambda o: o.state[_at(o, 1)].update(exp_avg=torch.ones(1)),
    "a mean of another dtype": lambda o: o.state[_at(o, 1)].update(exp_avg=torch.ones(5, dtype=torch.float64)),
    "a mean whose contents have another shape": lambda o: setattr(
        o.state[_at(o, 1)]["exp_avg"], "data", o.state[_at(o, 1)]["exp_avg"].data[:1]
    ),
    "a mean that is another's": lambda o: setattr(
        o.state[_at(o, 1)]["exp_avg"], "data", o.state[_at(o, 1)]["exp_avg_sq"].data
    ),
    "a parameter that is a mean": lambda o: setattr(_at(o, 1), "data", o.state[_at(o, 1)]["exp_avg"].data),
    "a gradient that is a mean": lambda o: setattr(_at(o, 1), "grad", o.state[_at(o, 1)]["exp_avg"]),
    "a gradient that is a parameter": lambda o: setattr(_at(o, 6), "grad", _at(o, 0).detach()[:]),
    "a gradient of a subclass": lambda o: setattr(_at(o, 1), "grad", torch.ones(5).as_subclass(Odd)),
    "a mean that is none": lambda o: o.state[_at(o, 1)].update(exp_avg=None),
    "no mean": lambda o: o.state[_at(o, 1)].pop("exp_avg"),
    "a count of two": lambda o: o.state[_at(o, 1)].update(step=torch.ones(2)),
    "a count that is a number": lambda o: o.state[_at(o, 1)].update(step=1.0),
    "an option missing": lambda o: o.param_groups[0].pop("amsgrad"),
    "three betas": lambda o: o.param_groups[0].update(betas=(0.9, 0.99, 0.999)),
    "a rate that is text": lambda o: o.param_groups[0].update(lr="fast"),
    "a sparse gradient": lambda o: setattr(_at(o, 0), "grad", torch.eye(3, 4).to_sparse()),
    "a mean on no device": lambda o: o.state[_at(o, 1)].update(exp_avg=torch.ones(5, device="meta")),
    "a count made for inference": lambda o: o.state[_at(o, 1)].update(step=_for_inference()),
}


def _for_inference():
    with torch.inference_mode():
        return torch.tensor(3.0)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_errors_leave_what_torch_leaves(spoil, steps):
    twins = Twins(parameters, lambda ps: torch.optim.Adam(ps, lr=0.05))
    twins.set_grads(lambda number, p: torch.ones_like(p))
    for _ in range(steps):
        twins.step()
    twins.both(spoil)
    twins.step(expect=False)


def _tied(*, by):
    first = torch.nn.Parameter(torch.randn(4))
    if by == "data":
        second = torch.nn.Parameter(torch.randn(4))
        second.data = first.data
    else:
        second = torch.nn.Parameter(first.detach()[1:3])
    return [first, torch.nn.Parameter(torch.randn(3)), second]


@pytest.mark.parametrize("by", ["data", "view"])
@pytest.mark.parametrize("cls", FAMILIES)
def test_parameters_that_share_memory_are_left_to_torch(cls, by):
    twins = Twins(lambda: _tied(by=by), lambda ps: cls(ps, lr=0.05, weight_decay=0.1))
    for _ in range(3):
        twins.set_grads(lambda number, p: torch.randn_like(p))
        twins.step(expect=False)


def test_gradients_that_are_parameters_are_left_to_torch():
    twins = Twins(parameters, lambda ps: torch.optim.SGD(ps, lr=0.05))
    twins.set_grads(lambda number, p: torch.ones_like(p))
    twins.both(lambda o: setattr(_at(o, 6), "grad", _at(o, 0).detach()[:, :].t().t().reshape(3, 4)))
    twins.step(expect=False)


@settings(max_examples=25, deadline=None)
@given(
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=5),
    which=st.sampled_from(range(len(ALL))),
    lr=st.floats(1e-6, 10),
    seed=st.integers(0, 1000),
)
def test_random_networks(shapes, which, lr, seed):
    cls, options = ALL[which]
    twins = Twins(lambda: parameters(shapes=shapes), lambda ps: cls(ps, lr=lr, **options))
    torch.manual_seed(seed)
    for _ in range(4):
        twins.set_grads(random_grad)
        twins.step()
