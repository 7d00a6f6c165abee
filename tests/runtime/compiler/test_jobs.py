"""Requests: their order, what they share, and what becomes of them when the compiler process doesn't do its part."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import processes
import pytest
import stand_in
import torch

from janusc.runtime.compiler import entries, folders, jobs
from janusc.runtime.compiler.program import Program
from janusc.runtime.compiler.settings import Settings

SECONDS = 30


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and stand-ins for the compiler process; the queue is a new one."""
    tmp_path.chmod(0o700)
    monkeypatch.setenv("JANUSC_CACHE_DIR", str(tmp_path))
    stand_in.use(monkeypatch)
    yield tmp_path
    jobs.shut_down()


def ask(text):
    return jobs.request(Program(text, ()))


def outcome(job):
    """What the kernel returns, or why there is none."""
    assert job.wait(SECONDS)
    return job.failure or job.kernel([])[0]


def members(group):
    """State and session of the processes of a group."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, its_group, session, *_ = (process / "stat").read_text().rpartition(")")[2].split()
            if int(its_group) == group:
                yield state, int(session)


def is_alive(group):
    return any(state not in "ZX" for state, _ in members(group))


def sessions(group):
    return {session for _, session in members(group)}


def within(seconds, condition):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_a_request_returns_at_once_and_its_kernel_comes_when_it_is_asked_for():
    job = ask("later 5")
    assert job.kernel is None and job.failure is None and not job.done
    assert within(SECONDS, lambda: job.kernel is not None)
    inputs = [torch.ones(2)]
    assert job.kernel(inputs) == ("5",) and inputs == []


def test_waiting_has_an_end():
    job = ask("later 1")
    assert not job.wait(0.05)
    assert outcome(job) == "1"


def test_equal_requests_share_a_job_while_somebody_has_it():
    first, other = ask("later 1"), ask("later 2")
    assert ask("later 1") is first and ask("later 2") is other and first is not other
    assert (outcome(first), outcome(other)) == ("1", "2")
    assert ask("later 1") is first


def test_requests_are_done_in_their_order_but_one_that_is_waited_for_comes_first():
    begun, queued = ask("later 1"), ask("later 2")
    assert within(SECONDS, lambda: begun.done or jobs._queue._has_begun or begun.kernel)
    assert jobs.compile_now(Program("ok 3", ()))([]) == ("3",)
    assert not queued.done
    assert (outcome(queued), begun.done) == ("2", True)


def test_what_is_in_the_cache_needs_no_compiler_process(cache):
    assert outcome(ask("ok 1")) == "1"
    jobs.shut_down()
    assert ask("ok 1").kernel([]) == ("1",)
    assert jobs._queue._connection is None


def test_a_damaged_entry_is_made_again(cache):
    job = ask("ok 1")
    outcome(job)
    path = cache / folders.KERNELS / job.key / "kernel.py"
    path.write_text(path.read_text() + "\n")
    del job
    assert not (again := ask("ok 1")).done
    assert again.wait(SECONDS)


def test_a_failure_is_told_and_not_kept():
    failed = ask("fails the disk is full")
    assert (outcome(failed), failed.kernel) == ("the disk is full", None)
    assert ask("fails the disk is full") is not failed
    with pytest.raises(jobs.CompilerFailure, match="the disk is full"):
        jobs.compile_now(Program("fails the disk is full", ()))


def test_an_entry_that_can_not_be_loaded_is_a_failure():
    assert outcome(ask("damaged 1")) == "the kernel could not be loaded: its file is damaged"


def test_an_entry_of_another_machine_is_removed(cache):
    job = ask("source raise OSError('invalid ELF header')")
    assert outcome(job) == "the kernel could not be loaded: OSError: invalid ELF header"
    assert entries.count(str(cache / folders.KERNELS)) == 0


def test_what_can_not_be_loaded_is_made_again(cache):
    job = ask("ok 1")
    outcome(job)
    key = job.key
    del job
    stand_in.write_entry(str(cache / folders.KERNELS), key, "raise OSError")
    job = ask("ok 1")
    assert not job.done and outcome(job) == "1"


def test_a_program_may_close_what_it_does_not_know_of(tmp_path):
    job = ask("later 1")
    assert within(SECONDS, lambda: jobs._queue._has_begun or job.kernel)
    descriptor = jobs._queue._connection._socket.fileno()
    with open(tmp_path / "mine", "w") as file:
        os.dup2(file.fileno(), descriptor)
    assert job.wait(SECONDS)
    os.write(descriptor, b"still mine")
    os.close(descriptor)


def test_a_compiler_process_that_dies_fails_its_job_only():
    dead, other = ask("dies"), ask("ok 2")
    assert outcome(dead) == "the compiler process ended in the middle"
    assert outcome(other) == "2"


def test_after_some_deaths_no_other_is_started():
    found = [outcome(ask(f"dies {n}")) for n in range(jobs.MOST_DEATHS)]
    assert set(found) == {"the compiler process ended in the middle"}
    text = "the compiler process ended 3 times, and is not started again"
    assert (outcome(ask("ok 1")), jobs._queue._connection) == (text, None)


def test_one_that_leaves_after_its_work_is_no_death():
    assert outcome(ask("ok 1")) == "1"
    os.killpg(jobs._queue._connection._group, signal.SIGKILL)
    assert within(SECONDS, lambda: jobs._queue.advance(at_once=True) and jobs._queue._connection is None)
    assert jobs._queue._deaths == 0


def test_deaths_are_forgotten_once_it_works():
    for n in range(2 * jobs.MOST_DEATHS):
        outcome(ask(f"dies {n}"))
        assert outcome(ask(f"ok {n}")) == str(n)


@pytest.mark.parametrize(
    ("mood", "text"),
    [
        ("dies", "the compiler process ended 3 times, and is not started again"),
        ("is broken", "the compiler process can't start: ImportError: no module named torch"),
        ("is silent", "the compiler process took too long 3 times, and is not started again"),
    ],
)
def test_a_compiler_process_that_does_not_start(monkeypatch, mood, text):
    monkeypatch.setenv("STAND_IN", mood)
    if mood == "is silent":
        monkeypatch.setattr(jobs, "LONGEST_START", 0.5)
    assert outcome(ask("ok 1")) == text


def test_one_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(jobs, "LONGEST_COMPILATION", 0.3)
    job = ask("hangs")
    assert within(SECONDS, lambda: jobs._queue._has_begun or job.kernel)
    group = jobs._queue._connection._group
    assert outcome(job) == "the compiler process took too long in the middle"
    assert within(5, lambda: not is_alive(group))


def test_one_that_leaves_when_it_is_asked_is_no_death(tmp_path):
    mark = tmp_path / "mark"
    mark.touch()
    job = ask(f"idle {mark}")
    assert within(SECONDS, lambda: job.kernel or not mark.exists())
    assert jobs._queue._deaths == 0
    assert not job.wait(0.3) or job.failure  # asked again, it finds no mark and dies


@pytest.mark.parametrize("program", ["", None, "/usr/bin/uwsgi"])
def test_a_program_that_is_no_python_starts_nothing(monkeypatch, program):
    monkeypatch.setattr(sys, "executable", program)
    assert outcome(ask("ok 1")).startswith("no compiler process can be used")


def test_daemonic_workers_have_what_is_in_the_cache_and_start_nothing(monkeypatch):
    import multiprocessing.process

    outcome(ask("ok 1"))
    jobs.shut_down()
    config = multiprocessing.process.current_process()._config
    monkeypatch.setitem(config, "daemon", True)
    assert outcome(ask("ok 1")) == "1"
    assert outcome(ask("ok 2")) == "no compiler process is started in a daemonic worker process"


def test_a_cache_that_others_can_write_to_is_not_used(cache):
    cache.chmod(0o777)
    job = ask("ok 1")
    assert outcome(job) == "1"
    assert entries.count(str(cache / folders.KERNELS)) == 0
    assert entries.find(os.path.join(folders.private.path, folders.KERNELS), job.key)


def test_the_state_of_torch_is_part_of_a_request():
    job = ask("ok 1")
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        assert ask("ok 1") is not job
    finally:
        torch.set_default_dtype(before)
    assert Settings.current() == job.settings and ask("ok 1") is job


def test_an_interrupt_ends_the_waiting_and_nothing_else():
    def interrupt(number, frame):
        raise KeyboardInterrupt

    job = ask("later 1")
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            job.wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert outcome(job) == "1"


def test_many_threads_ask_at_the_same_time():
    found = []

    def work(number):
        for step in range(10):
            value = (number * 7 + step * 3) % 20
            job = jobs.request(Program(f"ok {value}", ()), is_urgent=step % 5 == 0)
            while step % 3 and job.kernel is None:
                time.sleep(0.001)
            found.append(outcome(job) == str(value))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 60


def test_a_call_in_the_middle_of_another_gives_up():
    jobs._queue._is_busy = True
    with pytest.raises(jobs.CompilerFailure, match="in the middle of another request"):
        jobs.compile_now(Program("ok 1", ()))
    jobs._queue._is_busy = False


def test_a_forked_child_has_a_compiler_process_of_its_own():
    job, queued = ask("later 1"), ask("ok 2")
    assert within(SECONDS, lambda: jobs._queue._has_begun or job.kernel)
    group, number = jobs._queue._connection._group, os.getpid()

    def work():
        found = (outcome(job), outcome(queued))
        own = jobs._queue._connection
        is_own = own is None or own._group != group
        jobs.shut_down()
        folders.private.remove()
        return found == ("1", "2") and is_own and os.getpid() != number

    assert processes.in_child(work)
    assert (outcome(job), outcome(queued)) == ("1", "2")
    assert jobs._queue._connection._group == group


SCRIPT = """
import atexit, os, sys, threading, time
atexit.register(lambda: print(time.monotonic() - start))  # the last to be called
before = dict(os.environ)
sys.path[:0] = {paths!r}
import pytest, stand_in
stand_in.use(pytest.MonkeyPatch())
from janusc.runtime.compiler import folders, jobs
from janusc.runtime.compiler.program import Program
job = jobs.request(Program("hangs", ()))
while not jobs._queue._has_begun:
    job.kernel
    time.sleep(0.001)
try:
    os.waitpid(-1, os.WNOHANG)
    raise AssertionError("a child")
except ChildProcessError:
    pass
assert dict(os.environ) == before
assert threading.active_count() == 1
print(jobs._queue._connection._group, folders.private.path, flush=True)
sys.stdin.read()
start = time.monotonic()
"""


def test_the_compiler_process_is_no_child_hears_no_interrupt_and_is_ended_at_exit():
    here = Path(__file__).parent
    script = SCRIPT.format(paths=[str(here), str(here.parents[1])])
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        group, folder = program.stdout.readline().split()
        assert is_alive(int(group)) and os.path.isdir(folder)
        assert int(group) in sessions(int(group)) and os.getsid(0) not in sessions(int(group))
        seconds, _ = program.communicate()
    assert program.returncode == 0 and float(seconds) < 1
    assert within(1, lambda: not is_alive(int(group)))
    assert not os.path.exists(folder)
