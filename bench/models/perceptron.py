"""A perceptron of three layers, 4-64-64-2, on measurements of iris flowers: so small that Python is most of a step."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.steps import Decorator, Training, register


def train(decorate_step: Decorator, decorate_model: Decorator, batch: int) -> Training:
    """SGD with momentum; whether a flower is of the kind that lies between the two others."""
    from sklearn.datasets import load_iris

    flowers = load_iris()
    features, kinds = torch.tensor(flowers.data, dtype=torch.float32), torch.tensor(flowers.target == 1).long()
    model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    network = decorate_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(x: Tensor, y: Tensor) -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    order = torch.randperm(len(features))
    inputs = [(features[rows], kinds[rows]) for rows in order.split(batch) if len(rows) == batch]
    return Training(decorate_step(step), inputs, [model], [optimizer])


for _batch in (1, 20):
    register(f"mlp, batch {_batch}", 0.25, partial(train, batch=_batch))
