"""Requests for kernels: made elsewhere, loaded here, shared, and cached."""

import shutil
import sys

import pytest
import torch

from janusc import torch_private
from janusc.runtime.compiler import jobs
from janusc.runtime.compiler.program import Input, Program

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")

SOURCE = """
def program(x, w):
    with torch.enable_grad():
        loss = torch.nn.functional.silu(x @ w).square().sum()
        (gradient,) = torch.autograd.grad(loss, [w])
    return loss.detach(), gradient
"""


def arguments():
    torch.manual_seed(0)
    return [torch.randn(5, 7), torch.randn(7, 3, requires_grad=True)]


def program_of(arguments, source=SOURCE):
    return Program(source, tuple(Input.of(argument) for argument in arguments))


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JANUSC_CACHE_DIR", str(folder))
        jobs.shut_down()
        yield folder
        jobs.shut_down()


def test_a_kernel_is_made_elsewhere_and_computes_what_the_source_says():
    values = arguments()
    job = jobs.request(program_of(values))
    assert job.kernel is None and job.failure is None
    assert job.wait(120), job.failure
    x, w = values
    loss = torch.nn.functional.silu(x @ w).square().sum()
    loss.backward()
    inputs = [x, w]
    with torch.no_grad():
        found = job.kernel(inputs)
    assert inputs == []
    torch.testing.assert_close(list(found), [loss.detach(), w.grad])
    assert not [name for name in sys.modules if name.startswith("torch._inductor.codecache")]


def test_a_graph_that_was_traced_here_is_as_good():
    values = arguments()
    program = program_of(values)
    graph = torch_private.trace(program.functions()[0], values)
    kernel = jobs.compile_now(graph)
    with torch.no_grad():
        torch.testing.assert_close(list(kernel([*values])), list(graph(*values)))
