"""What can't be compiled: a helpful error where the user erred, eager execution with one warning everywhere else."""

import asyncio
import functools
import inspect
import linecache
import operator
import os
import subprocess
import sys
import warnings

import pytest
import torch

import janusc as janus

ONE = torch.ones(1)


def watched(action):
    """The result of an action and the texts of janusc's warnings meanwhile."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = action()
    assert all(issubclass(w.category, janus.JanusWarning) for w in seen), [str(w.message) for w in seen]
    return result, [str(w.message) for w in seen]


@pytest.mark.parametrize("target", [3, "text", torch.ones(1), [len], object()], ids=lambda t: type(t).__name__)
def test_not_a_callable(target):
    with pytest.raises(TypeError) as caught:
        janus.compile(target)
    assert f"got {target!r}" in str(caught.value) and "needs a function" in str(caught.value)


def test_unknown_option():
    with pytest.raises(TypeError) as caught:
        janus.compile(lambda x: x, warmups=2)
    text = str(caught.value)
    assert "'warmups'" in text and "did you mean 'warmup'?" in text
    assert all(name in text for name in ("warmup", "backend", "strict", "trust_inputs"))


def test_unknown_option_of_a_decorator_with_arguments():
    with pytest.raises(TypeError, match="'fullgraph'"):
        janus.compile(fullgraph=True)


def test_options_with_wrong_values():
    with pytest.raises(ValueError, match="backend.*'aten'.*'fast'"):
        janus.compile(lambda x: x, backend="fast")
    with pytest.raises(ValueError, match="warmup.*at least 0.*-1"):
        janus.compile(lambda x: x, warmup=-1)
    with pytest.raises(TypeError, match="warmup.*integer.*'3'"):
        janus.compile(lambda x: x, warmup="3")
    with pytest.raises(TypeError, match="strict.*True or False"):
        janus.compile(lambda x: x, strict=1)


def generator(x):
    for i in range(3):
        yield x + i


async def coroutine(x):
    await asyncio.sleep(0)
    return x + 1


async def async_generator(x):
    yield x + 1


async def collect(agen):
    return [item async for item in agen]


class Plain:
    def __init__(self, x):
        self.x = x


class Times:
    def __call__(self, x):
        return x * 5


def without_source():
    names = {}
    exec("def f(x, n=2):\n    for _ in range(n):\n        x = x + 1\n    return x\n", names)
    return names["f"]


EAGER = {
    "no source": (without_source, lambda f: f(ONE).item(), 3, "JC101"),
    "C function": (lambda: torch.neg, lambda f: f(ONE).item(), -1, "JC103"),
    "builtin": (lambda: len, lambda f: f([1, 2]), 2, "JC103"),
    "generator": (lambda: generator, lambda f: [t.item() for t in f(ONE)], [1, 2, 3], "JC104"),
    "async function": (lambda: coroutine, lambda f: asyncio.run(f(ONE)).item(), 2, "JC105"),
    "async generator": (lambda: async_generator, lambda f: len(asyncio.run(collect(f(ONE)))), 1, "JC106"),
    "plain class": (lambda: Plain, lambda f: f(3).x, 3, "JC107"),
    "partial of a C function": (lambda: functools.partial(torch.add, other=1), lambda f: f(ONE).item(), 2, "JC103"),
    "callable of no function": (lambda: operator.itemgetter(0), lambda f: f([7]), 7, "JC108"),
}


@pytest.mark.parametrize("kind", EAGER)
def test_runs_eagerly_with_one_diagnostic(kind):
    make, use, expected, code = EAGER[kind]

    def action():
        f = janus.compile(make(), warmup=0)
        return [use(f) for _ in range(4)], f

    (results, f), notices = watched(action)
    assert results == [expected] * 4
    assert len(notices) == 1, notices
    assert code in notices[0] and "runs eagerly; results unaffected" in notices[0]


def test_an_object_with_a_call_method_is_no_bad_input():
    def action():
        f = janus.compile(Times(), warmup=1, backend="aten")
        return [f(ONE).item() for _ in range(4)]

    assert watched(action) == ([5.0] * 4, [])


def test_an_async_function_stays_one():
    (f, _) = watched(lambda: janus.compile(coroutine))
    assert inspect.iscoroutinefunction(f)


def test_a_generator_function_stays_one():
    (f, _) = watched(lambda: janus.compile(generator))
    assert inspect.isgeneratorfunction(f)


def test_an_abstract_or_lambda_in_a_list_does_not_confuse_the_source_search():
    fs = [janus.compile(lambda x: x * 2, warmup=1), janus.compile(lambda x: x * 3, warmup=1)]
    results, notices = watched(lambda: [[f(ONE).item() for f in fs] for _ in range(4)])
    assert results == [[2.0, 3.0]] * 4 and not notices


def test_changed_source_runs_eagerly(tmp_path, monkeypatch):
    path = tmp_path / "shifting.py"
    path.write_text("def f(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import shifting

    path.write_text("def f(x):\n    return x + 2\n")
    linecache.checkcache(str(path))
    results, notices = watched(lambda: [janus.compile(shifting.f, warmup=0)(ONE).item() for _ in range(1)])
    assert results == [2.0]
    assert len(notices) == 1 and "JC102" in notices[0]


def test_strict_refuses_at_once():
    with pytest.raises(janus.JanusError, match="JC104"):
        list(janus.compile(generator, strict=True, warmup=0)(ONE))


def test_compiling_twice_is_harmless():
    f = janus.compile(janus.compile(lambda x: x + 1, warmup=1), warmup=1)
    assert [f(ONE).item() for _ in range(4)] == [2.0] * 4


def test_a_process_can_be_eager_as_a_whole():
    code = (
        "import torch, janusc as janus\n"
        "import corpus.straight as s\n"
        "f, calls = s.arithmetic()\n"
        "g = janus.compile(f, warmup=0)\n"
        "[g(*c) for c in calls]\n"
        "print(janus.stats(g).graph_calls)\n"
    )
    here = os.path.dirname(__file__)
    path = os.pathsep.join([os.path.dirname(here), here, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "JANUSC_EAGER": "1", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
