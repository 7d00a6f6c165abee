"""The cache directory: where it is, and when it is not to be trusted."""

import os

import pytest

from janusc import torch_private
from janusc.runtime.compiler import folders, headers


@pytest.fixture
def home(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    for name in ("JANUSC_CACHE_DIR", "XDG_CACHE_HOME", "JANUSC_CACHE_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_path_is_that_of_the_environment(home, monkeypatch):
    assert folders.cache_path() == f"{home}/.cache/janusc"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert folders.cache_path() == f"{home}/.cache/janusc"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert folders.cache_path() == "/xdg/janusc"
    monkeypatch.setenv("JANUSC_CACHE_DIR", "~/mine")
    assert folders.cache_path() == f"{home}/mine"


def test_the_limit(home, monkeypatch):
    assert folders.cache_limit() == 1 << 30
    monkeypatch.setenv("JANUSC_CACHE_LIMIT", "20")
    assert folders.cache_limit() == 20 << 20
    monkeypatch.setenv("JANUSC_CACHE_LIMIT", "much")
    assert folders.cache_limit() == 1 << 30


def test_it_is_made_for_its_owner_alone(home):
    before = os.umask(0o000)
    try:
        cache = folders.open_cache()
    finally:
        os.umask(before)
    assert (cache.path, cache.objection) == (f"{home}/.cache/janusc", None)
    assert cache.kernels == f"{cache.path}/kernels"
    modes = [os.stat(path).st_mode & 0o777 for path in (home / ".cache", cache.path, cache.kernels)]
    assert modes[1:] == [0o700, 0o700]
    assert not modes[0] & 0o022


@pytest.mark.parametrize(
    ("mode", "text"), [(0o702, "can be written by everybody"), (0o720, "can be written by its group"), (0o755, None)]
)
def test_who_may_write_to_it(home, mode, text):
    path = folders.open_cache().path
    os.chmod(path, mode)
    assert folders.open_cache().objection == (text and f"{path} {text}")


def test_what_is_above_it_counts(home):
    path = folders.open_cache().path
    home.chmod(0o703)
    assert folders.open_cache().objection == f"{home} can be written by everybody"
    home.chmod(0o1703)  # sticky: nobody else's can be replaced there
    assert folders.objection(path) is None
    home.chmod(0o770)
    assert (folders.objection(path) is None) == (os.stat(home).st_gid == os.getegid())


def test_a_link_is_followed(home, tmp_path):
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    (home / ".cache").mkdir()
    (home / ".cache" / "janusc").symlink_to(other)
    assert folders.open_cache().objection is None
    other.chmod(0o707)
    assert folders.open_cache().objection == f"{other} can be written by everybody"


def test_it_is_not_used_where_it_is_somebody_elses(home, monkeypatch):
    path = folders.open_cache().path
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert folders.open_cache() == folders.Cache(path, f"{path} belongs to another user")
    assert folders.open_cache().kernels is None


def test_it_can_not_be_made(home):
    (home / ".cache").write_text("a file")
    assert folders.open_cache().objection == "can't be made: Not a directory"


def test_headers_are_kept_in_a_large_cache_only(home, monkeypatch):
    assert folders.headers_folder() == f"{home}/.cache/janusc/headers"
    monkeypatch.setenv("JANUSC_CACHE_LIMIT", "100")
    assert folders.headers_folder() == ""


def test_headers_take_their_part_of_the_cache(home):
    kernels, kept = home / "kernels", home / "headers"
    for folder in (kernels, kept):
        folder.mkdir()
    (kept / "a.h.gch").write_bytes(bytes(20))
    assert folders.kernels_limit(str(kernels)) == (1 << 30) - 20


def test_headers_go_from_process_to_process_while_they_are_whole(tmp_path):
    kept, own = str(tmp_path / "kept"), tmp_path / "own"
    headers.show(kept, str(own))
    (own / "a.h.gch").write_bytes(b"compiled")
    headers.keep(kept, str(own))
    assert sorted(os.listdir(kept)) == ["a.h.gch", "a.h.gch.sha256"]
    headers.show(kept, str(tmp_path / "next"))
    assert (tmp_path / "next" / "a.h.gch").read_bytes() == b"compiled"
    headers.keep(kept, str(tmp_path / "next"))
    (tmp_path / "kept" / "a.h.gch").write_bytes(b"compile")
    headers.show(kept, str(tmp_path / "last"))
    assert os.listdir(kept) == os.listdir(tmp_path / "last") == []


def test_the_newest_headers_are_kept(tmp_path):
    kept, own = tmp_path / "kept", tmp_path / "own"
    own.mkdir()
    for number, name in enumerate("abc"):
        (own / f"{name}.h.gch").write_bytes(name.encode())
        headers.keep(str(kept), str(own))
        os.utime(kept / f"{name}.h.gch", (number, number))
    headers.show(str(kept), str(tmp_path / "next"))
    assert sorted(os.listdir(tmp_path / "next")) == ["b.h.gch", "c.h.gch"]
    assert not (kept / "a.h.gch.sha256").exists()


def test_headers_are_nowhere_without_a_folder_for_them(tmp_path):
    (tmp_path / "a.h.gch").write_bytes(b"")
    headers.keep("", str(tmp_path))
    headers.show("", str(tmp_path / "next"))
    assert os.listdir(tmp_path / "next") == []


def test_the_temporary_folder_is_the_owners_and_goes():
    private = folders.Private()
    path = private.path
    assert os.stat(path).st_mode & 0o777 == 0o700 and os.listdir(path) == ["kernels"]
    assert private.path == path
    private.remove()
    assert not os.path.exists(path)


def test_a_process_knows_whether_it_has_headers(tmp_path):
    assert not headers.are_there(str(tmp_path / "nowhere"))
    assert not headers.are_there(str(tmp_path))
    (tmp_path / "one.gch").write_bytes(b"whole")
    assert headers.are_there(str(tmp_path))


@pytest.mark.parametrize(("trusting", "used"), [(True, True), (None, False)])
def test_headers_are_used_while_the_compiler_is_trusted(trusting, used):
    from torch._inductor import config

    with config.patch({"cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": trusting}):
        torch_private.compiling.use_headers()
        assert config.cpp_cache_precompile_headers is used
