"""What a type checker makes of decorated code: every signature is that of the user's own function."""

import os
import subprocess
import sys

import pytest

import janusc as janus

PROGRAM = """
import torch
import janusc as janus
from typing import TypeVar

V = TypeVar("V", bound=torch.Tensor)

@janus.compile
def bare(x: torch.Tensor, /, k: int = 2, *, s: str) -> tuple[torch.Tensor, int]: ...

@janus.compile(warmup=1)
def called(x: torch.Tensor) -> torch.Tensor: ...

@janus.compile
def generic(x: V) -> V: ...

@janus.compile
class Model(torch.nn.Module):
    width: int = 3
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]: ...

class Thing:
    @janus.compile
    def method(self, x: torch.Tensor, n: int) -> float: ...
    @staticmethod
    @janus.compile
    def still(x: torch.Tensor) -> int: ...
    @classmethod
    @janus.compile(warmup=0)
    def of(cls, x: int) -> bytes: ...
    @property
    @janus.compile
    def size(self) -> complex: ...

@janus.opaque
def secret(x: int) -> bytes: ...

@janus.eager()
def plain(x: int) -> str: ...

reveal_type(bare)  # def (torch.Tensor, k: int =, *, s: str) -> tuple[torch.Tensor, int]
reveal_type(called)  # def (x: torch.Tensor) -> torch.Tensor
reveal_type(generic(torch.nn.Parameter()))  # torch.nn.Parameter
reveal_type(Model())  # program.Model
reveal_type(Model.width)  # int
reveal_type(Model().forward)  # def (x: torch.Tensor) -> list[torch.Tensor]
reveal_type(janus.compile(Model(), warmup=0))  # program.Model
reveal_type(janus.compile(Model))  # def () -> program.Model
reveal_type(Thing().method)  # def (x: torch.Tensor, n: int) -> float
reveal_type(janus.compile(Thing().method))  # def (x: torch.Tensor, n: int) -> float
reveal_type(Thing.still)  # def (x: torch.Tensor) -> int
reveal_type(Thing().of(1))  # bytes
reveal_type(Thing().size)  # complex
reveal_type(secret)  # def (x: int) -> bytes
reveal_type(plain)  # def (x: int) -> str
reveal_type(janus.stats(bare).graph_calls)  # int
reveal_type(janus.explain(bare))  # str
bare(torch.ones(1), "k", s="")  # error: Argument 2 to "bare" has incompatible type "str"; expected "int"  [arg-type]
called()  # error: Missing positional argument "x" in call to "called"  [call-arg]
janus.compile(3)  # error: No overload variant of "compile" matches argument type "int"  [call-overload]
janus.compile(warmpu=3)  # error: Unexpected keyword argument "warmpu" for overloaded function "compile"
"""


# what the program uses of torch; reading torch itself takes a type checker half a minute
STUBS = {
    "torch/__init__.pyi": """
from typing import Any
from torch import nn as nn
class Tensor: ...
def ones(*size: int) -> Tensor: ...
def __getattr__(name: str) -> Any: ...
""",
    "torch/nn/__init__.pyi": """
from typing import Any
import torch
class Module:
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
class Parameter(torch.Tensor): ...
""",
}
READ = ("__init__.py", "api.py", "fallback/eager.py", "fallback/report.py")


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What mypy says of each line of the program."""
    folder = tmp_path_factory.mktemp("typing")
    for name, text in {**STUBS, "program.py": PROGRAM}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    package = os.path.dirname(janus.__file__)
    options = ["--strict", "--disable-error-code=empty-body", "--follow-imports=skip", "--no-incremental"]
    files = [*STUBS, *(os.path.join(package, name) for name in READ), "program.py"]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--cache-dir=/dev/null", "--no-error-summary", *files],
        cwd=folder,
        env={**os.environ, "MYPYPATH": f"{folder}:{os.path.dirname(package)}"},
        capture_output=True,
        text=True,
    )
    lines = {}
    for line in run.stdout.splitlines():
        if line.startswith("program.py:"):
            _, number, text = line.split(":", 2)
            lines.setdefault(int(number), text.strip())
    assert lines, run.stdout + run.stderr
    return lines


EXPECTED = {n: text for n, text in enumerate(PROGRAM.splitlines(), 1) if "  # " in text}


def test_nothing_else_is_wrong(said):
    assert said.keys() == EXPECTED.keys()


@pytest.mark.parametrize("line", EXPECTED, ids=lambda n: EXPECTED[n].partition("  # ")[0])
def test_the_signature_is_the_users_own(said, line):
    expected = EXPECTED[line].partition("  # ")[2]
    text = said[line]
    if not expected.startswith("error"):
        expected = f'note: Revealed type is "{expected}"'
    assert text.startswith(expected)
