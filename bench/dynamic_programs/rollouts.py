"""Rollouts that call a Python environment in the loop, then an update: A3C and PPO on the CartPole of gymnasium."""

from __future__ import annotations

from dataclasses import dataclass, field

import gymnasium
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import Case, Decorator, program

GAMMA = 0.99


class ActorCritic(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.policy, self.value = nn.Linear(width, 2), nn.Linear(width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.body(x)
        return self.policy(h), self.value(h).squeeze(-1)


class Worker:
    """One actor of A3C: acts until the episode ends or so many steps are done, then learns from them."""

    def __init__(self, model: ActorCritic, steps: int = 20) -> None:
        self.env = gymnasium.make("CartPole-v1")
        self.model, self.steps = model, steps
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
        self.obs, _ = self.env.reset(seed=0)
        self.episodes = 0

    def learn(self, steps: int) -> Tensor:
        log_probs, values, rewards, entropies = [], [], [], []
        done = False
        for _ in range(steps):
            logits, value = self.model(torch.as_tensor(self.obs))
            probs = F.softmax(logits, dim=-1)
            log_p = F.log_softmax(logits, dim=-1)
            action = torch.multinomial(probs, 1)
            self.obs, reward, terminated, truncated, _ = self.env.step(int(action))
            log_probs.append(log_p[action])
            values.append(value)
            entropies.append(-(probs * log_p).sum())
            rewards.append(float(reward))
            if terminated or truncated:
                done = True
                break
        if done:
            ret = torch.zeros(())
            self.episodes += 1
            self.obs, _ = self.env.reset()
        else:
            ret = self.model(torch.as_tensor(self.obs))[1].detach()
        loss = torch.zeros(())
        for t in reversed(range(len(rewards))):
            ret = rewards[t] + GAMMA * ret
            advantage = ret - values[t]
            loss = loss + advantage.square() - log_probs[t].squeeze() * advantage.detach() - 0.01 * entropies[t]
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
        return loss.detach()


@program()
def a3c(decorate: Decorator) -> Case:
    worker = Worker(ActorCritic())
    learn = decorate(worker.learn)

    def call(number: int):
        return learn(5 + number % 20), worker.episodes

    return Case(call, [learn], list(worker.model.parameters()))


@dataclass
class Buffer:
    """What a rollout has seen."""

    obs: list[Tensor] = field(default_factory=list)
    actions: list[Tensor] = field(default_factory=list)
    log_probs: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    dones: list[bool] = field(default_factory=list)

    def add(self, obs, action, log_prob, value, reward, done) -> None:
        self.obs.append(obs)
        self.actions.append(action)
        self.log_probs.append(log_prob)
        self.values.append(value)
        self.rewards.append(reward)
        self.dones.append(done)


@torch.no_grad()
def act(model: ActorCritic, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    logits, value = model(obs)
    action = torch.multinomial(F.softmax(logits, dim=-1), 1).squeeze(-1)
    return action, F.log_softmax(logits, dim=-1)[action], value


def collect(model: ActorCritic, env: gymnasium.Env, obs: Tensor, steps: int) -> tuple[Buffer, Tensor]:
    """Play for so many steps, over the ends of episodes."""
    buffer = Buffer()
    for _ in range(steps):
        action, log_prob, value = act(model, obs)
        following, reward, terminated, truncated, _ = env.step(action.item())
        buffer.add(obs, action, log_prob, value, float(reward), terminated or truncated)
        if terminated or truncated:
            following, _ = env.reset()
        obs = torch.as_tensor(following)
    return buffer, obs


def advantages(buffer: Buffer, last: Tensor, lam: float = 0.95) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates (Schulman et al. 2016, equation 16), and the returns."""
    values = [*buffer.values, last]
    estimates, running = [], torch.zeros(())
    for t in reversed(range(len(buffer.rewards))):
        alive = 0.0 if buffer.dones[t] else 1.0
        delta = buffer.rewards[t] + GAMMA * values[t + 1] * alive - values[t]
        running = delta + GAMMA * lam * alive * running
        estimates.insert(0, running)
    estimate = torch.stack(estimates)
    return estimate, estimate + torch.stack(buffer.values)


def update(model: ActorCritic, optimizer, buffer: Buffer, last: Tensor, epochs: int, clip: float) -> Tensor:
    """Several epochs of the clipped objective (Schulman et al. 2017, equation 7)."""
    estimate, returns = advantages(buffer, last)
    estimate = (estimate - estimate.mean()) / (estimate.std() + 1e-8)
    obs, actions, old = torch.stack(buffer.obs), torch.stack(buffer.actions), torch.stack(buffer.log_probs)
    total = torch.zeros(())
    for _ in range(epochs):
        logits, values = model(obs)
        log_prob = F.log_softmax(logits, dim=-1).gather(1, actions[:, None]).squeeze(1)
        ratio = (log_prob - old).exp()
        gain = torch.minimum(ratio * estimate, ratio.clamp(1 - clip, 1 + clip) * estimate)
        loss = F.mse_loss(values, returns) - gain.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + loss.detach()
        if (log_prob.detach() - old).mean().abs() > 0.05:
            break
    return total


@program()
def ppo(decorate: Decorator) -> Case:
    model, env = ActorCritic(), gymnasium.make("CartPole-v1")
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    state = {"obs": torch.as_tensor(env.reset(seed=0)[0])}

    def step(steps: int, epochs: int, clip: float) -> Tensor:
        buffer, state["obs"] = collect(model, env, state["obs"], steps)
        with torch.no_grad():
            last = model(state["obs"])[1]
        return update(model, optimizer, buffer, last, epochs, clip)

    step = decorate(step)

    def call(number: int):
        return step(24 + number % 9, 1 + number % 4, 0.2 - number / 1000)

    return Case(call, [step], list(model.parameters()))
