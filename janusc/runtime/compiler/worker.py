"""The compiler process: takes programs from a socket, compiles them, and says where the entries lie.

It belongs to one process and ends with it, whatever it is at: a thread waits for the other end of the socket to be
closed. It imports nothing of the user's program.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import queue
import select
import shutil
import signal
import socket
import threading
from typing import Any

import torch

from janusc import torch_private
from janusc.runtime.compiler import complaints, entries, folders, headers
from janusc.runtime.compiler.convolutions import open_convolutions
from janusc.runtime.compiler.loading import FACTS
from janusc.runtime.compiler.merged import compiling_together
from janusc.runtime.compiler.portable import make_portable
from janusc.runtime.compiler.products import open_products
from janusc.runtime.compiler.program import Program
from janusc.runtime.compiler.settings import Settings

PRIORITY = "JANUSC_COMPILER_NICE"  # of the environment: how far what nobody waits for gives way
_USUAL_PRIORITY = 10  # by which it takes a tenth of a processor that the program uses up itself
FEW = 4  # kernels that are made without precompiled headers: to make those takes as long as they save for so many
IDLE = 120.0  # seconds without a request after which the process ends
LONGEST_MESSAGE = 1 << 16


def main(descriptor: int, parent: int, private: str, kept: str) -> None:
    """Serve the process at the other end of a socket, until it ends or is silent for long.

    Whatever is written in between lies in a folder that is private to that process; precompiled headers may be kept in
    another.
    """
    connection = socket.socket(fileno=descriptor)
    requests: queue.SimpleQueue[tuple[dict[str, Any], str]] = queue.SimpleQueue()
    watcher = threading.Thread(target=_watch, args=(connection, parent, private, requests), daemon=True)
    watcher.start()
    work = os.path.join(private, "work")
    own = os.path.join(private, "headers")
    headers.show(kept, own)
    can_keep = torch_private.compiling.prepare_compiler(work, own)
    _say(connection, hello=os.getpid())
    with contextlib.suppress(queue.Empty, OSError):
        for number in itertools.count():
            request, text = requests.get(timeout=IDLE)
            if can_keep and (number >= FEW or headers.are_there(own)):
                torch_private.compiling.use_headers()
            if not request["urgent"]:
                _give_way()
            _say(connection, job=request["job"], begun=True)
            _say(connection, job=request["job"], **_answer(request, text))
            headers.keep(kept, own)
    for folder in (work, own):
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # the program may still load kernels that no cache has
        os.rmdir(os.path.join(private, folders.KERNELS))
        os.rmdir(private)
    os._exit(0)


def _watch(connection: socket.socket, parent: int, private: str, requests: queue.SimpleQueue[Any]) -> None:
    """Put what comes into the queue; end this process, and what it has started, when nothing can come any more."""
    with contextlib.suppress(OSError):
        events = select.poll()
        events.register(connection, select.POLLIN)
        with contextlib.suppress(OSError):  # where that is forbidden, the socket must do
            events.register(os.pidfd_open(parent), select.POLLIN)
        while [fd for fd, _ in events.poll()] == [connection.fileno()]:
            message, descriptors, *_ = socket.recv_fds(connection, LONGEST_MESSAGE, 1)
            if not message:
                break
            with open(descriptors[0], encoding="utf-8") as file:
                file.seek(0)
                requests.put((json.loads(message), file.read()))
    shutil.rmtree(private, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


@functools.cache
def _give_way() -> None:
    """Let everything else go first from now on."""
    text = os.environ.get(PRIORITY, "")
    nice = min(int(text), 19) if text.isdecimal() else _USUAL_PRIORITY
    os.nice(nice)
    with contextlib.suppress(OSError):  # where sessions share the processor among them, their priorities count
        with open("/proc/self/autogroup", "w") as file:
            file.write(str(nice))


def _say(connection: socket.socket, **message: Any) -> None:
    connection.send(json.dumps(message).encode())


def _answer(request: dict[str, Any], text: str) -> dict[str, str]:
    """Where the entry of a program lies, or why there is none."""
    try:
        program, settings = Program.loads(text), Settings(**request["settings"])
        key, places = request["key"], request["folders"]
        if program.key(settings) != key:
            return {"failure": "the compiler process has another version of torch or of janusc"}
        for folder in places:
            if found := entries.find(folder, key):
                return {"folder": folder, "entry": found.path}
        return _store(places, key, _compile(program, settings))
    except BaseException as error:  # whatever it is, the next program has nothing to do with it
        return {"failure": complaints.describe(error)}


def _compile(program: Program, settings: Settings) -> dict[str, bytes]:
    settings.apply()
    while True:
        function, complete = program.functions()
        graph = torch_private.compiling.trace(function, [item.make for item in program.inputs])
        facts, graphs = complete(graph)
        try:
            with compiling_together():
                files = make_portable([torch_private.compiling.compile_kernels(part, _open) for part in graphs])
        except Exception as error:
            if not complaints.is_of_compiler(error) or not torch_private.compiling.trust_nothing():
                raise
        else:
            files[entries.SOURCE] += f"\n{FACTS} = {facts!r}\n".encode()
            return files


def _open(graph: torch.fx.Graph) -> None:
    open_products(graph)
    open_convolutions(graph)


def _store(places: list[str], key: str, files: dict[str, bytes]) -> dict[str, str]:
    """Write an entry into the first folder that takes it."""
    for folder in places:
        try:
            path = entries.store(folder, key, files)
        except OSError:
            if folder == places[-1]:
                raise
            continue
        entries.drop_oldest(folder, folders.kernels_limit(folder))
        return {"folder": folder, "entry": path}
    raise OSError("there is no folder to write to")
