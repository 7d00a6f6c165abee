"""``python -m janusc doctor``: what is installed here, and what of janusc is therefore available."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from janusc.runtime.compiler import entries, folders

OLDEST, BEYOND = (2, 11), (2, 15)  # the torch releases that are supported: from OLDEST, below BEYOND
COMPILERS = ("g++", "clang++", "c++")
USAGE = """usage: python -m janusc doctor

Prints the versions in use, the compiler and GPU found, and what is available with them."""


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the command, and the first line of what it says of its version."""

    command: str
    version: str


def installed_version(package: str) -> str:
    """The version of an installed package, or a note that there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def find_compiler(environment: Mapping[str, str] | None = None) -> Compiler | None:
    """The C++ compiler in use: the one that ``CXX`` names, else the first usual one on the path that answers."""
    environment = os.environ if environment is None else environment
    named = environment.get("CXX", "").strip()
    for command in (named,) if named else COMPILERS:
        words = shlex.split(command)
        path = shutil.which(words[0], path=environment.get("PATH"))
        if path is None:
            continue
        try:
            answer = subprocess.run([path, *words[1:], "--version"], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            continue
        lines = answer.stdout.splitlines()
        if answer.returncode == 0 and lines:
            return Compiler(command, lines[0].strip())
    return None


def torch_is_supported(version: str) -> bool:
    """Whether a torch version is one that janusc is made for."""
    try:
        major, minor = (int(part) for part in version.split("+")[0].split(".")[:2])
    except ValueError:
        return False
    return OLDEST <= (major, minor) < BEYOND


def gpu_names() -> list[str]:
    """The names of the CUDA devices that torch can use."""
    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def cache_line() -> str:
    """Where compiled kernels are kept and what they take, or why they aren't."""
    if not os.path.isdir(folders.cache_path()):
        return f"{folders.cache_path()}: not there yet"
    cache = folders.open_cache()
    if cache.kernels is None:
        return f"{cache.path} is not used: {cache.objection}"
    count, size = entries.count(cache.kernels), folders.folder_bytes(cache.path)
    return f"{cache.path}: {count} kernels, {size / 2**20:.1f} of {folders.cache_limit() >> 20} MiB"


def _torch_line() -> str:
    version = str(torch.__version__)
    if torch_is_supported(version):
        return version
    oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST, (BEYOND[0], BEYOND[1] - 1)))
    return f"{version}  (not supported: janusc is made for {oldest} to {newest})"


def _backend_lines(compiler: Compiler | None, gpus: list[str]) -> list[tuple[str, str]]:
    kernels = "available: kernels by torch's own compiler, on the CPU" if compiler else "it needs a C++ compiler"
    cuda = "tensors may be on the GPU; tested on the CPU only" if gpus else "no GPU found"
    return [
        ("aten", "available: torch's own operations, bit-equal to eager, no compiler needed"),
        ("inductor", kernels),
        ("cuda", f"{'available through aten and cudagraph: ' if gpus else ''}{cuda}"),
    ]


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [f"  {name:<14}{text}" for name, text in rows]


def report() -> str:
    """What is here, as text: versions, compiler, GPU, threads, and what is available with them."""
    compiler, gpus = find_compiler(), gpu_names()
    system = f"{platform.python_implementation()}, {platform.system()} {platform.machine()}"
    here = [
        ("janusc", installed_version("janusc")),
        ("Python", f"{platform.python_version()} ({system})"),
        ("torch", _torch_line()),
        ("numpy", installed_version("numpy")),
        ("gast", installed_version("gast")),
        ("C++ compiler", f"{compiler.command}: {compiler.version}" if compiler else "none found"),
        ("kernel cache", cache_line()),
        ("GPU", ", ".join(gpus) or "none found"),
        ("threads", f"{torch.get_num_threads()} for torch, {os.cpu_count()} processors"),
    ]
    return "\n".join(["Found", *_table(here), "", "Available", *_table(_backend_lines(compiler, gpus))])


def main(arguments: Sequence[str] = ()) -> int:
    """Print the report; returns the exit status, 0 where janusc can work here."""
    if arguments:
        print(USAGE)
        return 0 if set(arguments) <= {"-h", "--help"} else 2
    print(report())
    return 0 if torch_is_supported(str(torch.__version__)) else 1
