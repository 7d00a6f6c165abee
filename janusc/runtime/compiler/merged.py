"""The C++ functions of a kernel compiled as one file: what the compiler takes to begin is most of what each takes.

Every function is in a namespace of its own, with what makes it a function of Python, as the kernel compiler writes it::

    #include <torch/csrc/inductor/cpp_prefix.h>
    namespace own_0 { extern "C" void kernel_0(float* in_ptr0) { ... } }
    namespace own_1 { extern "C" void kernel_1(float* in_ptr0) { ... }  static PyObject* kernel_1_py(...) { ... } ... }
    using own_0::kernel_0;  // whose binding the kernel compiler writes itself

The shared object has one module of Python for each, under the name of its function.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from janusc import torch_private
from janusc.runtime.compiler.loading import load_function

MOST = 32
"""Functions of one file."""


class Source(tuple[list[str], str]):
    """The types of the arguments of a function ``kernel``, and the C++ that defines it."""


_NEEDED = ("suffix_template", "call_entry_function", "entry_function", "extra_parse_arg", "load_pybinding")

_ENTRY = re.compile(r'(extern "C"[^;{}()]*?\b)kernel\(')
_INCLUDE = re.compile(r"^[ \t]*#include[^\n]*\n", re.MULTILINE)


@contextlib.contextmanager
def compiling_together() -> Iterator[None]:
    """Inside, the C++ functions of a kernel are made at once: for a process that does nothing but make kernels."""
    compiler, bindings = torch_private.compiling.compiler_of_functions()
    if not hasattr(compiler, "cpp_pybinding") or not all(hasattr(bindings, name) for name in _NEEDED):
        yield
        return
    binding, waiting = compiler.cpp_pybinding, compiler.wait

    def wait(self: Any, scope: dict[str, Any]) -> None:
        names = [name for name, value in scope.items() if type(value) is Source]
        scope.update(zip(names, compile_together([scope[name] for name in names], bindings)))
        waiting(self, scope)

    compiler.cpp_pybinding, compiler.wait = lambda self, types, source: Source((types, source)), wait
    try:
        yield
    finally:
        compiler.cpp_pybinding, compiler.wait = binding, waiting


def compile_together(sources: Sequence[Source], bindings: Any) -> list[Any]:
    """The functions of these sources, by the class of the kernel compiler that makes one of each."""
    if len(sources) < 2 or not all(len(_ENTRY.findall(text)) == 1 for _, text in sources):
        return [bindings.load_pybinding(list(types), text) for types, text in sources]
    found: list[Any] = []
    for start in range(0, len(sources), MOST):
        found += _compile(sources[start : start + MOST], bindings)
    return found


def _compile(sources: Sequence[Source], bindings: Any) -> list[Any]:
    text = merge(sources, [_binding(index, types, bindings) for index, (types, _) in enumerate(sources)])
    together: Any = type("Together", (bindings,), {"entry_function": "kernel_0", "call_entry_function": _call(0)})
    first = together.load_pybinding(list(sources[0][0]), text)
    with torch_private.compiling.loading_kernels():
        others = [load_function(first.__self__.__file__, f"kernel_{index}") for index in range(1, len(sources))]
    return [first, *others]


def merge(sources: Sequence[Source], bound: Sequence[str]) -> str:
    """One file of all, with the bindings of all but the first."""
    parts = list(dict.fromkeys(line for _, text in sources for line in _INCLUDE.findall(text)))
    parts += list(dict.fromkeys(line for text in bound[1:] for line in _INCLUDE.findall(text)))
    for index, (_, text) in enumerate(sources):
        body = _INCLUDE.sub("", _ENTRY.sub(rf"\1kernel_{index}(", text))
        binding = _INCLUDE.sub("", bound[index]) if index else ""
        parts.append(f"namespace own_{index} {{\n{body}\n{binding}\n}}\n")
    parts.append("using own_0::kernel_0;\n")
    return "".join(parts)


def _call(index: int) -> str:
    return f"kernel_{index}({{}}); Py_RETURN_NONE;"


def _binding(index: int, types: Sequence[str], bindings: Any) -> str:
    """What makes a function of Python of one in C++."""
    parsed = ", ".join(f"parse_arg<{kind.replace('const ', '')}>(args, {n})" for n, kind in enumerate(types))
    text: str = bindings.suffix_template.format(
        arg_len=len(types),
        call_entry_func=_call(index).format(parsed),
        entry_func=f"kernel_{index}",
        extra_parse_arg=bindings.extra_parse_arg.format(array_len=-1),
    )
    return text
