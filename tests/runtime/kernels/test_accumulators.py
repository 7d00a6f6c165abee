"""Hooks on the nodes where gradients of leaves add up: they are called as in eager mode, and no kernel is used."""

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
import traced
from torch.autograd.graph import get_gradient_edge

import janusc as janus
from janusc import torch_private

Hooks = torch_private.accumulators.AccumulatorHooks


def node_of(leaf):
    return get_gradient_edge(leaf).node


def register_behind(node, called):
    return node.register_hook(lambda *_: called.append("behind"))


def register_before(node, called):
    return node.register_prehook(lambda *_: called.append("before"))


REGISTER = (register_behind, register_before)


class Training:
    def __init__(self):
        torch.manual_seed(3)
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
        self.called = []

    def step(self, x, y):
        self.net.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        return loss


def a_batch():
    return torch.randn(4, 3), torch.randint(0, 2, (4,))


@pytest.mark.parametrize("register", REGISTER)
def test_hooks_are_called_as_in_eager_mode(register):
    eager, ours = Training(), Training()
    step = janus.compile(backend=traced.NAME, warmup=2)(ours.step)
    counts, removed = [], []
    for number in range(16):
        x, y = a_batch()
        expected, found = eager.step(x, y), step(x, y)  # both are there in the next round
        assert expected.item() == pytest.approx(found.item(), rel=1e-5)
        assert ours.called == eager.called
        counts.append(len(eager.called))
        if number == 7:
            nodes = [(training, node_of(training.net[0].weight)) for training in (eager, ours)]
            removed += [register(node, training.called) for training, node in nodes]
        if number == 11:
            for handle in removed:
                handle.remove()
    assert counts[7] == 0 and counts[-1] == counts[11] == 4
    assert "a kernel" in janus.explain(step)


@pytest.fixture
def leaves():
    return [torch.nn.Parameter(torch.randn(2)) for _ in range(3)]


def test_without_nodes_there_are_no_hooks_and_none_is_made(leaves):
    hooks = Hooks()
    assert not hooks.any(leaves)
    assert not hooks.any([])
    assert not hooks._tables


@pytest.mark.parametrize("register", REGISTER)
def test_hooks_are_found_when_they_come_late_and_forgotten_when_they_go(leaves, register):
    hooks, loss = Hooks(), sum(leaf.sum() for leaf in leaves)
    assert not hooks.any(leaves)
    handle = register(node_of(leaves[2]), [])
    assert hooks.any(leaves) and hooks.any(leaves[2:]) and not hooks.any(leaves[:2])
    assert hooks.any(leaves)
    handle.remove()
    assert not hooks.any(leaves)
    assert loss.requires_grad


def test_nodes_that_were_made_anew_are_asked_anew(leaves):
    hooks, loss = Hooks(), sum(leaf.sum() for leaf in leaves)
    assert not hooks.any(leaves)
    del loss
    kept = node_of(leaves[0])
    handle = kept.register_hook(lambda *_: None)
    assert hooks.any(leaves)
    handle.remove()
    assert not hooks.any(leaves)


def test_neither_leaves_nor_nodes_are_kept_alive(leaves):
    hooks, loss = Hooks(), sum(leaf.sum() for leaf in leaves)
    assert not hooks.any(leaves)
    gone = weakref.ref(leaves[0])
    del loss
    assert not any(torch_private.accumulators._count_uses(leaf) > 1 for leaf in leaves)
    leaves.clear()
    gc.collect()
    assert gone() is None
