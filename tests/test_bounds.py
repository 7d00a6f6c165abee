"""How much is made of what varies: few graphs, whatever the numbers, lengths, texts and objects; and in little time."""

import time

import numpy
import torch
from torch import nn

import janusc as janus


def compiled(f, **options):
    return janus.compile(f, **{"backend": "aten", "warmup": 1, **options})


def test_a_schedule_of_rates_is_two_graphs():
    def train(decorate):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=40)

        @decorate
        def step(x, rate, moment):
            loss = model(x).pow(2).mean() * rate
            loss.backward()
            with torch.no_grad():
                for p in model.parameters():
                    p.sub_(p.grad, alpha=rate * (1 - moment))
                    p.grad = None
            return loss

        x = torch.linspace(-1, 1, 12).view(4, 3)
        losses = []
        for k in range(40):
            losses.append(float(step(x, schedule.get_last_lr()[0], 0.9 - k / 100).detach()))
            optimizer.step()
            schedule.step()
        return step, losses, list(model.parameters())

    step, losses, weights = train(compiled)
    _, expected, others = train(lambda f: f)
    assert losses == expected
    assert all(torch.equal(a, b) for a, b in zip(weights, others))
    assert janus.stats(step).conversions <= 2
    assert janus.stats(step).graph_calls >= 30


def test_an_optimizer_inside_is_bounded_too():
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)

    @compiled
    def step(x):
        optimizer.zero_grad()
        loss = torch.relu(model(x)).sum()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss

    for _ in range(30):
        step(torch.ones(2, 3))
    assert janus.stats(step).conversions <= 3
    assert janus.stats(step).graph_calls >= 20


def test_a_running_index_is_two_graphs():
    @compiled
    def step(carry, out, t):
        carry = torch.tanh(carry + out[t - 1])
        out[t] = carry.sum() + t
        return carry

    carry, out = torch.zeros(3), torch.zeros(100)
    other, expected = torch.zeros(3), torch.zeros(100)
    for t in range(100):
        carry = step(carry, out, t)
        other = torch.tanh(other + expected[t - 1])
        expected[t] = other.sum() + t
    assert torch.equal(out, expected)
    assert janus.stats(step).conversions <= 2


def test_generation_is_three_graphs():
    torch.manual_seed(0)
    embed, mix, head = nn.Embedding(9, 8), nn.Linear(8, 24), nn.Linear(8, 9)

    def step(token, cache, position):
        q, k, v = mix(embed(token) + position * 0.01).chunk(3, -1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        mixed = torch.softmax(q @ k.transpose(1, 2) / k.shape[-1] ** 0.5, -1) @ v
        return head(mixed[:, -1]).argmax(-1, keepdim=True), (k, v)

    def generate(f):
        token, cache, tokens = torch.tensor([[1, 2, 3]]), None, []
        for position in range(32):
            token, cache = f(token, cache, position)
            tokens.append(int(token))
        return tokens

    fast = compiled(step)
    assert generate(fast) == generate(step) == generate(fast)
    assert janus.stats(fast).graphs <= 3


def test_a_search_of_any_length_is_two_graphs():
    table = torch.linspace(-3, 3, 49).view(7, 7).cos().log_softmax(-1)

    def search(start, width, most, end):
        scores, tokens = torch.zeros(1), torch.tensor([[start]])
        for _ in range(most):
            total = (scores[:, None] + table[tokens[:, -1]]).flatten()
            scores, picked = total.topk(width)
            tokens = torch.cat([tokens[picked // 7], (picked % 7)[:, None]], 1)
            if (tokens[:, -1] == end).all():
                break
        return tokens, scores

    fast = compiled(search)
    for most in (2, 2, 2, 5, 9, 1, 13, 4, 20, 3):
        a, b = fast(most % 7, 3, most, most % 5), search(most % 7, 3, most, most % 5)
        assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])
    assert janus.stats(fast).graphs <= 2


def test_many_shapes_leave_the_first_in_its_graph():
    @compiled
    def f(x):
        if x.shape[0] % 2 == 0:
            x = x.reshape(2, -1)
        return torch.relu(x).sum(-1) * x.shape[0]

    def run(n):
        before = janus.stats(f).graph_calls
        x = torch.ones(n, 4)
        expected = torch.relu(x.reshape(2, -1) if n % 2 == 0 else x).sum(-1) * (2 if n % 2 == 0 else n)
        assert torch.equal(f(x), expected)
        return janus.stats(f).graph_calls - before

    for n in (3, 3, 3, *range(1, 30), *range(1, 30)):
        run(n)
    assert run(3) == 1
    assert janus.stats(f).graphs <= 4
    assert janus.stats(f).evictions == 0


def test_forty_fresh_modules_are_one_graph():
    @compiled
    def f(model, x):
        return model(x) * 2

    for k in range(40):
        model = nn.Linear(2, 2)
        x = torch.full((1, 2), float(k))
        assert torch.equal(f(model, x), model(x) * 2)
    assert janus.stats(f).conversions == 1


def test_forty_instances_that_differ_in_numbers_and_texts():
    class Model(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k, self.name, self.rate = k, f"model {k}", k / 7
            self.layer = nn.Linear(2, 2)

        @compiled
        def forward(self, x):
            return self.layer(x) * self.rate + self.k + len(self.name)

    models = [Model(k) for k in range(40)]
    for _ in range(3):
        for k, model in enumerate(models):
            x = torch.ones(1, 2)
            assert torch.equal(model(x), model.layer(x) * (k / 7) + k + len(f"model {k}"))
    assert janus.stats(Model.forward).conversions <= 2
    assert janus.stats(Model.forward).graph_calls >= 110


def test_a_bound_method_compiled_again_and_again():
    class Scale:
        def __init__(self, k):
            self.k = k

        def apply(self, x):
            return torch.sin(x) * self.k

    scale = Scale(3)
    first = compiled(scale.apply)
    for _ in range(4):
        first(torch.ones(2))
    made = janus.stats(first).conversions
    for k in range(10):
        scale.k = k
        again = compiled(scale.apply)
        assert torch.equal(again(torch.ones(2)), torch.sin(torch.ones(2)) * k)
    assert janus.stats(first).conversions == made == 1


def test_modes_and_frozen_copies_are_bounded():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.drop = nn.Linear(3, 3), nn.Dropout(0.5)

        @compiled
        def forward(self, x):
            return self.drop(torch.tanh(self.layer(x)))

    models = [Model() for _ in range(4)]
    models[1].requires_grad_(False)
    models[2].eval()
    models[3].eval().requires_grad_(False)
    for n in (2, 3, 4, 5, 6):
        for model in models:
            for grad in (True, False):
                with torch.set_grad_enabled(grad):
                    out = model(torch.ones(n, 3))
                assert out.requires_grad is (grad and model.layer.weight.requires_grad)
    assert janus.stats(Model.forward).graphs <= 4
    assert janus.stats(Model.forward).conversions <= 6


def test_arrays_and_numbers_of_an_environment_are_bounded():
    policy = nn.Linear(3, 2)

    @compiled
    def act(state, epsilon, step):
        logits = policy(torch.as_tensor(state, dtype=torch.float32))
        return (logits.softmax(-1) * (1 - epsilon) + epsilon / 2).detach().numpy(), step + 1

    generator = numpy.random.default_rng(0)
    for k in range(30):
        state = generator.normal(size=3)
        chosen, step = act(state, 1 / (k + 1), k)
        logits = policy(torch.as_tensor(state, dtype=torch.float32))
        assert (chosen == (logits.softmax(-1) * (1 - 1 / (k + 1)) + 1 / (k + 1) / 2).detach().numpy()).all()
        assert step == k + 1
    assert janus.stats(act).conversions <= 2
    assert janus.stats(act).graph_calls >= 25


def test_counts_of_rows_that_only_the_data_know():
    layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

    def forward(x, mask):
        for layer in layers:
            n = int(mask.sum())
            kept = x[mask]
            x = torch.cat([torch.tanh(layer(kept)), x[~mask]]) + n
            mask = mask & (x.sum(-1) > 0)
        return x

    fast = compiled(forward)
    torch.manual_seed(1)
    for _ in range(20):
        x, mask = torch.randn(6, 3), torch.rand(6) > 0.4
        assert torch.equal(fast(x, mask), forward(x, mask))
    assert janus.stats(fast).graphs == 1
    assert janus.stats(fast).graph_calls >= 18


def test_a_graph_does_not_grow_with_the_length_of_a_loop():
    cell = nn.RNNCell(2, 2)

    def f(xs):
        h = torch.zeros(1, 2)
        for x in xs:
            h = cell(x, h)
        return h

    def lines(steps):
        fast = compiled(f)
        xs = torch.randn(steps, 1, 2)
        for _ in range(3):
            assert torch.equal(fast(xs), f(xs))
        assert janus.stats(fast).graph_calls == 2
        return len(str(janus.graphs(fast)).splitlines())

    assert lines(500) == lines(20)


def test_a_long_chain_is_converted_in_linear_time():
    class Dense(nn.Module):
        def __init__(self, count):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2 + k, 1) for k in range(count)])

        def forward(self, x):
            features = [x]
            for layer in self.layers:
                features.append(torch.relu(layer(torch.cat(features, 1))))
            return torch.cat(features, 1)

    def seconds(count):
        model = compiled(Dense(count))
        plain = Dense(count)
        plain.load_state_dict(model.state_dict())
        x = torch.ones(1, 2)
        model(x)
        before = time.thread_time()
        assert torch.equal(model(x), plain(x))
        assert torch.equal(model(x), plain(x))
        return time.thread_time() - before

    seconds(5)
    assert seconds(80) < 40 * max(seconds(10), 0.02)


def test_a_program_of_a_thousand_operations(tmp_path):
    text = "def f(x):\n" + "".join(f"    x = x * {1 + k % 3 / 100} - {k % 7}\n" for k in range(600)) + "    return x\n"
    path = tmp_path / "long_program.py"
    path.write_text(text)
    space = {}
    exec(compile(text, str(path), "exec"), space)
    f = space["f"]
    fast = compiled(f)
    for _ in range(3):
        assert torch.equal(fast(torch.ones(2)), f(torch.ones(2)))
    assert janus.stats(fast).graph_calls == 2


def test_a_chain_of_thousands_of_results_in_backward():
    def f(x, n):
        for k in range(n):
            x = torch.sin(x) + k
        return x.sum()

    fast = compiled(f)
    for n in (3, 3, 4, 5, 3000):
        x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        fast(x, n).backward()
        f(y, n).backward()
        assert torch.equal(x.grad, y.grad)


def test_an_argument_of_three_kinds_in_the_first_calls_is_one_conversion():
    def f(x, hint):
        if hint is None:
            return x * 2
        if isinstance(hint, torch.Tensor):
            return x + hint
        return x * 2 + hint

    graph = compiled(f, warmup=3)
    hints = (None, 3, torch.linspace(-1, 1, 4))
    for k in range(15):
        x = torch.ones(4) + k
        assert torch.equal(graph(x, hints[k % 3]), f(x, hints[k % 3]))
    stats = janus.stats(graph)
    assert (stats.conversions, stats.graphs, stats.graph_calls) == (1, 1, 12), janus.explain(graph)


def test_a_dict_of_other_keys_in_the_first_calls_is_one_conversion():
    def f(parts):
        total = torch.zeros(3)
        for name, part in parts.items():
            total = total + part * len(name)
        return torch.tanh(total)

    graph = compiled(f, warmup=2)
    for k in range(12):
        parts = {name: torch.full((3,), float(i)) for i, name in enumerate("abcde"[: k % 5 + 1])}
        assert torch.equal(graph(parts), f(parts))
    stats = janus.stats(graph)
    assert (stats.conversions, stats.graphs, stats.graph_calls) == (1, 1, 10), janus.explain(graph)


def test_what_varied_before_is_given_up_with_what_varies_now():
    class Mixing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.memory = nn.Linear(3, 3), None

        def forward(self, x, scale, keep):
            y = self.layer(x) if self.memory is None else self.layer(x) + self.memory
            self.memory = y.detach() if keep else None
            return y if scale is None else y * scale

    model, plain = Mixing(), Mixing()
    plain.load_state_dict(model.state_dict())
    graph = compiled(model)
    scales = (None, 2.0, 3, None, 0.5, torch.ones(3), None, None, 3, 0.25)
    for k in range(40):
        x, keep = torch.ones(3) * (k % 4), (0, 0, 0, 1, 0, 1, 1, 0, 0, 1)[k % 10]
        assert torch.equal(graph(x, scales[k % 10], keep), plain(x, scales[k % 10], keep))
    stats = janus.stats(model)
    assert stats.graphs == 1 and stats.conversions <= 3 and stats.graph_calls >= 37, janus.explain(model)
