"""Modules as they are used: hooks that come and go, lazy layers, whole training steps, shared and frozen parts."""

import copy
import random

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from . import ones, program


def net(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@program()
def hooks_after_the_first_calls():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = net(3, 4, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.head(torch.tanh(self.body(x)))

    model, log, handles = Model(), [], []

    def hook_body(f):
        handles.append(model.body[0].register_forward_hook(lambda m, a, out: log.append("forward") or out * 2))
        return f(torch.ones(2, 3))

    def hook_itself(f):
        handles.append(model.register_forward_pre_hook(lambda m, a: (log.append("pre"), a)[1]))
        handles.append(model.register_forward_hook(lambda m, a, k, out: log.append(dict(k)), with_kwargs=True))
        return f(x=torch.ones(2, 3))

    def hook_backward(f):
        handles.append(model.head.register_full_backward_hook(lambda m, i, o: log.append(len(o))))
        out = f(torch.ones(2, 3))
        out.sum().backward()
        return out

    def remove(f):
        while handles:
            handles.pop().remove()
        return f(torch.ones(2, 3))

    def hook_all(f):
        handle = nn.modules.module.register_module_forward_hook(lambda m, a, out: log.append(type(m).__name__))
        try:
            return f(torch.ones(2, 3))
        finally:
            handle.remove()

    two = ones(2, 2, 3)
    return model, [*two, *two, hook_body, *two, hook_itself, *two, hook_backward, remove, *two, hook_all, *two], log


@program()
def hooks_on_tensors_and_parameters():
    layer = nn.Linear(3, 3)
    log = []

    def f(x):
        y = layer(x)
        if y.requires_grad:
            y.register_hook(lambda g: log.append("y") or g * 2)
        z = y * 3
        z.retain_grad()
        return z, y

    def step(f):
        layer.zero_grad()
        z, y = f(torch.ones(3))
        z.sum().backward()
        return layer.weight.grad.clone(), z.grad

    def hook_weight(f):
        layer.weight.register_hook(lambda g: g + 1)
        layer.bias.register_post_accumulate_grad_hook(lambda p: log.append("bias"))
        return step(f)

    return f, [step, step, step, step, hook_weight, step], log


@program()
def layers_made_on_the_first_call():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = None
            self.lazy = nn.LazyLinear(2)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            if self.inner is None:
                self.inner = nn.Linear(x.shape[-1], 3)
                self.register_buffer("mean", x.mean(0))
            if not hasattr(self, "scale"):
                self.scale = nn.Parameter(torch.full((3,), 2.0))
            if x.shape[0] != getattr(self, "rows", None):
                self.rows = x.shape[0]
                self.mask = torch.ones(self.rows, 1)
            self.mean = 0.5 * self.mean + 0.5 * x.mean(0)
            return self.lazy(self.inner(x - self.mean) * self.scale) * self.mask

    return Lazy(), [*ones(4, 2, 3), *ones(2, 4, 3), *ones(1, 2, 3)]


@program()
def whole_training_step():
    model = net(4, 8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=4)
    criterion = nn.CrossEntropyLoss()

    def f(x, y):
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        accuracy = (out.argmax(1) == y).float().mean().item()
        return loss.item(), accuracy, norm

    def batch(n):
        x = torch.linspace(-1, 1, n * 4).view(n, 4)
        return x, (x.sum(1) > 0).long()

    return f, [batch(n) for n in (6, 6, 6, 6, 3, 6)], model, lambda: [g["lr"] for g in optimizer.param_groups]


@program()
def rates_that_the_scheduler_changes():
    weights = [torch.ones(3, requires_grad=True), torch.zeros(2, requires_grad=True)]
    state = {"step": 0, "m": [torch.zeros(3), torch.zeros(2)], "v": [torch.zeros(3), torch.zeros(2)]}

    def f(lr, betas, weight_decay):
        loss = sum(((w - 2) ** 2).sum() for w in weights)
        grads = torch.autograd.grad(loss, weights)
        state["step"] += 1
        with torch.no_grad():
            for w, g, m, v in zip(weights, grads, state["m"], state["v"]):
                m.mul_(betas[0]).add_(g, alpha=1 - betas[0])
                v.mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
                correction = 1 - betas[0] ** state["step"]
                w.mul_(1 - lr * weight_decay).addcdiv_(m, v.sqrt().add_(1e-8), value=-lr / correction)
        return loss.detach()

    calls = [(0.1 * (k + 1), (0.9, 0.99 - k / 100), 0.01) for k in range(6)]
    return f, [*calls, (1, (0, 0.5), 0)], state, weights


@program()
def parts_that_are_shared_and_swapped():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 4)
            self.out = nn.Linear(4, 5, bias=False)
            self.out.weight = self.embed.weight
            self.blocks = nn.ModuleList([nn.Linear(4, 4)] * 2)
            self.blocks.append(nn.Identity())
            self.extra = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(2)])
            self.table = nn.ParameterDict({"a": nn.Parameter(torch.ones(1))})

        def forward(self, tokens):
            x = self.embed(tokens)
            for block, scale in zip(self.blocks, [*self.extra, None]):
                x = block(x) if scale is None else block(x) * scale
            return self.out(x) * self.table["a"]

    model = Model()
    tokens = torch.tensor([[0, 1], [2, 4]])

    def untie(f):
        model.out.weight = nn.Parameter(model.embed.weight.detach() * 2)
        return f(tokens)

    def swap(f):
        model.blocks[1] = nn.Linear(4, 4)
        return f(tokens)

    def grow(f):
        model.blocks.append(nn.Tanh())
        model.extra.append(nn.Parameter(torch.zeros(4)))
        return f(tokens)

    def replace_data(f):
        model.embed.weight.data = torch.ones(5, 4)
        model.table["a"] = nn.Parameter(torch.full((1,), 3.0))
        return f(tokens)

    return model, [*[(tokens,)] * 4, untie, swap, grow, replace_data, (tokens[:1],)]


@program()
def reference_and_value_models():
    policy = net(3, 4, 2)
    reference = copy.deepcopy(policy).requires_grad_(False).eval()
    value = net(3, 4, 1)

    def f(x, which):
        model = {"policy": policy, "reference": reference, "value": value}[which]
        return model(x)

    def step(which, grad):
        def run(f):
            with torch.set_grad_enabled(grad):
                out = f(torch.ones(2, 3), which)
            return out, out.requires_grad, out.grad_fn is None

        return run

    kinds = [step(w, g) for w in ("policy", "reference", "value") for g in (True, False)]
    return lambda x, w: f(x, w), kinds * 3


@program(graph=False)  # a wrapper that finds attributes itself is not looked into
def modules_called_with_modules():
    def apply(model, x, times=2):
        for _ in range(times):
            x = model(x)
        return x

    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

        def forward(self, *args, **kwargs):
            return self.inner(*args, **kwargs) + self.offset

    class Inner(nn.Module):
        offset = 1

        def forward(self, x, *, gain=1.0):
            return F.gelu(x) * gain

    a, b = Inner(), Wrapper(Inner())

    def f(x, model, gain):
        count = len(list(model.modules()))
        return apply(model, x) + model(x, gain=gain), model.offset, count

    calls = [(torch.ones(2), m, g) for m, g in ((b, 1.0), (b, 1.0), (b, 2.0), (b, 2), (a, 1.0), (b, 1.0))]
    return f, [*calls, (torch.ones(2), Wrapper(Wrapper(Inner())), 1.0)]


@program()
def rollout_with_an_environment():
    policy = net(2, 4, 2)

    class Environment:
        def __init__(self, seed):
            self.random = numpy.random.default_rng(seed)
            self.position, self.steps = numpy.zeros(2, dtype=numpy.float32), 0

        def step(self, action):
            self.steps += 1
            self.position = self.position + self.random.normal(size=2).astype(numpy.float32) * (action + 1)
            done = self.steps >= 12 or abs(self.position).sum() > 8
            return self.position.copy(), float(-abs(self.position).sum()), bool(done), {"steps": self.steps}

    def f(environment, epsilon):
        state, total, trajectory = environment.position, 0.0, []
        done = False
        while not done:
            logits = policy(torch.from_numpy(state))
            if random.random() < epsilon:
                action = random.randrange(2)
            else:
                action = int(torch.multinomial(logits.softmax(-1), 1))
            state, reward, done, info = environment.step(action)
            total += reward
            trajectory.append((action, logits[action]))
        return torch.stack([v for _, v in trajectory]).sum() + total, [a for a, _ in trajectory], info

    return f, [(Environment(k), e) for k, e in enumerate((0.1, 0.1, 0.1, 0.5, 0.0))]


@program()
def experts_that_get_no_rows():
    experts = nn.ModuleList([nn.Linear(2, 2, bias=False) for _ in range(3)])
    for k, e in enumerate(experts):
        nn.init.eye_(e.weight)
        e.weight.data *= 10**k

    def f(x, routes):
        out = torch.zeros_like(x)
        for k in routes.unique().tolist():
            rows = (routes == k).nonzero().squeeze(-1)
            out[rows] = experts[k](x[rows])
        counts = torch.bincount(routes, minlength=3)
        for k, expert in enumerate(experts):
            if counts[k] == 0:
                continue
            out = out.index_add(0, torch.where(routes == k)[0], expert(x[routes == k]))
        return out, counts

    return f, [(torch.ones(3, 2), torch.tensor(r)) for r in ([0, 1, 2],) * 4 + ([2, 2, 2], [1, 1, 0], [0, 0, 0])]


@program()
def generation_with_a_growing_cache():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 4)
            self.cache = None

        def forward(self, x, position):
            q, k, v = self.qkv(x).chunk(3, -1)
            if self.cache is not None and position > 0:
                k, v = torch.cat([self.cache[0], k], 1), torch.cat([self.cache[1], v], 1)
            self.cache = (k, v)
            return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=position == 0)) + position

    embed, layer, head = nn.Embedding(7, 4), Layer(), nn.Linear(4, 7)

    def f(token, position):
        with torch.no_grad():
            logits = head(layer(embed(token), position))[:, -1]
            return logits.argmax(-1, keepdim=True), logits

    def generate(n):
        def step(f):
            token, out = torch.tensor([[1, 2, 3]]), []
            position = 0
            for _ in range(n):
                chosen, logits = f(token, position)
                position += token.shape[1]
                token = chosen
                out.append(int(chosen))
            return out, logits

        return step

    return f, [generate(3), generate(8), generate(5)], layer


@program()
def beam_search_with_an_end():
    table = torch.linspace(-2, 1, 25).view(5, 5).sin().log_softmax(-1)

    def f(start, width, most):
        beams = [([start], 0.0)]
        for _ in range(most):
            candidates = []
            for tokens, score in beams:
                if tokens[-1] == 4:
                    candidates.append((tokens, score))
                    continue
                values, indices = table[tokens[-1]].topk(width)
                for value, index in zip(values.tolist(), indices.tolist()):
                    candidates.append((tokens + [index], score + value))
            beams = sorted(candidates, key=lambda c: c[1], reverse=True)[:width]
            if all(tokens[-1] == 4 for tokens, _ in beams):
                break
        return beams, table.sum()

    return f, [(s, w, n) for s, w, n in ((0, 2, 3), (0, 2, 3), (0, 2, 3), (1, 3, 4), (2, 1, 6), (0, 2, 0))]


@program()
def trees_of_any_shape():
    cell = nn.Linear(4, 2)

    def encode(node):
        if isinstance(node, tuple):
            left, right = (encode(child) for child in node)
            return torch.tanh(cell(torch.cat([left, right])))
        return torch.full((2,), float(node))

    def f(tree):
        return encode(tree).sum()

    trees = [(1, 2), (1, 2), (1, 2), ((1, 2), 3), 1, ((1, 2), (3, (4, 5))), (1, (2, 3))]
    return f, [(t,) for t in trees]


@program()
def chatty_forward():
    model = net(2, 2)

    def f(x, step):
        y = model(x)
        print(f"step {step}: mean {y.mean():.4f}", y.shape)
        z = y * 2
        if step % 2 == 0:
            print("even", step, sep="-", end="!\n")
        print(z.max().item() > 0, [float(v) for v in z[0]])
        z.add_(1)
        print(z)
        return z

    return f, [(torch.ones(1, 2) * k, k) for k in range(6)]


@program()
def numpy_in_the_middle():
    def f(x, scale):
        noise = numpy.random.uniform(size=x.shape)
        y = torch.relu(x) + torch.from_numpy(noise).float()
        array = y.detach().numpy()
        array *= scale
        best = int(numpy.argmax(array))
        z = y * best + torch.as_tensor(numpy.float32(scale)) + numpy.pi
        return z, array.mean(), numpy.stack([array, noise]), best, numpy.float64(2) * z, z.numpy() + 1

    calls = [(torch.ones(4), s) for s in (2.0, 2.0, 2.0, 3, numpy.float32(1.5), numpy.int64(2))]
    return f, calls


@program()
def lengths_and_truths_of_users():
    class Batch:
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, i):
            return self.rows[i]

        def __bool__(self):
            raise TypeError("ambiguous")

    def f(batch):
        total = torch.zeros(2)
        for i in range(len(batch)):
            total = total + batch[i]
        for row in batch:
            total = total * row
        return total, batch[-1] in batch, [*batch] == batch.rows, list(reversed(batch))[0]

    def rows(*n):
        return (Batch([torch.ones(2) * k for k in n]),)

    return f, [rows(1, 2), rows(1, 2), rows(1, 2), rows(3), rows(1, 2, 3), rows()]


@program()
def slices_of_containers():
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(4)])
    stack = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.Dropout(0.5))
    weights = nn.ParameterList([nn.Parameter(torch.ones(2) * k) for k in range(3)])

    def f(x, k):
        first, last = layers[:k], layers[-k:]
        for layer in first:
            x = layer(x)
        for i, layer in enumerate(reversed(last)):
            x = layer(x) * i
        y = stack[: k + 1](x) + stack[0:0](x)
        if stack[:1]:
            y = y + sum(weights[k:])
        return y, last, type(first), len(last), stack[1:], weights[1:], layers[:1] + layers[2:], isinstance(first, list)

    def step(k):
        return lambda f: [a if not isinstance(a, nn.Module) else str(a) for a in f(torch.ones(2), k)]

    def drop(f):
        del layers[0]
        stack[0] = nn.Identity()
        weights.append(nn.Parameter(torch.ones(2)))
        return step(2)(f)

    return f, [step(2), step(2), step(2), step(2), step(1), step(3), drop, step(0)]


@program()
def looked_up_by_name():
    models = {"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}
    heads = nn.ModuleDict({"a": nn.Linear(2, 1), "b": nn.Linear(2, 3)})

    def f(x, name, k):
        model = {"a": models["a"], "b": models["b"]}[name]
        act = (torch.relu, F.gelu, lambda t: t * 3)[k]
        return getattr(torch, ["sin", "cos"][k % 2])(heads[name](act(model(x)) + models[name](x)))

    calls = [("a", 0)] * 4 + [("b", 0), ("a", 1), ("b", 2), ("a", -1), ("c", 0), ("a", 7), ("a", 0)]
    return f, [(torch.ones(2, 2), name, k) for name, k in calls]
