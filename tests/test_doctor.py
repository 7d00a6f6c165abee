"""The doctor says what is here, and nothing that is not."""

import os

import pytest
import torch

from janusc import doctor


def write_compiler(folder, name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_report_names_every_version_and_backend():
    lines = {line.split()[0]: line for line in doctor.report().splitlines() if line.startswith("  ")}
    assert set(lines) == set("janusc Python torch numpy gast C++ GPU threads aten inductor cuda".split())
    assert torch.__version__ in lines["torch"]
    assert f"{torch.get_num_threads()} for torch" in lines["threads"]
    assert "not in this version" in lines["inductor"]


def test_the_report_without_compiler_and_gpu(monkeypatch):
    monkeypatch.setattr(doctor, "find_compiler", lambda: None)
    monkeypatch.setattr(doctor, "gpu_names", list)
    report = doctor.report()
    assert "C++ compiler  none found" in report
    assert "GPU           none found" in report
    assert "it would need a C++ compiler as well" in report
    assert "cuda          no GPU found" in report


def test_the_report_with_compiler_and_gpu(monkeypatch):
    monkeypatch.setattr(doctor, "find_compiler", lambda: doctor.Compiler("g++", "g++ 99.1"))
    monkeypatch.setattr(doctor, "gpu_names", lambda: ["Card A", "Card B"])
    report = doctor.report()
    assert "C++ compiler  g++: g++ 99.1" in report
    assert "GPU           Card A, Card B" in report
    assert "cuda          available through aten" in report


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
