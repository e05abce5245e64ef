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


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "bare"])
def test_a_damaged_kernel_is_compiled_again(folder, load, damage):
    load()
    path = kept(folder)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[3] ^= 1
    path.write_bytes({"flip": bytes(flipped), "cut": whole[:-1], "empty": b"", "bare": CODE}[damage])
    assert load() == CODE
    assert load.compilations == 2
    assert path.read_bytes() == whole, "the good one is kept again"


@posix
def test_a_link_to_a_kernel_is_not_loaded(folder, load, tmp_path):
    load()
    path = kept(folder)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    load()
    assert load.compilations == 2
    assert not path.is_symlink()


@posix
def test_a_pipe_in_its_place_neither_blocks_nor_loads(folder, load):
    load()
    path = kept(folder)
    path.unlink()
    os.mkfifo(path)
    assert load() == CODE
    assert load.compilations == 2


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_kernel_that_others_can_write_to_is_not_loaded(folder, load, mode):
    load()
    kept(folder).chmod(mode)
    load()
    assert load.compilations == 2


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
