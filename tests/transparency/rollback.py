"""Programs that fail, or go another way, late in the call, after changing everything they can reach.

In each, ``late`` makes a tensor operation of the graph raise: what the call did before it must be undone once, and done
once by the eager run that follows.
"""

import torch
import torch.nn.functional as F
from torch import nn

from . import program


def late(count):
    """Nothing much; raises inside torch for zero."""
    return torch.ones(count).max()


def runs(function, arguments, *state):
    """Calls that succeed, that fail and that succeed again; the arguments are made anew for each and compared."""

    def good(f):
        given = arguments()
        return f(*given, 1), given

    def bad(f):
        given = arguments()
        try:
            return f(*given, 0), given
        except RuntimeError as error:
            return type(error).__name__, given

    return function, [good, good, good, good, bad, good, bad, bad, good], *state


def numbers():
    return (torch.arange(4.0),)


@program()
def views_changed_in_place():
    def f(x, count):
        first, second = x.chunk(2)
        first.add_(1)
        second.squeeze().mul_(3)
        x.unbind()[0].add_(1)
        x.split(1)[count].add_(1)
        for part in x.tensor_split(3):
            part.add_(7)
        torch.broadcast_tensors(x, x)[0].sub_(1)
        torch.einsum("i->i", x).add_(1)
        x.unfold(0, 2, 2).mul_(2)
        x.view(2, 2).diagonal().add_(1)
        x.as_strided((2,), (2,)).add_(1)
        x.detach().add_(2)
        x.data.add_(3)
        return x * late(count)

    return runs(f, numbers)


@program()
def what_may_or_may_not_be_a_view():
    def f(x, shape, count):
        x.reshape(shape).add_(1)
        x.contiguous().mul_(2)
        x.to(torch.float32).sub_(1)
        x.flatten()[0] = 7
        x.float().add_(1)
        F.dropout(x, 0.5, training=False).add_(1)
        F.pad(x, (0, 0)).add_(1)
        torch.atleast_1d(x)[0] += 4
        x.expand(2, *x.shape)[0].add_(1)
        return x.sum() * late(count)

    makers = [lambda: torch.ones(2, 3), lambda: torch.ones(3, 2).T, lambda: torch.ones(2, 3, dtype=torch.float64)]
    turn = iter(range(1000))
    return runs(f, lambda: (makers[next(turn) % 3](), (6,)))


@program()
def items_set_in_place():
    def f(x, i, mask, count):
        x[i] = 5
        x[mask] = 6
        x[..., 0] += 1
        x[[0, 1]] *= 2
        x[torch.tensor([0])] = 3
        x.index_fill_(0, torch.tensor([1]), 8.0)
        x.masked_fill_(mask, 3.0)
        x.scatter_(0, torch.tensor([0]), 1.0)
        x.copy_(x.flip(0))
        torch.add(x, 1, out=x)
        F.relu(x, inplace=True)
        return x.sum() * late(count)

    return runs(f, lambda: (torch.arange(4.0), 1, torch.tensor([True, False, False, True])))


@program()
def tensors_that_a_loop_swaps():
    def f(a, n, count):
        kept, other = torch.zeros(3), a
        for _ in range(n):
            kept, other = other, kept
            kept.add_(1)
        chosen = torch.zeros(3) if a.sum() > 100 else a
        chosen.add_(5)
        return (kept + other) * late(count)

    return runs(f, lambda: (torch.ones(3), 3))


@program()
def containers_of_tensors():
    def f(tensors, table, count):
        for i, tensor in enumerate(tensors):
            tensor.mul_(2)
            tensor[0] = i
        for key, tensor in table.items():
            tensor.add_(len(key))
            table[key] = tensor * 2
        return sum(tensors) * late(count) + table["a"]

    one = torch.tensor([1.0, 2.0])

    def arguments():
        shared = one.clone()
        return [one + i for i in range(10)] + [shared, shared], {"a": one.clone(), "bb": one + 1}

    return runs(f, arguments)


@program()
def nested_containers():
    class State:
        pass

    state = State()
    state.inner = [1.0]
    state.outer = [state.inner, {"q": state.inner}]

    def f(x, count):
        state.outer[0].append(2.0)
        state.outer[1]["q"][0] += 1
        state.outer[1]["n"] = count
        state.outer.append(x)
        y = x * len(state.inner) + state.inner[0]
        state.outer[1]["q"] = [9]
        state.inner = state.outer[1]["q"]
        state.inner.append(3)
        result = y * late(count)
        state.outer.pop()
        state.inner = state.outer[0]
        state.outer[1]["q"] = state.inner
        return result + len(state.inner)

    return runs(f, numbers, state)


@program()
def methods_of_containers():
    items, table, members = [3, 1, 2], {"a": 1, "b": 2}, {1, 2}

    def f(x, count):
        items.append(count)
        items.extend([4, 5])
        items.insert(0, 9)
        taken = items.pop() + items.pop(0)
        items.reverse()
        items[0] = 7
        table.update(e=5)
        table.update({"f": 6})
        taken += table.pop("a") + table.pop("zz", 8) + table.setdefault("h", 9)
        members.add(count + 2)
        members.discard(1)
        y = x * len(items) + taken + sum(items) + len(table) + sum(members)
        result = y * late(count)
        items[:] = [3, 1, 2]
        table.clear()
        table.update(a=1, b=2)
        return result

    return runs(f, numbers, items, table, members)


@program()
def buffers_and_attributes():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(3))
            self.register_buffer("b", None)
            self.norm = nn.BatchNorm1d(3, momentum=None)
            self.plain, self.steps = torch.zeros(3), 0

        def forward(self, x, count):
            self.a += 1
            self.a[0] = 5
            self.b = self.a * 2
            y = self.norm(x)
            self.plain = self.plain + 1
            self.plain.add_(1)
            self.steps += 1
            self.b.add_(1)
            self.a = self.b
            result = y * late(count)
            self.b = None
            self.new = result.detach()
            return result + self.a

    return runs(Model(), lambda: (torch.randn(4, 3),))


@program()
def gradients_and_versions():
    weight, held = torch.ones(3, requires_grad=True), torch.ones(3)

    def f(x, count):
        y = (weight * x).sum()
        held.add_(1)
        factor = late(count)
        y.backward()
        with torch.no_grad():
            weight.sub_(weight.grad, alpha=0.1)
            weight.grad.mul_(2)
        return weight.detach() * factor, held.clone()

    return runs(f, lambda: (torch.ones(3),), weight, held)


@program()
def random_numbers():
    held = torch.zeros(3)

    def f(x, count):
        held.uniform_()
        x.normal_()
        y = F.dropout(x, 0.5) + torch.rand(4)
        torch.randn(3, out=held)
        return y * late(count) + torch.randperm(4)

    return runs(f, numbers, held)


@program()
def printed_and_written_once():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0
            self.log = []

        def forward(self, x, count):
            self.steps += 1
            self.log.append(self.steps)
            print("before", self.steps, self.log)
            try:
                y = x * late(count)
                self.log.append("worked")
            finally:
                self.log.append("always")
                print("after")
            return y

    return runs(Model(), numbers)


@program()
def warnings_are_given_once():
    def f(x, count):
        y = x.T if x.ndim == 2 else x
        return y * late(count)

    return runs(f, lambda: (torch.ones(2, 2),))
