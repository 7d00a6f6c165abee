"""Kernels on disk: what is damaged or somebody else's is as if it weren't there, and never for long."""

import errno
import json
import os
import time

import pytest

from janusc.runtime.compiler import entries, folders, worker

FILES = {"kernel.py": b"def call(inputs): ...\n", "0.so": b"\x7fELF" + bytes(100)}
KEY = "0123abcd"


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o700)
    return str(tmp_path)


def test_an_entry_is_found_as_it_was_written(folder):
    path = entries.store(folder, KEY, FILES)
    assert entries.find(folder, KEY) == entries.Entry(path, FILES["kernel.py"].decode())
    assert {name: (path_of(folder) / name).read_bytes() for name in FILES} == FILES
    assert os.listdir(folder) == [KEY]
    assert (os.stat(path).st_mode & 0o777, os.stat(os.path.join(path, "0.so")).st_mode & 0o777) == (0o700, 0o600)
    assert entries.find(folder, "another") is None


def path_of(folder):
    from pathlib import Path

    return Path(folder) / KEY


def manifest_with(**changes):
    def damage(path):
        read = json.loads((path / "entry.json").read_text())
        (path / "entry.json").write_text(json.dumps(read | changes))

    return damage


def truncated(name):
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:-1])


def replaced(name, content):
    return lambda path: (path / name).write_bytes(content)


def a_file_in_its_place(path):
    for file in path.iterdir():
        file.unlink()
    path.rmdir()
    path.write_text("not a folder")


DAMAGE = {
    "manifest cut off": truncated("entry.json"),
    "manifest empty": replaced("entry.json", b""),
    "manifest of zeros": replaced("entry.json", bytes(200)),
    "manifest of another kind": replaced("entry.json", b"[1]"),
    "manifest a number": replaced("entry.json", b"7"),
    "manifest nested deeply": replaced("entry.json", b"[" * 100_000),
    "manifest gone": lambda path: (path / "entry.json").unlink(),
    "manifest of another entry": manifest_with(key="another"),
    "no digests": manifest_with(digests=None),
    "digests of another kind": manifest_with(digests=["kernel.py"]),
    "digests without the source": manifest_with(digests={}),
    "a file of a folder": manifest_with(digests={"kernel.py": "", "/etc/passwd": ""}),
    "source cut off": truncated("kernel.py"),
    "source of somebody else": replaced("kernel.py", b"import os\n"),
    "source gone": lambda path: (path / "kernel.py").unlink(),
    "shared object cut off": truncated("0.so"),
    "shared object of somebody else": replaced("0.so", b"\x7fELF"),
    "shared object gone": lambda path: (path / "0.so").unlink(),
    "a file in its place": a_file_in_its_place,
    "an empty folder": lambda path: [file.unlink() for file in path.iterdir()],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_seen_and_replaced(folder, damage):
    entries.store(folder, KEY, FILES)
    damage(path_of(folder))
    assert entries.find(folder, KEY) is None
    entries.store(folder, KEY, FILES)
    assert entries.find(folder, KEY).source == FILES["kernel.py"].decode()
    assert os.listdir(folder) == [KEY]


def test_a_good_entry_of_another_process_is_kept(folder):
    entries.store(folder, KEY, FILES)
    before = os.stat(path_of(folder)).st_ino
    entries.store(folder, KEY, FILES)
    assert os.stat(path_of(folder)).st_ino == before


def test_the_least_recently_used_go_first(folder):
    for number, name in enumerate("abc"):
        entries.store(folder, name, {"kernel.py": bytes(1000)})
        os.utime(os.path.join(folder, name), (number, number))
    assert entries.find(folder, "a")
    size = folders.folder_bytes(folder)
    entries.drop_oldest(folder, size)
    assert sorted(os.listdir(folder)) == ["a", "b", "c"]
    entries.drop_oldest(folder, size - 1)
    assert sorted(os.listdir(folder)) == ["a", "c"]
    entries.drop_oldest(folder, 0)
    assert os.listdir(folder) == []


def test_what_was_left_unfinished_goes_after_an_hour(folder):
    for name, age in ((".new-a", 10), (".new-b", 4000), (".old-c", 4000)):
        os.mkdir(os.path.join(folder, name))
        os.utime(os.path.join(folder, name), (time.time() - age,) * 2)
    assert entries.count(folder) == 0
    entries.drop_oldest(folder, 1 << 20)
    assert os.listdir(folder) == [".new-a"]


def test_nothing_is_left_of_an_entry_that_finds_no_room(folder, monkeypatch):
    def no_room(path, name, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(entries, "_write", no_room)
    with pytest.raises(OSError, match="No space left"):
        entries.store(folder, KEY, FILES)
    assert os.listdir(folder) == []


def test_a_full_cache_is_passed_over(folder, monkeypatch, tmp_path):
    full, other = tmp_path / "full", tmp_path / "other"
    full.mkdir()
    other.mkdir()
    store = entries.store

    def store_elsewhere(folder, key, files):
        if folder == str(full):
            raise OSError(errno.ENOSPC, "No space left on device")
        return store(folder, key, files)

    monkeypatch.setattr(entries, "store", store_elsewhere)
    found = worker._store([str(full), str(other)], KEY, FILES)
    assert found == {"folder": str(other), "entry": str(other / KEY)}
    with pytest.raises(OSError, match="No space left"):
        worker._store([str(full)], KEY, FILES)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_can_not_be_written_to(folder):
    os.chmod(folder, 0o500)
    with pytest.raises(PermissionError):
        entries.store(folder, KEY, FILES)
    os.chmod(folder, 0o700)


def test_a_folder_that_is_not_there_has_nothing():
    assert entries.count("/nowhere") == 0 and entries.find("/nowhere", KEY) is None
    entries.drop_oldest("/nowhere", 0)
