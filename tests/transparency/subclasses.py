"""Tensors of classes of their own, as arguments and inside of objects; tensors that carry something."""

import torch
from torch import nn

from . import ones, program


def plain(f):
    return f(torch.ones(3))


def among(*steps):
    """Four plain calls, then the steps, then a plain call again."""
    return [*[plain] * 4, *steps, plain]


class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs or {})
        if getattr(function, "__name__", "") == "relu":
            with torch._C.DisableTorchFunctionSubclass():
                return (result * 10).as_subclass(cls)
        return result


class Quiet(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


@program()
def subclasses_as_arguments():
    layer = nn.Linear(3, 3)

    def f(x):
        y = torch.relu(x) + layer(x)
        return y, type(y).__name__, isinstance(x, Loud)

    kinds = [torch.ones(3).as_subclass(Loud), torch.ones(3).as_subclass(Quiet), nn.Parameter(torch.ones(3))]
    kinds += [nn.Buffer(torch.ones(3)), nn.Parameter(torch.ones(3), requires_grad=False)]
    return f, [*ones(4), *((kind,) for kind in kinds), *ones(1)]


@program()
def subclasses_made_inside():
    def f(x):
        y = x * 2
        z = y.as_subclass(Loud)
        w = torch.relu(z)
        v = torch.Tensor.as_subclass(w, torch.Tensor)
        return type(z).__name__, isinstance(w, Loud), w, v, type(w + 1).__name__, type(z) is torch.Tensor

    return f, ones(5)


@program(graph=False)
def parameters_made_inside():
    def f(x):
        p = nn.Parameter(x * 2)
        q = p * 3
        return p, q, type(p).__name__, isinstance(p, nn.Parameter), isinstance(q, nn.Parameter), p.is_leaf, q.is_leaf

    return f, ones(5)


@program()
def subclasses_in_containers_and_attributes():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.items = {"a": torch.ones(3)}, [torch.ones(3)] * 3
            self.register_buffer("total", torch.ones(3))
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            y = x * self.table["a"] + self.total
            for item in self.items:
                y = y + torch.relu(item)
            return torch.relu(y * self.weight)

    model, loud = Model(), torch.ones(3).as_subclass(Loud)

    def change(action):
        def step(f):
            action()
            return plain(f)

        return step

    actions = [
        lambda: model.table.update(a=loud),
        lambda: model.table.update(a=torch.ones(3)),
        lambda: model.items.__setitem__(1, loud),
        lambda: model.items.__setitem__(1, torch.ones(3)),
        lambda: setattr(model, "total", loud),
        lambda: setattr(model, "total", torch.ones(3)),
        lambda: setattr(model, "weight", nn.Parameter(loud)),
    ]
    return model, among(*map(change, actions))


@program()
def lists_of_tensors_some_of_which_are_subclasses():
    def f(x, items):
        total = x
        for item in items:
            total = total + torch.relu(item)
        last = items[-1]
        return total, torch.is_tensor(last), torch.cat(items), type(last).__name__

    loud = torch.ones(3).as_subclass(Loud)
    plain_items = [torch.ones(3)] * 12
    return f, [
        *[(torch.ones(3), plain_items)] * 4,
        (torch.ones(3), [*plain_items[:11], loud]),
        (torch.ones(3), plain_items),
        (torch.ones(3), [loud, *plain_items]),
        (torch.ones(3), plain_items[:3]),
    ]


@program()
def tensor_attributes_and_overrides():
    def f(x):
        y = x.sin() + x.sum()
        return y * 2 if hasattr(x, "mark") else y

    def overridden(f):
        x = torch.ones(3)
        x.sum = lambda: 100.0
        return f(x)

    def marked(f):
        x = torch.ones(3)
        x.mark = True
        return f(x)

    return f, among(overridden, marked)


@program()
def tensor_marked_as_a_parameter():
    def f(x):
        return x * 2 if isinstance(x, nn.Parameter) else x * 3

    def marked(f):
        x = torch.ones(3)
        x._is_param = True
        return f(x)

    def parameter(f):
        return f(nn.Parameter(torch.ones(3)))

    return f, among(marked, parameter)


@program()
def questions_about_values_from_containers():
    def f(x, table, key):
        value = table[key]
        popped = [x, 3.0, x * 2].pop(1)
        return (
            x * 2,
            torch.is_tensor(value),
            torch.is_tensor(popped),
            isinstance(value, torch.Tensor),
            torch.is_tensor(x),
        )

    tables = {"t": torch.ones(3), "n": 1.0, "s": "text"}
    return f, [(torch.ones(3), tables, key) for key in "ttttnstn"]
