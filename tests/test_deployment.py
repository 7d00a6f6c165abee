"""Around a compiled model: checkpoints, signatures, pickles, other processes, and what users are told."""

import datetime
import inspect
import io
import multiprocessing
import os
import pickle
import sys
import threading
import traceback
import warnings

import pytest
import torch
from torch import nn

import janusc as janus


def compiled(f, **options):
    return janus.compile(f, **{"backend": "aten", "warmup": 1, **options})


def used(f, *args, times=4):
    for _ in range(times):
        result = f(*args)
    return result


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.head = nn.Linear(4, 2)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, input_ids, attention_mask=None, *, labels=None):
        """The docstring."""
        self.steps += 1
        x = self.head(self.body(input_ids))
        if attention_mask is not None:
            x = x * attention_mask
        return x if labels is None else ((x - labels) ** 2).mean()


@janus.compile(warmup=1, backend="aten")
class CompiledNet(Net):
    pass


def make(kind):
    return {"instance": lambda: compiled(Net()), "class": CompiledNet}[kind]()


@pytest.mark.parametrize("kind", ["instance", "class"])
def test_checkpoints_go_both_ways(kind):
    model, plain = make(kind), Net()
    used(model, torch.ones(4, 3))
    assert list(model.state_dict()) == list(plain.state_dict())
    assert [n for n, _ in model.named_modules()] == [n for n, _ in plain.named_modules()]
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    plain.load_state_dict(torch.load(file))
    x = torch.linspace(-1, 1, 12).view(4, 3)
    assert torch.equal(model.eval()(x), plain.eval()(x))
    for p in plain.parameters():
        p.data.mul_(2)
    model.load_state_dict(plain.state_dict())
    assert torch.equal(model(x), plain(x))
    assert int(model.steps) == int(plain.steps)


@pytest.mark.parametrize("kind", ["instance", "class"])
def test_trainers_read_the_signature(kind):
    model = make(kind)
    used(model, torch.ones(4, 3))
    assert list(inspect.signature(model.forward).parameters) == ["input_ids", "attention_mask", "labels"]
    assert str(inspect.signature(model.forward)) == str(inspect.signature(Net().forward))
    assert model.forward.__doc__ == "The docstring."
    assert isinstance(model, Net)
    assert not inspect.iscoroutinefunction(model.forward)


def test_other_classes_stay_picklable():
    used(compiled(lambda x: torch.relu(x)), torch.ones(2))
    for cls in (torch.optim.AdamW, torch.optim.SGD, nn.Linear, torch.utils.data.DataLoader):
        assert pickle.loads(pickle.dumps(cls)) is cls


def test_a_whole_model_is_saved_and_loaded():
    model = CompiledNet()
    used(model, torch.ones(4, 3))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert type(loaded) is CompiledNet
    assert torch.equal(used(loaded.eval(), torch.ones(4, 3)), model.eval()(torch.ones(4, 3)))


def test_options_of_the_main_thread_hold_in_others():
    f, seen = compiled(lambda x: torch.relu(x) * 2, warmup=2), []

    def work():
        for _ in range(5):
            f(torch.ones(2))
        seen.append(janus.stats(f))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert (seen[0].eager_calls, seen[0].graph_calls) == (2, 3)


def test_thirty_two_threads_and_all_sizes():
    def f(x, k):
        y = torch.sin(x) * k
        return y + 1 if x.shape[0] > 3 else y[:1]

    fast, wrong = compiled(f), []

    def work(k):
        for n in range(1, 15):
            x = torch.full((n,), float(k))
            if not torch.equal(fast(x, k), f(x, k)):
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert janus.stats(fast).calls == 32 * 14
    assert janus.stats(fast).graphs <= 4


# ---- distributed training


def distributed(rank, path, order):
    """One of two workers: gradients of one step, with the given order of wrapping and compiling."""
    if os.path.exists("/sys/class/net/lo"):  # without it, gloo asks for the address of this machine's name
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    limit = datetime.timedelta(seconds=60)
    torch.distributed.init_process_group("gloo", f"file://{path}", rank=rank, world_size=2, timeout=limit)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    if order == "inside":
        model = nn.parallel.DistributedDataParallel(compiled(model))
    elif order == "outside":
        model = compiled(nn.parallel.DistributedDataParallel(model))
    else:
        model = nn.parallel.DistributedDataParallel(model)
    for step in range(4):
        model.zero_grad()
        model(torch.full((2, 3), float(rank + step))).sum().backward()
    torch.save([p.grad for p in model.parameters()], f"{path}.{order}.{rank}")
    torch.distributed.destroy_process_group()
    return True


def run_rank(rank, store, order):
    torch.set_num_threads(1)
    sys.exit(0 if distributed(rank, store, order) else 1)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this build of torch has no distributed package")
def test_both_orders_of_distributed_and_compiled(tmp_path):
    # fresh processes: autograd's threads do not survive a fork
    context = multiprocessing.get_context("spawn")
    orders = ("plain", "inside", "outside")
    children = [
        context.Process(target=run_rank, args=(rank, str(tmp_path / f"store-{order}"), order), daemon=True)
        for order in orders
        for rank in range(2)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(100)
    assert [child.exitcode for child in children] == [0] * len(children)
    for rank in range(2):
        plain = torch.load(tmp_path / f"store-plain.plain.{rank}")
        for order in ("inside", "outside"):
            found = torch.load(tmp_path / f"store-{order}.{order}.{rank}")
            assert all(torch.equal(a, b) for a, b in zip(plain, found))


# ---- what users are told


def test_a_function_without_source_works_and_says_so_once():
    space = {"torch": torch}
    exec("def f(x):\n    return torch.relu(x) * 4\n", space)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        f = compiled(space["f"])
        assert torch.equal(used(f, torch.ones(2)), torch.full((2,), 4.0))
        used(f, torch.ones(3))
    assert len(told) == 1
    assert "runs eagerly" in str(told[0].message)
    assert "f" in str(janus.explain(f))


def test_a_generator_function_is_reported():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        @compiled
        def running(xs):
            total = 0
            for x in xs:
                total = total + x
                yield total

    assert inspect.isgeneratorfunction(running)
    assert [int(t) for t in running([torch.tensor(1), torch.tensor(1), torch.tensor(2)])] == [1, 2, 4]
    assert "generator" in str(janus.explain(running))


def test_an_error_is_on_the_line_that_made_it():
    def f(x, n):
        y = x * 2
        for k in range(n):
            y = y + k
            y = y.view(2, 2) if k < 3 else y.view(7)
        return y

    def lines(function):
        try:
            function(torch.ones(4), 5)
        except RuntimeError as error:
            own = [e for e in traceback.extract_tb(error.__traceback__) if e.filename == __file__]
            return own[-1].lineno, own[-1].name, own[-1].line, str(error)

    fast = compiled(f)
    used(fast, torch.ones(4), 2)
    assert lines(fast) == lines(f)
    used(fast, torch.ones(4), 3)
    assert lines(fast) == lines(f)
