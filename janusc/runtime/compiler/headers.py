"""Precompiled headers, which save most of the time of each further kernel, kept from one compiler process to the next.

The kernel compiler makes them in a folder of its process, under names that say what they were made from. Those kept are
shown there by links, after their digests were checked; a new one is copied once it has been of use.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile

_KINDS = (".gch", ".pch")
_DIGEST = ".sha256"
_KEPT = 2  # some 150 MB each, for a version of torch and of the C++ compiler


def show(kept: str, own: str) -> None:
    """Link the good ones of those kept into the folder of this process; the oldest are removed, and damaged ones."""
    with contextlib.suppress(OSError):
        os.makedirs(own, mode=0o700, exist_ok=True)
        found = sorted(_headers(kept), key=os.path.getmtime, reverse=True)
        for path in found[:_KEPT]:
            if _is_whole(path):
                os.symlink(path, os.path.join(own, os.path.basename(path)))
            else:
                _remove(path)
        for path in found[_KEPT:]:
            _remove(path)


def are_there(own: str) -> bool:
    """Whether this process has some."""
    with contextlib.suppress(OSError):
        return bool(_headers(own))
    return False


def keep(kept: str, own: str) -> None:
    """Copy those that this process has made to those kept, whole or not at all."""
    with contextlib.suppress(OSError):
        for path in _headers(own):
            target = os.path.join(kept, os.path.basename(path))
            if os.path.islink(path) or os.path.exists(target):
                continue
            os.makedirs(kept, mode=0o700, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=kept) as folder:
                copy = shutil.copyfile(path, os.path.join(folder, "header"))
                with open(copy + _DIGEST, "w") as file:
                    file.write(_digest(copy))
                os.replace(copy + _DIGEST, target + _DIGEST)
                os.replace(copy, target)
            os.remove(path)
            os.symlink(target, path)


def _headers(folder: str) -> list[str]:
    return [entry.path for entry in os.scandir(folder) if entry.name.endswith(_KINDS)] if os.path.isdir(folder) else []


def _is_whole(path: str) -> bool:
    try:
        with open(path + _DIGEST) as file:
            return file.read(200) == _digest(path)
    except (OSError, ValueError):
        return False


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _remove(path: str) -> None:
    for name in (path, path + _DIGEST):
        with contextlib.suppress(OSError):
            os.remove(name)
