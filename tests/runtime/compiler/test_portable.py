"""What torch's kernel compiler writes, without the compiler: names, constants, and what can't be carried over."""

import types

import pytest
import torch

from janusc.runtime.compiler.entries import Entry
from janusc.runtime.compiler.loading import load
from janusc.runtime.compiler.portable import NotPortable, make_portable

HEAD = """
import os
import torch
from torch._inductor.hooks import run_intermediate_hooks
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.select_algorithm import extern_kernels
aten = torch.ops.aten
never_there = torch._C.not_in_this_build.anything
async_compile = AsyncCompile()
{middle}
async_compile.wait(globals())
del async_compile
"""
TAIL = """
def get_args():
    from torch._dynamo.testing import rand_strided
    return [rand_strided((2,), (1,))]

if __name__ == "__main__":
    from torch._inductor.wrapper_benchmark import compiled_module_main
    compiled_module_main(get_args)
"""


def kernel_of(tmp_path, body, middle="", **names):
    """A kernel whose module reads so, without having been run; ``names`` are what running it has bound."""
    path = tmp_path / "module.py"
    path.write_text(HEAD.format(middle=middle) + body + TAIL)
    externals = types.SimpleNamespace(mm=torch.mm, conv=torch.ops.aten.convolution.default, own=lambda: None)
    found = {"__file__": str(path), "call": None, "extern_kernels": externals, **names}
    return types.FunctionType(compile("def call(): ...", "x", "exec").co_consts[0], found)


def test_the_compiler_is_left_out_and_torch_is_called_where_it_is(tmp_path):
    body = """
def call(args):
    a, b = args
    args.clear()
    buf0 = torch.empty(2, 2)
    extern_kernels.mm(a, b, out=buf0)
    return (aten.relu.default(buf0), extern_kernels.conv)
"""
    source = make_portable([kernel_of(tmp_path, body)])["kernel.py"].decode()
    assert "_inductor" not in source and "never_there" not in source and "get_args" not in source
    (kernel,), facts = load(Entry(str(tmp_path), source))
    a = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
    found, conv = kernel([a.clone(), torch.eye(2)])
    assert torch.equal(found, a.relu()) and conv is torch.ops.aten.convolution.default
    assert facts is None


def test_methods_of_a_class_are_as_good(tmp_path):
    body = """
class Runner:
    def __init__(self, partitions):
        self.partitions = partitions
    def call(self, args):
        return (torch.add(*args),)

runner = Runner(partitions=[])
call = runner.call
recursively_apply_fns = runner.recursively_apply_fns
"""
    source = make_portable([kernel_of(tmp_path, body)])["kernel.py"].decode()
    assert load(Entry(str(tmp_path), source))[0][0]([torch.ones(1), torch.ones(1)]) == (torch.tensor([2.0]),)


def test_constants_are_written_out(tmp_path):
    values = torch.tensor([[1.5, float("inf")], [float("-inf"), 1e-30]])
    body = "constant0 = None  # a digest\ndef call(args): return (constant0, flag, other)\n"
    kernel = kernel_of(tmp_path, body, "flag = None\nother = 3", constant0=values, flag=None, other=3)
    found, flag, other = load(Entry(str(tmp_path), make_portable([kernel])["kernel.py"].decode()))[0][0]([])
    assert torch.equal(found, values) and found.dtype == values.dtype and (flag, other) == (None, 3)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("def call(args): return extern_kernels.own(args)", "it calls own of its compiler"),
        ("def call(args): return extern_kernels.unheard_of(args)", "it calls unheard_of of its compiler"),
        ("def call(args): return run_intermediate_hooks(args)", r"it calls its compiler \(run_intermediate_hooks\)"),
    ],
)
def test_what_needs_the_compiler_at_run_time_is_refused(tmp_path, body, text):
    with pytest.raises(NotPortable, match=text):
        make_portable([kernel_of(tmp_path, body)])


def test_other_forms_are_refused(tmp_path):
    with pytest.raises(NotPortable, match="kernels of another form"):
        make_portable([object()])
    middle = "cpp_fused_0 = async_compile.cpp_pybinding(['float*'], 'int x;')"
    with pytest.raises(NotPortable, match="cpp_fused_0 is no compiled function"):
        make_portable([kernel_of(tmp_path, "def call(args): cpp_fused_0(args)", middle, cpp_fused_0=len)])
