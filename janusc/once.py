"""Warnings that torch gives once per process, and must still have to give after janusc has run an operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from janusc.locks import make_lock

_lock = make_lock()
_inside: set[object] = set()
_before = False


@contextmanager
def uncounted_warnings() -> Iterator[None]:
    """Torch gives these warnings every time, and doesn't note that it did.

    Around samples of operations, whose warnings nobody sees; and around an eager run that has to give again what a
    graph could not. The switch is one of the process: it goes back when the last thread leaves.
    """
    global _before
    own = object()
    try:  # claimed inside, so that no interrupt leaves the switch on
        with _lock:
            if not _inside:
                _before = torch.is_warn_always_enabled()
            _inside.add(own)
        torch.set_warn_always(True)
        yield
    finally:
        with _lock:
            if own in _inside:
                _inside.discard(own)
                if not _inside:
                    torch.set_warn_always(_before)
