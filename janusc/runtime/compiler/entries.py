"""Kernels on disk: each a folder under its key, written at once, checked when read; the oldest are dropped.

A folder is made beside the others and renamed, so that nobody sees half of one. Its ``entry.json`` holds the digests
of the other files: what doesn't fit them is as if it weren't there, and is replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MANIFEST = "entry.json"
SOURCE = "kernel.py"
_UNFINISHED = "."  # what names of folders begin with that are being written or removed
_FORGOTTEN_AFTER = 3600.0  # seconds: who wrote it is dead


@dataclass(frozen=True)
class Entry:
    """A whole, checked entry: its folder, and the source of its kernel."""

    path: str
    source: str


def find(folder: str, key: str) -> Entry | None:
    """The entry of a key, or None where it is missing, damaged or of another kind; marked as used."""
    path = os.path.join(folder, key)
    try:
        with open(os.path.join(path, MANIFEST), "rb") as file:
            manifest = json.loads(file.read(1 << 20))
        if manifest["key"] != key or SOURCE not in manifest["digests"]:
            return None
        contents = {name: _read(path, name) for name in manifest["digests"]}
        if any(_digest(contents[name]) != digest for name, digest in manifest["digests"].items()):
            return None
        source = contents[SOURCE].decode()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return Entry(path, source)


def store(folder: str, key: str, files: Mapping[str, bytes]) -> str:
    """Write an entry, in place of what is there under its key; its folder. OSError where that can't be done."""
    made = tempfile.mkdtemp(prefix=f"{_UNFINISHED}new-", dir=folder)
    try:
        for name, content in files.items():
            _write(made, name, content)
        digests = {name: _digest(content) for name, content in files.items()}
        _write(made, MANIFEST, json.dumps({"key": key, "digests": digests}).encode())
        return _put(made, folder, key)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _put(made: str, folder: str, key: str) -> str:
    path = os.path.join(folder, key)
    for _ in range(10):  # others may be doing the same
        with contextlib.suppress(OSError):
            os.rename(made, path)
            return path
        if find(folder, key) is not None:
            return path
        discard(folder, key)
    raise OSError(f"{path} can't be replaced")


def discard(folder: str, name: str) -> None:
    """Remove what is there under a name, so that nobody sees half of it."""
    path = os.path.join(folder, name)
    with contextlib.suppress(OSError):
        aside = tempfile.mkdtemp(prefix=f"{_UNFINISHED}old-", dir=folder)
        with contextlib.suppress(OSError):
            os.rename(path, os.path.join(aside, "entry"))
        shutil.rmtree(aside, ignore_errors=True)


def _read(path: str, name: str) -> bytes:
    if os.path.basename(name) != name:
        raise ValueError(name)
    with open(os.path.join(path, name), "rb") as file:
        return file.read()


def _write(path: str, name: str, content: bytes) -> None:
    descriptor = os.open(os.path.join(path, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def count(folder: str) -> int:
    """The number of entries in a folder; of one that isn't there, none."""
    return sum(1 for _ in _listed(folder))


def drop_oldest(folder: str, limit: int) -> None:
    """Remove the entries least recently used until the others take no more bytes than the limit; and remains."""
    listed = sorted(_listed(folder))
    total = sum(size for _, _, size in listed)
    for _, name, size in listed:
        if total <= limit:
            break
        discard(folder, name)
        total -= size
    for name in _names(folder):
        if name.startswith(_UNFINISHED):
            with contextlib.suppress(OSError):
                path = os.path.join(folder, name)
                if time.time() - os.stat(path).st_mtime > _FORGOTTEN_AFTER:
                    shutil.rmtree(path, ignore_errors=True)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _listed(folder: str) -> Iterator[tuple[float, str, int]]:
    """When each entry was used last, its name, and its bytes."""
    for name in _names(folder):
        if name.startswith(_UNFINISHED):
            continue
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            size = sum(file.stat().st_size for file in os.scandir(path))
            yield os.stat(path).st_mtime, name, size
