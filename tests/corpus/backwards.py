"""Backward passes inside a function: from which losses, into which gradients, and what goes wrong after them."""

import warnings

import torch
from torch import nn
from torch.nn import functional

from . import program
from .training import batches, network


def parameters_of(model):
    return list(model.parameters())


@program()
def accumulated_over_calls():
    """Gradients are added to those that are there, also after a call that failed behind its backward pass."""
    model = network()

    def step(x, y, most):
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        if loss > most:
            raise ValueError("too large")
        return loss.detach()

    calls = [(x, y, 1e9) for x, y in batches(6)]

    def too_large(f):
        try:
            f(*batches(1)[0], 0.0)
        except ValueError as error:
            return str(error)

    return step, [*calls, too_large, *calls[:2]], parameters_of(model)


@program()
def zeroed_in_place():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = {}

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def same_tensors(f):
        result = f(*batches(1)[0])
        grads = [p.grad for p in model.parameters()]
        kept = [first.setdefault(i, g) is g for i, g in enumerate(grads)]
        return result, kept

    return step, [*batches(4), same_tensors, same_tensors, *batches(1), same_tensors], parameters_of(model)


@program()
def hooks_that_come_later():
    """A hook of a parameter is called with each gradient, and sees the state of the program at that time."""
    model = network()
    seen = []

    class Counter:
        calls = 0

    def step(x, y):
        Counter.calls += 1
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        Counter.calls += 10
        return loss.item()

    def with_hook(f):
        handle = model[0].weight.register_hook(lambda g: seen.append((Counter.calls, g.sum().item())))
        result = f(*batches(1)[0])
        handle.remove()
        return result, list(seen)

    def with_hook_afterwards(f):
        handle = model[2].bias.register_post_accumulate_grad_hook(
            lambda p: seen.append((Counter.calls, p.grad.sum().item()))
        )
        result = f(*batches(1)[0])
        handle.remove()
        return result, list(seen)

    calls = [*batches(4), with_hook, *batches(1), with_hook_afterwards, *batches(1)]
    return step, calls, parameters_of(model), Counter, seen


@program()
def twice_through_one_graph():
    model = network()

    def step(x, y, keep):
        hidden = model[1](model[0](x))
        loss = functional.mse_loss(model[2](hidden), y)
        loss.backward(retain_graph=True)
        (loss * 0.5).backward()
        return loss.item()

    return step, [(x, y, True) for x, y in batches(6)], parameters_of(model)


@program(graph=False)
def used_up():
    """A second pass through the same graph is an error, at each call, and the first one has left its gradients."""
    model = network()

    def step(x, y):
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            return str(error)[:60], loss.item()

    return step, batches(5), parameters_of(model)


@program()
def not_a_number():
    """Only a number has a gradient by itself."""
    model = network()

    def step(x, y):
        difference = model(x) - y
        difference.backward()
        return difference

    def caught(f):
        try:
            return f(*batches(1)[0])
        except RuntimeError as error:
            return str(error)

    one = [(torch.randn(1, 3), torch.randn(1, 1)) for _ in range(5)]
    return step, [*one, caught, *one[:2], caught], parameters_of(model)


@program()
def nothing_requires_it():
    model = network()

    def step(x, y):
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        return loss.item()

    def frozen(f):
        for p in model.parameters():
            p.requires_grad_(False)
        try:
            return f(*batches(1)[0])
        except RuntimeError as error:
            return str(error)
        finally:
            for p in model.parameters():
                p.requires_grad_(True)

    def half_frozen(f):
        model[0].weight.requires_grad_(False)
        result = f(*batches(1)[0])
        model[0].weight.requires_grad_(True)
        return result

    return step, [*batches(4), frozen, half_frozen, *batches(2)], parameters_of(model)


@program()
def of_inputs():
    """The gradients of what the function was given; of what it was given with a history, too."""

    def step(x, y):
        loss = ((x * y).sum() - x.square().sum()) * 2
        loss.backward()
        return loss.detach()

    def leaves():
        return torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)

    kept = [leaves() for _ in range(6)]

    def with_history(f):
        x, y = leaves()
        result = f(x.exp(), y)
        return result, x.grad, y.grad

    return step, [*kept, with_history, with_history, *kept[:2]], kept


@program()
def read_at_once():
    """What is read of the gradients after the pass is what it has left."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        before = model[0].weight.grad is None
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        total = sum(p.grad.abs().sum() for p in model.parameters())
        optimizer.step()
        return before, total

    return step, batches(6), parameters_of(model)


@program()
def two_losses_and_optimizers():
    maker, judge = nn.Linear(2, 3), network()
    of_maker = torch.optim.Adam(maker.parameters(), lr=0.01)
    of_judge = torch.optim.SGD(judge.parameters(), lr=0.1, momentum=0.5)

    def step(x, noise):
        of_judge.zero_grad()
        made = maker(noise)
        loss = judge(made.detach()).mean() - judge(x).mean()
        loss.backward()
        of_judge.step()
        of_maker.zero_grad()
        other = -judge(made).mean()
        other.backward()
        of_maker.step()
        return loss.item(), other.item()

    calls = [(torch.randn(4, 3), torch.randn(4, 2)) for _ in range(7)]
    return step, calls, parameters_of(maker) + parameters_of(judge), of_maker, of_judge


@program()
def once_in_a_while():
    """Gradients of several calls are added up, and used by every third."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class Counter:
        calls = 0

    def step(x, y):
        loss = functional.mse_loss(model(x), y) / 3
        loss.backward()
        Counter.calls += 1
        if Counter.calls % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return step, batches(14), parameters_of(model), Counter


@program()
def another_optimizer_later():
    model = network()

    class Training:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        Training.optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        Training.optimizer.step()
        return loss.item()

    def changed(f):
        Training.optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        return f(*batches(1)[0])

    def patched(f):
        calls = []
        Training.optimizer.zero_grad = lambda: calls.append(model[0].bias.grad is None)
        return f(*batches(1)[0]), calls

    return step, [*batches(5), changed, *batches(5), patched, *batches(2)], parameters_of(model)


@program()
def hooks_of_a_step():
    """What a hook of an optimizer sees was written before the step; what it writes is read after it."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class Trainer:
        def __init__(self):
            self.steps, self.seen, self.factor = 0, [], 1.0

        def step(self, x, y):
            self.steps += 1
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x), y) * self.factor
            loss.backward()
            self.steps += 10
            optimizer.step()
            self.steps += 100
            return loss.detach() * self.factor, self.steps

    trainer = Trainer()

    def hooked(f):
        def before(optimizer, args, kwargs):
            trainer.seen.append((trainer.steps, model[0].weight.grad.sum().item()))
            trainer.factor = 2.0

        def after(optimizer, args, kwargs):
            trainer.steps *= 2

        handles = [optimizer.register_step_pre_hook(before), optimizer.register_step_post_hook(after)]
        results = [f(*batches(1)[0]) for _ in range(3)]
        for handle in handles:
            handle.remove()
        return results

    return trainer.step, [*batches(5), hooked, *batches(3), hooked], parameters_of(model), trainer


@program()
def a_step_that_fails():
    """What a step does before it fails stays done, and the call ends with its error."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    class Counter:
        calls = after = 0

    def step(x, y):
        Counter.calls += 1
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        Counter.after += 1
        return loss.item()

    def broken(f):
        buffer = optimizer.state[model[2].weight]["momentum_buffer"]
        optimizer.state[model[2].weight]["momentum_buffer"] = torch.zeros(7)
        try:
            f(*batches(1)[0])
        except RuntimeError as error:
            return str(error)[:40]
        finally:
            optimizer.state[model[2].weight]["momentum_buffer"] = buffer

    return step, [*batches(5), broken, *batches(2), broken], parameters_of(model), optimizer, Counter


@program()
def steps_in_a_loop():
    """An epoch: the optimizer steps once for each batch, and now and then not at all."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def epoch(data, least):
        total = 0.0
        for x, y in data:
            loss = functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            if loss.item() > least:
                optimizer.step()
            total += loss.item()
        return total / len(data)

    return epoch, [(batches(3 + i % 3), 0.5 * (i % 2)) for i in range(7)], parameters_of(model), optimizer


@program()
def steps_of_a_model_that_is_read_again():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        before = functional.mse_loss(model(x), y)
        before.backward()
        optimizer.step()
        with torch.no_grad():
            after = functional.mse_loss(model(x), y)
        return (before - after).item(), model[0].weight.sum()

    return step, batches(6), parameters_of(model)


@program()
def sizes_in_containers():
    """Strides and shapes are read from the layers, and may be others later; a list that holds tensors may be, too."""

    class Picture(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2)
            self.last, self.scale = nn.LayerNorm([2, 2, 2]), [torch.ones(2, requires_grad=True)]

        def forward(self, x):
            places = torch.arange(x.size(-1), device=x.device)
            x = functional.max_pool2d(self.norm(self.conv(x + places)), 2)
            return self.last(x) * self.scale[0]

    model = Picture()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    def other_strides(f):
        model.conv.stride = [torch.tensor(2), 2]
        model.last = nn.LayerNorm([2, 1, 1])
        result = f(torch.randn(2, 1, 4, 4))
        model.conv.stride, model.last = (1, 1), nn.LayerNorm([2, 2, 2])
        return result

    def with_history(f):
        model.scale[0] = model.scale[0] * 2
        return f(torch.randn(2, 1, 4, 4))

    calls = [(torch.randn(2, 1, 4, 4),) for _ in range(4)]
    return step, [*calls, other_strides, *calls, with_history], parameters_of(model), model


@program()
def hooks_that_warn_of_a_line_further_out():
    """Between a hook and the line that called ``backward`` there are as many frames as in eager."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def warn(*args):
        for level in range(1, 7):
            warnings.warn(f"{level} frames out", stacklevel=level)

    def step(x, y):
        hidden = torch.tanh(model[0](x))
        hidden.register_hook(warn)
        loss = functional.mse_loss(model[2](hidden), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def with_hook_of_the_optimizer(f):
        handle = optimizer.register_step_pre_hook(warn)
        result = f(*batches(1)[0])
        handle.remove()
        return result

    return step, [*batches(5), with_hook_of_the_optimizer, *batches(1)], parameters_of(model)


@program()
def counted_behind_a_backward_pass():
    """What objects hold is read behind a backward pass: that has no say in where it leads."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    counts, held = [0], [torch.zeros(())]

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        counts[0] += 1
        held[counts[0] % len(held)] = loss.detach() + held[0]
        optimizer.step()
        return loss.item(), counts[0]

    def more(f):
        held.append(torch.ones((), requires_grad=True) * 2)
        return f(*batches(1)[0])

    return step, [*batches(5), more, *batches(3)], parameters_of(model), counts, held
