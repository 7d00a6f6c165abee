"""The doctor says what is here, and nothing that is not."""

import os

import pytest
import torch

from janusc import __main__, doctor
from janusc.runtime.compiler import entries, folders


def write_compiler(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_report_names_every_version_and_backend():
    lines = {line.split()[0]: line for line in doctor.report().splitlines() if line.startswith("  ")}
    assert set(lines) == set("janusc Python torch numpy gast C++ kernel GPU threads aten inductor cuda".split())
    assert torch.__version__ in lines["torch"]
    assert f"{torch.get_num_threads()} for torch" in lines["threads"]


def test_the_report_without_compiler_and_gpu(monkeypatch):
    monkeypatch.setattr(doctor, "find_compiler", lambda: None)
    monkeypatch.setattr(doctor, "gpu_names", list)
    report = doctor.report()
    assert "C++ compiler  none found" in report
    assert "GPU           none found" in report
    assert "it needs a C++ compiler" in report
    assert "cuda          no GPU found" in report


def test_the_report_with_compiler_and_gpu(monkeypatch):
    monkeypatch.setattr(doctor, "find_compiler", lambda: doctor.Compiler("g++", "g++ 99.1"))
    monkeypatch.setattr(doctor, "gpu_names", lambda: ["Card A", "Card B"])
    report = doctor.report()
    assert "C++ compiler  g++: g++ 99.1" in report
    assert "GPU           Card A, Card B" in report
    assert "cuda          available through aten" in report


def test_the_line_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("JANUSC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JANUSC_CACHE_LIMIT", "600")
    assert doctor.cache_line() == f"{tmp_path}/cache: not there yet"
    assert not (tmp_path / "cache").exists()
    tmp_path.chmod(0o700)
    entries.store(os.path.join(folders.open_cache().path, folders.KERNELS), "a", {"kernel.py": b"x" * 2**20})
    assert doctor.cache_line() == f"{tmp_path}/cache: 1 kernels, 1.0 of 600 MiB"
    (tmp_path / "cache").chmod(0o702)
    assert doctor.cache_line() == f"{tmp_path}/cache is not used: {tmp_path}/cache can be written by everybody"


def test_the_cache_is_shown_and_cleared(monkeypatch, tmp_path, capsys):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("JANUSC_CACHE_DIR", str(tmp_path))
    (tmp_path / "mine").write_text("stays")
    entries.store(os.path.join(folders.open_cache().path, folders.KERNELS), "a", {"kernel.py": b"x" * 2**20})
    assert __main__.main(["cache", "info"]) == 0
    assert "1 kernels, 1.0 of" in capsys.readouterr().out
    assert __main__.main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: 1.0 MiB removed\n"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    tmp_path.chmod(0o702)
    assert (__main__.main(["cache", "info"]), __main__.main(["cache", "clear"])) == (1, 1)


def test_an_unsupported_torch_is_said_and_fails(monkeypatch, capsys):
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    assert doctor.main() == 1
    assert "2.99.0  (not supported: janusc is made for 2.11 to 2.14)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("2.10.9", False),
        ("2.11.0", True),
        ("2.13.0+cpu", True),
        ("2.14.1", True),
        ("2.15.0a0+git12", False),
        ("3.0", False),
        ("mine", False),
    ],
)
def test_supported_torch_versions(version, supported):
    assert doctor.torch_is_supported(version) is supported


def test_cxx_is_preferred_and_may_carry_options(tmp_path):
    write_compiler(tmp_path, "g++", "echo ordinary 1")
    write_compiler(tmp_path, "mine", 'echo "mine 2 $1"')
    path = f"{tmp_path}{os.pathsep}/bin"
    assert doctor.find_compiler({"PATH": path}) == doctor.Compiler("g++", "ordinary 1")
    assert doctor.find_compiler({"PATH": path, "CXX": "mine -m64"}) == doctor.Compiler("mine -m64", "mine 2 -m64")


def test_a_compiler_that_does_not_answer_is_not_found(tmp_path):
    write_compiler(tmp_path, "g++", "exit 1")
    assert doctor.find_compiler({"PATH": str(tmp_path)}) is None
    assert doctor.find_compiler({"PATH": str(tmp_path), "CXX": "absent"}) is None
    write_compiler(tmp_path, "clang++", "echo clang 3")
    assert doctor.find_compiler({"PATH": str(tmp_path)}) == doctor.Compiler("clang++", "clang 3")


def test_main_prints_the_report_or_its_usage(capsys):
    assert doctor.main([]) == 0
    assert "Available" in capsys.readouterr().out
    assert doctor.main(["--help"]) == 0
    assert "usage" in capsys.readouterr().out
    assert doctor.main(["nonsense"]) == 2


def test_a_package_that_is_not_installed():
    assert doctor.installed_version("janusc-no-such-package") == "not installed"
