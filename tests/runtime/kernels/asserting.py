"""Training steps that ask about what they compute; in no test file, whose asserts pytest rewrites."""

import torch
import torch.nn.functional as F


class Training:
    def __init__(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.parts = [self.net, self.optimizer]


class Leaving(Training):
    def step(self, x, y):
        self.optimizer.zero_grad()
        out = self.net(x)
        if torch.isnan(out).any():
            return -1.0
        loss = F.cross_entropy(out, y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Asserting(Training):
    def step(self, x, y):
        self.optimizer.zero_grad()
        out = self.net(x)
        assert torch.isfinite(out).all()
        loss = F.cross_entropy(out, y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Raising(Training):
    def step(self, x, y):
        self.optimizer.zero_grad()
        out = self.net(x)
        if not torch.isfinite(out).all():
            raise ValueError("diverged")
        loss = F.cross_entropy(out, y)
        loss.backward()
        self.optimizer.step()
        return loss.item()
