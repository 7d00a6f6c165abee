"""A decoder of two layers after Vaswani et al. (2017) that predicts the next character of Python's standard library."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from janusc.demo.data import VOCABULARY, encode, load_text
from models.steps import Decorator, Training, register

BATCH, LENGTH, WIDTH, HEADS, LAYERS = 8, 32, 64, 4, 2


class Attention(nn.Module):
    """Causal attention with several heads."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.project, self.out, self.dropout = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), dropout

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.project(x).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """Attention and a perceptron, each normalised before and added to what comes in."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.drop = Attention(dropout), nn.Dropout(dropout)
        self.perceptron = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.perceptron(self.norm2(x)))


class Decoder(nn.Module):
    """Embeddings of characters and of places, the layers, and a linear layer."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(len(VOCABULARY), WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(VOCABULARY))

    def forward(self, characters: Tensor) -> Tensor:
        places = torch.arange(characters.size(1), device=characters.device)
        x = self.characters(characters) + self.places(places)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def train(decorate_step: Decorator, decorate_model: Decorator, dropout: float) -> Training:
    """AdamW on excerpts of the text."""
    model = Decoder(dropout)
    network = decorate_model(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(characters: Tensor, following: Tensor) -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(network(characters).flatten(0, 1), following)
        loss.backward()
        optimizer.step()
        return loss.item()

    text = encode(load_text()[: 20 * BATCH * LENGTH + 1])
    inputs, targets = text[:-1].view(20, BATCH, LENGTH), text[1:].view(20, BATCH * LENGTH)
    return Training(decorate_step(step), list(zip(inputs, targets, strict=True)), [model], [optimizer])


register("transformer, 8 x 32", None, partial(train, dropout=0.0))
register("transformer, dropout 0.1", None, partial(train, dropout=0.1))
