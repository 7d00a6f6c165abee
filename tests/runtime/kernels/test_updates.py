"""Steps of optimizers as kernels: the numbers, state and counters that torch's own steps leave."""

import copy
import itertools
import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stepping import Pair, all_parameters, parameters, random_grad, ready

from janusc import torch_private
from janusc.runtime.compiler import jobs
from janusc.runtime.kernels.updates import memory
from janusc.runtime.kernels.updates.places import EarlyStep
from janusc.runtime.kernels.updates.rules import RULES


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
ADAGRAD = combinations(lr_decay=[0, 0.1], weight_decay=[0, 0.1], maximize=[False, True])
ALL = [
    *((torch.optim.SGD, options) for options in SGD),
    *((torch.optim.Adam, options) for options in ADAM),
    *((torch.optim.AdamW, options) for options in ADAM),
    *((torch.optim.RMSprop, options) for options in RMSPROP),
    *((torch.optim.Adagrad, options) for options in ADAGRAD),
    (torch.optim.Adam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (torch.optim.Adam, {"betas": (0.3, 0.0)}),
    (torch.optim.Adam, {"betas": (0.0, 0.9)}),
    (torch.optim.RMSprop, {"alpha": 0.2, "centered": True}),
    (torch.optim.Adagrad, {"initial_accumulator_value": 0.5}),
]
IDS = [f"{cls.__name__} {options}" for cls, options in ALL]
CLASSES = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad]
MOMENTUM = {torch.optim.SGD: {"momentum": 0.9}}


def check_steps(pair, count=50):
    """So many steps with rates and gradients that vary: all but the first are made by one kernel."""
    made = 0
    for number in range(count):
        pair.both(lambda o, number=number: [group.update(lr=0.1 / (1 + number // 3)) for group in o.param_groups])
        made += pair.step()
        pair.compare()
    assert made == pair.fused.made >= count - 3
    assert pair.fused.kernels == 1


@pytest.mark.parametrize(("cls", "options"), ALL, ids=IDS)
def test_steps_are_as_torch_makes_them(cls, options):
    check_steps(Pair(lambda ps: cls(ps, lr=0.05, **options)))


@pytest.mark.parametrize(("cls", "options"), ALL[::3], ids=IDS[::3])
def test_steps_are_as_torch_makes_them_in_double_precision(cls, options):
    check_steps(Pair(lambda ps: cls(ps, lr=0.05, **options), lambda: parameters(torch.float64)))


def test_every_class_with_a_rule_is_tested():
    assert set(CLASSES) == set().union(*(rule.classes for rule in RULES.values()))


@settings(max_examples=20)
@given(
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=4),
    which=st.sampled_from(range(len(ALL))),
    present=st.lists(st.booleans(), min_size=5, max_size=5),
    lr=st.floats(1e-6, 10),
)
def test_random_networks(shapes, which, present, lr):
    cls, options = ALL[which]
    pair = Pair(lambda ps: cls(ps, lr=lr, **options), lambda: parameters(shapes=shapes))
    made = 0
    for _ in range(8):
        made += pair.step(lambda number, p: random_grad(number, p) if present[number] else None)
        pair.compare()
    assert made >= 5 or not any(present[: len(shapes) + 1])


# ---- structure


@pytest.mark.parametrize("cls", CLASSES)
def test_groups_have_options_of_their_own(cls):
    def make(ps):
        groups = [{"params": ps[:2], "lr": 0.1}, {"params": ps[2:5], "weight_decay": 0.1}, {"params": ps[5:]}]
        return cls(groups, lr=0.05, **MOMENTUM.get(cls, {}))

    pair = Pair(make)
    for number in range(20):
        pair.both(lambda o, number=number: o.param_groups[number % 3].update(lr=0.01 * number))
        pair.step()
        pair.compare()
    assert pair.fused.made >= 17
    assert pair.fused.kernels == 1


def test_a_group_without_state_beside_one_with_some():
    pair = Pair(lambda ps: torch.optim.SGD([{"params": ps[:3]}, {"params": ps[3:], "momentum": 0.5}], lr=0.1))
    check_steps(pair, 10)


@pytest.mark.parametrize("cls", CLASSES)
def test_which_gradients_there_are_is_structure(cls):
    pair = ready(cls, **MOMENTUM.get(cls, {}))

    def thawed(number, p):
        return random_grad(number, p)

    def frozen(number, p):
        return None if number in (0, 2) else random_grad(number, p)

    for make in (frozen, thawed, frozen):
        for _ in range(12):
            pair.step(make)
            pair.compare()
    made = pair.fused.made
    assert pair.step(frozen)
    pair.compare()
    assert pair.fused.made == made + 1
    assert 2 <= pair.fused.kernels <= 4  # counters that differ from now on are a class, too


def test_parameters_that_have_made_more_steps_than_others():
    pair = Pair(lambda ps: torch.optim.Adam(ps, lr=0.05))
    for number in range(12):
        pair.step(lambda index, p, number=number: random_grad(index, p) if number >= index else None)
    for _ in range(40):
        pair.step()
        pair.compare()
    assert pair.step()
    assert len({count.item() for count in (state["step"] for state in pair.ours.state.values())}) == 7


def test_more_classes_of_input_than_there_are_kernels_for():
    pair = ready(torch.optim.SGD)
    for missing in itertools.cycle(range(6)):
        pair.fused._left = 0  # not to wait so long
        pair.step(lambda number, p, missing=missing: None if number == missing else random_grad(number, p))
        pair.compare()
        if pair.fused.objection:
            break
    assert pair.fused.kernels == 4
    assert "4 kernels" in pair.fused.objection
    assert not pair.step()
    pair.compare()


SWITCHES = [{"momentum": 0.9}, {"weight_decay": 0.1}, {"maximize": True}, {"momentum": 0.9, "nesterov": True}]


@pytest.mark.parametrize("change", SWITCHES)
def test_what_is_switched_on_later_is_structure(change):
    pair = ready(torch.optim.SGD)
    pair.both(lambda o: o.param_groups[0].update(change))
    assert not pair.fused.run(pair.ours)
    for _ in range(10):
        pair.step()
        pair.compare()
    assert pair.fused.kernels == 2
    pair.both(lambda o: o.param_groups[0].update({name: 0.5 for name in change if name in ("momentum", "lr")}))
    assert pair.step()
    pair.compare()


@pytest.mark.parametrize(
    "options", [{"lr": 0.01}, {"betas": (0.8, 0.99)}, {"eps": 1e-4}, {"weight_decay": 0.3}, {"lr": 1}]
)
def test_numbers_that_change_need_no_other_kernel(options):
    pair = ready(torch.optim.AdamW)
    for value in (options, {"lr": 0.05}, options):
        pair.both(lambda o, value=value: o.param_groups[0].update(value))
        assert pair.step()
        pair.compare()
    assert pair.fused.kernels == 1


@pytest.mark.parametrize("cls", CLASSES)
def test_schedulers(cls):
    pair = ready(cls)
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (pair.plain, pair.ours)]
    for _ in range(10):
        assert pair.step()
        pair.compare()
        for optimizer, scheduler in zip((pair.plain, pair.ours), schedulers):
            optimizer._opt_called = True
            scheduler.step()
    assert pair.fused.kernels == 1


# ---- state


@pytest.mark.parametrize("cls", CLASSES)
def test_state_is_saved_loaded_and_continued(cls):
    options = MOMENTUM.get(cls, {})
    pair = ready(cls, **options)
    kept = copy.deepcopy(pair.ours.state_dict())
    assert list(kept["state"]) == list(pair.plain.state_dict()["state"])
    fresh = Pair(lambda ps: cls(ps, lr=0.05, **options))
    for optimizer, source in ((fresh.plain, pair.plain), (fresh.ours, pair.ours)):
        with torch.no_grad():
            for p, q in zip(all_parameters(optimizer), all_parameters(source)):
                p.copy_(q)
        optimizer.load_state_dict(copy.deepcopy(source.state_dict()))
    for _ in range(10):  # by torch at first, then by a kernel
        fresh.step()
    fresh.compare()
    assert fresh.fused.made
    pair.both(lambda o: o.load_state_dict(copy.deepcopy(kept)))
    for _ in range(5):
        assert pair.step()
        pair.compare()
    assert pair.fused.kernels == 1


@pytest.mark.parametrize("cls", CLASSES)
def test_state_and_parameters_may_be_changed_by_hand(cls):
    pair = ready(cls, **MOMENTUM.get(cls, {}))
    state = {"SGD": "momentum_buffer", "RMSprop": "square_avg", "Adagrad": "sum"}.get(cls.__name__, "exp_avg")
    for act in (
        lambda o: o.state[all_parameters(o)[1]].update({state: torch.full((5,), 2.0)}),
        lambda o: o.state[all_parameters(o)[0]][state].mul_(3),
        lambda o: setattr(all_parameters(o)[1], "data", torch.ones(5)),
        lambda o: [s["step"].fill_(40) for s in o.state.values() if "step" in s],
        lambda o: [s["step"].data.fill_(50) for s in o.state.values() if "step" in s],
    ):
        pair.both(act)
        assert pair.step()
        pair.compare()


def test_a_graph_from_before_the_step_is_used_up():
    pair = ready(torch.optim.Adam)
    parameter = all_parameters(pair.ours)[1]
    loss = (parameter * parameter).sum()
    assert pair.fused.run(pair.ours)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_the_mode_of_gradients_stays():
    pair = ready(torch.optim.SGD)
    for mode in (True, False):
        with torch.set_grad_enabled(mode):
            assert pair.fused.run(pair.ours)
            assert torch.is_grad_enabled() is mode


# ---- memory


@given(
    changed=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), max_size=5),
    read=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), max_size=3),
)
def test_ranges_are_apart(changed, read):
    places = [place for start, size in changed for place in range(start, start + size)]
    seen = {place for start, size in read for place in range(start, start + size)}
    ranges = memory.ranges_apart(changed)
    apart = ranges is not None and ranges.are_apart_from([a for a, _ in read], [size for _, size in read])
    assert apart is (len(places) == len(set(places)) and seen.isdisjoint(places))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=3))
def test_dense_is_each_place_once(dims):
    size, stride = tuple(n for n, _ in dims), tuple(s for _, s in dims)
    places = [sum(i * s for i, s in zip(index, stride)) for index in itertools.product(*map(range, size))]
    expected = sorted(places) == list(range(len(places)))
    assert memory.is_dense(memory.Input(size, stride, "float32", "cpu")) is expected


# ---- compiled


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("cls", [torch.optim.SGD, torch.optim.AdamW])
def test_compiled_steps(cls):
    class Compiled:
        failure = None

        def __init__(self, program):
            self.kernel = jobs.compile_now(program)

    options = MOMENTUM.get(cls, {"amsgrad": True})
    pair = Pair(lambda ps: cls(ps, lr=0.05, **options), lambda: parameters(shapes=[(3, 5), ()]), request=Compiled)
    addresses = [p.data_ptr() for p in all_parameters(pair.ours)]
    check_steps(pair)
    assert [p.data_ptr() for p in all_parameters(pair.ours)] == addresses


def test_a_scheduler_is_told_of_steps_by_kernels():
    class Made:
        def run(self, optimizer):
            return True

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    made = Made()
    EarlyStep().take(made, optimizer)
    assert not hasattr(optimizer, torch_private.SCHEDULED)
    torch.optim.lr_scheduler.StepLR(optimizer, 2)
    EarlyStep().take(made, optimizer)
    assert getattr(optimizer, torch_private.SCHEDULED) is True
