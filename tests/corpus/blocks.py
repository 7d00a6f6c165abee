"""Blocks under a grad mode that hold ordinary Python: rollouts, evaluations, logs; the rest of them stays in graphs."""

import torch
from torch import nn, no_grad

import janusc as janus

from . import program

X = torch.arange(3.0)


class World:
    """An environment that counts its steps, tells its log, and ends now and then."""

    def __init__(self):
        self.at, self.log = 0, []

    @janus.opaque
    def step(self, action):
        self.at += 1
        self.log.append((action, torch.is_grad_enabled()))
        return torch.full((3,), float(self.at % 5)), self.at % 4 == 0


def sequences(count=12):
    return [([X * i - j for j in range(1 + i % 6)],) for i in range(count)]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.head, self.world = nn.Linear(3, 3), nn.Linear(3, 2), World()

    def policy(self, state):
        return self.head(torch.tanh(self.mix(state)))


class Rollout(Net):
    def forward(self, state):
        states, actions = [], []
        with torch.no_grad():
            for _ in range(6):
                logits = self.policy(state) * 2 + 1
                action = int(logits.argmax())
                states.append(state)
                actions.append(action)
                state, done = self.world.step(action)
                if done:
                    break
        chosen = self.policy(torch.stack(states)).log_softmax(-1)
        loss = -sum(chosen[i, a] for i, a in enumerate(actions))
        return loss, torch.is_grad_enabled(), loss.requires_grad


@program()
def rollout_without_gradients():
    model = Rollout()
    return model, [(X * i - 1,) for i in range(12)], model.world


class Logged(Net):
    def forward(self, inputs):
        total = torch.zeros(3)
        with torch.no_grad():
            total = torch.tanh(self.mix(total) + 1)
            self.world.step(1)
            for x in inputs:
                total = torch.tanh(self.mix(total) + self.mix(x))
                total = torch.relu(total + self.mix(x))
                self.world.log.append(total.requires_grad)
            self.world.step(2)
            total = self.mix(total) * 2
        return total + self.mix(total)


@program()
def log_in_a_loop_without_gradients():
    model = Logged()
    return model, sequences(), model.world


@program()
def straight_block_with_a_call():
    class Straight(Net):
        def forward(self, x):
            y = self.mix(x)
            with no_grad():
                z = torch.tanh(self.mix(y)) + torch.relu(y)
                state, done = self.world.step(int(z.argmax()))
                z = torch.tanh(self.mix(state) + z) * 3
                with torch.enable_grad():
                    w = torch.tanh(self.mix(z)) + z
                    self.world.step(7)
                    w = torch.relu(self.mix(w)) + w
                z = z + w.detach()
            return y + z, w.requires_grad, z.requires_grad

    model = Straight()
    return model, [(X * i - 1,) for i in range(10)], model.world


@program()
def block_that_a_call_leaves_by_an_error():
    class Failing(Net):
        def inner(self, x):
            with torch.no_grad():
                y = torch.tanh(self.mix(x)) + torch.relu(self.mix(x))
                state, done = self.world.step(1)
                if self.world.at == 6:
                    raise ValueError("the world ends")
                y = torch.tanh(self.mix(state) + y) * 2
            return self.mix(y)

    model = Failing()
    return model.inner, [(X * i - 1,) for i in range(10)], model.world


@program()
def block_in_a_loop_of_steps():
    class Looping(Net):
        def forward(self, inputs):
            total = torch.zeros(3)
            for x in inputs:
                total = total + torch.tanh(self.mix(x)) * self.mix(total)
                with torch.no_grad():
                    hint = torch.tanh(self.mix(total)) + torch.relu(self.mix(x))
                    state, done = self.world.step(int(hint.argmax()))
                    hint = torch.tanh(self.mix(state) + hint)
                if done:
                    continue
                total = torch.relu(total + hint)
            return total, torch.is_grad_enabled()

    model = Looping()
    return model, sequences(), model.world


@program()
def block_that_returns():
    class Returning(Net):
        def forward(self, x, early):
            with torch.no_grad():
                y = torch.tanh(self.mix(x)) + torch.relu(self.mix(x))
                state, done = self.world.step(1)
                if early:
                    return y * 2, torch.is_grad_enabled()
                y = torch.tanh(self.mix(state) + y) * 2
                return self.mix(y) + y, torch.is_grad_enabled()

    model = Returning()
    return model, [(X * i - 1, i % 4 == 3) for i in range(12)], model.world


@program()
def block_in_which_the_mode_is_set():
    class Setting(Net):
        def forward(self, x, enable):
            with torch.no_grad():
                y = torch.tanh(self.mix(x)) + torch.relu(self.mix(x))
                state, done = self.world.step(1)
                torch.set_grad_enabled(enable)
                y = torch.tanh(self.mix(state) + y) * self.mix(y)
            return y.requires_grad, y, torch.is_grad_enabled()

    model = Setting()
    return model, [(X * i - 1, i in (5, 8)) for i in range(10)], model.world


@program()
def block_that_writes():
    class Writing(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.count = 0

        def forward(self, x):
            with torch.no_grad():
                y = torch.tanh(self.mix(x)) + torch.relu(self.mix(x))
                self.world.step(1)
                self.mean.mul_(0.9).add_(y)
                self.count += 1
                self.mix.weight.mul_(0.99)
                self.world.step(2)
                y = torch.tanh(self.mix(y) + self.mean) * 2
            return self.mix(y) / self.count

    model = Writing()
    return model, [(X * i - 1,) for i in range(10)], model.world
