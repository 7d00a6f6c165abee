"""Functions whose history goes on, eagerly and with kernels, and what is asked of both."""

import torch
from torch.autograd.function import BackwardCFunction
from traced import compiled

import janusc as janus


def is_linked(tensor):
    return isinstance(tensor.grad_fn, BackwardCFunction)


def tensors(seed=0, **shapes):
    """Leaves, whose names in capitals want no gradient."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name.lower(): torch.randn(shape, generator=generator).requires_grad_(name.islower())
        for name, shape in shapes.items()
    }


def warmed(f, backend="traced", **shapes):
    """The function compiled, with a kernel for such arguments."""
    made = compiled(f, backend=backend)
    for seed in range(1, 4):
        made(**tensors(seed, **shapes))
    return made


def outcome(act, f, given):
    """What comes of an act: results and all gradients, or the error, before which eager may have found some."""
    try:
        result = act(f, given)
    except RuntimeError as error:
        return str(error)[:60]
    return result, {name: None if x.grad is None else x.grad.detach().clone() for name, x in given.items()}


def assert_same(found, wanted, where="", **tolerances):
    """Values are equal, and tensors in them but for rounding."""
    assert type(found) is type(wanted), where
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(found, wanted, equal_nan=True, msg=lambda text: f"{where}: {text}", **tolerances)
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted), where
        for index, pair in enumerate(zip(found, wanted)):
            assert_same(*pair, f"{where}[{index}]", **tolerances)
    elif isinstance(wanted, dict):
        assert_same(list(found.items()), list(wanted.items()), where, **tolerances)
    else:
        assert found == wanted, where


def assert_like_eager(f, act, backend="traced", used=True, **shapes):
    """An act with a function and its arguments comes to the same with kernels."""
    made = warmed(f, backend, **shapes)
    passed = []
    wanted = outcome(act, f, tensors(**shapes))

    def watched(*args, **kwargs):
        result = made(*args, **kwargs)
        passed.extend(x for x in (result if isinstance(result, tuple) else (result,)) if is_linked(x))
        return result

    found = outcome(act, watched, tensors(**shapes))
    assert bool(passed) is used, janus.explain(made)
    passed.clear()
    assert_same(found, wanted)


def two_layers(x, v, w):
    return (x @ v).tanh() @ w


LAYERS = {"x": (5, 3), "v": (3, 4), "w": (4, 2)}


def back(f, given):
    f(**given).pow(2).sum().backward()
