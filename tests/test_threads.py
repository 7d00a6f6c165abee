"""Sixteen threads, forked and spawned processes, and workers that load data, all calling compiled functions."""

import gc
import multiprocessing
import random
import sys
import threading
import time
import warnings

import pytest
import torch
from processes import in_child
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import janusc as janus
from janusc import locks
from janusc.source import parse_text


def compiled(f, **options):
    return janus.compile(f, **{"backend": "aten", "warmup": 1, **options})


@pytest.fixture
def many_switches():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def run_threads(work, count=16):
    """Run ``work(number, wrong)`` in threads that start together; nothing may be wrong, and all must end."""
    wrong, barrier = [], threading.Barrier(count)

    def run(number):
        barrier.wait()
        try:
            work(number, wrong)
        except BaseException as error:
            wrong.append((number, repr(error)))

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong, wrong[:3]
    assert not any(thread.is_alive() for thread in threads)


def test_sixteen_threads_convert_once(many_switches):
    def f(x):
        y = torch.tanh(x) * 2
        for i in range(3):
            y = y + i
        return y

    g = compiled(f)

    def work(number, wrong):
        for i in range(40):
            x = torch.full((number + 1,), float(i))
            if not torch.equal(g(x), f(x)):
                wrong.append((number, i))

    run_threads(work)
    stats = janus.stats(g)
    assert (stats.calls, stats.conversions, stats.graphs) == (640, 1, 1)
    assert stats.graph_calls > 0
    g(torch.ones(3))
    assert janus.stats(g).graph_calls == stats.graph_calls + 1


class Box:
    def __init__(self):
        self.n, self.log, self.table = 0, [], {}


def test_threads_that_break_every_assumption(many_switches):
    def f(x, n, flag, box):
        box.n += 1
        y = x.clone()
        for i in range(n):
            y.add_(i)
        if flag:
            y = y * 2
        if y.sum() > 50:
            y = y - box.n
        if box.n == 30:
            raise ValueError(box.n)
        box.log.append(y.shape[0])
        box.table["last"] = n
        return y

    g = compiled(f, max_variants=2)

    def work(number, wrong):
        choose, one, other = random.Random(number), Box(), Box()

        def outcome(function, box, arguments):
            try:
                return function(*arguments, box)
            except ValueError as error:
                return torch.tensor(error.args)

        for i in range(40):
            dtype = choose.choice([torch.float32, torch.float64, torch.int64])
            x = torch.full((choose.randrange(1, 5),), choose.randrange(9)).to(dtype)
            arguments = x, choose.randrange(4), choose.random() < 0.5
            with torch.set_grad_enabled(choose.random() < 0.5):
                a, b = outcome(g, one, arguments), outcome(f, other, arguments)
            if not torch.equal(a, b) or a.dtype is not b.dtype or vars(one) != vars(other):
                wrong.append((number, i))
            if number == 0 and i == 20:
                janus.reset(g)

    run_threads(work)
    assert janus.stats(g).graphs <= 2


class OfItsOwn(nn.Sequential):
    """A class that no other test has modules of: what is known of a class is common to them."""

    def forward(self, x):
        return super().forward(x)


def test_threads_train_on_one_model(many_switches):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    model = compiled(OfItsOwn(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    model.load_state_dict(plain.state_dict())

    def work(number, wrong):
        generator = torch.Generator().manual_seed(number)
        for i in range(20):
            x = torch.randn(1 + (number * i) % 6, 4, generator=generator)
            with torch.set_grad_enabled(number % 2 == 0):
                a, b = model(x), plain(x)
            if not torch.equal(a, b) or a.requires_grad is not b.requires_grad:
                wrong.append((number, i))
            elif a.requires_grad:
                grads = [torch.autograd.grad(y.sum(), m.parameters()) for y, m in ((a, model), (b, plain))]
                if not all(map(torch.equal, *grads)):
                    wrong.append((number, i, "gradients"))

    run_threads(work)
    assert janus.stats(model).conversions == 1


def test_each_thread_compiles_for_itself(many_switches):
    def f(x):
        return x * 2 + 1

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")

        def work(number, wrong):
            for _ in range(4):
                g, layer = compiled(f, warmup=0), compiled(nn.Linear(2, 2), warmup=0)
                for _ in range(3):
                    layer(torch.ones(2))
                    if g(torch.ones(number)).tolist() != [3.0] * number:
                        wrong.append(number)
                if janus.stats(g).graph_calls != 3:
                    wrong.append(janus.stats(g))

        run_threads(work)
    assert not shown


def test_text_is_parsed_while_other_threads_parse(many_switches):
    text = "".join(f"def f{i}(x):\n    return [x * {i} for _ in range({i})]\n" for i in range(40))

    def work(number, wrong):
        for _ in range(5):
            if len(parse_text(text).body) != 40:
                wrong.append(number)

    run_threads(work)


def test_options_of_the_main_thread_hold_in_others():
    def f(x, k):
        return x * 2 if x.sum() > k else x + 1

    strict, late = compiled(f, strict=True), compiled(f, warmup=3)
    raised = []

    def work():
        for _ in range(5):
            late(torch.ones(2), 0)
            strict(torch.ones(2), 0)
        try:
            strict(torch.ones(2), 9)
        except janus.StrictError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert janus.stats(late).eager_calls == 3 and janus.stats(strict).eager_calls == 1
    assert len(raised) == 1


def test_a_finaliser_may_call_what_is_just_being_profiled_or_converted():
    """The garbage collector runs in the middle of anything, and with it the user's finalisers."""
    calls = []

    def f(x):
        y = x * 2
        return torch.relu(y) + 1

    class Dying:
        def __init__(self):
            self.me = self

        def __del__(self):
            calls.append(g(torch.ones(2)).tolist())

    before = gc.get_threshold()
    gc.set_threshold(20, 2, 2)
    try:
        for _ in range(3):
            g = compiled(f)
            for _ in range(4):
                Dying()
                assert g(torch.ones(2)).tolist() == [3.0, 3.0]
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert calls == [[3.0, 3.0]] * 12


# ---- processes


def test_a_lock_of_another_thread_is_open_in_a_forked_child():
    lock, held, done = locks.make_lock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert not lock.acquire(blocking=False)
        assert in_child(lambda: lock.acquire(blocking=False))
    finally:
        done.set()
        thread.join()


def test_a_forked_child_converts_what_the_parent_was_just_converting():
    entered, done = threading.Event(), threading.Event()

    def f(x):
        return torch.relu(x) * 2

    g = compiled(f, warmup=0)
    state = g.__closure__[g.__code__.co_freevars.index("state")].cell_contents
    convert = state._convert_call

    def wait(*args, **kwargs):
        if not done.is_set():
            entered.set()
            done.wait(10)
        return convert(*args, **kwargs)

    state._convert_call = wait
    thread = threading.Thread(target=g, args=(torch.ones(2),))
    thread.start()
    entered.wait(10)

    def work():
        done.set()
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            results = [g(torch.ones(2)).tolist() for _ in range(3)]
            warnings.warn("heard", stacklevel=1)
        return results == [[2.0, 2.0]] * 3 and janus.stats(g).graph_calls == 3 and len(shown) == 1

    try:
        assert g(torch.ones(2)).tolist() == [2.0, 2.0]  # nobody waits for the other thread
        assert in_child(work)
    finally:
        done.set()
        thread.join()


@compiled
def prepare(x, factor=2):
    y = x * factor
    if y.sum() > 0:
        y = y + 1
    return y


def prepared(i):
    y = torch.full((3,), float(i - 12)) * 2
    return y + 1 if i > 12 else y


@compiled
class Scaling(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(3, 3), 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * self.calls


class Numbers(Dataset):
    """Says also how many calls of the worker ran in a graph."""

    def __init__(self, transform=prepare):
        self.transform = transform

    def __len__(self):
        return 24

    def __getitem__(self, i):
        return self.transform(torch.full((3,), float(i - 12))), janus.stats(prepare).graph_calls


class Stream(IterableDataset):
    @compiled
    def item(self, i):
        return torch.full((3,), float(i)) * 2

    def __iter__(self):
        for i in range(8):
            yield self.item(i)


def used_in_another_process(queue, module, whole):
    """What a process that was handed modules makes of them."""
    x = torch.ones(1, 3)
    with torch.no_grad():
        results = [target(x).tolist() for target in (module, module, module, whole, whole)]
    queue.put((results, module.calls, janus.stats(module).graph_calls, prepare(torch.ones(3)).tolist()))


@pytest.mark.parametrize("warm", [False, True])
def test_workers_that_load_data(warm):
    janus.reset(prepare)
    for _ in range(4 if warm else 0):
        prepare(torch.ones(3))
    loader = DataLoader(
        Numbers(), batch_size=4, num_workers=2, persistent_workers=True, multiprocessing_context="fork", timeout=100
    )
    for _ in range(2):
        batches = list(loader)
        assert torch.equal(torch.cat([values for values, _ in batches]), torch.stack([prepared(i) for i in range(24)]))
    assert max(int(count.max()) for _, count in batches) > 10
    del loader
    gc.collect()


def test_a_worker_that_streams():
    loader = DataLoader(Stream(), batch_size=None, num_workers=1, multiprocessing_context="fork", timeout=100)
    assert [value.tolist() for value in loader] == [[2.0 * i] * 3 for i in range(8)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_modules_in_another_process(method):
    module, whole, x = Scaling(), compiled(nn.Sequential(nn.Linear(3, 3), nn.ReLU())), torch.ones(1, 3)
    for _ in range(3):
        module(x), whole(x), prepare(x)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=used_in_another_process, args=(queue, module, whole), daemon=True)
    before = janus.stats(module).graph_calls if method == "fork" else 0
    process.start()
    results, calls, graph_calls, prepared_ones = queue.get(timeout=100)
    process.join(100)
    with torch.no_grad():
        expected = [(module.layer(x) * n).tolist() for n in (4, 5, 6)] + [whole(x).tolist()] * 2
    assert results == expected and prepared_ones == [3.0] * 3
    assert calls == 6 and module.calls == 3
    assert graph_calls > before


def test_many_forks_while_threads_convert():
    stop, last = threading.Event(), []

    def convert():
        while not stop.is_set():
            g = compiled(lambda x, k: torch.tanh(x) + k, warmup=0)
            g(torch.ones(3), 1)
            last[:] = [g]
            time.sleep(0)

    def work():
        g = compiled(lambda x: x * 2)
        results = [g(torch.ones(2)).tolist() for _ in range(4)]
        last[0](torch.ones(3), 2)
        return results == [[2.0, 2.0]] * 4 and janus.stats(g).graph_calls == 3

    threads = [threading.Thread(target=convert) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        while not last:
            time.sleep(0.01)
        assert all(in_child(work) for _ in range(15))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
