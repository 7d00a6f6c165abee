"""State kept and given back; forced failures."""

import collections
import contextlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sketch import Record, Sketch, emitted, run_once, single

from janusc.lowering.ir import Tup
from janusc.runtime import transaction as t
from janusc.runtime.recovery import recover
from janusc.runtime.transaction import SAVES, Deopt, force_abort, rollback, save_set
from janusc.sentinels import MISS, UNBOUND


def undone(target, value, change):
    """The value after it was saved, changed and rolled back."""
    undo = []
    SAVES[target](undo, value)
    change(value)
    rollback(undo)
    assert not undo
    return value


CHANGES = [
    ("list", [1, 2, 3], lambda x: (x.reverse(), x.append(4), x.pop(0))),
    ("list", [1, 2, 3], lambda x: x.clear()),
    ("list.append", [1, 2], lambda x: x.extend([3, 4])),
    ("dict", {"a": 1, "b": 2}, lambda x: (x.pop("a"), x.update(a=3, c=4))),
    ("dict", collections.OrderedDict(a=1, b=2), lambda x: (x.move_to_end("a"), x.pop("b"))),
    ("dict", collections.defaultdict(list, a=[1]), lambda x: x["b"]),
    ("set", {1, 2, 3}, lambda x: (x.discard(1), x.add(7))),
]


@pytest.mark.parametrize("target, value, change", CHANGES)
def test_containers_get_their_content_back(target, value, change):
    before = repr(value)
    assert repr(undone(target, value, change)) == before


def history(steps):
    """A set that came about in these steps: a member is put in, or taken out again where it is there."""
    made = set()
    for step in steps:
        made ^= {step}
    return made


@given(st.lists(st.integers(0, 60), max_size=40), st.lists(st.integers(0, 60), max_size=8))
def test_sets_get_their_order_back_or_are_left_to_eager(steps, changes):
    value, twin = history(steps), history(steps)
    undo = []
    try:
        save_set(undo, value)
    except Deopt:
        return
    for change in changes:
        value ^= {change}
    rollback(undo)
    assert list(value) == list(twin)
    value.add(61), twin.add(61)
    assert list(value) == list(twin)


def test_the_order_of_most_sets_can_be_made_again():
    kept = 0
    for size in range(100):
        with contextlib.suppress(Deopt):
            save_set([], {(7 * k) % 101 for k in range(size)})
            kept += 1
    assert kept > 60


def test_containers_are_restored_behind_the_back_of_their_class():
    class Counting(list):
        def __setitem__(self, key, value):
            raise AssertionError("not to be called")

    assert undone("list", Counting([1]), lambda x: x.append(2)) == [1]


def test_a_module_dict_is_an_ordinary_dict():
    layer = torch.nn.Linear(1, 1)
    names = list(layer._parameters)
    undone("dict", layer._parameters, lambda x: x.pop("weight"))
    assert list(layer._parameters) == names and [n for n, _ in layer.named_parameters()] == names


TENSOR_CHANGES = [
    lambda x: x.add_(1),
    lambda x: x.t_().mul_(0),
    lambda x: x[:, 0].zero_(),
    lambda x: x.copy_(torch.full_like(x, float("nan"))),
    lambda x: x.unsqueeze_(0),
]


@pytest.mark.parametrize("change", TENSOR_CHANGES)
@pytest.mark.parametrize(
    "make", [lambda: torch.arange(6.0).view(2, 3), lambda: torch.arange(12.0).view(3, 4)[1:, ::2].t()]
)
def test_tensors_get_their_elements_back(make, change):
    x = make()
    before = x.clone()
    whole = torch.as_strided(x, x.shape, x.stride(), x.storage_offset())
    undone("tensor", x, change)
    assert torch.equal(whole, before)


def test_a_leaf_that_wants_gradients_is_restored_without_history():
    leaf = torch.ones(3, requires_grad=True)

    def change(x):
        with torch.no_grad():
            x.mul_(5)

    undone("tensor", leaf, change)
    assert leaf.tolist() == [1.0] * 3 and leaf.grad_fn is None and leaf.is_leaf and leaf.requires_grad


def test_a_failed_write_to_an_expanded_tensor_can_be_rolled_back():
    base = torch.zeros(1)
    undone("tensor", base.expand(3), lambda x: base.add_(1))
    assert base.item() == 0.0


def test_a_sparse_tensor_is_not_changed_in_a_graph():
    undo = []
    with pytest.raises(t.Deopt):
        SAVES["tensor"](undo, torch.ones(2, 2).to_sparse())
    assert not undo


def test_an_inference_tensor_is_restored():
    with torch.inference_mode():
        x = torch.zeros(2)
        undo = []
        SAVES["tensor"](undo, x)
        x.add_(1)
    rollback(undo)
    assert x.tolist() == [0.0, 0.0]


def test_the_last_change_is_undone_first_and_an_error_stops_nothing():
    order = []

    def fail():
        raise OSError("broken")

    undo = [(order.append, (1,)), (fail, ()), (order.append, (2,))]
    with pytest.raises(OSError, match="broken"):
        rollback(undo)
    assert order == [2, 1]


# ---- slots -------------------------------------------------------------------------------------------------------


class Plain:
    shared = 1


class Slotted:
    __slots__ = ("x", "y")


def slot_undone(save, change, *slot):
    undo = []
    save(undo, *slot)
    change()
    rollback(undo)


def test_attributes_of_objects_and_classes():
    plain, slotted = Plain(), Slotted()
    plain.x = slotted.x = 1
    for owner, name in (
        (plain, "x"),
        (plain, "new"),
        (plain, "shared"),
        (slotted, "x"),
        (slotted, "y"),
        (Plain, "shared"),
    ):
        had = getattr(owner, name, UNBOUND)
        slot_undone(t.save_attr, lambda owner=owner, name=name: setattr(owner, name, 5), owner, name)
        assert getattr(owner, name, UNBOUND) is had
    assert vars(plain) == {"x": 1}
    slot_undone(t.save_attr, lambda: setattr(Plain, "added", 5), Plain, "added")
    assert not hasattr(Plain, "added")


def test_attributes_of_a_module_stay_in_their_table():
    module = torch.nn.Linear(2, 2)
    module.register_buffer("seen", torch.zeros(1))
    weight, seen, keys = module.weight, module.seen, list(module.state_dict())
    slot_undone(t.save_attr, lambda: setattr(module, "weight", torch.nn.Parameter(torch.ones(1))), module, "weight")
    slot_undone(t.save_attr, lambda: setattr(module, "seen", torch.ones(1)), module, "seen")
    slot_undone(t.save_attr, lambda: setattr(module, "sub", torch.nn.ReLU()), module, "sub")
    slot_undone(t.save_attr, lambda: setattr(module, "note", 1), module, "note")
    assert module.weight is weight and module.seen is seen and list(module.state_dict()) == keys
    assert not list(module.children()) and not hasattr(module, "note")


def test_items_and_cells():
    items, table = [1, 2], {"a": 1}
    slot_undone(t.save_item, lambda: items.__setitem__(-1, 9), items, -1)
    slot_undone(t.save_item, lambda: table.update(a=9), table, "a")
    slot_undone(t.save_item, lambda: table.update(b=9), table, "b")
    assert items == [1, 2] and table == {"a": 1}

    def outer():
        if items is None:
            empty = 1
        full = 1
        return lambda: (empty, full)

    empty, full = outer().__closure__
    for cell in (empty, full):
        slot_undone(t.save_cell, lambda cell=cell: setattr(cell, "cell_contents", 9), cell)
    assert full.cell_contents == 1
    with pytest.raises(ValueError):
        empty.cell_contents  # noqa: B018


# ---- recovery ----------------------------------------------------------------------------------------------------


def test_recovery_tells_the_listener_with_the_trace_and_then_lets_go():
    traces = []

    class Listener:
        def observed(self, function):
            return function

        def failed(self, site, error, twin_succeeded):
            traces.append((site, error.__traceback__ is not None, twin_succeeded))

    try:
        raise t.Deopt("here")
    except t.Deopt as caught:
        error = caught
    assert recover(Listener(), error, [], lambda a, b: (a, b), (1,), {"b": 2}) == (1, 2)
    assert traces == [("here", True, True)] and error.__traceback__ is None


def test_the_same_exception_object_may_come_again():
    mine = ValueError("mine")

    def build(body, fail):
        return body("method", "__call__", fail)

    def fail():
        raise mine

    listener = Record()
    with pytest.raises(ValueError, match="mine") as caught:
        run_once(build, fail, twin=lambda fail: fail(), listener=listener)
    assert caught.value is mine and caught.value.__context__ is None
    names = [entry.name for entry in caught.traceback]
    assert names.count("fail") == 1 and listener.failures == [(None, ValueError, False)]


def test_writes_before_a_failure_are_undone():
    def build(body, items, table, members, x):
        for target, value in (("list.append", items), ("dict", table), ("set", members), ("tensor", x)):
            body("save", target, value, out=())
        body("method.write", "append", items, 1, out=())
        body("operator.write", "setitem", table, "k", 1, out=())
        body("method.write", "add", members, 1, out=())
        body("method.write", "mul_", x, 3, out=())
        body.check("true", False)
        return "graph"

    state = ([], {}, set(), torch.ones(2))
    result = run_once(build, *state, twin=lambda *live: [str(v) for v in live])
    assert result == ["[]", "{}", "set()", "tensor([1., 1.])"]


# ---- forced failures ---------------------------------------------------------------------------------------------


def checked(x, y):
    return "eager"


def checked_executable(listener=None):
    def guard(guards, function, x, y):
        guards.check("true", x)
        guards.check("true", y)

    def build(body, function, x, y):
        body.check("true", x, site="first")
        body.check("true", y, site="second")
        return "graph"

    return emitted(checked, single(checked, build, guard), listener=listener, abort_hooks=True)


def test_each_check_can_be_made_to_fail_once():
    listener = Record()
    run = checked_executable(listener).run
    outcomes = []
    for number in range(5):
        with force_abort(number) as forced:
            outcomes.append((run(checked, 1, 1), forced.fired))
            assert run(checked, 1, 1) == "graph"
    assert outcomes == [(MISS, True), (MISS, True), ("eager", True), ("eager", True), ("graph", False)]
    assert [site for site, _, _ in listener.failures] == ["first", "second"]
    assert run(checked, 1, 1) == "graph" and run(checked, 0, 1) is MISS


def test_checks_of_an_inner_run_are_counted_apart():
    inner = checked_executable().run

    def outer(call):
        return "outer eager"

    def build(body, function, call):
        result = body("method", "__call__", call)
        body.check("true", True)
        return result

    run = emitted(outer, single(outer, build), abort_hooks=True).run
    with force_abort(3) as forced:
        assert run(outer, lambda: inner(checked, 1, 1)) == "eager" and forced.fired
    with force_abort(0) as forced:
        assert run(outer, lambda: 5) == "outer eager" and forced.fired


def test_code_without_hooks_is_left_alone():
    def build(body, x):
        body.check("true", x)
        return Tup((x,))

    with force_abort(0) as forced:
        assert run_once(build, 1) == (1,)
    assert not forced.fired


def test_marks_survive_a_copy():
    import copy
    import pickle

    assert copy.deepcopy(MISS) is MISS and pickle.loads(pickle.dumps(UNBOUND)) is UNBOUND
    assert Sketch and repr(MISS) == "MISS"
