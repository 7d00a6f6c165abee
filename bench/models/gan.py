"""A generative adversarial network of two perceptrons after Goodfellow et al. (2014), on scanned digits of 8 by 8."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from janusc.demo.data import load_digits
from models.steps import Decorator, Training, register

BATCH, NOISE, WIDTH, PIXELS = 128, 16, 64, 64


def perceptron(inputs: int, outputs: int, last: nn.Module) -> nn.Sequential:
    """Three linear layers."""
    return nn.Sequential(
        nn.Linear(inputs, WIDTH),
        nn.LeakyReLU(0.2),
        nn.Linear(WIDTH, WIDTH),
        nn.LeakyReLU(0.2),
        nn.Linear(WIDTH, outputs),
        last,
    )


def train(decorate_step: Decorator, decorate_model: Decorator) -> Training:
    """Two losses and two Adams in one step; the noise is drawn in it."""
    generator, critic = perceptron(NOISE, PIXELS, nn.Sigmoid()), perceptron(PIXELS, 1, nn.Identity())
    generate, judge = decorate_model(generator), decorate_model(critic)
    for_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)

    def step(images: Tensor) -> tuple[float, float]:
        fakes = generate(torch.randn(BATCH, NOISE))
        for_critic.zero_grad()
        on_real = F.binary_cross_entropy_with_logits(judge(images), ones)
        on_fakes = F.binary_cross_entropy_with_logits(judge(fakes.detach()), zeros)
        critic_loss = on_real + on_fakes
        critic_loss.backward()
        for_critic.step()

        for_generator.zero_grad()
        generator_loss = F.binary_cross_entropy_with_logits(judge(fakes), ones)
        generator_loss.backward()
        for_generator.step()
        return critic_loss.item(), generator_loss.item()

    images = F.adaptive_avg_pool2d(load_digits().images, 8).flatten(1)
    inputs = [(batch,) for batch in images.split(BATCH) if len(batch) == BATCH]
    return Training(decorate_step(step), inputs, [generator, critic], [for_generator, for_critic])


register("gan, batch 128", 0.5, train)
