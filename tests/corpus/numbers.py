"""Numbers, sizes and lengths that change from call to call: run-time values after the second one, in one graph."""

import torch
from torch import nn

from . import Call, program

SIZES = (3, 3, 4, 5, 2, 7, 1, 4, 6)


def randn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@program(max_graphs=2)
def learning_rates():
    weight = torch.ones(3)

    def f(gradient, rate, step):
        with torch.no_grad():
            weight.sub_(gradient * (rate / (1 + step)))
            if step % 2 == 0:
                weight.mul_(1 - rate)
        return weight.clone()

    return f, [(torch.ones(3), 0.1 / (i + 1), i) for i in range(8)], weight


@program(max_graphs=2)
def text_lengths():
    def f(x, text, rows):
        return x * len(text) + len(rows), text[: len(text) // 2]

    return f, [(torch.ones(2), "s" * i, [0] * (i % 3)) for i in range(8)]


@program(max_graphs=2, decorates=True)
def counters(decorate):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0
            self.average = 0.0
            self.register_buffer("seen", torch.zeros((), dtype=torch.long))

        @decorate
        def forward(self, x):
            self.steps += 1
            self.seen += x.size(0)
            self.average += (x.mean().item() - self.average) / self.steps
            scale = min(1.0, self.steps / 4)
            return x * scale + self.average

    model = Counter()
    return Counter.forward, [(model, randn(n, 2)) for n in SIZES], model


@program(max_graphs=2)
def values_of_tensors():
    def f(x, lengths):
        n = int(lengths.max())
        first, second = lengths[0].item(), lengths[1].item()
        values = lengths.tolist()
        total = float(x.sum())
        return x[:n] * total, x[first:second], x[values[1] :].sum() * values[0], bool(total > 0), len(values)

    pairs = ((1, 2), (2, 3), (0, 3), (1, 4), (0, 0), (3, 5), (2, 2))
    return f, [(randn(6, 2), torch.tensor(pair)) for pair in pairs]


@program(max_graphs=2)
def halves():
    def f(x):
        n = x.shape[0] // 2
        left, right = x[:n], x[n:]
        middle = x.narrow(0, n, 1)
        return left.sum() - right.sum(), middle, torch.zeros(n, x.size(-1)) + 1, x[-1], x[: n + 1 : 2]

    return f, [(randn(n, 3),) for n in SIZES]


@program(max_graphs=2)
def views():
    def f(x, heads):
        batch, length, width = x.shape
        y = x.view(batch, length, heads, width // heads).transpose(1, 2)
        z = y.reshape(batch * heads, length, -1)
        return z.view(-1, width // heads).mean(0), x.view(-1, x.size(-1)), x.expand(2, -1, -1, -1).flatten(1)

    return f, [(randn(n, n % 3 + 1, 8), 2 if n % 2 else 4) for n in SIZES]


@program(max_graphs=2)
def windows():
    def f(x, start, stop):
        x = x[start:stop]
        y = torch.zeros(10)
        y[start : start + x.size(0)] = x
        y[-1] = start
        return y, x[..., None], x[stop - start - 1 :: -1] if start < 0 else x

    return f, [(randn(10), i, min(10, i + n)) for i, n in enumerate(SIZES)]


@program(max_graphs=2)
def columns():
    def f(x):
        total = torch.zeros(x.size(0))
        for i in range(x.size(1)):
            total = total * 0.5 + x[:, i] * i
        for i in range(x.size(1) - 1, 0, -1):
            total = total + x[:, i]
        return total

    return f, [(randn(2, n),) for n in SIZES]


@program(max_graphs=2)
def positions():
    table = nn.Embedding(16, 4)

    def f(x, offset):
        n = x.size(0)
        places = torch.arange(n) + offset
        mask = torch.arange(n).unsqueeze(0) <= torch.arange(offset, offset + n).unsqueeze(1)
        steps = torch.linspace(0, 1, n)
        return table(places) + x, mask, steps, torch.ones(n, n).tril(), torch.full((n,), offset)

    return f, [(randn(n, 4), i) for i, n in enumerate(SIZES)]


@program(max_graphs=2)
def sizes_from_data():
    def f(x, k):
        found = (x > 0).nonzero()
        chosen = x[x > 0]
        values, counts = (x * 2).round().unique(return_counts=True)
        top, where = x.flatten().topk(k)
        low = torch.where(x < 0)
        half = chosen[: len(chosen) // 2]
        return found, chosen * 2, values, counts, top, where, low[0].size(0), half, found.numel(), values.shape[0]

    return f, [(randn(n, 3), n % 3 + 1) for n in SIZES]


@program(max_graphs=2)
def rows_that_a_mask_leaves():
    layer = nn.Linear(3, 2)

    def f(x):
        kept = x[x[:, 0] > 0]
        if kept.size(0) == 0:
            return torch.zeros(2)
        y = layer(kept)
        for row in y:
            y = y + row
        return y.mean(0)

    return f, [(randn(n, 3),) for n in SIZES]


@program(max_graphs=2)
def as_many_arguments_as_there_are():
    def f(*xs, scale=1.0):
        total = torch.zeros(2)
        for x in xs:
            total = total * 0.5 + x
        return total * scale + len(xs)

    def arguments(n):
        return Call(*[randn(2) + i for i in range(n)], scale=n / 2)

    return f, [arguments(n) for n in (2, 2, 3, 4, 1, 6, 0, 5)]


@program(max_graphs=2)
def arguments_handed_on():
    def inner(*xs):
        return torch.stack(xs).sum(0) * len(xs)

    def f(*xs):
        return inner(*xs) + torch.cat(xs).sum()

    return f, [tuple(randn(2) + i for i in range(n)) for n in (2, 2, 3, 4, 1, 6, 5)]


@program()
def views_of_listed_tensors():
    def f(xs):
        grid = torch.meshgrid(xs, indexing="ij")
        if len(xs) == 1:
            grid[0].add_(1)
        rows = torch.atleast_2d(xs)
        rows[0].mul_(2)
        return grid[0] + grid[-1], rows, sum(xs[1:]), list(xs)[::-1]

    worlds = [[randn(2) + i for i in range(n)] for n in (2, 1, 3, 4, 1, 3, 1)]
    return f, [(xs,) for xs in worlds], worlds


@program(max_graphs=2)
def many_counters():
    class Schedule:
        step = 0
        rate = 0.1
        history: dict = {}

    schedule = Schedule()
    schedule.history = {"steps": 0, "rate": 0.1}

    def f(x):
        schedule.step += 1
        schedule.rate = 0.1 * 0.9**schedule.step
        schedule.history["steps"] += x.size(0)
        schedule.history["rate"] = schedule.rate
        return x * schedule.rate + schedule.history["steps"]

    return f, [(randn(n, 2),) for n in SIZES], schedule


@program(max_graphs=2)
def sums_of_numbers():
    def f(x, weights):
        total = sum(weights)
        scaled = [w / total for w in weights]
        best = max(range(len(weights)), key=lambda i: weights[i])
        return x * total, scaled, best, x[best % 2]

    return f, [(torch.ones(2), [float(i + j) for j in range(n)]) for i, n in enumerate(SIZES)]


@program(max_graphs=2)
def padded():
    def f(xs, width):
        longest = max(x.size(0) for x in xs)
        rows = []
        for x in xs:
            rows.append(nn.functional.pad(x, (0, longest - x.size(0)), value=float(width)))
        batch = torch.stack(rows)
        lengths = torch.tensor([len(x) for x in xs])
        mask = torch.arange(longest)[None, :] < lengths[:, None]
        return batch.masked_fill(~mask, 0.0).sum(1) / lengths, batch.shape[1] * width

    return f, [([randn(m) for m in range(1, n + 1)], n) for n in SIZES]


@program(max_graphs=1)
def what_a_gradient_keeps_of_a_number():
    def f(x, rate):
        y, z = x + 1, x - 1
        y *= 0.5
        z /= 3
        found = [x * 0.5, 2 * x, x / 3, x.mul(2), x.div(0.5), x + 1, 1 - x, y, z, y.mul_(4), x * rate, rate - x]
        kept = [getattr(result.grad_fn, "_saved_other", None) for result in found]
        return found, [k if k is None else (k.dtype, k.item()) for k in kept]

    leaves = [randn(3).to(dtype).requires_grad_() for dtype in (torch.float32, torch.float64)]
    return f, [(leaves[i % 2], 0.25) for i in range(8)] + [(randn(3), 0.25)] * 2


@program(max_graphs=1)
def numbers_that_a_processor_may_take_for_zero():
    def f(x, small):
        return x * 1e-40 + 1e-45, 1e-39 - x, x + small

    def flush(on):
        def step(_):
            torch.set_flush_denormal(on)

        return step

    ordinary = [(torch.zeros(2), 1e-41), (torch.ones(2).double(), 1e-41)]
    return f, [flush(True), *ordinary * 3, flush(False), *ordinary]
