"""Blocks with several outputs: each has its place in the history, and one may be changed before another is passed."""

import pytest
import torch
from linked_cases import assert_like_eager, is_linked, tensors, warmed
from torch import nn
from torch.nn import functional
from traced import SEEN, compiled

import janusc as janus

SHAPES = {"x": (5, 3), "v": (3, 4), "w": (4, 2), "u": (4, 1)}

# ---- an output that others are computed from


def features(x, v, w, u):
    h = (x @ v).tanh()
    return (h @ w).tanh() * 2, h


def features_behind_others(x, v, w, u):
    z = x @ v
    h = z.tanh() * 2
    return ((h + z) @ w).tanh() + h.mean(), h, (h @ u).tanh() * 2


def add(made, h):
    return sum(y.square().sum() for y in made if y is not h) + (h.tanh() * 3).sum()


def reversed_by_a_hook(f, given):
    made = f(**given)
    made[1].register_hook(lambda g: -g)
    add(made, made[1]).backward()


def seen_by_a_hook(f, given):
    made, seen = f(**given), []
    made[1].register_hook(lambda g: seen.append(g.clone()))
    made[0].sum().backward()
    return seen


def kept_by_itself(f, given):
    made = f(**given)
    made[1].retain_grad()
    add(made, made[1]).backward()
    return made[1].grad


def asked_for(f, given):
    made = f(**given)
    (g,) = torch.autograd.grad(made[0].sum(), made[1], retain_graph=True)
    (made[1] * g).sum().backward()
    return g


def penalised(f, given):
    made = f(**given)
    (g,) = torch.autograd.grad(made[0].square().sum(), made[1], create_graph=True)
    (g.norm(dim=-1) - 1).square().mean().backward()
    return g


@pytest.mark.parametrize("act", [reversed_by_a_hook, seen_by_a_hook, kept_by_itself, asked_for, penalised])
@pytest.mark.parametrize("f", [features, features_behind_others])
def test_an_output_has_all_that_is_computed_from_it(f, act):
    assert_like_eager(f, act, **SHAPES)


def test_an_output_has_all_that_is_computed_from_it_on_compiled_kernels():
    assert_like_eager(features, reversed_by_a_hook, backend="inductor", **SHAPES)


def test_a_block_is_split_behind_such_an_output_alone():
    SEEN.clear()
    warmed(features, **SHAPES)
    assert len(SEEN) == 4  # two kernels of each
    SEEN.clear()
    warmed(lambda x, v, w, u: ((x @ v).tanh() * 2, (x @ v).argmax(1), x @ v @ w, (x @ v).detach() + 1), **SHAPES)
    assert len(SEEN) == 2


def test_in_a_region_there_is_no_kernel_for_it():
    def f(x, v, w, u):
        with torch.autocast("cpu", torch.bfloat16):
            h = (x @ v).tanh()
            return (h @ w).tanh() * 2, h

    assert_like_eager(f, seen_by_a_hook, used=False, **SHAPES)
    assert "an output is part of the history of another" in str(janus.explain(warmed(f, **SHAPES)))


# ---- changes between passes


def heads(x, v, w, u):
    h = (x @ v).tanh()
    return (h @ w).tanh() * 2, (h @ u).exp() + 1


def apart(x, v, w, u):
    return (x @ v).tanh(), ((x * 2) @ v).sigmoid()


def changing(name, first=0, retain=True):
    """An output is passed, then something is changed, then the other is passed, and again the first."""

    def act(f, given):
        made = f(**given)
        made[first].sum().backward(retain_graph=retain)
        with torch.no_grad():
            (given[name] if name in given else made[int(name)]).mul_(2)
        try:
            made[1 - first].sum().backward(retain_graph=retain)
            made[first].sum().backward()
        except RuntimeError as error:
            message = str(error) if retain else "changed or freed: either may be met first"
            raise RuntimeError(message) from None

    return act


@pytest.mark.parametrize("retain", [True, False])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("name", ["x", "v", "w", "u", "0", "1"])
@pytest.mark.parametrize("f", [heads, apart])
def test_a_change_is_missed_by_the_passes_that_need_it(f, name, first, retain):
    assert_like_eager(f, changing(name, first, retain), **SHAPES)


@pytest.mark.parametrize("backend", ["traced", "inductor"])
def test_two_models_of_one_block_learn_in_turns(backend):
    def train(decorate):
        torch.manual_seed(0)
        actor, critic = (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, n)) for n in (2, 1))
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (actor, critic)]
        both = decorate(lambda x: (actor(x), critic(x)))
        for _ in range(8):
            policy, value = outputs = both(torch.randn(5, 3))
            for optimizer, loss in zip(
                optimizers, (functional.log_softmax(policy, 1)[:, 0].mean(), value.square().mean())
            ):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return [*actor.parameters(), *critic.parameters()], outputs

    (wanted, _), (found, outputs) = train(lambda f: f), train(lambda f: compiled(f, backend=backend))
    assert all(map(is_linked, outputs))
    torch.testing.assert_close(found, wanted)


def test_a_history_that_was_kept_leads_past_what_has_learned():
    def train(decorate):
        torch.manual_seed(0)
        maker, judge = (nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, n)) for n in (4, 1))
        ours, theirs = (torch.optim.SGD(model.parameters(), lr=0.1) for model in (maker, judge))

        def step(x, z):
            fakes = maker(z)
            first = judge(x).square().mean() + judge(fakes).exp().mean()
            theirs.zero_grad()
            first.backward(retain_graph=True)
            theirs.step()
            ours.zero_grad()
            second = judge(fakes).square().mean()
            second.backward()
            ours.step()
            return first.detach(), second.detach()

        step = decorate(step)
        losses = [step(torch.randn(5, 4), torch.randn(5, 4)) for _ in range(6)]
        return [*maker.parameters(), *judge.parameters()], losses

    torch.testing.assert_close(train(compiled), train(lambda f: f))


def test_what_is_kept_goes_with_the_last_pass_that_needs_it():
    made = warmed(heads, **SHAPES)
    given = tensors(**SHAPES)
    first, second = made(**given)
    node = first.grad_fn
    first.sum().backward(retain_graph=True)
    second.sum().backward(retain_graph=True)
    assert node.left
    first.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        second.sum().backward()
    assert not hasattr(node, "left") or node.freed
