"""The demonstration as the user sees it: progress while it trains, one table, and an exit status."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from janusc.demo.training import FORMS, Comparison, Outcome, Task, digits_task, text_task

_ROWS: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
    ("decorated", lambda o: o.form),
    ("losses equal", lambda o: f"{o.equal_steps} of {o.steps}"),
    ("parameters equal", lambda o: "yes" if o.parameters_equal else "NO"),
    ("accuracy", lambda o: f"{o.accuracy:.1%}"),
    ("eager ms/step", lambda o: f"{o.eager_ms:.2f}"),
    ("janusc ms/step", lambda o: f"{o.ms:.2f}"),
    ("ratio", lambda o: f"{o.ratio:.2f}"),
    ("graphs", lambda o: f"{o.graphs}"),
    ("calls in the graph", lambda o: f"{o.graph_calls} of {o.calls}"),
    ("fallbacks", lambda o: f"{o.fallbacks}"),
    ("guard misses", lambda o: f"{o.guard_misses}"),
    ("seconds converting", lambda o: f"{o.conversion_seconds:.2f}"),
)


def run_demo(quick: bool = False, threads: int = 1, console: Console | None = None) -> int:
    """Train every model in every form, print the table and return the exit status.

    ``quick`` trains a few steps only and asks for no accuracy. Torch's thread count is put back afterwards.
    """
    console = console or Console()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        outcomes = _train_all(quick, console)
    finally:
        torch.set_num_threads(before)
    console.print(results_table(outcomes, threads))
    problems = [text for outcome in outcomes for text in outcome.problems(quick)]
    for text in problems:
        console.print(f"BAD: {text}", style="bold red", markup=False, highlight=False, soft_wrap=True)
    if not problems:
        console.print("Everything equal to eager, bit for bit, and run as graphs.", style="green")
    return 1 if problems else 0


def _train_all(quick: bool, console: Console) -> list[Outcome]:
    tasks = [digits_task(12), text_task(24)] if quick else [digits_task(290), text_task(500)]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        return [_train(task, form, progress) for task in tasks for form in FORMS]


def _train(task: Task, form: str, progress: Progress) -> Outcome:
    comparison = Comparison(task, form)
    bar = progress.add_task(f"{task.name}, {form}", total=len(task.batches), loss=float("nan"))
    for loss in comparison.run():
        progress.update(bar, advance=1, loss=loss)
    return comparison.outcome()


def results_table(outcomes: Sequence[Outcome], threads: int) -> Table:
    """One column per pair of trainings, one row per figure."""
    plural = "thread" if threads == 1 else "threads"
    table = Table(
        title="Eager and @janus.compile, step by step in turn, from one seed",
        caption=f"{threads} {plural}, torch {torch.__version__}, backend aten; medians after warm-up;\n"
        "accuracy: held-out digits, next characters of held-out text",
    )
    table.add_column("")
    for outcome in outcomes:
        table.add_column(outcome.task, justify="right")
    for label, show in _ROWS:
        table.add_row(label, *(show(outcome) for outcome in outcomes))
    return table
