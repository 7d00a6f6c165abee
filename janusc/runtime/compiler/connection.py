"""This process's end of the compiler process: it is started, asked and ended here.

No child is left to be waited for: a shell starts the process and is gone. In a session of its own, it hears nothing of
an interrupt at the terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

from janusc.runtime.compiler.folders import headers_folder, private
from janusc.runtime.compiler.worker import LONGEST_MESSAGE

Handler = Callable[[dict[str, Any]], None]

# The shell's ``&`` takes the standard streams away, so that the socket comes as another descriptor.
_SHELL = ["/bin/sh", "-c", '"$@" &', "sh"]
# Nothing of the user's stands before the standard library: a file of theirs could have the name of one of its modules.
_START = """
import sys
*_, roots = sys.argv
own = [path for path in sys.path if "-packages" not in path]
sys.path[:] = [*own, *roots.split(":"), *(path for path in sys.path if path not in own)]
try:
    from janusc.runtime.compiler import worker
except BaseException as error:
    import json, socket
    reason = f"{type(error).__name__}: {error}"[:300]
    socket.socket(fileno=int(sys.argv[1])).send(json.dumps({"broken": reason}).encode())
    raise
worker.main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5])
"""
_LONGEST_END = 0.5  # seconds
_LEFT_OUT = ("TORCH", "_TORCH", "PYTORCH_JIT", "INDUCTOR", "AOT_")  # of the environment: settings of the user's torch


class Connection:
    """A compiler process that was started for this process; OSError where it can't be."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._group = _start(theirs)
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()
        self._socket.setblocking(False)
        self._identity = _identity(self._socket)

    def wait(self, seconds: float) -> None:
        """Wait until something was said, but no longer than that."""
        self._event(seconds)

    def read(self, handle: Handler) -> bool:
        """Hand over each message that is there; whether the process is still there.

        A message is taken away when it has been handled: an interrupt in between has it handled twice, never lost.
        """
        if not self._is_open():
            return False
        while self._event(0):
            try:
                message = self._socket.recv(LONGEST_MESSAGE, socket.MSG_PEEK)
                if not message:
                    return False
                handle(json.loads(message))
                self._socket.recv(LONGEST_MESSAGE)
            except BlockingIOError:
                break
            except OSError:
                return False
        return True

    def send(self, message: dict[str, Any], text: str) -> None:
        """Send a message with a text of any length beside it; OSError where that can't be done."""
        descriptor = os.memfd_create("janusc", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "w", encoding="utf-8", closefd=False) as file:
                file.write(text)
            socket.send_fds(self._socket, [json.dumps(message).encode()], [descriptor])
        finally:
            os.close(descriptor)

    def forget(self) -> None:
        """Close this process's end, as in a forked child, whose parent goes on with it."""
        if self._is_open():
            self._socket.close()
        else:
            self._socket.detach()

    def end(self) -> None:
        """End the process, and whatever it has started, at once; the number of one that is gone may be another's."""
        if self._is_open() and not self._event(0) & select.POLLHUP:
            with contextlib.suppress(OSError):
                os.killpg(self._group, signal.SIGKILL)
                self._event(_LONGEST_END, 0)  # until it is dead and writes nothing more
        self.forget()

    def _event(self, seconds: float, kinds: int = select.POLLIN) -> int:
        """What there is at the socket, as of ``select.poll``; several threads may ask, and signal handlers."""
        events = select.poll()
        with contextlib.suppress(ValueError):  # closed meanwhile
            events.register(self._socket, kinds)
        return sum(event for _, event in events.poll(seconds * 1000))

    def _is_open(self) -> bool:
        """Whether the descriptor is still that of the socket: a program may close all that it doesn't know of."""
        return _identity(self._socket) == self._identity


def _identity(end: socket.socket) -> tuple[int, int] | None:
    try:
        found = os.fstat(end.fileno())
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _start(theirs: socket.socket) -> int:
    """Start the process with its end of a socket; the number of its process group."""
    if not os.path.basename(sys.executable or "").startswith(("python", "pypy")):
        raise OSError(f"this program is no Python that could be started: {sys.executable!r}")
    packages = torch, sys.modules[__name__.partition(".")[0]]
    roots = [os.path.dirname(os.path.dirname(os.path.abspath(package.__file__ or ""))) for package in packages]
    own = private.path
    roots += [path for path in sys.path if "-packages" in path]  # such as the user's own
    arguments = [str(theirs.fileno()), str(os.getpid()), own, headers_folder(), ":".join(dict.fromkeys(roots))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
    shell = subprocess.Popen(
        [*_SHELL, sys.executable, "-I", "-c", _START, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment | {"TMPDIR": own},
        cwd="/",
        start_new_session=True,
        pass_fds=(theirs.fileno(),),
    )
    shell.wait()
    return shell.pid
