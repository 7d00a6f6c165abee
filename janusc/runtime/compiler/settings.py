"""What of torch's state and of the machine a kernel depends on."""

from __future__ import annotations

import functools
import hashlib
import platform
import sys
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Settings:
    """The state of torch in which a program is traced and compiled: dtypes by their names."""

    threads: int
    dtype: str
    precision: str
    deterministic: bool

    @staticmethod
    def current() -> Settings:
        """Those of this process."""
        return Settings(
            torch.get_num_threads(),
            dtype_name(torch.get_default_dtype()),
            torch.get_float32_matmul_precision(),
            torch.are_deterministic_algorithms_enabled(),
        )

    def apply(self) -> None:
        """Make them those of this process."""
        torch.set_num_threads(self.threads)
        torch.set_default_dtype(dtype_of(self.dtype))
        torch.set_float32_matmul_precision(self.precision)
        torch.use_deterministic_algorithms(self.deterministic)


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype without its module."""
    return str(dtype).rpartition(".")[2]


def dtype_of(name: str) -> torch.dtype:
    """The dtype of that name; AttributeError where torch has none."""
    found: torch.dtype = getattr(torch, name)
    return found


@functools.cache
def machine() -> str:
    """A digest of what compiled code may only run on: processor, Python, torch.

    The compiler makes code for the processor at hand, whose name and abilities are therefore part of it.
    """
    parts = [platform.machine(), torch.backends.cpu.get_cpu_capability(), *_processor()]
    parts += [sys.implementation.cache_tag or sys.version, sys.version]
    parts += [str(torch.__version__), str(torch.version.git_version)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _processor() -> list[str]:
    """The lines by which Linux describes the first processor, without those that vary from moment to moment."""
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read(16384).partition("\n\n")[0].splitlines()
    except OSError:
        return [platform.processor()]
    wanted = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU part", "CPU variant")
    return [line for line in first if line.startswith(wanted)]
