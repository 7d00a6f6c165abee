"""The compiler process itself: kernels that compute the right thing, and C++ compilers that don't do their part."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_jobs import is_alive, within

from janusc import torch_private
from janusc.runtime.compiler import folders, headers, jobs, worker
from janusc.runtime.compiler.program import Input, Program

COMPILER = shutil.which("g++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

SOURCE = """
def program(x, w, total):
    with torch.enable_grad():
        loss = torch.nn.functional.silu(x @ w).square().sum()
        (gradient,) = torch.autograd.grad(loss, [w])
    total.add_(loss.detach())
    return loss.detach(), gradient, x * torch.tensor([1.5, float("inf")] * 5)[: x.shape[1]]
"""

# A C++ compiler whose mood lies in a file.
SCRIPT = """#!/bin/sh
case "$* " in *--version*) exec {compiler} "$@";; esac
case "$(cat {mood})" in
    fails) echo "x.cpp:1:1: error: this is not for me"; exit 1;;
    full) echo "fatal error: closing dependency file /x: No space left on device"; exit 1;;
    killed) kill -9 $$;;
    hangs) echo $$ > {mood}.hangs; sleep 120;;
esac
exec {compiler} "$@"
"""


def arguments():
    torch.manual_seed(0)
    return [torch.randn(5, 7), torch.randn(7, 3, requires_grad=True), torch.zeros(())]


def program_of(arguments, source=SOURCE):
    return Program(source, tuple(Input.of(argument) for argument in arguments))


def variant(number):
    """A program whose C++ is another."""
    return program_of(arguments(), SOURCE.replace("x @ w", f"x @ w * {number}"))


@pytest.fixture(scope="module")
def mood(tmp_path_factory):
    """A file that says what the C++ compiler does: as g++, so that precompiled headers of other tests are good here."""
    folder = tmp_path_factory.mktemp("compiler")
    script, mood = folder / "g++", folder / "mood"
    script.write_text(SCRIPT.format(compiler=COMPILER, mood=mood))
    script.chmod(0o755)
    mood.write_text("works")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CXX", raising=False)
        patch.setenv("PATH", str(folder), prepend=os.pathsep)
        patch.setattr(jobs, "_queue", jobs._Queue())
        yield mood
        jobs.shut_down()


def test_a_kernel_is_made_elsewhere_and_computes_what_the_source_says(mood):
    values, loaded = arguments(), set(sys.modules)
    kernel = jobs.compile_now(program_of(values))
    assert not [name for name in set(sys.modules) - loaded if name.startswith(("torch._inductor", "torch._dynamo"))]
    x, w, total = values
    loss = torch.nn.functional.silu(x @ w).square().sum()
    loss.backward()
    inputs = [x, w, total]
    with torch.no_grad():
        found = kernel(inputs)
    assert inputs == []
    scaled = x.detach() * torch.tensor([1.5, float("inf"), 1.5, float("inf"), 1.5, float("inf"), 1.5])
    torch.testing.assert_close([*found, total], [loss.detach(), w.grad, scaled, loss.detach()])


def test_a_graph_that_was_traced_here_is_as_good(mood):
    values = arguments()
    graph = torch_private.compiling.trace(program_of(values).functions()[0], values)
    kernel = jobs.compile_now(graph)
    mine, other = arguments(), arguments()
    with torch.no_grad():
        torch.testing.assert_close(list(kernel([*mine])), list(graph(*other)))
    torch.testing.assert_close(mine, other)


@pytest.mark.parametrize(
    ("how", "number", "text"),
    [
        ("killed", 2, "the C++ compiler was ended by signal 9 (SIGKILL)"),
        ("full", 3, "the disk is full"),
        ("fails", 4, "the C++ compiler failed with status 1: this is not for me"),
    ],
)
def test_a_compiler_that_does_not_do_its_part(mood, how, number, text):
    mood.write_text(how)
    try:
        with pytest.raises(jobs.CompilerFailure) as caught:
            jobs.compile_now(variant(number))
    finally:
        mood.write_text("works")
    assert str(caught.value) == text


def test_the_program_is_to_blame(mood):
    with pytest.raises(jobs.CompilerFailure, match="^ZeroDivisionError: division by zero$"):
        jobs.compile_now(program_of([], "def program(): return 1 / 0"))


def test_once_the_compiler_works_kernels_are_made_again(mood):
    source = "def program(x): return (x.sin() + 1,)"
    x = torch.randn(9)
    torch.testing.assert_close(jobs.compile_now(program_of([x], source))([x]), (x.sin() + 1,))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="precompiled headers need openssl")
def test_a_process_that_makes_many_kernels_makes_headers_and_kernels_by_them(mood, monkeypatch, tmp_path):
    jobs.shut_down()  # one that has met a failing compiler uses no headers any more
    monkeypatch.setenv("JANUSC_CACHE_DIR", str(tmp_path))  # no kernel is there yet
    own = os.path.join(folders.private.path, "headers")
    for number in range(worker.FEW + 1):
        x = torch.randn(9)
        program = program_of([x], f"def program(x): return (x.cos() * {number},)")
        torch.testing.assert_close(jobs.compile_now(program)([x]), (x.cos() * number,))
        if headers.are_there(own):
            break
    assert headers.are_there(own)


def test_without_a_compiler_that_is_said(mood, monkeypatch):
    jobs.shut_down()
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.raises(
        jobs.CompilerFailure, match="^no C\\+\\+ compiler was found: install g\\+\\+, or name one in CXX$"
    ):
        jobs.compile_now(variant(5))
    jobs.shut_down()


BESIDE = """
import os, sys
sys.path[:0] = {paths!r}
import torch
torch.set_num_threads(1)  # as here: kernels are made for a number of threads
from test_compiling import arguments, program_of
from janusc.runtime.compiler import jobs
before = dict(os.environ)

def check():
    job = jobs.request(program_of(arguments()))
    assert job.kernel is not None, job.failure  # at once: no compiler process
    with torch.no_grad():
        job.kernel(arguments())

check()
assert dict(os.environ) == before and "torch._inductor" not in sys.modules
product = torch.compile(lambda a, b: a @ b)
a, b = torch.randn(3, 4), torch.randn(4, 5)
torch.testing.assert_close(product(a, b), a @ b)
middle = dict(os.environ)
check()
torch._dynamo.reset()
torch.testing.assert_close(torch.compile(lambda a, b: b.T @ a.T)(a, b), b.T @ a.T)
assert dict(os.environ) == middle and os.environ["TORCHINDUCTOR_CACHE_DIR"] == {theirs!r}
assert jobs._queue._connection is None
"""


def test_a_second_process_has_its_kernels_at_once_and_compiles_beside_them_as_ever(mood, tmp_path):
    here = Path(__file__).parent
    script = BESIDE.format(paths=[str(here), str(here.parents[1])], theirs=str(tmp_path))
    first = jobs.request(program_of(arguments()))
    assert first.wait(120) and first.kernel is not None, first.failure
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCHINDUCTOR_VEC_ISA_OK": "1"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    assert list(tmp_path.rglob("*.py"))
    assert set(os.listdir(os.environ["JANUSC_CACHE_DIR"])) <= {folders.KERNELS, folders.HEADERS}


KILLED = """
import sys, time
sys.path[:0] = {paths!r}
from test_compiling import variant
from janusc.runtime.compiler import folders, jobs
job = jobs.request(variant(6))
print(jobs._queue._connection._group, folders.private.path, flush=True)
job.wait()
"""


def test_the_compiler_process_ends_with_a_program_that_is_killed(mood):
    mood.write_text("hangs")
    here = Path(__file__).parent
    script = KILLED.format(paths=[str(here), str(here.parents[1])])
    started = Path(f"{mood}.hangs")
    try:
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as program:
            group, folder = program.stdout.readline().split()
            assert within(100, started.exists)
            program.send_signal(signal.SIGKILL)
        assert within(5, lambda: not is_alive(int(group)))
        assert not os.path.exists(folder)
    finally:
        mood.write_text("works")
