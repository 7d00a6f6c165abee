"""Buffers that a kernel keeps: those alone that nobody outside can have, and none that another call is using."""

import ast

import pytest
import torch

from janusc.runtime.compiler import scratch
from janusc.runtime.compiler.scratch import keep_scratch

HEAD = """
import torch
external_mm = torch.mm
reinterpret_tensor = torch.as_strided
cpp_fused_0 = load('0.so', 'kernel')
def call(args):
    a, b = args
    args.clear()
"""


def double(source, target):
    target.copy_(source * 2)


def empty(size, stride, dtype):
    return torch.empty_strided(size, stride, dtype=dtype)


def made(lines):
    """The function of a module with these lines, and the names of the buffers that it keeps."""
    source = HEAD + "".join(f"    {line}\n" for line in lines)
    tree = ast.Module(keep_scratch(ast.parse(source).body), [])
    text = ast.unparse(ast.fix_missing_locations(tree))
    names = {"load": lambda file, name: double, "empty_strided_cpu": empty}
    exec(text, names)
    return names["call"], [name for name in names if name.startswith("scratch_") and name != "scratch_lock"]


BUFFER = "buf0 = empty_strided_cpu((3, 3), (3, 1), torch.float32)"
OTHER = "buf1 = empty_strided_cpu((3, 3), (3, 1), torch.float32)"


def test_an_inner_buffer_is_kept():
    call, kept = made([BUFFER, "cpp_fused_0(a, buf0)", OTHER, "external_mm(buf0, b, out=buf1)", "return (buf1,)"])
    assert len(kept) == 1
    for _ in range(3):
        a, b = torch.randn(3, 3), torch.randn(3, 3)
        first = call([a, b])[0]
        second = call([b, a])[0]
        torch.testing.assert_close(first, 2 * a @ b)
        torch.testing.assert_close(second, 2 * b @ a)


def test_views_of_it_are_kept():
    view = "reinterpret_tensor(buf0, (3, 3), (1, 3), 0)"
    call, kept = made([BUFFER, "cpp_fused_0(a, buf0)", OTHER, f"external_mm({view}, b, out=buf1)", "return (buf1,)"])
    assert len(kept) == 2
    a, b = torch.randn(3, 3), torch.randn(3, 3)
    torch.testing.assert_close(call([a, b])[0], 2 * a.t() @ b)


def test_a_buffer_that_is_used_again_under_another_name():
    lines = [BUFFER, "cpp_fused_0(a, buf0)", "buf2 = buf0", "del buf0", "cpp_fused_0(b, buf2)"]
    call, kept = made([*lines, OTHER, "external_mm(buf2, b, out=buf1)", "return (buf1,)"])
    assert len(kept) == 1
    assert not made([*lines, "return (buf2,)"])[1]


@pytest.mark.parametrize(
    "ending",
    [
        ["return (buf0,)"],
        ["buf1 = buf0", "return (buf1,)"],
        ["return (reinterpret_tensor(buf0, (9,), (1,), 0),)"],
        ["buf1 = reinterpret_tensor(buf0, (9,), (1,), 0)", "return (buf1,)"],
        ["buf1 = torch.ops.aten.t.default(buf0)", "return (buf1,)"],
        ["buf1 = external_mm(buf0, b)", "return (buf1,)"],
        ["args.append(buf0)", "return ()"],
    ],
)
def test_what_may_leave_is_made_anew(ending):
    call, kept = made([BUFFER, "cpp_fused_0(a, buf0)", *ending])
    assert not kept
    call([torch.randn(3, 3), torch.randn(3, 3)])


def test_large_buffers_are_made_anew():
    large = f"buf0 = empty_strided_cpu(({scratch.LARGEST // 4 + 1},), (1,), torch.float32)"
    assert not made([large, "cpp_fused_0(a[0, 0], buf0)", "return ()"])[1]


def test_all_of_a_kernel_are_few():
    size = scratch.LARGEST // 4
    lines = []
    for number in range(12):
        lines += [f"buf{number} = empty_strided_cpu(({size},), (1,), torch.float32)", f"cpp_fused_0(a[0], buf{number})"]
    assert len(made([*lines, "return ()"])[1]) == scratch.MOST // scratch.LARGEST


def test_a_call_in_the_middle_of_another_makes_its_own():
    lines = [BUFFER, "cpp_fused_0(a, buf0)", "again()", OTHER, "external_mm(buf0, b, out=buf1)", "return (buf1,)"]
    call, kept = made(lines)
    assert kept
    inner = []

    def again():
        call.__globals__["again"] = lambda: None
        inner.append(call([torch.ones(3, 3), torch.eye(3)])[0])

    call.__globals__["again"] = again
    a = torch.randn(3, 3)
    torch.testing.assert_close(call([a, torch.eye(3)])[0], 2 * a)
    torch.testing.assert_close(inner[0], torch.full((3, 3), 2.0))


def test_a_call_that_fails_leaves_the_buffers_to_the_next():
    lines = [BUFFER, "cpp_fused_0(a, buf0)", OTHER, "external_mm(buf0, b, out=buf1)", "return (buf1,)"]
    call, _ = made(lines)
    with pytest.raises(RuntimeError):
        call([torch.randn(3, 3), torch.randn(4, 4)])
    assert not call.__globals__["scratch_lock"].locked()


def test_buffers_made_under_inference_mode_are_ordinary_ones():
    with torch.inference_mode():
        call, kept = made([BUFFER, "cpp_fused_0(a, buf0)", OTHER, "external_mm(buf0, b, out=buf1)", "return (buf1,)"])
    assert not call.__globals__[kept[0]].is_inference()
