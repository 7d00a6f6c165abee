"""Training loops as they are written: forward and backward pass are one kernel, and so is the step."""

import copy

import pytest
import torch
import torch.nn.functional as F
from stepped import run_beside_eager
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

import janusc as janus

pytestmark = pytest.mark.usefixtures("uncompiled")


class Training:
    def __init__(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.parts = [self.net, self.optimizer]

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        self.finish()
        return loss.item()

    def finish(self):
        """What is done behind each step."""


class Scheduled(Training):
    def __init__(self, make):
        super().__init__()
        self.scheduler = make(self.optimizer)

    def finish(self):
        self.scheduler.step()


class Averaged(Training):
    """Has an average of the weights."""

    def __init__(self):
        super().__init__()
        self.average = copy.deepcopy(self.net)
        self.parts.append(self.average)

    def finish(self):
        with torch.no_grad():
            for p, q in zip(self.net.parameters(), self.average.parameters()):
                q.mul_(0.9).add_(p, alpha=0.1)


class Interpolated(Averaged):
    def finish(self):
        with torch.no_grad():
            for p, q in zip(self.net.parameters(), self.average.parameters()):
                q.lerp_(p, 0.1)


class Clipped(Training):
    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 0.1)
        self.optimizer.step()
        return loss.item()


class ClippedEach(Training):
    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_value_(self.net.parameters(), 0.01)
        self.optimizer.step()
        return loss.item()


class DroppedAtTheEnd(Training):
    def step(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


class Zeroed(Training):
    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Trainer(Training):
    """Has methods for its parts, and notes what it did."""

    def __init__(self):
        super().__init__()
        self.criterion, self.count, self.history = torch.nn.CrossEntropyLoss(), 0, []

    def training_step(self, batch):
        x, y = batch
        return self.criterion(self.net(x), y)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.training_step((x, y))
        loss.backward()
        self.optimizer.step()
        self.count += 1
        self.history.append(loss.item())
        return self.history[-1], self.count


def batches(count, size=4):
    torch.manual_seed(0)
    return [(torch.randn(size, 3), torch.randint(0, 2, (size,))) for _ in range(count)]


SCHEDULERS = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, 3),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 20),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=30),
}

STEPS = {
    **{name: lambda make=make: Scheduled(make) for name, make in SCHEDULERS.items()},
    **{cls.__name__: cls for cls in (Training, Averaged, Interpolated, Clipped, ClippedEach)},
    **{cls.__name__: cls for cls in (DroppedAtTheEnd, Zeroed, Trainer)},
}


def assert_kernels(compiled, least, blocks=1):
    """All blocks have kernels, and one made so many steps at least."""
    lines = [line.strip() for line in str(janus.explain(compiled)).splitlines()]
    assert [line for line in lines if line.startswith("block")] == [f"block {i + 1}: a kernel" for i in range(blocks)]
    (made,) = (line for line in lines if line.startswith("step"))
    assert made.startswith("step 1: SGD: a kernel made ") and int(made.split()[6]) >= least


@pytest.mark.parametrize("name", STEPS)
def test_a_step(name):
    compiled = run_beside_eager(STEPS[name], batches(10))
    assert_kernels(compiled, 5)
    assert janus.stats(compiled).graph_calls == 8 and janus.stats(compiled).fallbacks == 0


class Epoch(Training):
    def step(self, loader):
        total = 0.0
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / 6


class Measured(Training):
    """What is added up begins with whole numbers."""

    def step(self, loader):
        total, right, seen = 0, 0, 0
        for x, y in loader:
            self.optimizer.zero_grad()
            out = self.net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            self.optimizer.step()
            total += loss.item() * x.size(0)
            right += (out.argmax(1) == y).sum().item()
            seen += y.size(0)
        return total / seen, right / seen, seen


class Accumulated(Training):
    def step(self, loader):
        total = 0.0
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(self.net(x), y) / 2
            loss.backward()
            total += loss.item()
            if (i + 1) % 2 == 0 or i + 1 == len(loader):
                self.optimizer.step()
                self.optimizer.zero_grad()
        return total


class AccumulatedByEnd(Training):
    """The gradients are dropped where they begin."""

    def step(self, loader):
        for i, (x, y) in enumerate(loader):
            if i % 3 == 0:
                self.optimizer.zero_grad()
            loss = F.cross_entropy(self.net(x), y) / 3
            loss.backward()
            if i % 3 == 2:
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                self.optimizer.step()
        return loss.item()


EPOCHS = {cls.__name__: (cls, blocks) for cls, blocks in ((Epoch, 1), (Measured, 2), (Accumulated, 1))}


@pytest.mark.parametrize("is_loader", [False, True])
@pytest.mark.parametrize("name", EPOCHS)
def test_an_epoch(name, is_loader):
    make, blocks = EPOCHS[name]
    data = batches(6)
    if is_loader:
        data = DataLoader(TensorDataset(*map(torch.cat, zip(*data))), batch_size=4)
    compiled = run_beside_eager(make, [(data,)] * 6)
    assert_kernels(compiled, 8, blocks)
    text = str(janus.explain(compiled))
    assert janus.stats(compiled).graph_calls == 4 and "JC318" not in text
    has_length = name == "Accumulated" and is_loader  # which is a call of the program's
    assert text.count("ordinary Python  ") == 2 + has_length


def test_gradients_are_dropped_under_a_condition():
    compiled = run_beside_eager(AccumulatedByEnd, [(batches(6),)] * 6)
    assert janus.stats(compiled).graph_calls >= 3
    assert "step 1: SGD: a kernel made" in str(janus.explain(compiled))


def test_the_last_batch_is_smaller():
    data = [*batches(4), *batches(1, 3)]
    compiled = run_beside_eager(Epoch, [(data,)] * 6)
    assert "2 kernels" in str(janus.explain(compiled)) and janus.stats(compiled).graph_calls == 4


class Every(Training):
    """Makes a step at every k-th call."""

    def __init__(self):
        super().__init__()
        self.count, self.told = 0, []

    def step(self, i, x, y):
        loss = F.cross_entropy(self.net(x), y) / 2
        loss.backward()
        if (i + 1) % 3 == 0:
            self.told.append(i)
            self.optimizer.step()
            self.optimizer.zero_grad()
        else:
            self.count += 1
        return loss.item(), self.count, list(self.told)


class Counting(Every):
    def step(self, i, x, y):
        loss = F.cross_entropy(self.net(x), y) / 2
        loss.backward()
        self.count += 1
        if self.count % 2 == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.item(), self.count


@pytest.mark.parametrize("make", [Every, Counting])
@pytest.mark.parametrize("backend", [None, "aten"])
def test_a_step_at_every_kth_call(make, backend):
    calls = [(i, x, y) for i, (x, y) in enumerate(batches(16))]
    compiled = run_beside_eager(make, calls, **({} if backend is None else {"backend": backend}))
    assert janus.stats(compiled).graph_calls >= 12
    assert "JC324" not in str(janus.explain(compiled))
    if backend is None:
        assert "step 1: SGD: a kernel made" in str(janus.explain(compiled))


def test_an_error_of_a_step_under_a_condition_is_the_programs():
    ours = Every()
    compiled = janus.compile(ours.step, backend="aten", warmup=1)
    for i, (x, y) in enumerate(batches(6)):
        compiled(i, x, y)

    def complain(*_):
        raise ValueError("not now")

    ours.optimizer.register_step_pre_hook(complain)
    (x, y), weights = batches(1)[0], [p.detach().clone() for p in ours.net.parameters()]
    compiled(6, x, y)
    with pytest.raises(ValueError, match="not now"):
        compiled(8, x, y)
    assert ours.told[-1] == 8 and all(p.grad is not None for p in ours.net.parameters())
    assert all(map(torch.equal, weights, (p.detach() for p in ours.net.parameters())))


class Own:
    """No optimizer of torch's, but its name for a step."""

    def __init__(self, parameters):
        self.parameters, self.steps = parameters, 0

    def step(self):
        self.steps += 1


def test_a_step_of_the_programs_own_under_a_condition():
    class Owned(Training):
        def __init__(self):
            super().__init__()
            self.own = Own(list(self.net.parameters()))

        def step(self, i, x, y):
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
            if i % 2 == 0:
                self.own.step()
            return loss.item(), self.own.steps

    run_beside_eager(Owned, [(i, x, y) for i, (x, y) in enumerate(batches(10))])


class Deciding:
    """Counts how often it was asked for its truth."""

    def __init__(self):
        self.asked = 0

    def __bool__(self):
        self.asked += 1
        return self.asked % 2 == 0


def test_a_condition_is_asked_once():
    class Asking(Training):
        def __init__(self):
            super().__init__()
            self.due = Deciding()

        def step(self, x, y):
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
            if self.due:
                self.optimizer.step()
                self.optimizer.zero_grad()
            return loss.item(), self.due.asked

    run_beside_eager(Asking, batches(10))


def test_a_sum_of_any_kind():
    """What is added up may turn out to be something else than it was."""

    class Adding(Training):
        def step(self, loader, start, is_tensor):
            total = start
            for x, y in loader:
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.net(x), y)
                loss.backward()
                self.optimizer.step()
                total += loss.detach() if is_tensor else loss.item()
            return total

    starts = [0.0, 0.0, 0.0, 0, 0, torch.zeros(()), torch.zeros(1), 0.0, True]
    calls = [(batches(3), start, flag) for flag in (False, True) for start in starts]
    compiled = run_beside_eager(Adding, [(data, copy.deepcopy(start), flag) for data, start, flag in calls], "aten")
    assert janus.stats(compiled).graph_calls > 4
