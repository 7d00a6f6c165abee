"""Sequences that are written token by token until an end token comes: how many steps there are, the data decide."""

from __future__ import annotations

import math

import torch
from torch import nn

from . import Case, Decorator, program
from .sequences import excerpts

WIDTH, WORDS = 24, 14
START, END = 0, 1


def lively(model: nn.Module, scale: float = 3.0) -> nn.Module:
    """Weights large enough that untrained models say many different things."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


class Translator(nn.Module):
    """An encoder and a decoder with attention over what the encoder made of the source."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(100, width), nn.Embedding(WORDS, width)
        self.encoder, self.decoder = nn.GRUCell(width, width), nn.GRUCell(2 * width, width)
        self.query, self.head = nn.Linear(width, width), nn.Linear(2 * width, WORDS)
        self.width = width

    def encode(self, tokens):
        state, states = torch.zeros(self.width), []
        for token in tokens:
            state = self.encoder(self.source(token), state)
            states.append(state)
        return torch.stack(states), state

    def step(self, word, state, memory):
        weights = torch.softmax(memory @ self.query(state) / math.sqrt(self.width), dim=0)
        context = weights @ memory
        embedded = self.target(torch.tensor(word))
        state = self.decoder(torch.cat([embedded, context]), state)
        return torch.log_softmax(self.head(torch.cat([state, context])), dim=-1), state

    @torch.no_grad()
    def greedy(self, tokens, limit=30):
        memory, state = self.encode(tokens)
        words = [START]
        while len(words) < limit:
            scores, state = self.step(words[-1], state, memory)
            word = int(scores.argmax())
            if word == END:
                break
            words.append(word)
        return words[1:]

    @torch.no_grad()
    def beam(self, tokens, width=3, limit=12):
        memory, state = self.encode(tokens)
        beams = [(0.0, [START], state)]
        finished = []
        for _ in range(limit):
            candidates = []
            for score, words, state in beams:
                scores, state = self.step(words[-1], state, memory)
                values, indices = scores.topk(width)
                for value, index in zip(values.tolist(), indices.tolist()):
                    candidates.append((score + value, words + [index], state))
            candidates.sort(key=lambda candidate: candidate[0], reverse=True)
            beams = []
            for candidate in candidates[:width]:
                if candidate[1][-1] == END:
                    finished.append(candidate)
                else:
                    beams.append(candidate)
            if len(finished) >= width or not beams:
                break
        best = max(finished or beams, key=lambda candidate: candidate[0] / len(candidate[1]))
        return best[1], best[0]


@program(fast=True)
def greedy(decorate: Decorator) -> Case:
    texts = excerpts(100, 4, 16)
    decode = decorate(lively(Translator()).greedy)

    def call(number: int):
        return decode(texts[number % len(texts)][:, 0])

    return Case(call, [decode])


@program(fast=True)
def beam_search(decorate: Decorator) -> Case:
    texts = excerpts(100, 4, 10)
    decode = decorate(lively(Translator()).beam)

    def call(number: int):
        return decode(texts[number % len(texts)][:, 0])

    return Case(call, [decode])


class CachedAttention(nn.Module):
    """Self-attention for one new token at a time; keys and values of the earlier ones are kept."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads
        self.keys = self.values = None

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = self.project(x).chunk(3, dim=-1)
        query, key, value = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (query, key, value))
        if self.keys is not None:
            key, value = torch.cat([self.keys, key], dim=2), torch.cat([self.values, value], dim=2)
        self.keys, self.values = key, value
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        offset = key.size(2) - length
        mask = torch.arange(key.size(2)) > torch.arange(length).unsqueeze(1) + offset
        weights = scores.masked_fill(mask, float("-inf")).softmax(dim=-1)
        return self.out((weights @ value).transpose(1, 2).reshape(batch, length, width))


class Decoder(nn.Module):
    """A small transformer that goes on with a text."""

    def __init__(self, vocabulary: int = 100, width: int = WIDTH, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.layers = nn.ModuleList(CachedAttention(width, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.head = nn.Linear(width, WORDS)
        self.position = 0

    def reset(self):
        self.position = 0
        for layer in self.layers:
            layer.keys = layer.values = None

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.embed(tokens) + self.places(torch.arange(self.position, self.position + length))
        self.position += length
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.head(x[:, -1])

    @torch.no_grad()
    def generate(self, prompt, limit):
        self.reset()
        logits = self(prompt)
        words = []
        for _ in range(limit):
            word = int(logits.argmax(dim=-1))
            if word == END:
                break
            words.append(word)
            logits = self(torch.tensor([[word]]))
        return words


@program(fast=True)
def cached_decoder(decorate: Decorator) -> Case:
    """The whole generation in one call."""
    texts = excerpts(100, 4, 16)
    generate = decorate(lively(Decoder()).generate)

    def call(number: int):
        return generate(texts[number % len(texts)][:, 0].unsqueeze(0), 8 + number % 5)

    return Case(call, [generate])


@program()
def cached_steps(decorate: Decorator) -> Case:
    """One token in each call: the cache grows from call to call."""
    text = excerpts(100, 4, 16)[0].new_tensor([i * 7 % 100 for i in range(64)])
    model = lively(Decoder())
    step = decorate(model)

    def call(number: int):
        if number % 30 == 0:
            model.reset()
        with torch.no_grad():
            return step(text[number % 30].view(1, 1))

    return Case(call, [step])
