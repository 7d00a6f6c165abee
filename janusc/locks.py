"""Locks that neither a forked child nor a finaliser can be stuck at."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_made: weakref.WeakSet[Any] = weakref.WeakSet()


def make_lock() -> Any:
    """A lock that is open again in a forked child, where the thread that would have released it doesn't exist.

    One thread may take it twice: a finaliser or a signal handler can run in the middle of anything, and may call a
    compiled function.
    """
    lock = threading.RLock()
    _made.add(lock)
    return lock


def _open_all() -> None:
    for lock in _made:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
