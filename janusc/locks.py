"""Locks that a forked child finds open, whichever thread of its parent held them."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_made: weakref.WeakSet[Any] = weakref.WeakSet()


def make_lock() -> threading.Lock:
    """A lock that is open again in a forked child: the thread that would have released it is not there."""
    lock = threading.Lock()
    _made.add(lock)
    return lock


def _open_all() -> None:
    for lock in _made:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
