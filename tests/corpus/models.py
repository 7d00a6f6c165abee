"""Whole models as people write them, each trained for some steps: the step is what is compiled."""

import math

import torch
from torch import nn
from torch.nn import functional

from . import program


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.heads = heads
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x):
        batch, time, width = x.size()
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = [t.view(batch, time, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v)]
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :time, :time] == 0, float("-inf"))
        mixed = functional.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).contiguous().view(batch, time, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, words=20, width=8, longest=16):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, 2) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        self.longest = longest

    def forward(self, index, targets=None):
        _, time = index.size()
        assert time <= self.longest, f"{time} is too long"
        x = self.words(index) + self.places(torch.arange(time, device=index.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        loss = None
        if targets is not None:
            loss = functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


class Residual(nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        out += self.shortcut(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Residual(3, 4), Residual(4, 8, 2))
        self.out = nn.Linear(8, 5)

    def forward(self, x, y):
        x = torch.flatten(functional.adaptive_avg_pool2d(self.layers(x), 1), 1)
        return x, functional.cross_entropy(self.out(x), y)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 8)
        self.mean, self.scale = nn.Linear(8, 2), nn.Linear(8, 2)
        self.decode = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 6))

    def sample(self, mean, scale):
        deviation = torch.exp(0.5 * scale)
        return mean + torch.randn_like(deviation) * deviation

    def forward(self, x, y):
        hidden = functional.relu(self.encode(x))
        mean, scale = self.mean(hidden), self.scale(hidden)
        out = self.decode(self.sample(mean, scale))
        divergence = -0.5 * torch.sum(1 + scale - mean.pow(2) - scale.exp())
        return out, functional.mse_loss(out, x, reduction="sum") + divergence


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 4)
        self.encoder, self.decoder = nn.GRUCell(4, 6), nn.GRUCell(4, 6)
        self.mix, self.out = nn.Linear(12, 6), nn.Linear(6, 12)

    def forward(self, x, y):
        batch, time = x.shape
        h = torch.zeros(batch, 6)
        encoded = []
        for t in range(time):
            h = self.encoder(self.words(x[:, t]), h)
            encoded.append(h)
        memory = torch.stack(encoded, 1)
        word = torch.zeros(batch, dtype=torch.long)
        outputs, loss = [], 0.0
        for t in range(y.shape[1]):
            h = self.decoder(self.words(word), h)
            weights = torch.softmax((memory @ h.unsqueeze(-1)).squeeze(-1), -1)
            context = (weights.unsqueeze(-1) * memory).sum(1)
            h = torch.tanh(self.mix(torch.cat([h, context], -1)))
            logits = self.out(h)
            loss = loss + functional.cross_entropy(logits, y[:, t])
            outputs.append(logits)
            word = y[:, t]
        return torch.stack(outputs, 1), loss / y.shape[1]


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 4, 3, padding=1)])
        self.middle = nn.Conv2d(4, 4, 3, padding=1)
        self.up = nn.ModuleList([nn.Conv2d(8, 2, 3, padding=1), nn.Conv2d(4, 2, 3, padding=1)])
        self.out = nn.Conv2d(2, 1, 1)

    def forward(self, x, y):
        kept = []
        for conv in self.down:
            x = functional.relu(conv(x))
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = functional.relu(self.middle(x))
        for conv in self.up:
            x = functional.interpolate(x, scale_factor=2)
            x = torch.cat([x, kept.pop()], 1)
            x = functional.relu(conv(x))
        out = self.out(x)
        return out, functional.binary_cross_entropy_with_logits(out, y)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, y):
        best, chosen = self.gate(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().flatten()
            if rows.numel():
                out[rows] = expert(x[rows]) * best[rows].unsqueeze(-1)
        return out, functional.mse_loss(out, y)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 4)
        self.lstm = nn.LSTM(4, 6, 2, batch_first=True, dropout=0.1)
        layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.out = nn.Linear(6, 12)

    def forward(self, x, y):
        h, (_, _) = self.lstm(self.words(x))
        logits = self.out(self.encoder(h))
        return logits, functional.cross_entropy(logits.transpose(1, 2), y)


def training_step(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    def step(x, y):
        optimizer.zero_grad()
        _, loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss.item()

    return step


def words(count, *size):
    return torch.randint(0, count, size)


@program(max_graphs=2)
def language_model():
    return training_step(LanguageModel()), [(words(20, 2, n), words(20, 2, n)) for n in (5, 5, 5, 8, 16, 3)]


@program(max_graphs=2)
def resnet():
    return training_step(ResNet()), [(torch.randn(n, 3, 8, 8), words(5, n)) for n in (3, 3, 3, 2, 4)]


@program(max_graphs=2)
def autoencoder():
    return training_step(Autoencoder()), [(torch.rand(n, 6), None) for n in (3, 3, 3, 2)]


@program(max_graphs=2)
def translator():
    return training_step(Translator()), [
        (words(12, 2, n), words(12, 2, m)) for n, m in ((3, 4), (3, 4), (5, 2), (7, 9), (1, 1))
    ]


@program(max_graphs=2)
def unet():
    return training_step(UNet()), [(torch.rand(n, 1, 8, 8), torch.rand(n, 1, 8, 8)) for n in (2, 2, 2, 1)]


@program(max_graphs=2)
def mixture_of_experts():
    return training_step(Experts()), [(torch.randn(n, 4), torch.randn(n, 4)) for n in (6, 6, 1, 2, 6, 1)]


@program(max_graphs=2)
def tagger():
    return training_step(Tagger()), [(words(12, 2, n), words(12, 2, n)) for n in (4, 4, 6, 2)]
