"""Sequences of changing length: what carries over from step to step, and from call to call."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from janusc.demo import data

from . import Case, Decorator, program

WIDTH, BATCH = 32, 4


def excerpts(count: int, shortest: int, longest: int) -> list[torch.Tensor]:
    """Consecutive stretches of text, of lengths that change from one to the next, as (length, batch)."""
    codes = data.encode(data.load_text())
    columns = codes[: len(codes) // BATCH * BATCH].view(BATCH, -1).t().contiguous()
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(shortest, longest + 1, (count,), generator=generator).tolist()
    return list(columns[: sum(lengths)].split(lengths))


class LanguageModel(nn.Module):
    """An LSTM over characters, written out step by step."""

    def __init__(self, vocabulary: int = len(data.VOCABULARY), width: int = WIDTH) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.cell = nn.LSTMCell(width, width)
        self.head = nn.Linear(width, vocabulary)
        self.width = width

    def forward(self, tokens, state=None):
        if state is None:
            zeros = torch.zeros(tokens.size(1), self.width)
            state = zeros, zeros
        outputs = []
        for token in tokens:
            state = self.cell(self.embed(token), state)
            outputs.append(state[0])
        return self.head(torch.stack(outputs)), state


def modelled(decorate: Decorator, model_only: bool = False) -> Case:
    """Truncated backpropagation through time; what is compiled is the whole step, or the model in it."""
    texts = excerpts(100, 5, 24)
    model = LanguageModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    forward = decorate(model) if model_only else model
    state = None

    def step(text):
        nonlocal state
        logits, (h, c) = forward(text[:-1], state)
        state = h.detach(), c.detach()
        loss = F.cross_entropy(logits.flatten(0, 1), text[1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = step if model_only else decorate(step)
    target = forward if model_only else step
    return Case(lambda number: step(texts[number % len(texts)]), [target], list(model.parameters()))


@program(fast=True)
def language_model(decorate: Decorator) -> Case:
    """The state is carried by a variable of the function around the step."""
    return modelled(decorate)


@program()
def language_model_only(decorate: Decorator) -> Case:
    """The state is carried outside of what is compiled."""
    return modelled(decorate, model_only=True)


@program(fast=True)
def evaluation(decorate: Decorator) -> Case:
    """How well a model foresees a text, and how it goes on with it: no gradients, states carried on."""
    texts = excerpts(100, 5, 24)
    model = LanguageModel()
    read = decorate(model)
    state = None

    def call(number: int):
        nonlocal state
        text = texts[number % len(texts)]
        with torch.no_grad():
            logits, state = read(text[:-1], state)
            loss = F.cross_entropy(logits.flatten(0, 1), text[1:].flatten())
        return loss.item(), logits[-1].argmax(-1).tolist()

    return Case(call, [read])


class Trainer:
    """A whole training step, with everything that changes on ``self``."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        self.state = None
        self.steps = 0
        self.history: list[float] = []

    def step(self, text):
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 0.5 / (1 + self.steps / 10)
        logits, (h, c) = self.model(text[:-1], self.state)
        self.state = h.detach(), c.detach()
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), text[1:].reshape(-1))
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.history.append(loss.item())
        return self.history[-1]


@program(fast=True)
def training_step(decorate: Decorator) -> Case:
    """The same with everything on an object: the state, a rate that falls, what was lost."""
    texts = excerpts(100, 5, 24)
    trainer = Trainer(LanguageModel())
    step = decorate(trainer.step)

    def call(number: int):
        return step(texts[number % len(texts)]), trainer.steps, len(trainer.history)

    return Case(call, [step], list(trainer.model.parameters()))


class Tagger(nn.Module):
    """Scores of tags for each character, and the best sequence of them by Viterbi's algorithm."""

    def __init__(self, tags: int = 8, width: int = WIDTH) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(data.VOCABULARY), width)
        self.score = nn.Linear(width, tags)
        self.transitions = nn.Parameter(torch.randn(tags, tags))

    def forward(self, tokens):
        emissions = self.score(self.embed(tokens))
        best = emissions[0]
        pointers = []
        for emission in emissions[1:]:
            best, previous = (best.unsqueeze(1) + self.transitions + emission).max(dim=0)
            pointers.append(previous)
        tag = best.argmax().item()
        path = [tag]
        for previous in reversed(pointers):
            tag = previous[tag].item()
            path.append(tag)
        path.reverse()
        return path, best.max()


@program(fast=True)
def viterbi(decorate: Decorator) -> Case:
    texts = excerpts(100, 5, 24)
    tagger = Tagger()
    tag = decorate(tagger)

    def call(number: int):
        with torch.no_grad():
            path, score = tag(texts[number % len(texts)][:, 0])
        return path, score

    return Case(call, [tag])
