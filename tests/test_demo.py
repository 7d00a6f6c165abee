"""The demonstration: its data, its comparison of both sides, its verdict, and its command line."""

from __future__ import annotations

import dataclasses
import io
import sys
import warnings

import pytest
import torch

from janusc import __main__ as command_line
from janusc.demo import data, models

NEEDS = "needs the packages of the extra janusc[demo]"


def test_text_has_the_same_size_on_every_python() -> None:
    text = data.load_text()
    assert len(text) == len(data.TEXT_MODULES) * data.CHARACTERS_PER_MODULE
    assert text == data.load_text()


def test_encoding_covers_every_character() -> None:
    codes = data.encode("a~\né")
    assert [data.VOCABULARY[code] for code in codes] == ["a", "~", "\n", "?"]


def test_text_batches_vary_in_length_and_predict_the_next_character() -> None:
    codes = torch.arange(500)
    batches = data.text_batches(codes, 20, batch=3, lengths=(2, 6), seed=0)
    assert {len(batch.inputs) for batch in batches} == {2, 3, 4, 5, 6}
    for batch in batches:
        assert torch.equal(batch.inputs.flatten() + 1, batch.targets)


def test_text_batches_are_reproducible() -> None:
    first, second = (data.text_batches(torch.arange(99), 3, 2, (4, 8), seed=7) for _ in range(2))
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(first, second, strict=True))


def test_an_unreadable_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "TEXT_MODULES", ("no_such_module",))
    with pytest.raises(data.DataError, match="no_such_module"):
        data.load_text()


def test_digits_are_split_without_overlap() -> None:
    pytest.importorskip("sklearn", reason=NEEDS)
    digits = data.load_digits()
    assert digits.images.shape == (1450, 1, 28, 28) and digits.test.inputs.shape == (347, 1, 28, 28)
    assert 0 <= digits.images.min() and digits.images.max() <= 1
    assert set(digits.test.targets.tolist()) == set(range(10))


def test_digit_batches_visit_every_digit_once_an_epoch() -> None:
    images = torch.arange(100.0).reshape(100, 1, 1, 1)
    digits = data.Digits(images, torch.arange(100), data.Batch(images[:0], torch.arange(0)))
    first, second, third = data.digit_batches(digits, 3)
    assert sorted(torch.cat([first.targets, second.targets]).tolist()) == list(range(100))
    assert len(third.inputs) == data.DIGIT_BATCH


def test_the_cell_agrees_with_torchs_own() -> None:
    torch.manual_seed(0)
    cell, reference = models.LSTMCell(5, 4), torch.nn.LSTMCell(5, 4)
    with torch.no_grad():
        reference.weight_ih.copy_(cell.from_input.weight)
        reference.weight_hh.copy_(cell.from_hidden.weight)
        reference.bias_ih.copy_(cell.from_input.bias)
        reference.bias_hh.zero_()
    x, h, c = torch.randn(3, 5), torch.randn(3, 4), torch.randn(3, 4)
    for ours, theirs in zip(cell(x, h, c), reference(x, (h, c)), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("form", ["class", "train_step"])
def test_both_sides_train_equally_and_in_a_graph(form: str) -> None:
    from janusc.demo.training import Comparison, text_task

    comparison = Comparison(text_task(12, lengths=(3, 6)), form)
    assert len(list(comparison.run())) == 12
    assert comparison.outcome().problems(quick=True) == []


def test_the_originals_stay_eager() -> None:
    from janusc.demo.training import Comparison, text_task

    forward, step = models.CharLSTM.forward, models.train_step
    for form in ("class", "train_step"):
        Comparison(text_task(1), form)
    assert models.CharLSTM.forward is forward and models.train_step is step


def test_every_shortfall_is_a_problem() -> None:
    from janusc.demo.training import Outcome

    good = Outcome("LeNet", "class", 100, 100, True, 0.96, 0.96, 0.95, 2.0, 1.0, 100, 97, 1, 0, 0, 0.1)
    assert good.problems() == [] and good.ratio == 0.5
    shortfalls = {
        "losses differ in 1 of 100 steps": {"equal_steps": 99},
        "the trained parameters differ": {"parameters_equal": False},
        "accuracy differs: 0.9600 eager, 0.9700 converted": {"accuracy": 0.97},
        "accuracy 95.00% is not over 95%": {"accuracy": 0.95, "eager_accuracy": 0.95},
        "the model did not run in a graph": {"graph_calls": 0},
        "only 50 of 100 calls ran in a graph": {"graph_calls": 50},
    }
    for text, change in shortfalls.items():
        assert dataclasses.replace(good, **change).problems() == [f"LeNet, class: {text}"]
    lenient = dataclasses.replace(good, accuracy=0.3, eager_accuracy=0.3, graph_calls=5)
    assert lenient.problems(quick=True) == []


def test_the_quick_demo_prints_its_table_without_a_terminal() -> None:
    pytest.importorskip("sklearn", reason=NEEDS)
    console_module = pytest.importorskip("rich.console", reason=NEEDS)
    from janusc.demo.report import run_demo

    before = torch.get_num_threads()
    stream = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        status = run_demo(quick=True, console=console_module.Console(file=stream, width=80))
    text = stream.getvalue()
    assert status == 0, text
    assert torch.get_num_threads() == before
    for label in ("12 of 12", "24 of 24", "ratio", "calls in the graph", "seconds converting", "1 thread"):
        assert label in text
    assert "\x1b" not in text


def test_unequal_losses_end_in_a_bad_line_and_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    console_module = pytest.importorskip("rich.console", reason=NEEDS)
    from janusc.demo import report
    from janusc.demo.training import Outcome

    bad = Outcome("LSTM", "class", 10, 9, True, 0.5, 0.5, None, 2.0, 1.0, 10, 10, 1, 0, 0, 0.1)
    monkeypatch.setattr(report, "_train_all", lambda quick, console: [bad])
    stream = io.StringIO()
    assert report.run_demo(console=console_module.Console(file=stream, width=80)) == 1
    assert "BAD: LSTM, class: losses differ in 1 of 10 steps" in stream.getvalue()


def test_missing_packages_are_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "rich", None)
    assert command_line.main(["demo"]) == 2
    assert capsys.readouterr().err == "janusc demo needs scikit-learn and rich: pip install 'janusc[demo]'\n"


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["demo", "--threads", "0"], ["demo", "--threads", "x"]])
def test_wrong_arguments_end_with_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command_line.main(arguments)
    assert caught.value.code == 2
    assert "usage: python -m janusc" in capsys.readouterr().err


def test_doctor_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["doctor"]) in (0, 1)
    assert torch.__version__ in capsys.readouterr().out
