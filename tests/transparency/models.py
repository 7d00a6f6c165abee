"""Programs as users write them: generation with caches, trees, graphs, replay buffers, samplers, optimizers by hand."""

import collections
import copy
import dataclasses
import math
import random
import typing

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from . import program


def randn(count, *shape):
    return [(torch.randn(shape),) for _ in range(count)]


@program()
def autoencoder_with_annealing():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(6, 4), nn.Linear(2, 6)
            self.beta, self.last = 0.5, {}

        def sample(self, mean, log):
            return mean + torch.randn_like(mean) * (0.5 * log).exp() if self.training else mean

        def forward(self, x):
            hidden = self.encoder(x)
            mean, log = hidden[:, :2], hidden[:, 2:].clamp(-3, 3)
            made = torch.sigmoid(self.decoder(self.sample(mean, log)))
            kl = -0.5 * (1 + log - mean.pow(2) - log.exp()).sum(1).mean()
            self.last = {"kl": kl.item()}
            self.beta = min(1.0, self.beta + 0.1)
            return made, F.binary_cross_entropy(made, x.sigmoid()) + self.beta * kl

    model = Model()

    def train(f):
        model.zero_grad()
        _, loss = f(torch.randn(5, 6))
        loss.backward()
        return loss.detach()

    def evaluate(f):
        model.eval()
        result = f(torch.randn(3, 6))
        model.train()
        return result

    return model, [*randn(3, 5, 6), train, train, evaluate, train, *randn(2, 7, 6)]


@program()
def translation_with_teacher_forcing():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.encoder = nn.Embedding(7, 4), nn.GRU(4, 4)
            self.cell, self.out = nn.GRUCell(8, 4), nn.Linear(4, 7)

        def forward(self, source, target=None, limit=4, forcing=0.5):
            states, last = self.encoder(self.embed(source))
            state, token, outputs = last[0], torch.zeros(source.shape[1], dtype=torch.long), []
            for t in range(limit if target is None else len(target)):
                weights = torch.softmax(torch.einsum("tbh,bh->tb", states, state), 0)
                context = (weights.unsqueeze(-1) * states).sum(0)
                state = self.cell(torch.cat([self.embed(token), context], -1), state)
                outputs.append(self.out(state))
                if target is not None and random.random() < forcing:
                    token = target[t]
                else:
                    token = outputs[-1].argmax(-1)
                if target is None and (token == 3).all():
                    break
            return torch.stack(outputs), token

    def tokens(length, batch):
        return torch.randint(0, 7, (length, batch))

    later = [
        (tokens(4, 3),),
        (tokens(2, 1), None, 6),
        (tokens(3, 2), tokens(3, 2), 4, 0.0),
        (tokens(5, 2), tokens(4, 2)),
    ]
    return Model(), [*((tokens(4, 2), tokens(3, 2)) for _ in range(4)), *later]


@program()
def recursive_network():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.gates, self.forget = nn.Embedding(5, 3), nn.Linear(6, 9), nn.Linear(6, 6)
            self.calls = 0

        def forward(self, tree):
            self.calls += 1
            if isinstance(tree, int):
                return self.embed.weight[tree], torch.zeros(3)
            (left, c1), (right, c2) = self(tree[0]), self(tree[1])
            both = torch.cat([left, right])
            i, o, u = self.gates(both).chunk(3)
            f1, f2 = self.forget(both).sigmoid().chunk(2)
            c = i.sigmoid() * u.tanh() + f1 * c1 + f2 * c2
            return o.sigmoid() * c.tanh(), c

    trees = [(0, 1), (0, 1), (2, (1, 0)), ((0, 1), (2, 3)), 4, (((0, 1), 2), (3, (4, 0)))]
    return Model(), [(tree,) for tree in trees * 2]


@program()
def message_passing():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
            self.counter = collections.Counter()

        def forward(self, x, edges, batch=None):
            source, target = edges
            degree = torch.zeros(x.size(0)).scatter_add_(0, target, torch.ones(target.numel())).clamp(min=1)
            for i, layer in enumerate(self.layers):
                gathered = torch.zeros_like(x).index_add_(0, target, x[source]) / degree[:, None]
                x = layer(x + gathered)
                if i + 1 < len(self.layers):
                    x = x.relu()
            self.counter["nodes"] += x.shape[0]
            if batch is None:
                return x.mean(0)
            count = int(batch.max()) + 1
            return torch.zeros(count, 3).index_add(0, batch, x) / torch.bincount(batch, minlength=count)[:, None]

    edges, none = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.zeros(2, 0, dtype=torch.long)
    later = [
        (torch.randn(4, 3), edges, torch.tensor([0, 0, 1, 1])),
        (torch.randn(3, 3), none),
        (torch.randn(2, 3), edges),
    ]
    return Model(), [*((torch.randn(3, 3), edges) for _ in range(4)), *later]


@program(graph=False)
def replay_buffer():
    net = nn.Linear(4, 2)
    target, optimizer = copy.deepcopy(net), torch.optim.RMSprop(net.parameters(), 0.01)
    memory, state = collections.deque(maxlen=20), {"step": 0, "epsilon": 1.0}

    def step(observed, reward, done):
        state["step"] += 1
        state["epsilon"] = max(0.1, state["epsilon"] * 0.9)
        if random.random() < state["epsilon"]:
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = net(observed).argmax().item()
        memory.append((observed, action, reward, done))
        if len(memory) < 4:
            return action, None
        batch = random.sample(memory, 4)
        states = torch.stack([entry[0] for entry in batch])
        actions = torch.tensor([entry[1] for entry in batch])
        rewards = torch.tensor([entry[2] for entry in batch])
        with torch.no_grad():
            wanted = rewards + 0.9 * target(states).max(1).values
        loss = F.smooth_l1_loss(net(states).gather(1, actions[:, None]).squeeze(1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if state["step"] % 3 == 0:
            target.load_state_dict(net.state_dict())
        return action, loss.item()

    return step, [(torch.randn(4), float(i % 3), i % 4 == 0) for i in range(9)], net, target, memory, state


@program()
def augmentation_with_numpy_randomness():
    def f(x, labels, alpha):
        share = np.random.beta(alpha, alpha) if alpha > 0 else 1
        order = torch.randperm(x.size(0))
        mixed = share * x + (1 - share) * x[order]
        if np.random.rand() < 0.5:
            mixed = mixed.flip(-1)
        return mixed, labels, labels[order], share

    sizes = [(4, 0.4)] * 4 + [(4, 0), (2, 1.0), (4, 0.4)]
    return f, [(torch.randn(n, 3), torch.arange(n), alpha) for n, alpha in sizes]


@program()
def best_path():
    transitions = torch.randn(3, 3)

    def f(scores):
        total, pointers = scores[0], []
        for row in scores[1:]:
            total, index = (total[:, None] + transitions + row[None]).max(0)
            pointers.append(index)
        best = total.argmax().item()
        path = [best]
        for pointer in reversed(pointers):
            best = pointer[best].item()
            path.append(best)
        return path[::-1], total.max()

    return f, [*randn(4, 5, 3), *randn(1, 8, 3), *randn(1, 1, 3), *randn(1, 2, 3)]


@program()
def sampler():
    net, betas = nn.Linear(3, 3), torch.linspace(0.1, 0.3, 5)
    products = (1 - betas).cumprod(0)

    def f(count, steps=5, guidance=None):
        x = torch.randn(count, 3)
        for t in reversed(range(steps)):
            with torch.no_grad():
                noise = net(x + t)
                if guidance is not None:
                    noise = noise + guidance * (noise - net(x))
            x = (x - betas[t] / (1 - products[t]).sqrt() * noise) / (1 - betas[t]).sqrt()
            if t > 0:
                x = x + betas[t].sqrt() * torch.randn_like(x)
        return x

    return f, [(4,), (4,), (4,), (4, 3), (2, 5), (4, 5, 1.5), (4, 5, 2), (4, 0)]


@program()
def solver_with_a_tolerance():
    def f(x, count, tolerance):
        centres = x[:count].clone()
        for step in range(20):  # noqa: B007
            nearest = torch.cdist(x, centres).argmin(1)
            means = [x[nearest == j].mean(0) if (nearest == j).any() else centres[j] for j in range(count)]
            moved = (torch.stack(means) - centres).norm()
            centres = torch.stack(means)
            if moved < tolerance:
                break
        time, width, value = 0.0, 0.1, centres.clone()
        while time < 1 - 1e-9:
            slope = -value
            error = (-(value + width * slope) - slope).abs().max().item()
            if error > 0.5:
                width = width / 2
                continue
            value = value + width * slope
            time += width
            width = min(width * 1.5, 1 - time) if error < 0.1 else min(width, 1 - time)
            if width <= 0:
                break
        return centres, nearest, step, value, time

    def points(count):
        return torch.randn(count, 2, generator=torch.Generator().manual_seed(count))

    return f, [(points(n), k, 1e-3) for n, k in ((8, 2), (8, 2), (8, 2), (9, 2), (12, 3), (5, 1), (8, 2))]


@program()
def skip_connections_and_checkpoints():
    class Block(nn.Module):
        def __init__(self, before, after):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(True))

        def forward(self, x):
            return self.body(x)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList([Block(1, 2), Block(2, 4)])
            self.up, self.pool, self.saving = nn.ModuleList([Block(6, 2)]), nn.MaxPool2d(2), False

        def forward(self, x):
            kept = []
            for i, block in enumerate(self.down):
                x = checkpoint(block, x, use_reentrant=False) if self.saving else block(x)
                if i + 1 < len(self.down):
                    kept.append(x)
                    x = self.pool(x)
            for block in self.up:
                wide = kept.pop()
                x = block(torch.cat([F.interpolate(x, size=wide.shape[-2:], mode="nearest"), wide], 1))
            return x, kept

    model = Model()

    def saving(f):
        model.saving = True
        result, _ = f(torch.randn(2, 1, 8, 8))
        result.sum().backward()
        model.saving = False
        return result.detach()

    def channels_last(f):
        model.to(memory_format=torch.channels_last)
        return f(torch.randn(2, 1, 8, 8).to(memory_format=torch.channels_last))

    return model, [*randn(4, 2, 1, 8, 8), *randn(1, 2, 1, 9, 7), saving, channels_last, *randn(1, 2, 1, 8, 8)]


@program()
def meters_that_print():
    class Meter:
        __slots__ = ("count", "history", "total")

        def __init__(self):
            self.total, self.count, self.history = 0.0, 0, []

        def update(self, value, count=1):
            self.total += value * count
            self.count += count
            self.history.append(value)

        @property
        def mean(self):
            return self.total / max(1, self.count)

    meters, net, best = collections.defaultdict(Meter), nn.Linear(3, 4), math.inf

    def step(x, labels):
        nonlocal best
        scores = net(x)
        loss = F.cross_entropy(scores, labels, label_smoothing=0.1)
        meters["loss"].update(loss.item(), len(x))
        meters["right"].update((scores.argmax(1) == labels).float().mean().item(), x.size(0))
        mark = ""
        if meters["loss"].mean < best:
            best, mark = meters["loss"].mean, "*"
        print(f"{mark}loss {meters['loss'].mean:.4f} right {meters['right'].mean:6.2%}")
        return loss

    return step, [(torch.randn(n, 3), torch.randint(0, 4, (n,))) for n in (4, 4, 4, 4, 3, 5, 4)], meters


@program()
def tree_search():
    @dataclasses.dataclass
    class Node:
        prior: float
        value: float = 0.0
        visits: int = 0
        children: dict = dataclasses.field(default_factory=dict)

        def score(self, parent, c):
            return self.value / (self.visits or 1) + c * self.prior * math.sqrt(parent.visits + 1) / (1 + self.visits)

    net, root = nn.Linear(2, 3), Node(1.0)

    def simulate(x, c):
        node, path = root, [root]
        while node.children:
            action, node = max(node.children.items(), key=lambda pair: pair[1].score(path[-1], c))
            path.append(node)
            x = torch.roll(x, action) + 0.1
        priors = net(x).softmax(0)
        value = priors.max().item()
        for i, prior in enumerate(priors.tolist()):
            node.children[i] = Node(prior)
        for visited in reversed(path):
            visited.visits += 1
            visited.value += value
        return value, len(path)

    return simulate, [(torch.tensor([0.5, -1.0]), 1.0)] * 7, root


@program()
def optimizer_by_hand():
    weights, momenta = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2, 2))], {}

    def step(x, rate, decay=0.0, nesterov=False):
        loss = sum((p * x).pow(2).sum() for p in weights)
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients):
                if decay:
                    gradient = gradient.add(weight, alpha=decay)
                held = momenta.get(weight)
                if held is None:
                    held = momenta[weight] = torch.clone(gradient)
                else:
                    held.mul_(0.9).add_(gradient)
                weight.add_(gradient + 0.9 * held if nesterov else held, alpha=-rate)
        return loss.detach()

    later = [(0.1, 0.1, 0.5), (0.1, 0.1, 0.0, True), (0.2, 1)]
    return step, [*((0.1, rate) for rate in (0.1, 0.1, 0.1, 0.05, 0.01)), *later], weights


class Config(typing.NamedTuple):
    size: int = 4
    heads: int = 2
    act: typing.Callable = F.gelu
    drop: float = 0.1


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, size = config, config.size
        self.norm, self.qkv, self.out = nn.LayerNorm(size), nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)), persistent=False)

    def forward(self, x, past=None, keep=False):
        batch, length, size = x.size()
        parts = self.qkv(self.norm(x)).split(size, 2)
        q, k, v = (p.view(batch, -1, self.config.heads, size // self.config.heads).transpose(1, 2) for p in parts)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[k.size(2) - length : k.size(2), : k.size(2)] == 0, -math.inf)
        scores = F.dropout(F.softmax(scores, -1), self.config.drop, self.training)
        y = (scores @ v).transpose(1, 2).contiguous().view(batch, length, size)
        return x + self.config.act(self.out(y)), (k, v) if keep else None


class LanguageModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(2))
        self.tokens, self.places = nn.Embedding(9, config.size), nn.Embedding(8, config.size)
        self.head = nn.Linear(config.size, 9, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, index, targets=None, past=None, keep=False):
        start = 0 if past is None else past[0][0].size(2)
        x, kept = self.tokens(index) + self.places(torch.arange(start, start + index.size(1))), []
        for i, block in enumerate(self.blocks):
            x, pair = block(x, past=None if past is None else past[i], keep=keep)
            kept.append(pair)
        scores = self.head(x)
        loss = None if targets is None else F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return {"scores": scores, "loss": loss, "past": tuple(kept) if keep else None}


@program()
def language_model_with_a_cache():
    model = LanguageModel(Config())

    def tokens(batch, length):
        return torch.randint(0, 9, (batch, length))

    def generate(f):
        model.eval()
        current, past, made = tokens(1, 2), None, []
        with torch.no_grad():
            for _ in range(5):
                result = f(current, past=past, keep=True)
                past, current = result["past"], result["scores"][:, -1].argmax(-1, keepdim=True)
                made.append(current.item())
        model.train()
        return made

    def train(f):
        model.zero_grad()
        loss = f(tokens(2, 6), tokens(2, 6))["loss"]
        loss.backward()
        return loss.detach()

    later = [train, generate, generate, (tokens(1, 8),), (tokens(1, 9),), (tokens(3, 4), torch.full((3, 4), -1))]
    return model, [*((tokens(2, 5), tokens(2, 5)) for _ in range(3)), train, *later]
