"""Gradients clipped without torch's own Python: the same bits, results, warnings and errors."""

import warnings

import pytest
import torch
from torch import nn
from twins import bits, entered, outcome

SHAPES = [(3, 4), (5,), (), (0,), (2, 2)]
NORM, VALUE = nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_


def parameters(dtype=torch.float32, spoil=None):
    torch.manual_seed(3)
    made = [nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in SHAPES]
    for number, p in enumerate(made):
        p.grad = torch.randn_like(p) * 10 if number != 1 else None
    if spoil:
        spoil(made)
    return made


def run(clip, make, arguments):
    """What a call gives, warns of, and leaves behind."""
    made = make()
    args, kwargs = arguments(made)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind, value = outcome(lambda: clip(*args, **kwargs))
    value = (bits(value), value.requires_grad, value._version) if isinstance(value, torch.Tensor) else value
    grads = [None if p.grad is None else (bits(p.grad), p.grad._version) for p in made if type(p) is nn.Parameter]
    said = [(str(w.message), w.category, w.filename == __file__) for w in caught]
    return kind, value, grads, said, torch.is_grad_enabled()


ARGUMENTS = {
    "a list": lambda ps: ((ps, 1.0), {}),
    "a generator": lambda ps: (((p for p in ps), 1.0), {}),
    "by name": lambda ps: ((), {"parameters": ps, "max_norm": 2}),
    "one tensor": lambda ps: ((ps[0], 1.0), {}),
    "nothing": lambda ps: (([], 1.0), {}),
    "an empty generator": lambda ps: (((p for p in ()), 1.0), {}),
    "without gradients": lambda ps: (([ps[1]], 1.0), {}),
    "a large limit": lambda ps: ((ps, 1e6), {}),
    "another norm": lambda ps: ((ps, 1.0, 1), {}),
    "the largest": lambda ps: ((ps, 1.0), {"norm_type": float("inf")}),
    "an error where not finite": lambda ps: ((ps, 1.0), {"error_if_nonfinite": True}),
    "without foreach": lambda ps: ((ps, 1.0), {"foreach": False}),
    "a limit that is a tensor": lambda ps: ((ps, torch.tensor(1.0)), {}),
    "a limit that is text": lambda ps: ((ps, "much"), {}),
    "not a limit": lambda ps: ((ps, float("nan")), {}),
    "no limit": lambda ps: ((ps,), {}),
    "no parameters": lambda ps: ((), {"max_norm": 1.0}),
    "an unknown argument": lambda ps: ((ps, 1.0), {"how": 1}),
    "given twice": lambda ps: ((ps, 1.0), {"parameters": ps}),
    "not a tensor": lambda ps: (([*ps, 3], 1.0), {}),
    "twice the same": lambda ps: (([ps[0], ps[0], ps[4]], 1.0), {}),
    "a generator that raises": lambda ps: (((p.spoilt if p is ps[2] else p for p in ps), 1.0), {}),
}
SPOILT = {
    "plain": None,
    "not finite": lambda ps: ps[0].grad.fill_(float("inf")),
    "none": lambda ps: [setattr(p, "grad", None) for p in ps],
    "sparse": lambda ps: setattr(ps[0], "grad", torch.eye(3, 4).to_sparse()),
    "expanded": lambda ps: setattr(ps[0], "grad", torch.ones(()).expand(3, 4)),
    "a parameter": lambda ps: setattr(ps[0], "grad", nn.Parameter(torch.ones(3, 4))),
    "with a history": lambda ps: setattr(ps[0], "grad", torch.ones(3, 4, requires_grad=True) * 2),
    "the same twice": lambda ps: setattr(ps[4], "grad", ps[0].grad[:2, :2]),
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_norms(arguments, spoil):
    def make():
        return parameters(spoil=spoil)

    assert run(NORM, make, arguments) == run(entered(NORM), make, arguments)


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_values(arguments, spoil):
    def given(ps):
        args, kwargs = arguments(ps)
        return args, {{"max_norm": "clip_value"}.get(name, name): value for name, value in kwargs.items()}

    def make():
        return parameters(spoil=spoil)

    assert run(VALUE, make, given) == run(entered(VALUE), make, given)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.complex64])
def test_dtypes(dtype):
    for clip in (NORM, VALUE):
        expected, found = (run(c, lambda: parameters(dtype), ARGUMENTS["a list"]) for c in (clip, entered(clip)))
        assert expected == found


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_two_dtypes(dtypes):
    def make():
        return [p for dtype in dtypes for p in parameters(dtype)]

    assert run(NORM, make, ARGUMENTS["a list"]) == run(entered(NORM), make, ARGUMENTS["a list"])


def test_the_generator_runs_without_gradients_and_once():
    for clip in (NORM, VALUE):
        seen = []

        def listed(ps, seen=seen):
            for p in ps:
                seen.append(torch.is_grad_enabled())
                yield p

        entered(clip)(listed(parameters()), 1.0)
        assert seen == [False] * len(SHAPES)
        assert torch.is_grad_enabled()


def test_all_is_clipped_by_the_equivalent(monkeypatch):
    monkeypatch.setattr(nn.utils.clip_grad, "_get_total_norm", None)
    made = parameters()
    entered(NORM)(made, 1.0)
    with pytest.raises(TypeError):
        NORM(made, 1.0)
