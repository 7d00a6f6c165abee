"""Training each model twice, eagerly and converted, alternately step by step from the same seed."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from types import ModuleType

import torch
from torch import nn

import janusc as janus
from janusc.demo import data, models

FORMS = ("class", "train_step")
SEED = 0
REQUIRED_SHARE = 0.9  # of the calls of a full run that must have run in a graph

Step = Callable[..., float]


@dataclass(frozen=True, eq=False)
class Task:
    """A model, the batches it is trained on and the held-out batch it is judged by."""

    name: str
    class_name: str
    arguments: tuple[int, ...]
    learning_rate: float
    batches: Sequence[data.Batch]
    test: data.Batch
    required_accuracy: float | None


@dataclass(frozen=True)
class Outcome:
    """What a pair of trainings gave: how equal they were, how fast, and what ran in a graph."""

    task: str
    form: str
    steps: int
    equal_steps: int
    parameters_equal: bool
    eager_accuracy: float
    accuracy: float
    required_accuracy: float | None
    eager_ms: float
    ms: float
    calls: int
    graph_calls: int
    graphs: int
    fallbacks: int
    guard_misses: int
    conversion_seconds: float

    @property
    def ratio(self) -> float:
        """The converted step's time over the eager one's."""
        return self.ms / self.eager_ms

    def problems(self, quick: bool = False) -> list[str]:
        """What is not as promised, one line each; ``quick`` asks neither for accuracy nor for most calls in a graph."""
        found = []
        if self.equal_steps != self.steps:
            found.append(f"losses differ in {self.steps - self.equal_steps} of {self.steps} steps")
        if not self.parameters_equal:
            found.append("the trained parameters differ")
        if self.accuracy != self.eager_accuracy:
            found.append(f"accuracy differs: {self.eager_accuracy:.4f} eager, {self.accuracy:.4f} converted")
        required = self.required_accuracy
        if required is not None and not quick and not self.accuracy > required:
            found.append(f"accuracy {self.accuracy:.2%} is not over {required:.0%}")
        if self.graph_calls == 0:
            found.append("the model did not run in a graph")
        elif not quick and self.graph_calls < REQUIRED_SHARE * self.calls:
            found.append(f"only {self.graph_calls} of {self.calls} calls ran in a graph")
        return [f"{self.task}, {self.form}: {text}" for text in found]


def digits_task(steps: int) -> Task:
    """LeNet on scanned digits."""
    digits = data.load_digits()
    batches = data.digit_batches(digits, steps)
    return Task("LeNet", "LeNet", (), 2e-3, batches, digits.test, required_accuracy=0.95)


def text_task(steps: int, lengths: tuple[int, int] = (10, 40)) -> Task:
    """The character LSTM on Python's own library; the last module's text is held out."""
    codes = data.encode(data.load_text())
    training, held_out = codes[: -data.CHARACTERS_PER_MODULE], codes[-data.CHARACTERS_PER_MODULE :]
    batches = data.text_batches(training, steps, batch=16, lengths=lengths, seed=1)
    (test,) = data.text_batches(held_out, 1, batch=64, lengths=(50, 50), seed=2)
    return Task("LSTM", "CharLSTM", (len(data.VOCABULARY),), 1e-2, batches, test, required_accuracy=None)


def copy_of_models() -> ModuleType:
    """The module of models, loaded a second time.

    The decorator changes a class in place, so it goes on the classes of this copy while the originals stay eager.
    """
    spec = importlib.util.spec_from_file_location(f"{models.__name__}_converted", models.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Trainer:
    """One side of a comparison: a model with its optimizer and scheduler, and the step that trains it."""

    def __init__(self, task: Task, model_class: Callable[..., nn.Module], step: Step) -> None:
        torch.manual_seed(SEED)
        self.model = model_class(*task.arguments)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=task.learning_rate)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=len(task.batches))
        self.losses: list[float] = []
        self.seconds: list[float] = []
        self._step = step

    def train(self, batch: data.Batch) -> None:
        """Run one step and note its loss and its time."""
        start = time.perf_counter()
        loss = self._step(self.model, self.optimizer, self.scheduler, batch.inputs, batch.targets)
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(loss)

    def accuracy(self, batch: data.Batch) -> float:
        """The share of targets that the model finds."""
        self.model.eval()
        with torch.no_grad():
            guesses = self.model(batch.inputs).argmax(1)
        return float((guesses == batch.targets).double().mean())

    def step_ms(self) -> float:
        """The median time of a step in milliseconds, the first tenth (at least 5 steps) left out as warm-up."""
        warm = min(max(5, len(self.seconds) // 10), len(self.seconds) - 1)
        return median(self.seconds[warm:]) * 1e3


class Comparison:
    """A task trained on both sides; ``form`` says whether the class or the whole training step is decorated."""

    def __init__(self, task: Task, form: str) -> None:
        self.task = task
        self.form = form
        model_class: Callable[..., nn.Module] = getattr(models, task.class_name)
        self.eager = Trainer(task, model_class, models.train_step)
        copy = copy_of_models()
        decorate = janus.compile(backend="aten", warmup=3)  # a demonstration is over before waiting would pay
        if form == "class":
            self.target = decorate(getattr(copy, task.class_name))
            self.converted = Trainer(task, self.target, models.train_step)
        elif form == "train_step":
            self.target = decorate(copy.train_step)
            self.converted = Trainer(task, model_class, self.target)
        else:
            raise ValueError(f"form must be one of {FORMS}, not {form!r}")

    def run(self) -> Iterator[float]:
        """Train both sides alternately; yields the loss after every step, for whoever shows progress."""
        for number, batch in enumerate(self.task.batches):
            # Who goes first changes, so that neither side always finds the batch in the processor's cache.
            pair = (self.eager, self.converted) if number % 2 == 0 else (self.converted, self.eager)
            for trainer in pair:
                trainer.train(batch)
            yield self.eager.losses[-1]

    def outcome(self) -> Outcome:
        """Compare what both sides arrived at."""
        stats = janus.stats(self.target)
        # Read before the accuracy is measured: that calls the model too, and the figures are about training.
        counts = (stats.calls, stats.graph_calls, stats.graphs, stats.fallbacks, stats.guard_misses)
        seconds = stats.conversion_seconds
        parameters = zip(self.eager.model.parameters(), self.converted.model.parameters(), strict=True)
        return Outcome(
            self.task.name,
            self.form,
            len(self.task.batches),
            sum(a.hex() == b.hex() for a, b in zip(self.eager.losses, self.converted.losses, strict=True)),
            all(torch.equal(a, b) for a, b in parameters),
            self.eager.accuracy(self.task.test),
            self.converted.accuracy(self.task.test),
            self.task.required_accuracy,
            self.eager.step_ms(),
            self.converted.step_ms(),
            *counts,
            seconds,
        )
