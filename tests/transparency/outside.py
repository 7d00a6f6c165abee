"""The world outside: streams of random numbers, clocks, the environment, files, output, logging; live and in order."""

import contextlib
import io
import itertools
import logging
import os
import queue
import random
import sys
import tempfile
import threading
import time

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from . import ones, program


def tried(function, *arguments):
    try:
        return function(*arguments)
    except RuntimeError as error:
        return type(error).__name__


# ---- random numbers


@program()
def streams_taken_in_turns():
    own, generator = random.Random(3), numpy.random.default_rng(4)

    def helper(x):
        return x * random.random() + numpy.random.rand()

    def f(x):
        a = x + random.random()
        b = torch.rand(3) * numpy.random.rand()
        c = helper(a) + helper(b)
        if random.random() < 0.5:
            c = c + torch.randn(3)
        for _ in range(random.randint(0, 3)):
            c = c + torch.rand(3) + own.random()
        noise = [random.gauss(0, 1) for _ in range(3)]
        return c + sum(noise) + generator.normal() + F.dropout(c, 0.5)

    return f, ones(8)


@program(graph=False)
def augmentation_of_each_image():
    def augment(image):
        if random.random() < 0.5:
            image = image.flip(-1)
        image = torch.roll(image, int(numpy.random.randint(0, 2)), -1)
        return image * (1 + random.uniform(-0.1, 0.1)) + torch.randn_like(image) * 0.01

    def f(x):
        return torch.stack([augment(image) for image in x])

    return f, [(torch.arange(12.0).reshape(3, 4),) for _ in range(5)]


@program()
def equal_draws_are_two_draws():
    drop, leaky, layer = nn.Dropout(0.5), nn.RReLU(), nn.LSTM(3, 3, 2, dropout=0.5)

    def f(x):
        a = drop(x) + drop(x) * 2 + F.dropout(x, 0.5)
        b = torch.rand(3) + torch.rand(3) * 2
        first, _ = layer(x[None])
        second, _ = layer(x[None])
        c = torch.bernoulli(torch.full((3,), 0.5)) + torch.bernoulli(torch.full((3,), 0.5)) * 2
        torch.rand(5)
        drop(x)
        d = torch.binomial(torch.full((3,), 9.0), torch.full((3,), 0.5)) * 2
        d = d + torch.binomial(torch.full((3,), 9.0), torch.full((3,), 0.5)) + torch.poisson(torch.ones(3) * 4)
        return a + b + leaky(x) + leaky(-x) + F.gumbel_softmax(x, hard=True) + first[0] + second[0] * 2 + c + d

    return f, [(torch.randn(2, 3),) for _ in range(5)]


@program()
def draws_on_either_side():
    drop = nn.Dropout(0.5)

    def f(x):
        if x.sum() > 0:
            y = drop(x)
        else:
            y = torch.rand(3) + drop(drop(x))
        for _ in range(int(x[0].abs() * 3)):
            y = y + torch.rand(3)
            if y.sum() > 4:
                y = y - torch.randint(0, 3, (3,))
                break
        return y + torch.rand(3)

    return f, [(torch.randn(3),) for _ in range(10)]


@program()
def draws_are_given_back():
    drop = nn.Dropout(0.3)

    def f(x, count):
        y = drop(x) + torch.rand(3)
        factor = torch.ones(count).max()
        w = torch.randperm(5).float().sum() + drop(y).sum()
        if w > 12:
            w = w + torch.rand(())
        return y * factor + w + random.random()

    def bad(f):
        return tried(f, torch.ones(3), 0)

    good = (torch.ones(3), 1)
    return f, [good, good, good, good, bad, bad, good, bad, (torch.ones(4)[:3], 2)]


@program()
def generators_and_states():
    def f(x):
        state = torch.random.get_rng_state()
        a = torch.rand(3)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            b = torch.rand(3)
        torch.random.set_rng_state(state)
        c = torch.rand(3)
        random.seed(5)
        numpy.random.seed(7)
        own = torch.Generator().manual_seed(3)
        d = torch.rand(3, generator=own) + torch.randint(0, 9, (3,), generator=own)
        x.uniform_(generator=own)
        return a + b + c + d + random.random() + numpy.random.rand() + torch.initial_seed()

    return f, ones(5)


# ---- clocks, environment, memory, files


@program()
def clocks():
    ticks = itertools.count()

    def now():
        return float(next(ticks))

    def f(x):
        start = now()
        y = torch.tanh(x) * 2
        elapsed = now() - start
        time.perf_counter()
        return (y + elapsed) * now()

    return f, ones(6)


@program()
def environment_read_and_written():
    def f(x):
        y = torch.tanh(x)
        n = int(os.environ.get("JANUSC_TEST_N", "1"))
        os.environ["JANUSC_TEST_N"] = str(n + 1)
        if "JANUSC_TEST_FLAG" in os.environ:
            y = y + 100
        return y * n + len(os.getenv("JANUSC_TEST_TEXT", "abc"))

    def flag(f):
        os.environ["JANUSC_TEST_FLAG"] = "1"
        return f(torch.ones(3))

    def clear(f):
        del os.environ["JANUSC_TEST_FLAG"], os.environ["JANUSC_TEST_N"]
        return f(torch.ones(3))

    return f, [*ones(4), flag, flag, clear]


@program()
def memory_shared_with_numpy():
    array = numpy.zeros(3, dtype=numpy.float32)
    tensor = torch.from_numpy(array)

    def f(x):
        tensor.add_(x)
        y = x * float(array[0])
        array[1] = 5
        z = y + tensor
        array.__iadd__(1)
        w = z + tensor.sum() + array.sum()
        tensor[2] = 9
        return w + array[2], array.copy()

    return f, ones(6), array


@program()
def files_and_buffers():
    path = os.path.join(tempfile.gettempdir(), f"janusc-outside-{os.getpid()}.txt")

    def f(x):
        y = torch.tanh(x)
        with open(path, "a") as out:
            out.write("line\n")
            y = y + out.tell()
        with open(path) as lines:
            count = sum(1 for _ in lines)
        buffer = io.BytesIO()
        torch.save(y, buffer)
        return y * count + torch.load(io.BytesIO(buffer.getvalue()))

    def clean(f):
        os.remove(path)
        return f(torch.ones(3))

    def leave(f):
        result = clean(f)
        os.remove(path)
        return result

    return f, [*ones(4), clean, leave]


@program()
def callbacks_queues_and_locks():
    waiting, lock, events = queue.Queue(), threading.Lock(), []

    def callback(value):
        events.append(value)
        return len(events)

    def f(x, callback):
        y = torch.tanh(x)
        waiting.put(y)
        with lock:
            n = callback(float(y[0]))
        return waiting.get() * n + callback("end")

    return f, [(torch.ones(3), callback)] * 5, events


# ---- output


@program()
def text_on_every_stream():
    out = io.StringIO()

    def f(x):
        print("a", x.shape[0])
        y = torch.tanh(x)
        print("b", file=out)
        sys.stdout.write("raw\n")
        print("c", float(y.sum()), flush=True)
        print(*[1, 2, 3], sep="-", end="")
        sys.stderr.write("error\n")
        print(y, [y], {"k": y}, (1,), None, "x" * 2, f"{y.mean():.2f}", x.split(1))
        print("%s and %d" % ("s", 3), "{}".format(x.shape), x.dtype, x.tolist())  # noqa: UP031, UP032
        if y.sum() > 2:
            print("big")
        return y * len(out.getvalue())

    return f, [*ones(5), (torch.ones(4),)], out


class Tee:
    def __init__(self):
        self.lines = []

    def write(self, text):
        self.lines.append(text)
        return len(text)

    def flush(self):
        pass


def announce(x, lines):
    print("first")
    y = torch.tanh(x) * len(lines)
    print("second", end="")
    return y + len(lines)


@program()
def standard_output_is_the_programs_own():
    tee = Tee()

    def step(f):
        with contextlib.redirect_stdout(tee):
            return f(torch.ones(3), tee.lines)

    return announce, [step] * 5, tee


@program()
def standard_output_becomes_the_programs_own():
    tee, plain = Tee(), io.StringIO()

    def step(f):
        with contextlib.redirect_stdout(tee):
            return f(torch.ones(3), tee.lines)

    def patched(f):
        plain.write = tee.write
        with contextlib.redirect_stdout(plain):
            return f(torch.ones(3), tee.lines)

    return announce, [*[(torch.ones(3), [])] * 4, step, step, step, (torch.ones(3), []), patched], tee


@program()
def output_is_redirected_inside():
    said = []

    def f(x):
        print("one")
        y = torch.tanh(x)
        with contextlib.redirect_stdout(io.StringIO()) as hidden:
            print("hidden")
            y = y + 1
        said.append(hidden.getvalue())
        print("two", len(said))
        return y

    return f, ones(5), said


class Noisy:
    def __init__(self, log):
        self.log = log

    def __str__(self):
        self.log.append("str")
        return "noisy"

    def __repr__(self):
        self.log.append("repr")
        return "Noisy"

    def __format__(self, spec):
        self.log.append("format")
        return "formatted"


@program()
def objects_that_notice_being_printed():
    log = []
    noisy = Noisy(log)

    def f(x):
        held = [noisy]
        y = torch.tanh(x)
        print("object", noisy)
        y = y + len(log)
        print(held, [noisy], {"a": noisy}, f"{noisy} {noisy!r} {noisy:>3} {held}")
        text = str(noisy) + "%s %r" % (noisy, held) + "{}".format(noisy)  # noqa: UP031, UP032
        return y + len(log) + len(text)

    return f, ones(5), log


@program()
def logging_of_every_kind():
    records = []

    class Keep(logging.Handler):
        def emit(self, record):
            records.append((record.levelname, record.getMessage(), record.funcName, record.lineno))

    logger = logging.Logger("programs")
    logger.addHandler(Keep())
    logger.setLevel(logging.INFO)

    def helper(x):
        logger.warning("in helper %d", x.shape[0])
        return x + 1

    def f(x):
        logger.info("start %s", x.shape)
        y = helper(torch.tanh(x))
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("deep %s", y)
        try:
            y.view(7)
        except RuntimeError:
            logger.exception("failed")
        return y * len(records)

    def debug(f):
        logger.setLevel(logging.DEBUG)
        return f(torch.ones(3))

    return f, [*ones(4), debug, debug], records
