"""Compiled kernels are kept for the next process, and only what this user wrote is loaded. Doubles compile and load them."""

import os
import stat
from types import SimpleNamespace

import pytest

from phased import files
from phased.ops.cuda import kernels

posix = pytest.mark.skipif(os.name != "posix", reason="owners and permissions of POSIX")
CODE = b"\x7fELF the kernel"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def load(monkeypatch):
    """Loads kernels as a new process would; has the number of compilations so far and the code loaded last."""
    core = SimpleNamespace(__version__="1", ObjectCode=SimpleNamespace(from_cubin=lambda code: code))

    def compiled(*_):
        load.compilations += 1
        return CODE

    monkeypatch.setattr(kernels, "cuda_core", lambda: (core, None, None))
    monkeypatch.setattr(kernels, "compiled", compiled)

    def load():
        return kernels.Kernels("sm_80", ("dense.cu",), {"real": "float"})._module

    load.compilations = 0
    return load


def kept(folder):
    (path,) = folder.iterdir()
    return path


def test_a_kernel_is_compiled_once_and_then_read(folder, load):
    assert [load(), load(), load()] == [CODE] * 3
    assert load.compilations == 1
    assert kept(folder).suffix == ".cubin"


@posix
def test_the_folder_and_its_files_are_private_whatever_the_umask(folder, load):
    before = os.umask(0)
    try:
        load()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(kept(folder).stat().st_mode) == 0o600


def flipped(path):
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)


def linked(path):
    elsewhere = path.parent.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def piped(path):
    path.unlink()
    os.mkfifo(path)


CHANGES = {
    "a flipped bit": flipped,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "without its seal": lambda path: path.write_bytes(CODE),
    "a link": linked,
    "a pipe, which would block": piped,
    "writable by a group": lambda path: path.chmod(0o620),
    "writable by others": lambda path: path.chmod(0o602),
}


@posix
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_is_no_whole_file_of_this_user_is_compiled_again_and_replaced(folder, load, change):
    load()
    path = kept(folder)
    whole = path.read_bytes()
    change(path)
    assert load() == CODE
    assert load.compilations == 2
    assert stat.S_ISREG(path.lstat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == whole


@posix
def test_a_kernel_of_another_user_is_not_loaded(folder, load, monkeypatch):
    load()
    status, another = os.fstat, os.geteuid() + 1

    def owned_by_another(handle):
        found = list(status(handle))
        found[stat.ST_UID] = another
        return os.stat_result(found)

    monkeypatch.setattr(kernels.os, "fstat", owned_by_another)
    load()
    assert load.compilations == 2


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_to_is_not_used(folder, load, mode):
    folder.mkdir()
    folder.chmod(mode)
    for compilations in (1, 2):
        with pytest.warns(RuntimeWarning, match=r"must belong to the current user .*chmod 700 '.*cache', or set PHASED_CACHE"):
            assert load() == CODE
        assert load.compilations == compilations
    assert list(folder.iterdir()) == []


@posix
def test_a_folder_of_another_user_is_not_used(folder, load, monkeypatch):
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(kernels.os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="must belong to the current user"):
        assert load() == CODE
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_done_without(folder, load):
    folder.write_text("in the way")
    assert [load(), load()] == [CODE] * 2
    assert load.compilations == 2


def test_a_full_disk_is_done_without(folder, load, monkeypatch):
    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(kernels.files.os, "fsync", full)
    assert [load(), load()] == [CODE] * 2
    assert load.compilations == 2
    assert list(folder.iterdir()) == []


def test_where_there_are_no_users_the_digest_alone_decides(folder, load, monkeypatch):
    """As on Windows."""
    monkeypatch.delattr(kernels.os, "geteuid", raising=False)
    load()
    assert load() == CODE
    assert load.compilations == 1
    kept(folder).write_bytes(CODE)
    load()
    assert load.compilations == 2


def test_an_empty_setting_is_none(monkeypatch):
    monkeypatch.delenv("PHASED_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert files.cache_folder().is_absolute()
