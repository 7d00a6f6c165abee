"""Programs at random behave under ``compile`` as they do eagerly; a failure prints the seed and a smaller program.

``make fuzz`` runs many more of them (see ``generated.fuzz``).
"""

import pytest
import traced
from generated import expressions, fuzz
from generated.running import Statistics, compare, examine, write_program

import janusc as janus
from janusc.runtime.kernels.check import Check

PROGRAMS, BLOCK = 300, 10


@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_equal_to_eager(first):
    for seed in range(first, first + BLOCK):
        report = examine(seed, cycles=0 if seed % 4 else 3, warmup=fuzz.warmup_of(seed))
        assert not report, report


@pytest.mark.parametrize(
    "options",
    [{"passes": False}, {"executor": "interpreter"}, {"backend": traced.NAME, "tolerance": fuzz.TOLERANCE}],
    ids=str,
)
def test_other_modes_equal_eager(options):
    for seed in range(20):
        report = examine(seed, warmup=1, **options)
        assert not report, report


def test_most_of_it_runs_in_graphs():
    statistics = Statistics()
    for seed in range(50):
        source, session, trace = write_program(seed, expressions.TOPICS)
        compare(source, (session, trace), statistics, warmup=1)
    assert statistics.in_graphs >= 0.8 * statistics.programs, statistics
    assert statistics.graph_calls >= 0.5 * statistics.calls, statistics


def test_a_seed_always_gives_the_same_program():
    assert write_program(3)[0] == write_program(3)[0]


SMALL = """
import torch

LOG, SEEN = [], []

def f(x):
    return torch.relu(x) * 2 + 1

def steps():
    return [(torch.ones(3),)] * 5
"""


def test_a_kernel_that_was_thrown_away_is_a_difference(monkeypatch):
    assert compare(SMALL, warmup=1, backend=traced.NAME) == ("cycle 0", [])
    monkeypatch.setattr(Check, "passes", lambda check, outputs: False)
    _, found = compare(f"{SMALL}# code of its own", warmup=1, backend=traced.NAME)
    assert [difference.path for difference in found] == ["kernel"]


def test_only_kernels_may_round(monkeypatch):
    compile_wrongly(monkeypatch, lambda calls, result: result + 1e-5)
    for backend, tolerance, differs in (("aten", None, True), (traced.NAME, 1e-4, False), (traced.NAME, 1e-6, True)):
        assert bool(compare(SMALL, backend=backend, tolerance=tolerance)[1]) is differs


def test_kernels_have_a_tolerance_unless_another_is_named():
    named = (["--backend", "aten"], ["--backend", "inductor"], ["--backend", "auto", "--tolerance", "0.5"])
    assert [fuzz.tolerance_of(fuzz.parser().parse_args(x)) for x in named] == [None, fuzz.TOLERANCE, 0.5]


def test_each_cycle_makes_other_checks_fail():
    source, session, trace = write_program(3)
    one, many = Statistics(), Statistics()
    compare(source, (session, trace), one, 1, warmup=1)
    compare(source, None, many, 5, warmup=1)
    assert 0 < one.aborts < many.aborts


def compile_wrongly(monkeypatch, falsify):
    """Let ``janus.compile`` return a function whose results are what ``falsify(earlier results, result)`` gives."""
    compile_rightly = janus.compile

    def compile(function, **options):
        calls = []

        def wrong(*args):
            result = falsify(calls, function(*args))
            calls.append(result)
            return result

        return compile_rightly(wrong, warmup=100, backend="aten")

    monkeypatch.setattr(janus, "compile", compile)


def test_a_difference_is_found_and_made_smaller(monkeypatch):
    compile_wrongly(monkeypatch, lambda calls, result: [*calls, result][0])
    source, _, _ = write_program(3)
    report = examine(3, reducing=30)
    assert report.startswith("seed 3")
    assert "differs" in report and "def steps" in report and len(report) < len(source) / 2


def test_a_fuzz_run_names_the_seeds_that_differ_and_where_to_go_on(monkeypatch, capsys):
    compile_wrongly(monkeypatch, lambda calls, result: None if len(calls) == 2 else result)
    assert fuzz.main(["--first", "2", "--programs", "6", "--jobs", "0", "--reducing", "0", "--failures", "3"]) == 1
    text = capsys.readouterr().out
    assert text.count("differs") == 3 and "seed 2," in text and "FUZZ_ARGS='--first 5'" in text


def test_a_clean_fuzz_run_says_so(capsys):
    assert fuzz.main(["--programs", "2", "--jobs", "0", "--cycles", "1"]) == 0
    assert "2 programs equal eager" in capsys.readouterr().out
