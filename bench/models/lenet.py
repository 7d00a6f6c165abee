"""LeNet on scanned digits of 28 by 28, 50 at a time: convolutions whose layout in memory matters."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from janusc.demo.data import digit_batches, load_digits
from janusc.demo.models import LeNet
from models.steps import Decorator, Training, register


def train(decorate_step: Decorator, decorate_model: Decorator) -> Training:
    """SGD with momentum."""
    model = LeNet()
    network = decorate_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def step(images: Tensor, labels: Tensor) -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    inputs = [(batch.inputs, batch.targets) for batch in digit_batches(load_digits(), 29)]
    return Training(decorate_step(step), inputs, [model], [optimizer])


register("lenet, batch 50", 0.65, train)
