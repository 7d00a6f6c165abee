"""Copies of compiled modules, in every way that copies are made, and subclasses of compiled classes."""

import copy
import io
import pickle
import threading

import pytest
import torch
from torch import nn

import janusc as janus


def compiled(target, **options):
    return janus.compile(target, **{"backend": "aten", "warmup": 1, **options})


class Counting(nn.Module):
    """Its result tells whose state was used, and its state who was called."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(2, 2), 0
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.seen += x.shape[0]
        return self.layer(x) * self.calls


@compiled
class Class(Counting):
    def forward(self, x):
        return super().forward(x) + 1


class Reducing(Counting):
    """It has ways of its own for its state."""

    def __getstate__(self):
        return {**super().__getstate__(), "calls": 100}


class Whole(Counting):
    """It gives its dictionary away as it is."""

    def __reduce__(self):
        return Whole, (), self.__dict__


class Deep(Counting):
    def __deepcopy__(self, memo):
        twin = Deep()
        twin.load_state_dict(self.state_dict())
        twin.calls = self.calls + 1000
        return twin


def saved(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def pickled(protocol):
    return lambda module: pickle.loads(pickle.dumps(module, protocol))


WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "deepcopy inside": lambda module: copy.deepcopy(nn.Sequential(module))[0],
    "copy of a deepcopy": lambda module: copy.copy(copy.deepcopy(module)),
    "deepcopy of a deepcopy": lambda module: copy.deepcopy(copy.deepcopy(module)),
    "deepcopy of a copy": lambda module: copy.deepcopy(copy.copy(module)),
    "torch.save": saved,
    **{f"pickle {protocol}": pickled(protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)},
}
KINDS = {
    "instance": lambda: compiled(Counting()),
    "instance of a compiled class": Class,
    "instance with a state of its own": lambda: compiled(Reducing()),
    "instance with a deep copy of its own": lambda: compiled(Deep()),
    "compiled twice": lambda: compiled(compiled(Counting(), warmup=3)),
}


def plain(module):
    """The same module as if nothing was compiled, with its state."""
    with janus.eager():
        twin = type(module)()
        twin.load_state_dict(module.state_dict())
        twin.calls = module.calls
    return twin


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_a_module_of_its_own(kind, way):
    torch.manual_seed(0)
    module, x = KINDS[kind](), torch.ones(3, 2)
    for _ in range(4):
        module(x)
    original = plain(module)
    twin, expected = WAYS[way](module), WAYS[way](original)
    assert type(twin) is type(module)
    assert list(twin.state_dict()) == list(module.state_dict())
    before = twin.calls
    assert before == expected.calls
    for _ in range(4):
        with janus.eager():
            result = expected(x)
        assert torch.equal(twin(x), result)
    assert (twin.calls, module.calls) == (before + 4, 4)
    assert torch.equal(twin.seen, expected.seen) and torch.equal(module.seen, original.seen)
    assert twin.forward.__self__ is twin and module.forward.__self__ is module
    with janus.eager():
        result = original(x)
    assert torch.equal(module(x), result)


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_has_the_entries_of_a_plain_one(way):
    twin = WAYS[way](compiled(Counting()))
    if "deepcopy" not in way or way == "copy of a deepcopy" or way == "deepcopy of a copy":
        assert vars(twin).keys() == vars(Counting()).keys()
    else:
        assert janus.stats(twin) == janus.stats(compiled(Counting()))  # it is compiled, as the original


def test_a_deep_copy_shares_the_graphs():
    module, x = compiled(Counting()), torch.ones(3, 2)
    for _ in range(4):
        module(x)
    before = janus.stats(module)
    twin = copy.deepcopy(module)
    twin(x)
    after = janus.stats(twin)
    assert (after.graph_calls, after.conversions) == (before.graph_calls + 1, before.conversions)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_module_that_gives_its_dictionary_away_can_be_pickled(protocol):
    module, x = compiled(Whole()), torch.ones(3, 2)
    for _ in range(4):
        module(x)
    twin = pickle.loads(pickle.dumps(module, protocol))
    for _ in range(3):
        twin(x)
    assert (twin.calls, module.calls) == (7, 4)


def test_a_forward_of_the_instances_own_stays_as_it_is():
    def other(self, x):
        return x * 5 + self.calls

    modules = []
    for wrap in (lambda module: module, compiled):
        module = Counting()
        module.forward = other.__get__(module)
        modules.append(wrap(module))
    x = torch.ones(3, 2)
    for way in (copy.copy, copy.deepcopy):
        eager, twin = map(way, modules)
        eager.calls = twin.calls = 7
        for _ in range(4):
            assert torch.equal(eager(x), twin(x))
    module = compiled(Counting())
    module.forward = other.__get__(module)  # after it was compiled
    assert torch.equal(copy.copy(module)(x), x * 5)
    del module.forward
    assert copy.deepcopy(module)(x).shape == module(x).shape == (3, 2)


def replicas(module, count):
    """What data parallelism makes of a module for several devices."""
    made = []
    for _ in range(count):
        replica = module._replicate_for_data_parallel()
        for name, child in module._modules.items():
            setattr(replica, name, child._replicate_for_data_parallel())
            for key, parameter in child._parameters.items():
                setattr(getattr(replica, name), key, parameter * 1)
        made.append(replica)
    return made


@pytest.mark.parametrize("make", [lambda: compiled(Counting()), Class], ids=["instance", "class"])
def test_replicas_for_data_parallelism(make):
    module, x = make(), torch.ones(3, 2)
    for _ in range(4):
        module(x)
    original, calls = plain(module), module.calls
    for _ in range(4):
        results = {}

        def run(replica, number, results=results):
            results[number] = replica(x)

        made = replicas(module, 3)
        threads = [threading.Thread(target=run, args=(replica, n)) for n, replica in enumerate(made)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with janus.eager():
            expected = replicas(original, 1)[0](x)
        assert all(torch.equal(results[n], expected) for n in range(3))
        assert [replica.calls for replica in made] == [calls + 1] * 3 and module.calls == calls
        loss = sum(result.sum() for result in results.values())
        module.layer.weight.grad = None
        loss.backward()
        assert module.layer.weight.grad is not None
        module.seen.fill_(original.seen)
    assert all(replica.forward.__self__ is replica for replica in made)


# ---- classes


class Deriving(Class):
    def forward(self, x):
        return super().forward(x) * 2


@compiled
class Again(Class):
    def forward(self, x):
        return super().forward(x) * 3


class Inheriting(Class):
    pass


@pytest.mark.parametrize("cls, factor", [(Deriving, 2), (Again, 3), (Inheriting, 1)])
def test_a_subclass_of_a_compiled_class(cls, factor):
    module, base = cls(), Counting()
    base.load_state_dict(module.state_dict())
    for n in range(6):
        x = torch.ones(1 + n % 2, 2)
        assert torch.equal(module(x), (base(x) + 1) * factor)
    assert module.calls == base.calls == 6
    assert isinstance(module, Class) and issubclass(cls, Counting)
    assert [c.__name__ for c in cls.__mro__[:3]] == [cls.__name__, "Class", "Counting"]
    assert janus.stats(cls if cls is Again else Class).graph_calls > 0


def test_bound_methods_of_many_instances_share_their_graphs():
    modules = [Counting() for _ in range(20)]
    functions = [compiled(module.forward, max_variants=7) for module in modules]
    for n in range(1, 4):
        for function, module in zip(functions, modules):
            assert torch.equal(function(torch.ones(1, 2)), module.layer(torch.ones(1, 2)) * n)
    assert [module.calls for module in modules] == [3] * 20
    stats = janus.stats(functions[0])
    assert (stats.calls, stats.graphs, stats.conversions) == (60, 1, 1)
    assert janus.stats(functions[7]) == stats
