"""Values whose kind differs from path to path, from call to call and from step to step."""

import torch
from torch import nn

from . import program

SIGNS = (1.0, 2.0, -1.0, 3.0, -2.0, 0.0, 4.0, -3.0)


def signs():
    return [(torch.tensor([s, 1.0]),) for s in SIGNS]


@program(max_graphs=2)
def none_or_tensor_on_each_path():
    def f(x):
        if x.sum() > 1.5:
            extra = x * 2
        else:
            extra = None
        y = x + 1
        if extra is not None:
            y = y + extra.sum()
        return y, extra is None

    return f, signs()


@program(max_graphs=2)
def number_or_tensor_on_each_path():
    def f(x):
        scale = x.abs().mean() if x[0] > 0 else 2
        if isinstance(scale, torch.Tensor):
            scale = scale.clamp(max=3.0)
        return x * scale, type(scale) is int if not isinstance(scale, torch.Tensor) else scale.dim()

    return f, signs()


@program(max_graphs=2)
def methods_of_several_kinds():
    def f(x):
        held = [x, x + 1] if x[0] > 0 else (x,)
        count = held.count(3) if len(held) > 5 else len(held)
        state = x.tolist() if x[0] > 1 else x
        total = state.sum() if isinstance(state, torch.Tensor) else sum(state)
        return total, count

    return f, signs()


@program(max_graphs=2)
def a_module_for_each_path():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.deep = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Tanh())
            self.shallow = nn.Tanh()

        def forward(self, x):
            block = self.deep if x[0] > 0 else self.shallow
            y = block(x)
            if y.sum() > 0:
                block = self.shallow
            return block(y), block is self.shallow

    return Gate(), signs()[:6]


@program(max_graphs=2)
def a_state_that_begins_as_none():
    cell = nn.GRUCell(2, 2)

    def f(x):
        state = None
        best = None
        for step in range(int(x.abs().sum())):
            state = cell(x.unsqueeze(0) * step, state)
            if best is None or state.sum() > best.sum():
                best = state
        return state, 0 if best is None else best.mean()

    return f, signs()[:4], cell


@program(max_graphs=2)
def a_total_that_becomes_a_tensor():
    def f(x):
        total = 0
        for value in x.tolist():
            if value > 0:
                total = total + x * value
        return total.mean() if isinstance(total, torch.Tensor) else total

    return f, signs()


@program(max_graphs=2)
def a_test_that_always_passed_tells_the_kind():
    def f(x):
        y = None
        if x.sum() > 0:
            y = x * 2
        if y is None:
            return x.mean()
        return y.mean() + y.shape[0]

    return f, signs()


@program(max_graphs=2)
def arguments_of_many_kinds():
    def f(x, hint=None):
        y = x * 2
        if hint is None:
            return y
        if isinstance(hint, (list, tuple)):
            return y + sum(hint)
        if isinstance(hint, torch.Tensor):
            return y + hint.mean()
        return y * hint

    x = torch.ones(2)
    hints = (None, x, 2, 3.0, [1, 2], None, (x, x), 4, x + 1, None, [3, x])
    return f, [(x, hint) for hint in hints]


@program(max_graphs=2)
def an_attribute_of_many_kinds():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.memory = None

        def forward(self, x, keep):
            y = x if self.memory is None else x + self.memory
            self.memory = None if keep == 0 else y if keep == 1 else float(keep)
            return y.mean()

    return Holder(), [(torch.ones(2) * i, i % 3) for i in range(10)]


@program(max_graphs=2)
def duck_typed_arguments():
    def f(x, y):
        z = x * y + 1
        return z.sum() if isinstance(z, torch.Tensor) else z

    t = torch.ones(2)
    return f, [(t, 2), (t, t), (t, 2.5), (3, t), (2, 3), (t, True), (1.5, 2), (t, t)] * 2


@program(max_graphs=2)
def a_list_given_to_one_of_two_modules():
    class Noting(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x, seen):
            seen.append(self.factor)
            return x * self.factor

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(Noting(i) for i in range(3))

        def forward(self, x):
            seen = []
            part = self.parts[0] if x[0] > 0 else self.parts[1]
            x = part(x, seen)
            return self.parts[int(x.abs().sum()) % 3](x, seen), seen

    return Gate(), signs()


@program(max_graphs=1)
def parts_picked_by_name():
    class Picking(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Tanh()})

        def forward(self, x, names):
            for name in names:
                x = self.parts[name](x)
            return x

    return Picking(), [(torch.ones(2), names) for names in (["a"], ["a", "b"], ["b"], ["b", "a", "a"], [], ["a", "c"])]
