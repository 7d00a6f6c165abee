"""Whole training steps with each kind of optimizer, and what is done to optimizers between the steps."""

import copy

import torch
from torch import nn
from torch.nn import functional

from . import program
from .training import batches, network


def trained(model, optimizer):
    """A whole step; the state of the optimizer is compared, too."""

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, batches(6), optimizer


@program(max_graphs=2)
def plain_sgd():
    model = network()
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.1))


@program(max_graphs=2)
def nesterov():
    model = network()
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.01))


@program(max_graphs=2)
def dampened_and_maximized():
    model = network()
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.8, dampening=0.5, maximize=True))


@program(max_graphs=2)
def adam_with_decay():
    model = network()
    return trained(model, torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1, amsgrad=True))


@program(max_graphs=2)
def adamw():
    model = network()
    return trained(model, torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.8, 0.95)))


@program(max_graphs=2)
def rmsprop():
    model = network()
    return trained(model, torch.optim.RMSprop(model.parameters(), lr=0.01, momentum=0.5, centered=True))


@program(max_graphs=2)
def adagrad():
    model = network()
    return trained(model, torch.optim.Adagrad(model.parameters(), lr=0.1, lr_decay=0.01))


@program(max_graphs=2)
def groups_of_parameters():
    model = network()
    groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters(), "weight_decay": 0.1}]
    return trained(model, torch.optim.AdamW(groups, lr=0.01))


@program(max_graphs=2)
def clipped_and_scheduled():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=20)

    def step(x, y):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        nn.utils.clip_grad_value_(model.parameters(), 0.05)
        optimizer.step()
        scheduler.step()
        return loss.item(), norm, scheduler.get_last_lr()

    return step, batches(7), optimizer, scheduler


@program()
def accumulated():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    calls = [0]

    def step(x, y):
        calls[0] += 1
        loss = functional.mse_loss(model(x), y) / 2
        loss.backward()
        if calls[0] % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return step, batches(9), optimizer


@program(max_graphs=2)
def generator_and_discriminator():
    maker, judge = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    makers = torch.optim.Adam(maker.parameters(), lr=0.05, betas=(0.5, 0.9))
    judges = torch.optim.SGD(judge.parameters(), lr=0.1, momentum=0.5)
    true, false = torch.ones(4, 1), torch.zeros(4, 1)

    def step(noise, real):
        fake = maker(noise)
        judges.zero_grad()
        judged = functional.binary_cross_entropy_with_logits(judge(real), true)
        judged = judged + functional.binary_cross_entropy_with_logits(judge(fake.detach()), false)
        judged.backward()
        judges.step()
        makers.zero_grad()
        made = functional.binary_cross_entropy_with_logits(judge(fake), true)
        made.backward()
        makers.step()
        return judged.item(), made.item()

    return step, [(torch.randn(4, 2), torch.randn(4, 3)) for _ in range(6)], makers, judges


@program()
def groups_added_late():
    model, more = network(), nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x) + more(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def thaw(f):
        optimizer.add_param_group({"params": more.parameters(), "lr": 0.01})
        return f(*batches(1)[0])

    return step, [*batches(5), thaw, *batches(3)], optimizer


@program(max_graphs=2)
def loaded_in_the_middle():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    kept = {}

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def save(f):
        kept.update(copy.deepcopy(optimizer.state_dict()))
        return f(*batches(1)[0])

    def load(f):
        optimizer.load_state_dict(kept)
        return f(*batches(1)[0])

    return step, [*batches(4), save, *batches(2), load, *batches(2), load], optimizer


@program(max_graphs=2)
def watched_by_hooks_now_and_then():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen = []

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def watched(f):
        handle = optimizer.register_step_post_hook(lambda *args: seen.append(len(args)))
        result = f(*batches(1)[0])
        handle.remove()
        return result

    return step, [*batches(5), watched, *batches(1), watched, *batches(1)], optimizer, seen


@program()
def an_error_in_the_step():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    def spoilt(f):
        optimizer.state[model[2].weight]["exp_avg"] = torch.ones(2, 2)
        return f(*batches(1)[0])

    return step, [*batches(5), spoilt, *batches(1)], optimizer


class Trainer:
    """Training in methods that call each other, as frameworks have it."""

    def __init__(self):
        self.model = network()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3)
        self.steps = 0

    def loss(self, x, y):
        return functional.mse_loss(self.model(x), y)

    def optimize(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        self.advance()

    def advance(self):
        self.optimizer.step()
        self.scheduler.step()
        self.steps += 1

    def step(self, x, y):
        loss = self.loss(x, y)
        self.optimize(loss)
        return loss.item(), self.steps


@program()
def methods_that_only_optimize():
    trainer = Trainer()
    return trainer.step, batches(9), trainer


@program()
def an_update_that_takes_an_optimizer():
    model = network()
    fast, slow = (cls(model.parameters(), lr=0.05) for cls in (torch.optim.SGD, torch.optim.Adam))

    def update(optimizer, loss, to_none=True):
        optimizer.zero_grad(set_to_none=to_none)
        loss.backward()
        optimizer.step()
        return optimizer.param_groups[0]["lr"]

    def step(x, y, number):
        loss = functional.mse_loss(model(x), y)
        return update(fast if number % 2 else slow, loss, number % 3 == 0), loss.detach()

    return step, [(*batches(1)[0], number) for number in range(10)], fast, slow


@program()
def a_step_inside_of_a_function_that_is_called():
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    train, *_ = trained(model, optimizer)

    def step(x, y):
        loss = train(x, y)
        scheduler.step()
        return loss, scheduler.get_last_lr()

    return step, batches(7), optimizer, scheduler


@program()
def clipped_and_taken_back():
    """What fails behind a clipping leaves gradients as they were, also those that no backward pass has found."""
    model, other = network(), network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for parameter in other.parameters():
        parameter.grad = torch.randn_like(parameter)

    def step(x, y, most):
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_([*model.parameters(), *other.parameters()], max_norm=0.5)
        nn.utils.clip_grad_value_(model[0].weight, 0.01)
        if norm > most:
            raise ValueError("too large")
        optimizer.step()
        return loss.item(), norm

    def too_large(f):
        try:
            f(*batches(1)[0], 0.0)
        except ValueError as error:
            return str(error)

    calls = [(x, y, 1e9) for x, y in batches(4)]
    return (
        step,
        [*calls, too_large, *calls[:2], too_large, *calls[2:]],
        list(model.parameters()),
        list(other.parameters()),
    )


@program()
def clipped_by_what_a_name_means():
    """A name for one way of clipping becomes one for the other; clipping finds what is not finite."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))

    class Way:
        clip, options = nn.utils.clip_grad_norm_, {}

    def step(x, y):
        clip = Way.clip
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        clip(model.parameters(), 0.01, **Way.options)
        optimizer.step()
        scheduler.step()
        return loss.item()

    def by_value(f):
        Way.clip = nn.utils.clip_grad_value_
        results = [f(*batches(1)[0]) for _ in range(4)]
        Way.clip = nn.utils.clip_grad_norm_
        return results

    def not_finite(f):
        Way.options = {"error_if_nonfinite": True}
        results = [f(*batches(1)[0]) for _ in range(3)]
        try:
            f(batches(1)[0][0] * float("inf"), batches(1)[0][1])
        except RuntimeError as error:
            return results, str(error)[:30]

    def own_step(f):
        taken = []
        optimizer.step = lambda: taken.append(model[0].weight.grad.sum().item())
        return f(*batches(1)[0]), taken

    return step, [*batches(4), by_value, *batches(2), not_finite, own_step], list(model.parameters()), scheduler
