"""Training: whole steps with loss, backward, clipping, optimizers and schedulers."""

import torch
from torch import nn
from torch.nn import functional

from . import program


def batches(count, size=4):
    return [(torch.randn(size, 3), torch.randn(size, 1)) for _ in range(count)]


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


@program(max_graphs=2)
def sgd_with_momentum():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, batches(5) + batches(1, size=2)


@program(max_graphs=2)
def adam():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    def slower(f):
        for group in optimizer.param_groups:
            group["lr"] *= 0.1
        return f(*batches(1)[0])

    return step, batches(4) + [slower] + batches(1)


@program()
def clipping_and_scheduler():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=4)

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.smooth_l1_loss(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        scheduler.step()
        return loss.item(), norm, scheduler.get_last_lr()

    return step, batches(6)


@program()
def gradient_accumulation():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = [0]

    def step(x, y):
        loss = functional.mse_loss(model(x), y) / 2
        loss.backward()
        seen[0] += 1
        if seen[0] % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return step, batches(7)


@program()
def forward_only_is_compiled():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(f):
        x, y = batches(1)[0]
        loss = functional.mse_loss(f(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    def evaluate(f):
        with torch.no_grad():
            return f(torch.ones(1, 3))

    return model, [train, train, train, evaluate, train, evaluate, train], optimizer


@program()
def evaluation_in_between():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.25), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def run(x, y, train):
        model.train(train)
        with torch.set_grad_enabled(train):
            logits = model(x)
            loss = functional.cross_entropy(logits, y)
        if train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item(), (logits.argmax(1) == y).float().mean()

    def args(train):
        return torch.randn(4, 3), torch.randint(0, 2, (4,)), train

    return run, [args(True), args(True), args(True), args(False), args(True), args(False)]


@program()
def under_autocast():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
            loss = functional.mse_loss(out.float(), y)
        loss.backward()
        optimizer.step()
        return loss.item(), out.dtype

    return step, batches(5)


@program()
def autocast_around_everything():
    """Statistics, sizes from objects and dropped gradients around and in a region, and a region in it."""
    first = nn.Linear(3, 4, bias=False)
    model = nn.Sequential(first, nn.BatchNorm1d(4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
            with torch.autocast("cpu", enabled=False):
                penalty = (first.weight @ first.weight.t()).square().mean()
            loss = functional.mse_loss(out, y) + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item(), out.detach()

    return step, batches(5)


@program()
def scaled_gradients():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item(), scaler.get_scale()

    x, y = batches(1)[0]
    return step, [*batches(4), (x * float("inf"), y), *batches(2)]


@program()
def forward_under_autocast_as_a_decorator():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 1)

        @torch.autocast("cpu", dtype=torch.bfloat16)
        def forward(self, x):
            return self.second(torch.relu(self.first(x)))

    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        out = model(x)
        loss = functional.mse_loss(out.float(), y)
        loss.backward()
        optimizer.step()
        return loss.item(), out.dtype, torch.is_autocast_enabled("cpu")

    return step, batches(5)


@program()
def a_manager_of_autocast_made_before():
    """It forgets what was set before it where it is entered while it is on."""
    model, casting = network(), torch.autocast("cpu", dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        with casting:
            out = model(x)
        loss = functional.mse_loss(out.float(), y)
        loss.backward()
        optimizer.step()
        return loss.item(), out.dtype, torch.is_autocast_enabled("cpu")

    def inside(manager):
        def call(f):
            with manager:
                found = f(*batches(1)[0])
            kept = torch.is_autocast_enabled("cpu")
            torch.set_autocast_enabled("cpu", False)
            return found, kept

        return call

    def other(f):
        casting.fast_dtype = torch.float16
        return f(*batches(1)[0])

    return step, [*batches(4), inside(casting), inside(torch.autocast("cpu")), *batches(1), other, *batches(1)]


@program(graph=False)
def a_manager_of_autocast_in_itself():
    casting = torch.autocast("cpu", dtype=torch.bfloat16)

    def f(x, w):
        with casting:
            y = x @ w
            with casting:
                z = y @ w
        kept = torch.is_autocast_enabled("cpu")
        torch.set_autocast_enabled("cpu", False)
        return y, z, kept

    def call(f):
        try:
            return f(torch.randn(3, 3), torch.randn(3, 3))
        finally:
            torch.set_autocast_enabled("cpu", False)

    return f, [call] * 5


@program()
def weights_cast_without_a_cache():
    weight = nn.Parameter(torch.randn(3, 3))

    def step(x, y, keeps):
        weight.grad = None
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=keeps):
            loss = ((x @ weight).relu() @ weight).float().square().sum()
        loss.backward()
        with torch.no_grad():
            weight.sub_(weight.grad, alpha=0.01)
        return loss.item()

    return step, [(x, y, keeps) for keeps in (True, False) for x, y in batches(4)]


@program()
def custom_loss_with_mask():
    class MaskedLoss(nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = weight
            self.seen = 0

        def forward(self, prediction, target):
            mask = target != 0
            self.seen += int(mask.sum())
            if not mask.any():
                return prediction.sum() * 0
            return self.weight * (prediction[mask] - target[mask]).abs().mean()

    model, criterion = network(), MaskedLoss(0.5)

    def step(x, y):
        model.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
        return float(loss)

    return step, [*batches(4), (torch.randn(4, 3), torch.zeros(4, 1)), *batches(1)]


@program()
def gradient_penalty():
    model = network()

    def step(x, y):
        x = x.clone().requires_grad_(True)
        out = model(x)
        (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = functional.mse_loss(out, y) + (grad.norm(dim=1) - 1).pow(2).mean()
        model.zero_grad()
        loss.backward()
        return loss.detach(), grad.detach()

    return step, batches(5)


@program()
def double_backward_through_the_result():
    weight = torch.randn(3, 3, requires_grad=True)

    def f(x):
        return torch.tanh(x @ weight).pow(3)

    def twice(f):
        x = torch.randn(2, 3, requires_grad=True)
        (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum(), [x, weight])

    return f, [twice] * 5


@program()
def two_optimizers():
    generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
    first = torch.optim.Adam(generator.parameters(), lr=0.01)
    second = torch.optim.SGD(critic.parameters(), lr=0.01)

    def step(real, k):
        for _ in range(k):
            second.zero_grad()
            fake = generator(torch.randn(2, 2)).detach()
            critic_loss = critic(fake).mean() - critic(real).mean()
            critic_loss.backward()
            second.step()
        first.zero_grad()
        loss = -critic(generator(torch.randn(2, 2))).mean()
        loss.backward()
        first.step()
        return {"generator": loss.item(), "critic": critic_loss.item()}

    return step, [(torch.randn(2, 3), k) for k in (1, 1, 1, 2, 1)]


@program()
def moving_average_of_weights():
    model, target = nn.Linear(3, 1), nn.Linear(3, 1)
    target.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y, rate=0.9):
        loss = functional.mse_loss(model(x), y + target(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(model.parameters(), target.parameters()):
                q.mul_(rate).add_(p, alpha=1 - rate)
        return loss.item()

    return step, [*batches(4), (*batches(1)[0], 0.5), *batches(1)]


@program()
def frozen_and_unfrozen():
    body, head = nn.Linear(3, 3), nn.Linear(3, 1)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = functional.mse_loss(head(body(x)), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def freeze(value):
        def go(f):
            body.requires_grad_(value)
            return f(*batches(1)[0])

        return go

    return step, [*batches(3), freeze(False), *batches(1), freeze(True)]


@program()
def sequence_model():
    table, cell, out = nn.Embedding(6, 3), nn.GRUCell(3, 4), nn.Linear(4, 6)
    parameters = [*table.parameters(), *cell.parameters(), *out.parameters()]
    optimizer = torch.optim.RMSprop(parameters, lr=0.01)

    def step(tokens):
        h = torch.zeros(tokens.shape[1], 4)
        losses = []
        for now, following in zip(tokens[:-1], tokens[1:]):
            h = cell(table(now), h)
            losses.append(functional.cross_entropy(out(h), following))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(parameters, 0.5)
        optimizer.step()
        return loss.item()

    return step, [(torch.randint(0, 6, (n, 2)),) for n in (4, 4, 4, 6, 3, 4)]
