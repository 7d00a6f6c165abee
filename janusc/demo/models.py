"""The models of the demonstration, written as anyone would write them; nothing here knows of janusc."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LeNet(nn.Module):
    """The convolutional network of LeCun et al. (1998) with rectifiers, for 28 by 28 images of one channel."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, kernel_size=5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, kernel_size=5)
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of every class for a batch of images."""
        x = self.pool(torch.relu(self.conv1(images)))
        x = self.pool(torch.relu(self.conv2(x)))
        x = x.flatten(1)
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        return self.fc3(x)  # type: ignore[no-any-return]


class LSTMCell(nn.Module):
    """One step of a long short-term memory, out of two linear layers."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.from_input = nn.Linear(inputs, 4 * hidden)
        self.from_hidden = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """The next hidden state and the next cell state."""
        gates = self.from_input(x) + self.from_hidden(h)
        i, f, g, o = gates.chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class CharLSTM(nn.Module):
    """Predicts the next character of a text; the recurrence is a Python loop over the cell."""

    def __init__(self, vocabulary: int, embedding: int = 32, hidden: int = 64) -> None:
        super().__init__()
        self.hidden = hidden
        self.embed = nn.Embedding(vocabulary, embedding)
        self.cell = LSTMCell(embedding, hidden)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, characters: Tensor) -> Tensor:
        """Logits of the next character, one row per character of ``characters`` (length, batch)."""
        xs = self.embed(characters)
        h = xs.new_zeros(xs.size(1), self.hidden)
        c = torch.zeros_like(h)
        outputs = []
        for x in xs:
            h, c = self.cell(x, h, c)
            outputs.append(h)
        return self.output(torch.stack(outputs)).flatten(0, 1)  # type: ignore[no-any-return]


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    inputs: Tensor,
    targets: Tensor,
) -> float:
    """One whole step of training; returns the loss."""
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    scheduler.step()
    return loss.item()
