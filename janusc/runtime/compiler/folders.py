"""Where kernels are kept, and whether others could write there: kernels are code."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass

KERNELS = "kernels"  # the folder of the entries in a cache directory: nothing else in it is touched
HEADERS = "headers"  # that of precompiled headers, some 150 MB for each version of torch and of the C++ compiler
_DEFAULT_LIMIT = 1024  # MiB
_LEAST_WITH_HEADERS = 512 << 20  # bytes that a cache must be allowed to take for headers to be kept in it


@dataclass(frozen=True)
class Cache:
    """The cache directory: its path, and why it is not used, or None."""

    path: str
    objection: str | None

    @property
    def kernels(self) -> str | None:
        """The folder of its entries, or None where it is not used."""
        return None if self.objection else os.path.join(self.path, KERNELS)


def cache_path() -> str:
    """The cache directory that the environment asks for, whether it is there or not."""
    named = os.environ.get("JANUSC_CACHE_DIR")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # what isn't absolute is to be ignored, by the definition of the variable
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "janusc")


def cache_limit() -> int:
    """How many bytes the entries may take, as ``JANUSC_CACHE_LIMIT`` says in MiB."""
    text = os.environ.get("JANUSC_CACHE_LIMIT", "")
    return (int(text) if text.isdecimal() else _DEFAULT_LIMIT) << 20


def headers_folder() -> str:
    """Where precompiled headers are kept: in the cache, if it is large enough; else nowhere, an empty text."""
    cache = open_cache()
    return "" if cache.objection or cache_limit() < _LEAST_WITH_HEADERS else os.path.join(cache.path, HEADERS)


def folder_bytes(folder: str) -> int:
    """The bytes of the files in a folder and below; of one that isn't there, none."""
    return sum(os.lstat(os.path.join(path, name)).st_size for path, _, names in os.walk(folder) for name in names)


def kernels_limit(folder: str) -> int:
    """How many bytes a folder of entries may take: what the headers beside it leave."""
    return max(cache_limit() - folder_bytes(os.path.join(os.path.dirname(folder), HEADERS)), 0)


def open_cache() -> Cache:
    """The cache directory, made where it is missing; for its owner alone."""
    path = cache_path()
    try:
        _make(os.path.join(path, KERNELS))
    except OSError as error:
        return Cache(path, f"can't be made: {error.strerror}")
    return Cache(path, objection(path) or objection(os.path.join(path, KERNELS)))


def _make(path: str) -> None:
    """Make a folder, and those above it, for their owner alone."""
    if not os.path.isdir(path):
        _make(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)


def objection(path: str) -> str | None:
    """Why code in a folder could be somebody else's, in words; None where it is the owner's alone.

    The folders above it count, too: who may write there could put another one in its place. A group may, where it is
    the user's own, as it is where each user has one.
    """
    path, above = os.path.realpath(path), False
    while True:
        try:
            found = os.stat(path)
        except OSError as error:
            return f"{path} can't be read: {error.strerror}"
        if why := _foreign(found, above):
            return f"{path} {why}"
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path, above = parent, True


def _foreign(found: os.stat_result, above: bool) -> str | None:
    if found.st_uid != os.geteuid() and not (above and found.st_uid == 0):
        return "belongs to another user"
    if above and found.st_mode & stat.S_ISVTX:
        return None
    if found.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if found.st_mode & stat.S_IWGRP and not (above and found.st_gid == os.getegid()):
        return "can be written by its group"
    return None


def clear(cache: Cache) -> int:
    """Remove all that the compiler keeps in a cache, and nothing else that lies there; how many bytes it took."""
    size = 0
    for name in (KERNELS, HEADERS):
        path = os.path.join(cache.path, name)
        size += folder_bytes(path)
        shutil.rmtree(path, ignore_errors=True)
    return size


class Private:
    """A temporary folder of this process, removed with it: the compiler works there, and kernels without a cache lie.

    A forked child has one of its own.
    """

    def __init__(self) -> None:
        self._owner = 0
        self._path = ""

    @property
    def path(self) -> str:
        """The folder, made when first asked for; OSError where it can't be."""
        if self._owner != os.getpid() or not os.path.isdir(self._path):
            made = tempfile.mkdtemp(prefix="janusc-")
            os.mkdir(os.path.join(made, KERNELS))
            if not self._owner:
                atexit.register(self.remove)
            self._path, self._owner = made, os.getpid()
        return self._path

    def remove(self) -> None:
        """Remove it and what is in it, if it is this process's."""
        if self._owner == os.getpid():
            self._owner = -1
            shutil.rmtree(self._path, ignore_errors=True)


private = Private()
