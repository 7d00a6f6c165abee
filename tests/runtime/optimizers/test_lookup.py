"""Who gets an equivalent, and who gets torch's own function: whatever could tell the difference gets the latter."""

import copy
import gc
import itertools
import pickle
import types
import weakref

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from twins import FAMILIES, Twins, bits, entered, is_equivalent, outcome, plain, seen

from janusc.fallback.callees import Callees
from janusc.options import Options
from janusc.runtime.optimizers.equivalents import EQUIVALENTS

FUNCTIONS = [*{cls.step for cls in FAMILIES}, torch.optim.Optimizer.zero_grad, nn.utils.clip_grad_norm_]


def parameters():
    return [torch.nn.Parameter(torch.randn(shape)) for shape in ((3, 2), (4,))]


def twins(cls=torch.optim.Adam, **options):
    made = Twins(parameters, lambda ps: cls(ps, lr=0.05, **options))
    made.set_grads(lambda number, p: torch.ones_like(p))
    for _ in range(3):  # the first makes the state, the second a plan
        made.step()
    return made


@pytest.mark.parametrize("cls", FAMILIES)
def test_the_step_of_each_class_has_an_equivalent(cls):
    made = twins(cls)
    assert entered(made.ours.step) is not made.ours.step
    assert is_equivalent(made.ours)
    assert callable(entered(made.ours.zero_grad))
    assert entered(made.ours.zero_grad) is not made.ours.zero_grad


def test_the_table_has_torchs_own_functions():
    assert len(EQUIVALENTS) >= len(FUNCTIONS)
    assert all(function.__code__.co_filename.startswith(torch.__path__[0]) for function in EQUIVALENTS)


def test_host_ranges_look_there():
    def convert(*args, **kwargs):
        raise AssertionError("nothing is to be converted")

    made = twins()
    callees = Callees(Options(), convert)
    assert callees.enter(made.ours.step) is not made.ours.step
    assert callees.enter(made.ours.state_dict) == made.ours.state_dict


def test_most_callees_are_what_they_are():
    state_dict = twins().ours.state_dict
    for callee in (print, len, torch.relu, torch.optim.Adam, lambda: 1, [].append, state_dict):
        assert entered(callee) is callee


class Odd(torch.nn.Parameter):
    pass


SEEN = {
    "a hook before": lambda o, log: o.register_step_pre_hook(lambda *args: log.append(1)),
    "a hook after": lambda o, log: o.register_step_post_hook(lambda *args: log.append(1)),
    "grad_scale": lambda o, log: setattr(o, "grad_scale", None),
    "found_inf": lambda o, log: setattr(o, "found_inf", None),
    "a method of its own": lambda o, log: setattr(o, "_init_group", o._init_group),
    "foreach": lambda o, log: o.param_groups[0].update(foreach=True),
    "fused": lambda o, log: o.param_groups[0].update(fused=True),
    "differentiable": lambda o, log: o.defaults.update(differentiable=True),
    "a subclass": lambda o, log: setattr(o, "__class__", type("Mine", (type(o),), {})),
    "a parameter of a subclass": lambda o, log: setattr(o.param_groups[0]["params"][0], "__class__", Odd),
    "parameters in a tuple": lambda o, log: o.param_groups[0].update(params=tuple(o.param_groups[0]["params"])),
}


@pytest.mark.parametrize("change", SEEN.values(), ids=SEEN)
def test_what_could_tell_gets_torchs_own(change):
    made = twins()
    logs = [], []
    assert is_equivalent(made.ours)
    change(made.plain, logs[0])
    change(made.ours, logs[1])
    if type(made.ours) in FAMILIES:
        assert not is_equivalent(made.ours)
    for _ in range(2):
        made.step()
    assert logs[0] == logs[1]


@pytest.mark.parametrize("register", [register_optimizer_step_pre_hook, register_optimizer_step_post_hook])
def test_hooks_on_all_optimizers(register):
    made, log = twins(), []
    handle = register(lambda *args: log.append(type(args[0])))
    try:
        made.step(expect=False)
    finally:
        handle.remove()
    assert log == [torch.optim.Adam] * 2
    made.step(expect=True)


def test_a_step_that_was_replaced(monkeypatch):
    made = twins()
    made.ours.step = types.MethodType(lambda self: "mine", made.ours)
    assert entered(made.ours.step)() == "mine"
    del made.ours.step
    original = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: original(self) or "patched")
    assert entered(made.ours.step)() == "patched"
    monkeypatch.setattr(torch.optim.Adam, "step", torch.no_grad()(original))
    assert entered(made.ours.step) == made.ours.step


def test_a_closure_is_called():
    made = twins()

    def closure():
        return torch.tensor(3.0)

    assert torch.equal(made.plain.step(closure), entered(made.ours.step)(closure))
    assert torch.equal(made.plain.step(closure=closure), entered(made.ours.step)(closure=closure))
    made.compare()
    for wrong in ([1, 2], [closure, None]):
        assert outcome(lambda w=wrong: made.plain.step(*w)) == outcome(lambda w=wrong: entered(made.ours.step)(*w))


def test_a_profiler_sees_the_step():
    made = twins()
    with torch.profiler.profile() as profile:
        assert not is_equivalent(made.ours)
        entered(made.ours.step)()
        entered(made.ours.zero_grad)()
    names = {event.name for event in profile.events()}
    assert {"Optimizer.step#Adam.step", "Optimizer.zero_grad#Adam.zero_grad"} <= names


def test_modes_see_each_call():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append(func)
            return func(*args, **(kwargs or {}))

    class Dispatches(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(func)
            return func(*args, **(kwargs or {}))

    for mode in (Functions, Dispatches):
        made, found = twins(), []
        for step in (made.plain.step, entered(made.ours.step)):
            calls = []
            with mode():
                step()
            found.append(calls)
        assert found[0] == found[1]
        made.compare()


@pytest.mark.parametrize("guard", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_grad_modes_stay_as_they_are(guard):
    made = twins()
    with guard():
        before = torch.is_grad_enabled()
        made.step(expect=guard is not torch.inference_mode)
        assert torch.is_grad_enabled() is before
    made.step(expect=True)


def test_a_scheduler_counts_steps():
    made = twins()
    schedulers = [torch.optim.lr_scheduler.StepLR(o, 2, gamma=0.5) for o in (made.plain, made.ours)]
    for _ in range(5):
        made.set_grads(lambda number, p: torch.randn_like(p))
        assert not any("_opt_called" in vars(o) for o in (made.plain, made.ours)) or made.ours._opt_called
        assert entered(made.ours.step) is not made.ours.step
        made.step(expect=True)
        for scheduler in schedulers:
            scheduler.step()
        made.compare()
    assert made.plain.param_groups[0]["lr"] < 0.05
    made.ours.register_step_pre_hook(lambda *args: (_ for _ in ()).throw(KeyError("hooked")))
    with pytest.raises(KeyError, match="hooked"):
        entered(made.ours.step)()


def test_nothing_is_kept_alive():
    optimizer = torch.optim.Adam(parameters())
    for _ in range(3):
        for p in optimizer.param_groups[0]["params"]:
            p.grad = torch.ones_like(p)
        entered(optimizer.step)()
        entered(optimizer.zero_grad)()
    gone = [weakref.ref(p) for p in optimizer.param_groups[0]["params"]]
    gone += [weakref.ref(t) for state in optimizer.state.values() for t in state.values()]
    del optimizer, p
    gc.collect()
    assert not [reference for reference in gone if reference() is not None]


def test_copies_and_pickles_are_as_ever():
    made = twins()
    for _ in range(3):
        made.step(expect=True)
    loaded = [pickle.loads(pickle.dumps(optimizer)) for optimizer in (made.plain, made.ours)]
    assert plain(loaded[0].state_dict()) == plain(loaded[1].state_dict())
    assert plain(copy.deepcopy(made.ours).state_dict()) == plain(copy.deepcopy(made.plain).state_dict())


GRADS = {
    "none": lambda p: None,
    "plain": torch.ones_like,
    "with a history": lambda p: torch.ones_like(p).requires_grad_() * 2,
    "requires one": lambda p: torch.ones_like(p).requires_grad_(),
    "sparse": lambda p: torch.ones_like(p).to_sparse(),
    "expanded": lambda p: torch.ones(()).expand(p.shape),
}
ARGUMENTS = {
    "default": ((), {}),
    "to none": ((True,), {}),
    "to zero": ((False,), {}),
    "to zero by name": ((), {"set_to_none": False}),
    "truthy": ((1,), {}),
    "falsy": ((0,), {}),
    "unknown": ((), {"set_to_nothing": True}),
    "too many": ((True, False), {}),
    "twice": ((True,), {"set_to_none": True}),
}


@pytest.mark.parametrize(("args", "kwargs"), ARGUMENTS.values(), ids=ARGUMENTS)
@pytest.mark.parametrize("grad", GRADS.values(), ids=GRADS)
def test_gradients_dropped_or_zeroed(grad, args, kwargs):
    made = Twins(parameters, lambda ps: torch.optim.SGD(ps, lr=0.1))
    kept = []
    for p in itertools.chain(*made.parameters()):
        p.grad = grad(p)
        kept.append(p.grad)
    results = [outcome(lambda f=f: f(*args, **kwargs)) for f in (made.plain.zero_grad, entered(made.ours.zero_grad))]
    assert results[0] == results[1]
    assert seen(made.plain)[:2] == seen(made.ours)[:2]
    if kept[0] is not None:
        pairs = zip(kept[::2], kept[1::2])
        assert all(
            bits(a) == bits(b) and a.requires_grad == b.requires_grad and a._version == b._version for a, b in pairs
        )
        assert all((a.grad_fn is None) == (b.grad_fn is None) for a, b in zip(kept[::2], kept[1::2]))


def test_the_gradient_of_a_parameter_that_is_no_leaf_gives_its_warning():
    made = Twins(parameters, lambda ps: torch.optim.SGD(ps, lr=0.1))
    found = []
    for optimizer in (made.plain, made.ours):
        weight = torch.nn.Parameter(torch.ones(2))
        buffer = torch.zeros(2)
        optimizer.add_param_group({"params": [buffer]})
        buffer.add_(weight)
        with pytest.warns(UserWarning, match="not a leaf") as caught:
            entered(optimizer.zero_grad)() if optimizer is made.ours else optimizer.zero_grad()
        found.append([(w.filename, w.lineno) for w in caught])
    assert found[0] == found[1]


@pytest.mark.parametrize("cls", FAMILIES)
def test_defaults_of_torch_only_matter_for_what_is_made(cls):
    made = twins(cls)
    with torch.device("meta"):
        made.step(expect=True)
    torch.set_default_dtype(torch.float64)
    try:
        made.step(expect=True)
        made.both(lambda o: o.state.clear())
        made.step()
        made.step()
    finally:
        torch.set_default_dtype(torch.float32)
