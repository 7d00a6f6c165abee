"""Requests for kernels: one is compiled at a time, in the order in which they came; and what comes of them.

Nothing here runs by itself: a job moves on when somebody asks it for its kernel. Asking takes a microsecond while there
is nothing new, so that a program can do it at each step.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import dataclasses
import itertools
import os
import sys
import time
import weakref
from typing import Any

import torch

from janusc import locks
from janusc.runtime.compiler import complaints, entries, folders
from janusc.runtime.compiler.connection import Connection
from janusc.runtime.compiler.loading import Kernel, load
from janusc.runtime.compiler.program import NotCarried, Program
from janusc.runtime.compiler.settings import Settings

MOST_DEATHS = 3  # of compiler processes, one after the other, until no other is started
LONGEST_START = 120.0  # seconds until a compiler process must have answered
LONGEST_COMPILATION = 600.0
_PERIOD = 0.002  # seconds between two looks at the socket
_NAP = 0.5  # seconds after which who waits looks himself

_numbers = itertools.count(1)


class CompilerFailure(RuntimeError):
    """No kernel could be made; the text says why."""


class Job:
    """A kernel that was asked for: there, on its way, or failed."""

    def __init__(self, program: Program, settings: Settings) -> None:
        self.program = program
        self.settings = settings
        self.key = program.key(settings)
        self.number = next(_numbers)
        self.is_urgent = False  # whether somebody waits for it
        self.objection = "its file is damaged"  # to the entry that was found last
        self.facts: Any = None  # what the program says beside its kernel, once that is there
        self.more: list[Kernel] = []  # of a program that makes several of one graph, those behind the first
        self._kernel: Kernel | None = None
        self._failure: str | None = None

    @property
    def kernel(self) -> Kernel | None:
        """The kernel, once it is there: it takes a list of its inputs and empties it; gradients must be disabled."""
        if self._kernel is None and self._failure is None:
            _queue.advance()
        return self._kernel

    @property
    def failure(self) -> str | None:
        """Why there will be none, in a few words, or None."""
        if self._kernel is None and self._failure is None:
            _queue.advance()
        return self._failure

    @property
    def done(self) -> bool:
        """Whether there was a kernel or a failure when somebody asked last."""
        return self._kernel is not None or self._failure is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is a kernel or a failure, but no longer than so many seconds; whether there is."""
        end = None if timeout is None else time.monotonic() + timeout
        while _queue.advance(at_once=True) and not self.done:
            left = _NAP if end is None else min(_NAP, end - time.monotonic())
            if left <= 0:
                break
            _queue.wait(left)
        return self.done

    def finish(self, folder: str) -> bool:
        """Take the kernel from an entry in a folder, if there is a good one; whether there was."""
        entry = entries.find(folder, self.key)
        if entry is None:
            return False
        try:
            (self._kernel, *self.more), self.facts = load(entry)
        except Exception as error:  # of another machine after all: as if it were damaged
            self.objection = complaints.describe(error)
            entries.discard(folder, self.key)
            return False
        return True

    def fail(self, reason: str) -> None:
        """Say that there will be no kernel, and why."""
        if self._kernel is None:
            self._failure = reason


class _Queue:
    """The jobs that are not done, and the compiler process of this process."""

    def __init__(self) -> None:
        self._lock = locks.make_lock()
        self._known: weakref.WeakValueDictionary[str, Job] = weakref.WeakValueDictionary()
        self._waiting: collections.deque[Job] = collections.deque()
        self._asked: Job | None = None
        self._has_begun = False  # the compiler process, with what it was asked for
        self._connection: Connection | None = None
        self._is_ready = False  # the compiler process
        self._gives_way = False  # the compiler process, to everything else
        self._since = 0.0  # when it was started, or asked
        self._deaths = 0
        self._refusal: str | None = None  # why no compiler process is started any more
        self._next_look = 0.0
        self._is_busy = False

    def request(self, program: Program, is_urgent: bool) -> Job:
        """A job for a program, or the one that there is."""
        job = Job(program, Settings.current())
        with self._lock:
            known = self._known.get(job.key)
            if known is not None and known._failure is None:
                job = known
            else:
                self._known[job.key] = job
                if not any(job.finish(folder) for folder in _folders()):
                    self._waiting.append(job)
            if is_urgent and not job.done:
                self._hurry(job)
        self.advance(at_once=True)
        return job

    def _hurry(self, job: Job) -> None:
        """Make a job the next one; what the compiler process does at low priority meanwhile, it does again later."""
        job.is_urgent = True
        if self._gives_way:
            self.end()
        if self._asked is not job:
            with contextlib.suppress(ValueError):
                self._waiting.remove(job)
            self._waiting.appendleft(job)

    def advance(self, at_once: bool = False) -> bool:
        """Take what the compiler process has said, and ask it the next; False in the middle of another call of this."""
        now = time.monotonic()
        if now < self._next_look and not at_once:
            return True
        with self._lock:
            if self._is_busy:  # the caller is a signal handler or a finaliser
                return False
            try:
                self._is_busy = True
                self._next_look = now + _PERIOD
                self._look(now)
            finally:
                self._is_busy = False
        return True

    def wait(self, seconds: float) -> None:
        """Wait until the compiler process says something, but no longer than that."""
        connection = self._connection
        if connection is None:
            time.sleep(min(seconds, 0.01))
        else:
            connection.wait(seconds)

    def forget(self) -> None:
        """In a forked child: what its parent's compiler process was asked for is to be asked for anew."""
        self._is_busy = False
        if self._connection is not None:
            self._connection.forget()
        self._reset()

    def end(self) -> None:
        """End the compiler process; what it was asked for waits again."""
        with self._lock:
            if self._connection is not None:
                self._connection.end()
            self._reset()

    def close(self) -> None:
        """End the compiler process, and start no other: this process is ending."""
        self._refusal = "the program is ending"
        self.end()

    def _reset(self) -> None:
        self._connection, self._is_ready, self._gives_way = None, False, False
        if self._asked is not None:
            self._waiting.appendleft(self._asked)
            self._asked = None

    def _look(self, now: float) -> None:
        if self._connection is not None:
            if not self._connection.read(self._hear):
                self._bury("ended")
            elif now - self._since > self._patience():
                self._bury("took too long")
        while self._waiting and self._waiting[0].done:
            self._waiting.popleft()
        if self._waiting and self._asked is None:
            self._go_on(now)

    def _patience(self) -> float:
        if not self._is_ready:
            return LONGEST_START
        return LONGEST_COMPILATION if self._asked is not None else float("inf")

    def _go_on(self, now: float) -> None:
        """Start a compiler process, or ask it for the next kernel."""
        try:
            if self._connection is None:
                if (refusal := self._refusal or _refusal()) is not None:
                    self._fail_all(refusal)
                    return
                self._connection, self._since = Connection(), now
                atexit.unregister(self.close)
                atexit.register(self.close)
            elif self._is_ready:
                job = self._waiting[0]
                places = [*_folders(), os.path.join(folders.private.path, folders.KERNELS)]
                message = {"job": job.number, "key": job.key, "urgent": job.is_urgent, "folders": places}
                message["settings"] = dataclasses.asdict(job.settings)
                self._has_begun, self._since = False, now
                self._gives_way = self._gives_way or not job.is_urgent
                self._connection.send(message, job.program.dumps())
                self._asked = job
                self._waiting.popleft()
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail_all(f"no compiler process can be used: {complaints.describe(error)}")

    def _hear(self, message: dict[str, Any]) -> None:
        """Handle what the compiler process says; the same twice is as once."""
        job = self._asked
        if "hello" in message:
            self._is_ready = True
        elif "broken" in message:
            self._refusal = f"the compiler process can't start: {message['broken']}"
        elif job is None or message["job"] != job.number:
            return
        elif "begun" in message:
            self._has_begun = True
        else:
            if "failure" in message:
                job.fail(message["failure"])
            elif not job.finish(message["folder"]):
                job.fail(f"the kernel could not be loaded: {job.objection}")
            self._deaths, self._has_begun, self._asked = 0, False, None

    def _bury(self, how: str) -> None:
        """The compiler process is gone: by itself after long silence, or it was killed."""
        job, was_ready = self._asked, self._is_ready
        if self._connection is not None:
            self._connection.end()
        if job is not None and self._has_begun:
            job.fail(f"the compiler process {how} in the middle")
            self._asked = None
        if not was_ready or self._has_begun:
            self._deaths += 1
        self._has_begun = False
        self._reset()
        if self._deaths >= MOST_DEATHS and self._refusal is None:
            self._refusal = f"the compiler process {how} {self._deaths} times, and is not started again"

    def _fail_all(self, reason: str) -> None:
        for job in self._waiting:
            job.fail(reason)
        self._waiting.clear()


def _refusal() -> str | None:
    """Why no compiler process may be started here; a daemonic process of multiprocessing may have no children."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.current_process().daemon:
        return "no compiler process is started in a daemonic worker process"
    return None


def _folders() -> list[str]:
    """Where entries may lie: in the cache, or without one in this process's temporary folder."""
    cache = folders.open_cache().kernels
    return [cache] if cache else []


_queue = _Queue()


def _forget() -> None:
    _queue.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def request(program: Program | torch.fx.GraphModule, is_urgent: bool = False) -> Job:
    """Ask for the kernel of a program, or of a graph from ``torch_private.compiling.trace``; returns at once.

    Equal programs that somebody has a job for share it. Whatever stands in the way becomes the failure of the job. One
    that is urgent, since it is waited for, is the next and gives way to nothing.
    """
    try:
        carried = program if isinstance(program, Program) else Program.of(program)
        carried.check()
    except NotCarried as error:
        job = Job(Program("", ()), Settings.current())
        job.fail(str(error))
        return job
    return _queue.request(carried, is_urgent)


def compile_now(program: Program | torch.fx.GraphModule) -> Kernel:
    """The kernel of a program or graph, which is waited for; CompilerFailure where there can be none."""
    job = request(program, is_urgent=True)
    job.wait()
    if job.kernel is None:
        raise CompilerFailure(job.failure or "it was asked for in the middle of another request")
    return job.kernel


def shut_down() -> None:
    """End the compiler process, if there is one; the next request starts another."""
    _queue.end()
