"""``make fuzz``: many programs, each also with its checks failing one by one; shows progress, goes on where it stopped.

make fuzz                                  20,000 programs
make fuzz FUZZ_ARGS='--first 12000'        the rest of a run that was stopped there
make fuzz FUZZ_ARGS='--first 77 --programs 1'
make fuzz FUZZ_ARGS='--backend traced'     blocks as kernels that no compiler has made: equal but for rounding
make fuzz FUZZ_ARGS='--backend inductor --programs 200'
"""

from __future__ import annotations

import argparse
import concurrent.futures
import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import traced  # noqa: F401  registers the backend of that name

from .running import Statistics, examine

BLOCK = 25
SECONDS = 120  # for one program; the slowest take three
SLOWER = 5  # as many times as long where there are kernels to be made


TOLERANCE = 1e-4  # relative and absolute, of numbers that kernels compute


class Stuck(KeyboardInterrupt):
    """A program took far too long; an interrupt, since the recording of a call takes every other exception."""


def warmup_of(seed: int) -> int:
    """How many calls are profiled before the conversion."""
    return (1, 2, 0, 1, 3)[seed % 5]


def tolerance_of(options: Any) -> float | None:
    """How far numbers may be apart: not at all, but for kernels."""
    if options.tolerance is None and options.backend != "aten":
        return TOLERANCE
    return options.tolerance


def main(arguments: Sequence[str] | None = None) -> int:
    """The number for the shell: 0 where all programs equal eager."""
    options = parser().parse_args(arguments)
    stop = options.first + options.programs
    started, shown = time.monotonic(), 0.0
    total, reports, next_seed = Statistics(), [], options.first
    try:
        for next_seed, statistics, found in _blocks(options):
            total.add(statistics)
            reports += found
            for report in found:
                print(f"\n{report}\n", flush=True)
            now = time.monotonic()
            if now - shown > options.every or next_seed >= stop:
                shown = now
                print(_progress(next_seed, stop, options, total, reports, now - started), flush=True)
            if len(reports) >= options.failures:
                break
    except KeyboardInterrupt:
        print("\nstopped", flush=True)
    if next_seed < stop:
        print(f"go on with: make fuzz FUZZ_ARGS='--first {next_seed}'")
    if reports:
        print(f"{len(reports)} programs differ from eager; the first lines of each report above name its seed")
        return 1
    print(f"{total.programs} programs equal eager\n{total}")
    return 0


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.partition("\n")[0])
    number: dict[str, Any] = {"type": int, "metavar": "N"}
    parser.add_argument("--first", default=0, help="the first seed", **number)
    parser.add_argument("--programs", default=20_000, help="how many seeds", **number)
    parser.add_argument("--jobs", default=2, help="processes; 0 runs in this one", **number)
    parser.add_argument("--cycles", default=10, help="how often the calls are repeated, other checks failing", **number)
    parser.add_argument("--failures", default=10, help="stop after so many programs that differ", **number)
    parser.add_argument("--reducing", default=60, help="seconds to look for a smaller program that differs", **number)
    parser.add_argument("--backend", default="aten", metavar="NAME", help="aten, traced, inductor or auto")
    parser.add_argument(
        "--tolerance", default=None, type=float, metavar="T", help=f"of kernels; {TOLERANCE} by default"
    )
    parser.add_argument("--every", default=15, help="seconds between two lines of progress", **number)
    return parser


def _progress(seed: int, stop: int, options: Any, total: Statistics, reports: list[str], seconds: float) -> str:
    done = seed - options.first
    left = seconds / max(done, 1) * (stop - seed)
    return (
        f"seed {seed} of {stop}: {total.calls} calls, {total.graph_calls / max(total.calls, 1):.0%} in graphs, "
        f"{total.aborts} aborts, {len(reports)} differ; {seconds / 60:.1f} min, {left / 60:.1f} min left"
    )


Result = tuple[int, Statistics, list[str]]


def _blocks(options: Any) -> Iterator[Result]:
    """The results of the blocks in the order of their seeds: the seed to go on with, the counts, the reports."""
    stop = options.first + options.programs
    size = BLOCK if options.jobs else 1
    starts = [(first, min(first + size, stop)) for first in range(options.first, stop, size)]
    if options.jobs == 0:
        for first, end in starts:
            yield _run_block(first, end, options)
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.jobs, context, _set_up) as pool:
        running = [pool.submit(_run_block, a, b, options) for a, b in starts]
        try:
            for future in running:
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """A parent that was killed could not stop its workers, which would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _set_up() -> None:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    examine(0, 1, warmup=1)  # imports what is imported late
    gc.collect()
    gc.freeze()


def _run_block(first: int, stop: int, options: Any) -> Result:
    statistics, reports = Statistics(), []
    for seed in range(first, stop):
        report = _run_program(seed, statistics, options)
        if report:
            reports.append(report)
    return stop, statistics, reports


def _run_program(seed: int, statistics: Statistics, options: Any) -> str:
    def stuck(number: int, frame: Any) -> None:
        faulthandler.dump_traceback(file=sys.__stderr__)
        raise Stuck

    seconds = SECONDS * (1 if options.backend == "aten" else SLOWER)
    before = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(seconds + int(options.reducing))
    try:
        return examine(
            seed,
            options.cycles,
            statistics,
            options.reducing,
            warmup=warmup_of(seed),
            backend=options.backend,
            tolerance=tolerance_of(options),
        )
    except Stuck:
        return f"seed {seed} differs: it takes more than {seconds} seconds"
    except Exception as error:
        return f"seed {seed} differs: {type(error).__name__} in the test itself: {error}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main())
