"""A residual network after He et al. (2016), 18 layers, narrow, on images of 64 by 64, with batch normalisation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from janusc.demo.data import load_digits
from models.steps import Decorator, Training, register

BATCH, SIZE, WIDTH = 8, 64, 16


class Residual(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.around: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.around is None else self.around(x)
        x = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(x)) + shortcut)


class ResNet(nn.Module):
    """A stem, four stages of two blocks each, a mean over all places and a linear layer."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, 2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        stages: list[nn.Module] = []
        inputs = width
        for stage in range(4):
            outputs = width << stage
            stages += [Residual(inputs, outputs, 1 if stage == 0 else 2), Residual(outputs, outputs, 1)]
            inputs = outputs
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stages(self.stem(images))
        return self.head(x.mean(dim=(2, 3)))


def train(decorate_step: Decorator, decorate_model: Decorator) -> Training:
    """SGD with momentum and weight decay."""
    model = ResNet(WIDTH, classes=10)
    network = decorate_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)

    def step(images: Tensor, labels: Tensor) -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    digits = load_digits()
    images = F.interpolate(digits.images[: BATCH * 20], size=(SIZE, SIZE), mode="bilinear", align_corners=False)
    inputs = list(zip(images.split(BATCH), digits.labels[: BATCH * 20].split(BATCH), strict=True))
    return Training(decorate_step(step), inputs, [model], [optimizer])


register("resnet, batch 8", None, train)
