"""Loops with ordinary Python in them: passes of transactions and host ranges, and what is left when one fails."""

import time

import torch
from torch import nn

from . import program


class World:
    """An environment that keeps count of what was done to it."""

    def __init__(self, period=4):
        self.n, self.log, self.period = 0, [], period

    def step(self, action):
        time.time()  # nothing that a graph could hold
        self.n += 1
        self.log.append(action)
        return torch.full((3,), float(self.n % 5)), self.n % self.period == 0

    def reset(self):
        time.time()
        self.log.append("reset")
        return torch.zeros(3)


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))


@program()
def until_done():
    model, world = net(), World()

    def rollout(steps):
        obs, seen, total = torch.zeros(3), [], 0.0
        for i in range(steps):
            y = model(obs)
            obs, done = world.step(int(y.argmax()))
            seen.append(y.softmax(0) * 2)
            total = total + float(i)
            if done:
                break
        else:
            total = total + 100
        return torch.stack(seen).sum(0), total, i

    return rollout, [(k,) for k in (2, 3, 3, 4, 5, 1, 9, 2)], world


@program()
def over_the_ends_of_episodes():
    model, world = net(), World(3)

    def rollout(obs, steps):
        rewards = []
        for _ in range(steps):
            p = torch.softmax(model(obs), -1)
            obs, done = world.step(p.argmax().item())
            rewards.append(p[0] * 2 + obs[1])
            if done:
                obs = world.reset()
        return torch.stack(rewards), obs

    return rollout, [(torch.zeros(3), k) for k in (2, 2, 3, 5, 4, 1, 6)], world, model


@program()
def with_gradients_and_an_update():
    model, world = net(), World(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def learn(steps):
        obs, losses = torch.zeros(3), []
        while len(losses) < steps:
            y = torch.tanh(model(obs))
            obs, done = world.step(float(y.detach().sum()))
            losses.append((y * y).sum() + y.mean())
            if done:
                continue
            losses[-1] = losses[-1] * 0.5
        loss = sum(losses)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return learn, [(k,) for k in (2, 2, 3, 4, 1, 6)], model, world


@program()
def state_that_lives_on():
    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.GRUCell(3, 4), nn.Linear(4, 2)
            self.hidden, self.steps, self.world = torch.zeros(1, 4), 0, World(4)

        def forward(self, obs, count):
            for _ in range(count):
                self.hidden = self.cell(obs, self.hidden)
                logits = self.head(self.hidden) * 2 + 1
                new, done = self.world.step(int(logits.argmax()))
                obs = new.unsqueeze(0)
                self.steps += 1
                if done:
                    self.hidden = torch.zeros(1, 4)
            self.hidden = self.hidden.detach()
            return logits

    return Agent(), [(torch.ones(1, 3), k) for k in (2, 3, 2, 4, 1, 5)]


@program()
def an_assumption_fails_in_the_middle():
    model, world = net(), World(100)

    def rollout(obs, limit):
        found = []
        for step in range(6):
            y = model(obs) * 3
            obs, _ = world.step(round(float(y.detach()[0]), 3))
            if world.n > limit:
                y = y.double() + 1
            found.append(torch.relu(y - obs.to(y.dtype)).sum())
        return found, step

    return rollout, [(torch.ones(3), k) for k in (1000, 1000, 1000, 20, 21, 1000, 0)], world


@program()
def an_error_in_the_middle():
    model, world = net(), World(100)

    def rollout(obs, fails):
        found = []
        for step in range(5):
            y = model(obs).exp() + 1
            world.step(step)
            found.append(y.view(-1, 3 - (step == fails)) * 2)
        return torch.cat(found)

    good, bad = (torch.ones(3), -1), (torch.ones(3), 3)
    return rollout, [good, good, good, bad, good, bad, (torch.ones(3), 0), good], world


@program()
def loops_inside_loops():
    model, world = net(), World(3)

    def rollout(obs, rows, columns):
        total = torch.zeros(())
        for i in range(rows):
            row = torch.zeros(3)
            for j in range(columns):
                y = torch.tanh(model(obs)) + row
                obs, done = world.step((i, j))
                row = row + y * 2 - obs
                if done:
                    break
            else:
                total = total + 10
            total = total + row.sum() * i
            world.step("row")
        return total, i, j

    return rollout, [(torch.zeros(3), a, b) for a, b in ((2, 2), (2, 2), (2, 3), (3, 1), (1, 4), (2, 2))], world


@program()
def names_that_come_and_go():
    model, world = net(), World(2)

    def rollout(obs, steps):
        last = None
        for k in range(steps):
            y = torch.relu(model(obs) + 1) * 2
            obs, done = world.step(k)
            if k % 2:
                odd = y.sum()
            elif done:
                last = y
            both = (obs + y).mean()
        try:
            return y, odd, last, both
        except UnboundLocalError as error:
            return str(error)

    return rollout, [(torch.zeros(3), k) for k in (3, 3, 4, 1, 0, 2, 5)], world


@program()
def over_an_iterator_that_is_used_on():
    model, world = net(), World(3)

    def rollout(numbers, most):
        seen = []
        for n in numbers:
            y = torch.tanh(model(torch.full((3,), float(n)))) * 2 + n
            _, done = world.step(n)
            seen.append(y.sum() + 1)
            if done or len(seen) == most:
                break
        return seen, list(numbers)

    return rollout, [(lambda f, k=k: f(iter(range(k)), 5)) for k in (4, 4, 5, 2, 9)], world


@program()
def a_helper_with_graphs_of_its_own():
    model, world = net(), World(4)

    @torch.no_grad()
    def act(obs):
        p = torch.softmax(model(obs) * 2, -1)
        return int(p.argmax()), p.log()

    def collect(obs, steps):
        kept = []
        for _ in range(steps):
            action, log_p = act(obs)
            new, done = world.step(action)
            kept.append((obs, log_p[action], done))
            obs = world.reset() if done else new
        return kept, obs

    def learn(obs, steps):
        kept, obs = collect(obs, steps)
        total = torch.zeros(3)
        for seen, log_p, done in kept:
            value = torch.tanh(model(seen)) * 2
            total = total + value * log_p * (0.0 if done else 1.0)
        return total, obs

    return learn, [(torch.zeros(3), k) for k in (2, 2, 3, 4, 5, 1, 3)], world, model


@program()
def iterators_that_notice_the_end_of_the_loop():
    model, log = net(), []

    def numbers(n):
        try:
            for k in range(n):
                log.append(f"next {k}")
                yield k
        finally:
            log.append("closed")

    def rollout(n, most):
        total = torch.zeros(3)
        for k in numbers(n):
            total = torch.tanh(model(total)) * 2 + k
            time.time()
            log.append("passed")
            if k == most:
                total = total * 3
                break
            total = total + 1
        else:
            log.append("else")
        log.append("after")
        time.time()
        y = total * 2 + 1
        log.append("end")
        return y.sum() + torch.relu(y)

    return rollout, [(n, k) for n, k in ((3, 9), (3, 9), (3, 1), (4, 1), (2, 0), (0, 0), (3, 2))], log


class Numbers:
    """Begins anew, and says so, whenever it is asked for its iterator."""

    def __init__(self, log):
        self.n, self.at, self.log = 0, 0, log

    def __iter__(self):
        self.log.append("iter")
        self.at = 0
        return self

    def __next__(self):
        time.time()
        self.at += 1
        if self.at > self.n:
            raise StopIteration
        return self.at


@program()
def over_an_iterator_that_begins_anew_when_asked():
    model, world = net(), World(3)
    numbers = Numbers(world.log)

    def rollout(n):
        numbers.n, found = n, []
        for k in numbers:
            y = torch.tanh(model(torch.ones(3) * k)) * 2
            obs, done = world.step(k)
            found.append(y.sum() + obs)
            if done:
                break
        return found, numbers.at

    return rollout, [(n,) for n in (2, 2, 3, 1, 5, 0, 2, 3)], world


@program()
def over_an_iterator_that_is_not_iterable():
    model, world = net(), World(3)

    class Bare:
        def __init__(self, n):
            self.n = n

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    class Source:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return Bare(self.n)

    def rollout(n):
        found = []
        for k in Source(n):
            y = torch.tanh(model(torch.ones(3) * k)) * 2
            found.append(y.sum() + world.step(k)[0])
        return found

    return rollout, [(n,) for n in (2, 2, 3, 1, 5, 0, 2)], world


@program()
def iterators_end_with_an_error_that_leaves_the_loop():
    model, world = net(), World(3)

    def numbers(name):
        try:
            for k in range(9):
                yield k
        finally:
            world.log.append(f"closed {name}")

    def rollout(wide, fails, most):
        found = []
        for i in numbers("outer"):
            for k in numbers("inner"):
                y = torch.tanh(model(torch.ones(3) * k + i)) * 2
                obs, done = world.step(k)
                if done and fails:
                    raise KeyError(k)
                found.append(y.view(-1, 4 if wide and k else 3) * 2 + obs)
                if k:
                    break
            if i == most:
                return torch.cat(found)

    good = (False, False, 1)
    return (
        rollout,
        [good, good, good, (True, False, 1), (False, True, 2), good, (True, False, 3), good, good, good],
        world,
    )


@program()
def objects_live_as_long_as_their_variables():
    model, world, alive = net(), World(3), set()

    class Temporary:
        def __init__(self):
            time.time()
            world.n += 1
            self.name = world.n
            alive.add(self.name)

        def __del__(self):
            alive.discard(self.name)

    def rollout(n):
        first, found = Temporary(), []
        name, last = first.name, 0
        for item, _ in ((Temporary(), k) for k in range(n)):
            found.append(last in alive)
            made = Temporary()
            of_item, last = item.name, made.name
            y = torch.tanh(model(torch.ones(3) * last)) * 2
            world.step(0)
            found.append(y.relu() + 1)
            found.append((of_item in alive, last in alive, name in alive))
        y = torch.tanh(model(torch.ones(3))) * 2
        time.time()
        return found, y.relu(), name in alive, last in alive

    return rollout, [(n,) for n in (2, 2, 3, 1, 4, 0, 2)], alive


@program()
def a_buffer_of_bounded_length():
    class Environment:
        def __init__(self):
            self.steps = 0

        def step(self):
            self.steps += 1
            time.time()
            return float(self.steps)

    environment, buffer, last = Environment(), [], {"state": torch.zeros(2)}

    def f(x, steps):
        total = 0.0
        for _ in range(steps):
            reward = environment.step()
            buffer.append((last["state"], reward))
            total += reward
            if len(buffer) > 8:
                del buffer[0]
            last["state"] = torch.tanh(last["state"] * 2 + reward) + x
            if len(buffer) >= 4:
                seen = torch.stack([state for state, _ in buffer])
                last["state"] = last["state"] * torch.tanh((seen * x).sum() + reward)
        return total, len(buffer)

    return f, [(torch.ones(2) * i, 1 + i % 4) for i in range(30)], buffer, last, environment
