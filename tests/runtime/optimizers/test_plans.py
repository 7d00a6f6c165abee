"""Plans from step to step: used where nothing has changed, of no weight otherwise, and gone with what they were of."""

import copy
import gc
import weakref

import pytest
import torch
from twins import FAMILIES, Twins, entered

from janusc.runtime.optimizers import plans


def parameters():
    return [torch.nn.Parameter(torch.randn(shape)) for shape in ((3, 2), (4,), ())]


def planned(cls=torch.optim.Adam, **options):
    made = Twins(parameters, lambda ps: cls(ps, lr=0.05, **options))
    step(made, 3)
    return made


def step(made, count=1):
    for _ in range(count):
        made.set_grads(lambda number, p: torch.randn_like(p))
        made.step()


def is_planned(made):
    return plans.recall(made.ours) is not None


@pytest.mark.parametrize("cls", FAMILIES)
def test_the_third_step_has_a_plan(cls):
    made = planned(cls)
    assert is_planned(made)
    step(made, 5)
    assert is_planned(made)


def first(optimizer):
    return optimizer.param_groups[0]["params"][0]


CHANGES = {
    "state loaded": lambda o: o.load_state_dict(copy.deepcopy(o.state_dict())),
    "state cleared": lambda o: o.state.clear(),
    "state of one parameter dropped": lambda o: o.state.pop(first(o)),
    "a mean replaced": lambda o: o.state[first(o)].update(exp_avg=torch.ones(3, 2)),
    "its contents replaced": lambda o: setattr(o.state[first(o)]["exp_avg"], "data", torch.ones(3, 2)),
    "two of the state exchanged": lambda o: o.state.update(
        {first(o): {k: o.state[first(o)][k] for k in ("step", "exp_avg_sq", "exp_avg")}}
    ),
    "names exchanged": lambda o: o.state.update(
        {first(o): dict(zip(("step", "exp_avg_sq", "exp_avg"), o.state[first(o)].values()))}
    ),
    "something more in the state": lambda o: o.state[first(o)].update(more=torch.ones(1)),
    "another parameter in the state": lambda o: o.state.update({torch.nn.Parameter(torch.ones(1)): {}}),
    "a parameter replaced": lambda o: o.param_groups[0]["params"].__setitem__(0, torch.nn.Parameter(torch.ones(3, 2))),
    "its data replaced": lambda o: setattr(first(o), "data", torch.ones(3, 2)),
    "parameters in another order": lambda o: o.param_groups[0]["params"].reverse(),
    "a parameter dropped": lambda o: o.param_groups[0]["params"].pop(),
    "a group added": lambda o: o.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]}),
    "a gradient dropped": lambda o: setattr(first(o), "grad", None),
    "no gradients": lambda o: [setattr(p, "grad", None) for p in o.param_groups[0]["params"]],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_has_changed_is_seen(change):
    made = planned()
    made.both(change)
    assert not is_planned(made)
    made.step()
    step(made, 4)


def test_rates_and_options_are_read_at_each_step():
    made = planned(weight_decay=0.1)
    for options in ({"lr": 0.01}, {"betas": (0.5, 0.6)}, {"weight_decay": 0}, {"maximize": True}, {"foreach": True}):
        made.both(lambda o, options=options: o.param_groups[0].update(options))
        assert is_planned(made)
        step(made, 2)


def test_a_plan_that_never_serves_is_not_made_again():
    made = planned()
    before = plans._plans[id(made.ours)]
    for _ in range(4):
        made.both(lambda o: setattr(first(o), "data", first(o).data.clone()))
        step(made)
    assert plans._plans[id(made.ours)] is not before
    assert not plans._plans[id(made.ours)].is_used


@pytest.mark.parametrize("drop", ["optimizer", "state"])
def test_a_plan_goes_with_what_it_is_of(drop):
    made = planned()
    key, gone = id(made.ours), [weakref.ref(made.ours), weakref.ref(first(made.ours))]
    held = made.ours if drop == "state" else None
    first(made.ours).register_hook(lambda grad, o=made.ours: grad)  # a cycle through the parameter
    if held is not None:
        held.state.clear()
    made.ours = None
    gc.collect()
    assert key not in plans._plans
    assert all((reference() is None) == (held is None) for reference in gone)


def test_another_optimizer_of_the_same_parameters_has_its_own():
    made = planned()
    other = torch.optim.Adam(made.ours.param_groups[0]["params"], lr=0.1)
    entered(other.step)()
    entered(other.step)()
    assert plans.recall(other) is not None
    assert is_planned(made)
