"""C++ functions of one file: each does what it does alone, whatever names they share."""

import types

import pytest

from janusc import torch_private
from janusc.runtime.compiler import merged
from janusc.runtime.compiler.merged import Source, compile_together, compiling_together, merge

FIRST = """
#include <torch/csrc/inductor/cpp_prefix.h>
static int helper() { return 1; }
extern "C"  void  kernel(float* out)
{
    out[0] = helper();
}
"""
SECOND = FIRST.replace("return 1", "return 2").replace("float* out", "const float* in, float* out")
BOUND = """
#include <Python.h>
static void* address;
"""


def test_each_has_a_namespace_and_includes_come_first():
    text = merge([Source((["float*"], FIRST)), Source((["const float*", "float*"], SECOND))], [BOUND, BOUND])
    lines = text.splitlines()
    includes = [index for index, line in enumerate(lines) if "#include" in line]
    first = next(index for index, line in enumerate(lines) if "namespace" in line)
    assert max(includes) < first and len(includes) == 2
    assert text.count("static void* address") == 1  # the compiler itself writes the first
    assert text.count("void  kernel_0(") == text.count("void  kernel_1(") == 1 and "kernel(" not in text
    assert text.index("own_0 {") < text.index("return 1") < text.index("own_1 {") < text.index("return 2")


class Alone:
    """What makes one function at a time."""

    made = []

    @classmethod
    def load_pybinding(cls, types, text):
        cls.made.append(text)
        return text


@pytest.mark.parametrize(
    "sources",
    [
        [Source(([], FIRST))],
        [Source(([], FIRST)), Source(([], FIRST + FIRST))],
        [Source(([], FIRST)), Source(([], FIRST.replace("kernel(", "other(")))],
    ],
)
def test_what_can_not_be_merged_is_made_alone(sources):
    assert compile_together(sources, Alone) == [text for _, text in sources]


def test_large_kernels_have_several_files(monkeypatch):
    counts = []
    monkeypatch.setattr(merged, "_compile", lambda sources, bindings: counts.append(len(sources)) or list(sources))
    sources = [Source(([], FIRST))] * (merged.MOST + 3)
    assert compile_together(sources, None) == sources and counts == [merged.MOST, 3]


def test_a_compiler_of_another_form_is_left_alone(monkeypatch):
    compiler = types.SimpleNamespace(cpp_pybinding=1, wait=2)
    monkeypatch.setattr(torch_private.compiling, "compiler_of_functions", lambda: (compiler, object()))
    with compiling_together():
        assert (compiler.cpp_pybinding, compiler.wait) == (1, 2)


def test_the_compiler_is_given_back():
    compiler, bindings = torch_private.compiling.compiler_of_functions()
    before = compiler.cpp_pybinding, compiler.wait
    with compiling_together():
        assert compiler.cpp_pybinding is not before[0]
    assert (compiler.cpp_pybinding, compiler.wait) == before and bindings is not None
